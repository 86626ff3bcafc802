"""The finished diagnosis: the contract that renderers and, as JSON, other programs read.

Plain dataclasses, since every diagnosis is made and few are read back: `advisor.render.json` validates those with
pydantic and makes the published schema from these classes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

SCHEMA_VERSION = "1"
Verdict = Literal["fault", "suspect", "fine", "cannot-tell"]
Confidence = Literal["confirmed", "likely", "possible"]


def contract_name(name: str) -> str:
    """The name of a field in JSON: `for` is a word of Python's own."""
    return "for" if name == "supports" else name


class _Part:
    """What all parts of the contract share: how pydantic reads them back."""

    __slots__ = ()
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "alias_generator": contract_name}


@dataclass(slots=True, kw_only=True)
class Evidence(_Part):
    """A printed line that a finding rests on. `supports` (`for` in JSON) is False where it speaks against."""

    text: str
    file: str
    line: int
    supports: bool = True


@dataclass(slots=True, kw_only=True)
class Finding(_Part):
    """What one rule observed, on these hosts. `id` is the rule's.

    evidence_kind: proves, suggests, refutes, or note where a setting shows no effect here.
    """

    id: str
    title: str
    text: str
    evidence_kind: Literal["proves", "suggests", "refutes", "note"]
    hosts: list[str]
    evidence: list[Evidence]
    explained_by: str | None = None


@dataclass(slots=True, kw_only=True)
class FixCard(_Part):
    """One way to repair, with this cluster's own names filled in. Never executed by the advisor."""

    title: str
    risk: str
    who: str
    commands: list[str]
    undo: list[str]
    persistence: str
    danger: str
    verify: list[str]
    expect: str


@dataclass(slots=True, kw_only=True)
class CauseReport(_Part):
    """One cause, best first.

    loss_share: 1 - (busbw with this cause alone / expected), None where not computable; why_sure: why the confidence
    is what it is, in a sentence; rank: the terms of the ranking, the first that differs decides.
    """

    id: str
    kind: str
    confidence: Confidence
    role: Literal["root", "also-present"]
    title: str
    hosts: list[str]
    loss_share: float | None
    caused_by: list[str]
    findings: list[str]
    fixes: list[FixCard]
    why_sure: str
    rank: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Normal(_Part):
    """A reading that looks odd and is what this hardware does."""

    id: str
    why: str
    evidence: list[Evidence]


@dataclass(slots=True, kw_only=True)
class RuledOut(_Part):
    """A cause that something in the input speaks against."""

    id: str
    why: str
    evidence: list[Evidence] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class NextCheck(_Part):
    """A command that would separate what is still open."""

    command: str
    why: str
    separates: list[str]
    seconds: float
    root: bool
    traffic: bool


@dataclass(slots=True, kw_only=True)
class Accounting(_Part):
    """Where the bandwidth went. Shares are of the expected value; why: the sum behind the band, a line each."""

    quantity: str
    unit: str
    expected: tuple[float, float]
    measured: float
    explained: dict[str, float]
    unexplained: float
    why: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class InventoryRow(_Part):
    """What was understood of one input: a row for each source that read it.

    lines, not_understood: of the whole file, empty lines left out; first_not_understood: numbers of the first ones.
    """

    file: str
    source: str | None
    host: str | None
    facts: int
    lines: int
    not_understood: int
    first_not_understood: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Diagnosis(_Part):
    """The answer to: what is slow, why, how sure, and what to do or run next."""

    schema_version: str = SCHEMA_VERSION
    verdict: Verdict
    summary: str
    causes: list[CauseReport]
    findings: list[Finding]
    normal: list[Normal]
    ruled_out: list[RuledOut]
    next_checks: list[NextCheck]
    accounting: Accounting | None
    inventory: list[InventoryRow]
    conflicts: list[str] = field(default_factory=list)
