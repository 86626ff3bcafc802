"""Why a cause was named, or not: every rule about it, with each condition and the value that was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from advisor.diagnosis import Outcome
from advisor.facts import Fact, Origin
from advisor.infer.conditions import Context, Trace
from advisor.infer.engine import CompiledRule, Proof

_SUBJECTS = 3  # of one rule


@dataclass(slots=True)
class Reason:
    """One rule on one fact.

    rule, title, evidence: of the rule; state: `fired`, `note` (fired, but its harm is shown to be absent), `open`
    (something unknown decides), `silent` (a condition does not hold), `no-facts` (nothing it could be tried on);
    text: what it says, where it fired; places: where its facts were read; conditions: with their values; missing: fact
    types or fields that would decide it.
    """

    rule: str
    title: str
    evidence: str
    state: str
    text: str = ""
    places: list[Origin] = field(default_factory=list)
    conditions: list[Trace] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def _held(reason: Reason) -> int:
    return sum(part.truth is True for part in reason.conditions)


def _fired(proof: Proof, ctx: Context) -> Reason:
    data = proof.rule.data
    return Reason(
        proof.rule.id, data["title"], data["evidence"], "note" if proof.effect is False else "fired", proof.text(),
        proof.origins(), proof.traces(ctx),
    )  # fmt: skip


def _tried(rule: CompiledRule, subject: Fact, ctx: Context) -> Reason:
    """A rule that did not fire on a fact."""
    trace = rule.when.trace({rule.variable: subject}, ctx)
    state = "open" if trace.truth is None else "silent"
    return Reason(
        rule.id, rule.data["title"], rule.data["evidence"], state, places=list(subject.origins[:1]),
        conditions=trace.parts, missing=sorted(set(trace.missing())),
    )  # fmt: skip


def _not_fired(rule: CompiledRule, ctx: Context) -> list[Reason]:
    """On the fact it came nearest: what is open before what is refuted, then by how many conditions hold."""
    subjects = ctx.all(rule.kind)
    if not subjects:
        data = rule.data
        return [Reason(rule.id, data["title"], data["evidence"], "no-facts", missing=[rule.kind])]
    tried = (_tried(rule, subject, ctx) for subject in subjects)
    return [min(tried, key=lambda reason: (reason.state != "open", -_held(reason)))]


def reasons(outcome: Outcome, rules: Sequence[CompiledRule], cause: str) -> list[Reason]:
    """All that the rules about a cause say of this input: what fired first, then what is open, then the rest."""
    ctx = Context(outcome.store)
    ctx.found.update(outcome.inference.known)
    found: list[Reason] = []
    for rule in rules:
        if rule.data["cause"] == cause:
            proofs = [proof for proof in outcome.inference.proofs if proof.rule.id == rule.id]
            found += [_fired(proof, ctx) for proof in proofs[:_SUBJECTS]] or _not_fired(rule, ctx)
    order = {"fired": 0, "note": 1, "open": 2, "silent": 3, "no-facts": 4}
    weight = {"proves": 0, "refutes": 1, "suggests": 2}
    return sorted(found, key=lambda reason: (order[reason.state], weight[reason.evidence], reason.rule))


def as_record(reason: Reason) -> Mapping[str, Any]:
    """The reason as JSON."""

    def condition(trace: Trace) -> dict[str, Any]:
        return {
            "condition": trace.text, "holds": trace.truth, "value": trace.value,
            "parts": [condition(part) for part in trace.parts],
        }  # fmt: skip

    return {
        "rule": reason.rule, "title": reason.title, "evidence": reason.evidence, "state": reason.state,
        "text": reason.text, "places": [{"file": o.file, "line": o.line, "text": o.text} for o in reason.places],
        "conditions": [condition(trace) for trace in reason.conditions], "missing": reason.missing,
    }  # fmt: skip
