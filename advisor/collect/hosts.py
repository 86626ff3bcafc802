"""Host names as users give them: folded lists and host files. What is no host name is refused here, once.

A name reaches other programs as an argument of its own, never through a shell; it may still not begin with a dash,
which they would take for an option.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from advisor.data import phrase
from advisor.errors import UsageError

MOST_HOSTS = 20_000
_NAME = re.compile(r"(?:[A-Za-z0-9_][\w-]{0,31}@)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?|[0-9A-Fa-f:]{2,39}")
_RANGE = re.compile(r"\[([\d,-]{1,500})\]")
_PART = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_BETWEEN = re.compile(r",(?![^\[]*\])|\s+")  # commas, but not those within brackets


def valid(name: str) -> str:
    """The name (or USER@NAME, or an address) as it is. Raises UsageError for anything else."""
    if not _NAME.fullmatch(name):
        raise UsageError(phrase("collect-wrong-hosts", part=repr(name)), remedy=phrase("collect-wrong-hosts-remedy"))
    return name


def _numbers(text: str) -> Iterator[str]:
    """`01-03,7` as 01, 02, 03, 7. Raises ValueError."""
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(part)
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first) or int(last) - int(first) >= MOST_HOSTS:
            raise ValueError(part)
        for number in range(int(first), int(last) + 1):
            yield str(number).zfill(len(first))


def _unfold(word: str) -> Iterator[str]:
    """`rack[1-2]n[01-02]` as its four names. Raises ValueError."""
    match = _RANGE.search(word)
    if match is None:
        yield word
        return
    for number in _numbers(match[1]):
        for rest in _unfold(word[match.end() :]):
            yield f"{word[: match.start()]}{number}{rest}"


def expand(text: str) -> list[str]:
    """`node[01-64],login,user@gpu[1,3]` as names, each once, in their order.

    Raises UsageError for what is no list of names, and for more than 20,000.
    """
    return _each_once(name for word in _BETWEEN.split(text.strip()) if word for name in _names(word))


def _names(word: str) -> Iterator[str]:
    try:
        for name in _unfold(word):
            yield valid(name)
    except ValueError:
        wrong = phrase("collect-wrong-hosts", part=repr(word))
        raise UsageError(wrong, remedy=phrase("collect-wrong-hosts-remedy")) from None


def _each_once(names: Iterable[str]) -> list[str]:
    found: dict[str, None] = {}
    for name in names:
        found.setdefault(name)
        if len(found) > MOST_HOSTS:
            raise UsageError(phrase("collect-too-many-hosts", most=MOST_HOSTS))
    return list(found)


def from_file(text: str) -> list[str]:
    """The hosts of a host file: one a line (or folded, as pdsh's), with MPI's `slots=8` or `:8` passed over.

    Comments begin with #. Raises UsageError.
    """
    names: list[str] = []
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if words:
            host = re.sub(r"(?<=[^:]):\d+$", "", words[0]) if words[0].count(":") == 1 else words[0]
            names += expand(host)
    return _each_once(names)
