"""The pages on messages: each finds its own example, and matching stays cheap."""

from __future__ import annotations

import re

import pytest

from advisor.data import catalogue, messages
from advisor.grammar.known_messages import find, literal

PAGES = catalogue()["messages"]


def _text(example: str) -> str:
    return re.split(r"NCCL (?:WARN|INFO) ", example, maxsplit=1)[-1]


@pytest.mark.parametrize("name", sorted(name for name, page in PAGES.items() if page["patterns"] and page["example"]))
def test_example_leads_to_its_page(name: str) -> None:
    found = find(_text(PAGES[name]["example"]))
    assert found is not None
    assert found.message.id == name


def test_named_groups_are_fields() -> None:
    fields = {"address", "interface", "device", "path", "code", "value"}
    for message in messages():
        for pattern in message.patterns:
            assert set(re.compile(pattern).groupindex) <= fields, message.id


def test_the_literal_stands_in_every_example() -> None:
    for name, page in PAGES.items():
        text = _text(page["example"])
        for pattern in page["patterns"]:
            if re.search(pattern, text):
                assert literal(pattern) in text, name


@pytest.mark.parametrize(
    ("pattern", "part"),
    [
        (r"a{3,30}bcd", "bcd"),
        (r"ab?cde", "cde"),
        (r"[^x]]?y{2}zz\.z", "zz.z"),
        (r"(?:one|two) three", " three"),
        (r"(?i)abc", ""),
        (r"^abc|def$", ""),
        (r"\d+\w\| x", "| x"),
        (r"[", ""),
    ],
)
def test_literal(pattern: str, part: str) -> None:
    assert literal(pattern) == part


def test_long_lines_are_cheap() -> None:
    assert find("Got completion from peer " + "<" * 5_000_000) is None
