"""Answers of `systemctl is-active`, which carry no name, and texts that are not about services."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.facts import Service
from advisor.sources.base import Segment
from advisor.sources.services import SOURCE, parse

CAPTURES = sorted(Path("tests/captures/services").glob("*.txt"))


def _states(text: str, command: str | None = None) -> dict[str, str | None]:
    segment = Segment("x.txt", text.splitlines(), range(1, 1_000), command=command)
    return {fact.name: fact.state for fact in parse(segment) if isinstance(fact, Service)}


def test_is_active_answers_in_the_order_asked() -> None:
    command = "systemctl is-active nvidia-fabricmanager nvidia-imex.service"
    assert _states("failed\ninactive\n", command) == {"nvidia-fabricmanager": "failed", "nvidia-imex": "inactive"}


@pytest.mark.parametrize("text", ["active\n", "failed\n", "", "\u25cf", "     Active: failed\n"])
def test_a_word_without_a_name_is_no_fact(text: str) -> None:
    assert _states(text) == {}


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_prefixes_of_captures_never_fail(path: Path) -> None:
    text = path.read_text()
    for end in range(0, len(text), 37):
        _states(text[:end])


def test_a_long_line_costs_no_time() -> None:
    segment = Segment("x.txt", ["a" * 1_000_000, "systemd[1]: " + "x" * 1_000_000 + ".service: "], range(1, 3))
    assert not SOURCE.recognises(segment)
    assert list(parse(segment)) == []
