"""One file of a real training run alone: the truth or an open verdict, never another cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.diagnosis import diagnose
from advisor.read.unpack import documents

CASES = sorted((Path(__file__).parent / "cases").glob("train-*"))
FILES = [path for case in CASES for path in sorted(case.iterdir()) if path.name != "expected.yaml"]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_one_file(path: Path) -> None:
    truth = path.parent.name.removeprefix("train-")
    diagnosis = diagnose(documents([str(path)])).diagnosis
    assert {cause.id for cause in diagnosis.causes} <= {truth}
    assert diagnosis.next_checks
    assert truth not in {cause.id for cause in diagnosis.ruled_out}
