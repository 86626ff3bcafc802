"""Whole diagnoses of folders of real input with known truth. Adding a folder adds a test.

`expected.yaml`: truth (in words), verdict, first (id of the first cause, none for a healthy one), sure (whether it
must be likely or confirmed), never (causes that must not be likely or confirmed).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from advisor.diagnosis import diagnose
from advisor.findings import Diagnosis
from advisor.read.unpack import documents

CASES = sorted(path.parent for path in (Path(__file__).parent / "cases").glob("*/expected.yaml"))


def run(folder: Path) -> tuple[Diagnosis, dict[str, Any]]:
    expected = YAML(typ="safe").load((folder / "expected.yaml").read_text())
    inputs = documents(str(path) for path in folder.iterdir() if path.name != "expected.yaml")
    return diagnose(inputs).diagnosis, expected


@pytest.mark.parametrize("folder", CASES, ids=lambda p: p.name)
def test_case(folder: Path) -> None:
    diagnosis, expected = run(folder)
    sure = [cause.id for cause in diagnosis.causes if cause.confidence != "possible"]
    assert diagnosis.verdict == expected["verdict"]
    assert not set(sure) & set(expected["never"])
    if expected["first"] is None:
        assert sure == []
    else:
        assert diagnosis.causes[0].id == expected["first"]
        assert not expected["sure"] or diagnosis.causes[0].id in sure
    if expected["verdict"] == "cannot-tell":
        assert diagnosis.next_checks
