"""Finds the known meaning of a line: which page of `knowledge/messages/` it belongs to, and what the line names.

Some two hundred patterns against every line would cost far more than all other parsing, so each is tried only where
the longest literal part of it stands in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from advisor.data import Message, messages

_LITERAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 /_-:,'\"<>=#%&!~@;")
_LIMIT = 2000  # characters of a line that are looked at: NCCL itself cuts a line at 1024


@dataclass(slots=True, frozen=True)
class Found:
    """A known message and what its named groups matched, without the groups that did not take part."""

    message: Message
    names: dict[str, str]


def _skip_class(pattern: str, at: int) -> int:
    """The index behind a character class that begins at `at`."""
    at += 2 if pattern.startswith("[^", at) else 1
    at += 1 if pattern.startswith("]", at) else 0
    while at < len(pattern) and pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else 1
    return at + 1


def _runs(pattern: str) -> Iterator[str]:
    """The runs of literal characters of a pattern outside of groups; a character that may be absent ends a run."""
    run, depth, at = "", 0, 0
    while at < len(pattern):
        char = pattern[at]
        after = at + 1
        if char == "[":
            after, char = _skip_class(pattern, at), ""
        elif char == "\\":
            after, char = at + 2, "" if pattern[at + 1 : at + 2].isalnum() else pattern[at + 1 : at + 2]
        elif char in "()":
            depth, char = depth + (1 if char == "(" else -1), ""
        elif char == "{":
            after, char = pattern.find("}", at) + 1 or len(pattern), ""
        elif char == "|" and not depth:
            yield "|"
            return
        elif char not in _LITERAL:
            char = ""
        if depth or not char or pattern[after : after + 1] in ("?", "*", "{"):
            yield run
            run = ""
        else:
            run += char
        at = after
    yield run


def literal(pattern: str) -> str:
    r"""The longest text that stands in everything the pattern matches, empty where that is not certain.

    >>> literal(r"Call to (?P<value>\w+) failed with error Connection timed out[.]?")
    ' failed with error Connection timed out'
    >>> literal("one|two")
    ''
    """
    runs = list(_runs(pattern))
    return "" if runs[-1] == "|" or "(?i" in pattern else max(runs, key=len)


@cache
def _table() -> tuple[tuple[str, str, Message], ...]:
    """Patterns with their literal, longest literal first: the more a pattern says, the sooner it is asked."""
    rows = [(literal(pattern), pattern, message) for message in messages() for pattern in message.patterns]
    return tuple(sorted(rows, key=lambda row: (-len(row[0]), row[2].id, row[1])))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled when its literal was seen first: most of two hundred never are."""
    return re.compile(pattern)


def find(text: str) -> Found | None:
    """The known message in a text, the most specific if several match."""
    text = text[:_LIMIT]
    for part, pattern, message in _table():
        if part in text and (m := _compiled(pattern).search(text)):
            return Found(message, {name: value for name, value in m.groupdict().items() if value})
    return None
