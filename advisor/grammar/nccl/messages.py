"""Counts the lines with a known meaning of a NCCL log, and the warnings without one."""

from __future__ import annotations

import re
from collections.abc import Callable

from advisor.facts import NcclMessage, Origin
from advisor.grammar.known_messages import Found, find

UNKNOWN = "unknown-warning"
_KINDS_KEPT = 64  # distinct messages of one kind and process; the rest is counted together
_FIELDS = ("address", "interface", "device", "path", "code", "value")
_CRASH = re.compile(r"\[([^\s:\[\]]{1,255}):(\d{1,10}):\d{1,10}:\d{1,10}\] ")
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+(?:\.\d+)*")

OriginOf = Callable[[int], Origin]


class MessageLog:
    """Messages of one text: equal ones of a process are one fact."""

    def __init__(self, origin: OriginOf) -> None:
        self._origin = origin
        self._facts: dict[tuple[object, ...], NcclMessage] = {}
        self._kinds: dict[tuple[object, ...], int] = {}
        self._quoted: list[tuple[int, str, Found, str | None, int | None]] = []

    def take(self, text: str, index: int, warn: bool, host: str | None, pid: int | None) -> str | None:
        """Count a message if its meaning is known or it is a warning; its severity then, else None."""
        found = find(text)
        if found is not None:
            self._count(found.message.id, found.names, text, index, host, pid)
            return found.message.severity
        if not warn:
            return None
        self._count(UNKNOWN, {"value": _NUMBERS.sub("N", text)[:80]}, text, index, host, pid)
        return "warning"

    def quote(self, text: str, index: int) -> bool:
        """A framework's copy of a message, without envelope; counts at the end, unless NCCL printed it too."""
        found = find(text)
        if found is not None:
            crash = _CRASH.match(text)
            host, pid = (crash[1], int(crash[2])) if crash else (None, None)
            self._quoted.append((index, text, found, host, pid))
        return found is not None

    def _count(
        self, kind: str, names: dict[str, str], text: str, index: int, host: str | None, pid: int | None
    ) -> None:
        several = (kind, host, pid)
        key: tuple[object, ...] = (*several, *sorted(names.items()))
        made = self._facts.get(key)
        if made is None and self._kinds.setdefault(several, 0) >= _KINDS_KEPT:
            key, names = several, {}
            made = self._facts.get(key)
        if made is not None:
            made.count += 1
            return
        self._kinds[several] += 1
        made = self._facts[key] = NcclMessage(kind=kind, host=host, pid=pid, text=text[:500])
        made.origins = (self._origin(index),)
        for name in _FIELDS:
            if name in names:
                setattr(made, name, names[name][:200])

    def facts(self, owner: tuple[str | None, int] | None) -> list[NcclMessage]:
        """All messages; `owner` is the only process of the text, which then said those without a prefix too."""
        said = {(fact.kind, *(getattr(fact, name) for name in _FIELDS)) for fact in self._facts.values()}
        for index, text, found, host, pid in self._quoted:
            if (found.message.id, *(found.names.get(name) for name in _FIELDS)) not in said:
                self._count(found.message.id, found.names, text, index, host, pid)
        for fact in self._facts.values():
            if owner is not None and fact.host is None and fact.pid is None:
                fact.host, fact.pid = owner
        return list(self._facts.values())
