"""What all facts share: origin, identity, and the registry of their names."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar


@dataclass(slots=True, frozen=True, order=True)
class Origin:
    """Where a fact was read: lines `line` to `end` (1-based, inclusive) of `file`.

    `text` is the printed text (the first line of it), `source` the id of the source that read it, `command` the
    command whose output it is, where the input shows it.
    """

    file: str
    line: int = 0
    end: int = 0
    text: str = ""
    source: str = ""
    command: str | None = None


@dataclass(slots=True, kw_only=True)
class Fact:
    """One thing that is known about a host, a device, a process, a path or a measurement.

    Units stand in the field names (`_gbit_s` links, `_gbyte_s` NCCL, PCIe and NVLink, `_bytes`, `_us`). `None` is
    unknown, never zero and never false. Two facts with the same `identity` speak of the same thing. `origins` is where
    the fact was read; `said_at` where single fields of an aggregate were, so that evidence shows the decisive line.
    `VOLATILE` fields change by the second: two readings that differ only there agree.
    """

    KEY: ClassVar[tuple[str, ...]] = ()
    VOLATILE: ClassVar[tuple[str, ...]] = ()

    host: str | None = None
    run: str | None = None
    origins: tuple[Origin, ...] = ()
    said_at: dict[str, Origin] = field(default_factory=dict)

    @property
    def identity(self) -> tuple[Any, ...]:
        """What the fact is about: its type, run, host and the fields named in `KEY`."""
        return (fact_name(type(self)), self.run, self.host, *(getattr(self, name) for name in self.KEY))

    @property
    def sources(self) -> set[str]:
        """Ids of the sources it was read by."""
        return {origin.source for origin in self.origins}


@dataclass(slots=True, kw_only=True)
class Conflict(Fact):
    """Two inputs disagree about one thing; both values are kept.

    fact: name of the type of the fact; about: its identity, printed; field: the field in question;
    values: the values, printed, in the order of their origins.
    """

    KEY: ClassVar[tuple[str, ...]] = ("fact", "about", "field")

    fact: str
    about: str
    field: str
    values: tuple[str, ...]


_NAMES: dict[str, str] = {}
_FIELDS: dict[str, tuple[str, ...]] = {}


def fact_name(kind: type[Fact]) -> str:
    """`NetInterface` -> `net-interface`: the name of a fact type in rules and on the command line."""
    name = kind.__name__
    if name not in _NAMES:
        _NAMES[name] = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()
    return _NAMES[name]


def field_names(kind: type[Fact]) -> tuple[str, ...]:
    """All fields of a fact type that say something, host and run first."""
    name = kind.__name__
    if name not in _FIELDS:
        _FIELDS[name] = tuple(f.name for f in fields(kind) if f.name not in ("origins", "said_at"))
    return _FIELDS[name]
