"""The README shows what the commands print today."""

from __future__ import annotations

from advisor.cli import COMMANDS
from tests.readme_tools import README, refreshed


def test_the_output_in_the_readme_is_real() -> None:
    text = README.read_text()
    assert refreshed(text) == text


def test_every_command_has_a_place_in_the_readme() -> None:
    text = README.read_text()
    for command in COMMANDS:
        assert f"`advisor {command}" in text
