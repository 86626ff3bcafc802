"""Forward chaining over the rules to a fixed point, with a proof for every conclusion.

A pure function of facts and rules: no clock, environment, network or global state. Findings only ever add to what
conditions can ask for, and none can be negated, so neither the order of rules nor that of facts matters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from advisor.facts import Fact, Origin
from advisor.infer.conditions import All, Bindings, Builder, Context, Known, Trace, Truth

_FIELD = re.compile(r"\{(\w+)\.(\w+)\}")


@dataclass(slots=True)
class CompiledRule:
    """A rule ready to run: the catalogue's data and its conditions as nodes."""

    id: str
    data: Mapping[str, Any]
    variable: str
    kind: str
    when: All
    effect: All | None
    asks: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Proof:
    """What a rule concluded about one fact, and from what.

    effect: True where the harm was shown (or needs no showing), None where that is unknown, False where it is
    absent: then the finding is a note and speaks for no cause.
    """

    rule: CompiledRule
    bindings: Bindings
    effect: Truth

    @property
    def subject(self) -> Fact:
        """The fact the rule was tried on."""
        return self.bindings[self.rule.variable]

    @property
    def hosts(self) -> list[str]:
        """The hosts the conclusion is about: that of the subject, else of the other facts."""
        if self.subject.host is not None:
            return [self.subject.host]
        return sorted({fact.host for fact in self.bindings.values() if fact.host is not None})

    @property
    def sources(self) -> set[str]:
        """Ids of the sources of the fact the rule was tried on."""
        return self.subject.sources

    def origins(self) -> list[Origin]:
        """Where its facts were read, each place once, the subject's first.

        Of an aggregate the lines that gave the fields in question, as far as it knows them.
        """
        places: dict[Origin, None] = {}
        for name in (self.rule.variable, *(name for name in self.bindings if name != self.rule.variable)):
            fact = self.bindings[name]
            asked = [f for variable, f in self.rule.asks if variable == name]
            said = [fact.said_at[f] for f in asked if f in fact.said_at]
            places |= dict.fromkeys(said or fact.origins[:2])
        return list(places)

    def text(self) -> str:
        """The rule's message with its fields filled in."""
        return fill(str(self.rule.data["message"]), self.bindings)

    def bound(self) -> dict[str, str]:
        """Placeholders of the fix cards that this proof can fill."""
        values = {}
        for name, source in self.rule.data["bind"].items():
            variable, _, field_name = source.partition(".")
            fact = self.bindings.get(variable)
            value = getattr(fact, field_name) if fact is not None else None
            if value is not None:
                values[name] = show(value)
        return values

    def traces(self, ctx: Context) -> list[Trace]:
        """Each condition with its value, for `--why`."""
        start = {self.rule.variable: self.subject}
        parts = self.rule.when.trace(start, ctx).parts
        return parts + (self.rule.effect.trace(start, ctx).parts if self.rule.effect else [])


@dataclass(slots=True)
class Open:
    """A rule that could not be decided for want of facts, and the facts that would decide it."""

    rule: CompiledRule
    missing: frozenset[str]


@dataclass(slots=True)
class Inference:
    """Everything the rules said; known: the conclusions that later conditions could ask for."""

    proofs: list[Proof] = field(default_factory=list)
    open: list[Open] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    known: set[Known] = field(default_factory=set)


def show(value: object) -> str:
    """A value as people write it: 3.38, 512, mlx5_0, a, b."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    if isinstance(value, tuple):
        return ", ".join(show(item) for item in value) or "none"
    return str(value)


def fill(template: str, bindings: Bindings) -> str:
    """`{variable.field}` replaced by the value; an unknown one prints as `<variable.field>`, never as a guess."""

    def value(match: re.Match[str]) -> str:
        fact = bindings.get(match[1])
        found = getattr(fact, match[2], None) if fact is not None else None
        return f"<{match[2]}>" if found is None else show(found)

    return " ".join(_FIELD.sub(value, template).split())


def compile_rule(data: Mapping[str, Any], thresholds: Mapping[str, float]) -> CompiledRule:
    """Nodes of a rule's conditions; raises ConditionError where one could never work."""
    variable, kind = next(iter(data["each"].items()))
    builder = Builder(thresholds, {}, variable)
    builder.variables[variable] = builder.kind(kind, ("each", variable))
    when = builder.all(data["when"], ("when",))
    effect = builder.all(data["effect"], ("effect",)) if data["effect"] else None
    asks = dict.fromkeys([*when.asks(), *(effect.asks() if effect else ())])
    return CompiledRule(data["id"], data, variable, kind, when, effect, tuple(asks))


def _try(rule: CompiledRule, subject: Fact, ctx: Context) -> Proof | Open | None:
    bindings: Bindings = {rule.variable: subject}
    truth = rule.when.test(bindings, ctx)
    if truth is False:
        return None
    if truth is None:
        missing = frozenset(rule.when.trace({rule.variable: subject}, ctx).missing())
        return Open(rule, missing)
    effect = rule.effect.test(bindings, ctx) if rule.effect else True
    return Proof(rule, bindings, effect)


def infer(facts: Iterable[Fact], rules: Sequence[CompiledRule]) -> Inference:
    """All conclusions of the rules on the facts. A rule that crashes is reported, and the others still run."""
    ctx = Context(facts)
    result = Inference(known=ctx.found)
    broken: set[str] = set()
    ready = []
    for rule in rules:
        absent = frozenset(kind for kind in (rule.kind, *rule.data["needs"]) if not ctx.asked(kind))
        if absent:
            result.open.append(Open(rule, absent))
        else:
            ready.append(rule)
    chained = [rule for rule in ready if rule.data["chained"]]
    batch = [rule for rule in ready if not rule.data["chained"]]
    while batch:
        known = len(ctx.found)
        for rule in batch:
            try:
                answers = [_try(rule, subject, ctx) for subject in ctx.all(rule.kind)]
            except Exception as error:
                if rule.id not in broken:
                    result.problems.append(f"{rule.id}: {type(error).__name__}: {error}")
                    broken.add(rule.id)
                continue
            if rule.data["chained"]:
                result.proofs = [proof for proof in result.proofs if proof.rule is not rule]
                result.open = [item for item in result.open if item.rule is not rule]
            result.proofs += [answer for answer in answers if isinstance(answer, Proof)]
            result.open += [answer for answer in answers if isinstance(answer, Open)]
        ctx.found.update(
            Known(proof.rule.id, proof.rule.data["cause"], proof.subject.host, proof.subject.run)
            for proof in result.proofs
            if proof.effect is not False
        )
        batch = chained if len(ctx.found) > known else []
    return result
