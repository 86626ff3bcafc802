"""Every capture pair: text in, facts out. Adding a pair adds a test."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.capture_tools import CAPTURES, read_capture

TEXTS = sorted(path for path in CAPTURES.glob("*/*") if path.suffix != ".json")


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: f"{p.parent.name}-{p.name}")
def test_capture(path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text())
    assert read_capture(path) == expected
