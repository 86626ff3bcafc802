"""What is shipped: the wheel works from another folder, also as a zip, with rules and pages inside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLE = ROOT / "examples" / "slow-nvlink-pair"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "-w", str(target), str(ROOT)], check=True, capture_output=True)
    return next(target.glob("*.whl"))


def test_the_wheel_holds_rules_pages_and_the_compiled_catalogue(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "advisor/_bundled/catalogue.json" in names
    assert "advisor/_bundled/rules/fabric/ib-port-below-peers.yaml" in names
    assert "advisor/_bundled/knowledge/causes/ib-link-downgrade.md" in names


def test_the_wheel_runs_as_a_zip_from_another_folder(wheel: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(wheel), "PYTHONSAFEPATH": "1"}
    code = "import sys, advisor; assert '.whl' in advisor.__file__; from advisor.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "diagnose", "--json", str(EXAMPLE)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment, check=False)
    assert run.returncode == 1, run.stderr
    assert json.loads(run.stdout)["causes"][0]["id"] == "nccl-debug-env-left-on"
