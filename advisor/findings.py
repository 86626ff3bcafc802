"""The finished diagnosis: the JSON contract that renderers and other programs read."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = "1"
Verdict = Literal["fault", "suspect", "fine", "cannot-tell"]
Confidence = Literal["confirmed", "likely", "possible"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Evidence(_Part):
    """A printed line that a finding rests on. `for` is False where it speaks against."""

    text: str
    file: str
    line: int
    supports: bool = Field(True, alias="for")

    model_config = ConfigDict(extra="forbid", populate_by_name=True)


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


class CauseReport(_Part):
    """One cause, best first. `loss_share`: 1 - (busbw with this cause alone / expected), None where not computable."""

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
    why_sure: str = Field(description="Why the confidence is what it is, in a sentence")
    rank: list[str] = Field(default_factory=list, description="The terms of the ranking, first decides")


class Normal(_Part):
    """A reading that looks odd and is what this hardware does."""

    id: str
    why: str
    evidence: list[Evidence]


class RuledOut(_Part):
    """A cause that something in the input speaks against."""

    id: str
    why: str
    evidence: list[Evidence] = Field(default_factory=list)


class NextCheck(_Part):
    """A command that would separate what is still open."""

    command: str
    why: str
    separates: list[str]
    seconds: float
    root: bool
    traffic: bool


class Accounting(_Part):
    """Where the bandwidth went. Shares are of the expected value."""

    quantity: str
    unit: str
    expected: tuple[float, float]
    measured: float
    explained: dict[str, float]
    unexplained: float
    why: list[str] = Field(default_factory=list, description="The sum behind the expected band, a line each")


class InventoryRow(_Part):
    """What was understood of one input."""

    file: str
    source: str | None
    host: str | None
    facts: int
    lines: int
    not_understood: int
    first_not_understood: list[int] = Field(default_factory=list, description="Line numbers of the first such lines")
    problems: list[str]


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
    conflicts: list[str] = Field(default_factory=list)
