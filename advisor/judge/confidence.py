"""How sure a cause is: a word, from which kinds of evidence stand for and against it on each host.

    confirmed  a `proves` whose effect is shown (or needs no showing)
    likely     a `proves` whose effect is unknown, or two `suggests` from different sources
    possible   one `suggests`, a `proves` that something refutes, or anything that rests on experience alone
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from advisor.findings import Confidence
from advisor.infer.engine import Proof

LEVELS: tuple[Confidence, ...] = ("possible", "likely", "confirmed")


@dataclass(slots=True)
class Judged:
    """A cause with what stands for and against it.

    confidence: the best over its hosts; reason: key of the phrase that says why; hosts: those with that confidence,
    empty where nobody says whose the facts are; supports, refutes: the proofs that count; contradicted: something
    refutes what something else proves.
    """

    id: str
    confidence: Confidence
    reason: str
    hosts: list[str] = field(default_factory=list)
    runs: set[str] = field(default_factory=set)
    supports: list[Proof] = field(default_factory=list)
    refutes: list[Proof] = field(default_factory=list)
    contradicted: bool = False
    caused_by: list[str] = field(default_factory=list)


def _overlap(a: Proof, b: Proof) -> bool:
    """Whether two proofs speak of the same thing: not of two things of one kind, two hosts or two runs."""
    if type(a.subject) is type(b.subject) and a.subject is not b.subject:
        return False
    if a.hosts and b.hosts and not set(a.hosts) & set(b.hosts):
        return False
    return a.subject.run is None or b.subject.run is None or a.subject.run == b.subject.run


def _strength(proof: Proof, common: bool) -> tuple[int, str]:
    """Level of a proof by itself, and the reason."""
    if proof.rule.data["unverified"]:
        return 0, "experience-only"
    if proof.rule.data["evidence"] == "suggests":
        return 0, "one-sign"
    if proof.effect:
        return 2, "proved-with-effect" if proof.rule.effect else "proved"
    return (0, "common-setting") if common else (1, "effect-unknown")


def _judge(supports: Sequence[Proof], refutes: Sequence[Proof], common: bool) -> tuple[int, str, list[Proof]] | None:
    """Level, reason and the proofs that count, of one cause on one host; None where nothing is left."""
    standing: list[tuple[int, str, Proof]] = []
    for proof in supports:
        level, reason = _strength(proof, common)
        if any(_overlap(proof, other) for other in refutes):
            if proof.rule.data["evidence"] == "suggests":
                continue
            level, reason = 0, "contradicted"
        standing.append((level, reason, proof))
    if not standing:
        return None
    level, reason, _ = max(standing, key=lambda item: item[0])
    signs = [proof for _, why, proof in standing if why == "one-sign"]
    if level == 0 and reason != "contradicted" and _independent(signs):
        level, reason = 1, "two-signs"
    return level, reason, [proof for *_, proof in standing]


def _independent(signs: Sequence[Proof]) -> bool:
    """Whether two suggestions come from two rules and two sources."""
    pairs = ((a, b) for i, a in enumerate(signs) for b in signs[i + 1 :])
    return any(a.rule.id != b.rule.id and not a.sources & b.sources for a, b in pairs)


def judge(proofs: Iterable[Proof], causes: Mapping[str, Mapping[str, Any]]) -> tuple[list[Judged], list[Judged]]:
    """Causes that stand, and causes that something speaks against with nothing left for them."""
    for_by_cause: dict[str, list[Proof]] = defaultdict(list)
    against: dict[str, list[Proof]] = defaultdict(list)
    for proof in proofs:
        if proof.effect is False:
            continue
        side = against if proof.rule.data["evidence"] == "refutes" else for_by_cause
        side[proof.rule.data["cause"]].append(proof)
    standing: list[Judged] = []
    ruled_out: list[Judged] = []
    for cause in sorted({*for_by_cause, *against}):
        found = _by_host(cause, for_by_cause[cause], against[cause], bool(causes[cause]["common_when_healthy"]))
        if found is not None:
            standing.append(found)
        elif against[cause]:
            ruled_out.append(Judged(cause, "possible", "refuted", refutes=against[cause]))
    return standing, ruled_out


def _by_host(cause: str, supports: list[Proof], refutes: list[Proof], common: bool) -> Judged | None:
    hosts = sorted({host for proof in supports for host in proof.hosts}) or [""]
    best: Judged | None = None
    for host in hosts:
        here = [proof for proof in supports if not proof.hosts or host in proof.hosts]
        result = _judge(here, refutes, common)
        if result is None:
            continue
        level, reason, counted = result
        if best is None or level > LEVELS.index(best.confidence):
            best = Judged(cause, LEVELS[level], reason, refutes=refutes, contradicted=reason == "contradicted")
        if LEVELS[level] == best.confidence:
            best.hosts += [host] if host else []
            best.supports += [proof for proof in counted if proof not in best.supports]
    if best is not None:
        best.runs = {proof.subject.run for proof in best.supports if proof.subject.run is not None}
    return best
