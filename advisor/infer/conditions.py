"""Conditions of rules: a closed set of typed operators in three-valued (Kleene) logic.

`build` turns the YAML of a condition into nodes and refuses what could never work: unknown facts, fields, operators,
thresholds and variables, each with the path to the place and a near name. A node answers `True`, `False` or `None`
(unknown). `trace` tells the same with values, for evidence and for `--why`.
"""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from advisor.facts import FACT_TYPES, Fact, field_names

Truth = bool | None
Bindings = dict[str, Fact]
Path = tuple[str | int, ...]

WITHIN = ("host", "other-hosts", "run", "input")
# A fact of these types would have been read if it were there, wherever a fact of the other type was read.
_WITNESS = {"nccl-message": "nccl-process"}


class ConditionError(Exception):
    """A condition that could never work; `path` leads to it inside the rule."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message


def near(word: str, known: Iterable[str]) -> str:
    """`, did you mean X?` for the nearest known name, else nothing."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f", did you mean {close[0]}?" if close else ""


@dataclass(slots=True)
class Trace:
    """How a condition came out: what was asked, the answer, the value found, and what would have to be known."""

    text: str
    truth: Truth
    value: str = ""
    lacks: str = ""
    parts: list[Trace] = field(default_factory=list)

    def missing(self) -> Iterator[str]:
        """Fact types or fields that are unknown and that the answer hangs on."""
        if self.truth is not None:
            return
        if self.lacks:
            yield self.lacks
        for part in self.parts:
            yield from part.missing()


@dataclass(slots=True, frozen=True)
class Known:
    """An earlier conclusion, as far as conditions can ask for it."""

    rule: str
    cause: str
    host: str | None
    run: str | None


class Context:
    """The facts of one diagnosis, indexed for the questions that conditions ask."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self._all: dict[str, list[Fact]] = defaultdict(list)
        self._scoped: dict[tuple[str, str, str | None], list[Fact]] = defaultdict(list)
        self._peers: dict[tuple[str, tuple[str, ...]], dict[tuple[Any, ...], list[Fact]]] = {}
        names = {kind: name for name, kind in FACT_TYPES.items()}
        for fact in facts:
            name = names[type(fact)]
            self._all[name].append(fact)
            self._scoped[name, "host", fact.host].append(fact)
            self._scoped[name, "run", fact.run].append(fact)
        self.found: set[Known] = set()

    def asked(self, kind: str) -> bool:
        """Whether a fact of the type would be here if there were one: so that its absence says something."""
        return bool(self.all(kind)) or bool(self.all(_WITNESS.get(kind, "")))

    def all(self, kind: str) -> Sequence[Fact]:
        """All facts of a type."""
        return self._all.get(kind, ())

    def scope(self, kind: str, within: str, subject: Fact) -> Sequence[Fact]:
        """Facts of a type on the subject's host, on other hosts, in its run, or all."""
        if within == "input":
            return self.all(kind)
        if within == "other-hosts":
            return [f for f in self.all(kind) if f.host != subject.host and f.host is not None]
        return self._scoped.get((kind, within, getattr(subject, within)), ())

    def unplaced(self, kind: str, within: str, subject: Fact) -> Sequence[Fact]:
        """Facts of a type that could belong to the subject's scope, since nobody says where they are from."""
        if within not in ("host", "run") or getattr(subject, within) is None:
            return ()
        return self._scoped.get((kind, within, None), ())

    def peers(self, fact: Fact, kind: str, same: tuple[str, ...]) -> Sequence[Fact]:
        """Facts of the same type that agree with this one on the fields `same`, itself included."""
        groups = self._peers.get((kind, same))
        if groups is None:
            groups = defaultdict(list)
            for other in self.all(kind):
                groups[tuple(getattr(other, name) for name in same)].append(other)
            self._peers[kind, same] = groups
        return groups[tuple(getattr(fact, name) for name in same)]


class Node(Protocol):
    """A condition, ready to be asked."""

    def test(self, b: Bindings, ctx: Context) -> Truth:
        """The answer; may bind further variables in `b` when it is True."""

    def trace(self, b: Bindings, ctx: Context) -> Trace:
        """The answer with everything it rests on."""

    def asks(self) -> Iterator[tuple[str, str]]:
        """The (variable, field) pairs that it looks at."""


# ---------------------------------------------------------------------------------------------- operands and operators


def _version(text: object) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", str(text))[:4])


def _same(value: Any, other: Any) -> bool:
    return bool(value == other)


def _number(value: Any) -> float:
    """Numbers as they are; those of variables are text. What is no number compares False with everything."""
    try:
        return float(value)
    except ValueError:
        return float("nan")


def _listed(value: str, name: str) -> bool:
    """Whether a list such as `=mlx5_0:1,mlx5_1` names a device; `^` lists name those to leave out."""
    return not value.startswith("^") and name in re.split(r"[,:=]", value)


def _selects(value: str, device: str) -> bool:
    """Whether a NCCL_IB_HCA value takes a device: `=` exact names, `^` those to leave out, else prefixes."""
    leaves_out = value.startswith("^")
    exact = value.lstrip("^").startswith("=")
    names = [name.partition(":")[0] for name in value.lstrip("^=").split(",") if name]
    named = device in names if exact else device.startswith(tuple(names))
    return named != leaves_out


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "is": _same,
    "is_not": lambda value, other: value != other,
    "in": lambda value, other: value in other,
    "not_in": lambda value, other: value not in other,
    "at_least": lambda value, other: _number(value) >= _number(other),
    "at_most": lambda value, other: _number(value) <= _number(other),
    "above": lambda value, other: _number(value) > _number(other),
    "below": lambda value, other: _number(value) < _number(other),
    "matches": lambda value, other: re.search(other, str(value)) is not None,
    "has": lambda value, other: other in value,
    "has_any": lambda value, other: any(item in value for item in other),
    "has_match": lambda value, other: any(re.search(other, str(item)) for item in value),
    "first_matches": lambda value, other: bool(value) and re.search(other, str(value[0])) is not None,
    "lists": _listed,
    "selects": _selects,
    "only": lambda value, other: bool(value) and all(item in other for item in value),
    "version_from": lambda value, other: _version(value) >= _version(other),
    "version_before": lambda value, other: _version(value) < _version(other),
    "empty": lambda value, other: (len(value) == 0) == other,
    "zero": lambda value, other: (value == 0) == other,
}
NUMERIC = ("at_least", "at_most", "above", "below")


class Operand(Protocol):
    """The right-hand side of a comparison."""

    def value(self, b: Bindings) -> Any:
        """Its value, None where unknown."""

    def __str__(self) -> str: ...


@dataclass(slots=True, frozen=True)
class Constant:
    """A literal of the rule, or a threshold by name."""

    constant: Any
    name: str = ""

    def value(self, b: Bindings) -> Any:  # noqa: ARG002
        """The literal itself."""
        return self.constant

    def __str__(self) -> str:
        return f"{self.constant:g} ({self.name})" if self.name else str(self.constant)


@dataclass(slots=True, frozen=True)
class FieldOf:
    """A field of a bound fact, times a factor where a share of it is meant."""

    variable: str
    field: str
    factor: Constant | None = None

    def value(self, b: Bindings) -> Any:
        """The field's value, None where unknown."""
        value = getattr(b.get(self.variable), self.field, None)
        return value if value is None or self.factor is None else value * self.factor.constant

    def __str__(self) -> str:
        name = f"{self.variable}.{self.field}"
        return f"{self.factor} of {name}" if self.factor else name


# ----------------------------------------------------------------------------------------------------------- the nodes


def _show(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value[:6])) + (", …]" if len(value) > 6 else "]")
    return str(value)


@dataclass(slots=True, frozen=True)
class Compare:
    """`variable.field operator operand`."""

    variable: str
    field: str
    operator: str
    operand: Operand
    kind: str

    def asks(self) -> Iterator[tuple[str, str]]:
        """Its one field."""
        yield self.variable, self.field

    def test(self, b: Bindings, ctx: Context) -> Truth:  # noqa: ARG002
        """Unknown where either side is."""
        value = getattr(b.get(self.variable), self.field, None)
        if value is None:
            return None
        other = self.operand.value(b)
        return None if other is None else OPERATORS[self.operator](value, other)

    def trace(self, b: Bindings, ctx: Context) -> Trace:
        """With the value found."""
        value = getattr(b.get(self.variable), self.field, None)
        text = f"{self.variable}.{self.field} {self.operator} {self.operand}"
        return Trace(text, self.test(b, ctx), _show(value), f"{self.kind}.{self.field}")


@dataclass(slots=True, frozen=True)
class IsKnown:
    """`variable.field: {known: true}`: never itself unknown."""

    variable: str
    field: str
    wanted: bool

    def asks(self) -> Iterator[tuple[str, str]]:
        """Its one field."""
        yield self.variable, self.field

    def test(self, b: Bindings, ctx: Context) -> Truth:  # noqa: ARG002
        """Whether the field has a value."""
        return (getattr(b.get(self.variable), self.field, None) is not None) == self.wanted

    def trace(self, b: Bindings, ctx: Context) -> Trace:
        """With the value found."""
        value = getattr(b.get(self.variable), self.field, None)
        return Trace(f"{self.variable}.{self.field} known {self.wanted}", self.test(b, ctx), _show(value))


@dataclass(slots=True, frozen=True)
class All:
    """All parts hold."""

    parts: tuple[Node, ...]

    def asks(self) -> Iterator[tuple[str, str]]:
        """Those of the parts."""
        for part in self.parts:
            yield from part.asks()

    def test(self, b: Bindings, ctx: Context) -> Truth:
        """False as soon as one part is False, else unknown if one is."""
        truth: Truth = True
        for part in self.parts:
            answer = part.test(b, ctx)
            if answer is False:
                return False
            if answer is None:
                truth = None
        return truth

    def trace(self, b: Bindings, ctx: Context) -> Trace:
        """Every part up to the first that is False."""
        parts: list[Trace] = []
        for part in self.parts:
            parts.append(part.trace(b, ctx))
            if parts[-1].truth is False:
                break
        return Trace("all", self.test(dict(b), ctx), parts=parts)


@dataclass(slots=True, frozen=True)
class AnyOf:
    """At least one part holds."""

    parts: tuple[Node, ...]

    def asks(self) -> Iterator[tuple[str, str]]:
        """Those of the parts."""
        for part in self.parts:
            yield from part.asks()

    def test(self, b: Bindings, ctx: Context) -> Truth:
        """True as soon as one part is True, else unknown if one is."""
        truth: Truth = False
        for part in self.parts:
            trial = dict(b)
            answer = part.test(trial, ctx)
            if answer is True:
                b.update(trial)
                return True
            if answer is None:
                truth = None
        return truth

    def trace(self, b: Bindings, ctx: Context) -> Trace:
        """Every part."""
        return Trace("any", self.test(dict(b), ctx), parts=[part.trace(dict(b), ctx) for part in self.parts])


@dataclass(slots=True, frozen=True)
class Not:
    """The part does not hold."""

    part: Node

    def asks(self) -> Iterator[tuple[str, str]]:
        """Those of the part."""
        yield from self.part.asks()

    def test(self, b: Bindings, ctx: Context) -> Truth:
        """Unknown where the part is."""
        answer = self.part.test(dict(b), ctx)
        return None if answer is None else not answer

    def trace(self, b: Bindings, ctx: Context) -> Trace:
        """With the part."""
        return Trace("not", self.test(b, ctx), parts=[self.part.trace(dict(b), ctx)])


@dataclass(slots=True, frozen=True)
class NotShown:
    """Nothing that was read shows the part: False only where it holds, so it is never unknown.

    For exceptions that would have to be proved, where waiting for the proof would silence every thin input.
    """

    part: Node

    def asks(self) -> Iterator[tuple[str, str]]:
        """Those of the part."""
        yield from self.part.asks()

    def test(self, b: Bindings, ctx: Context) -> Truth:
        """True unless the part holds."""
        return self.part.test(dict(b), ctx) is not True

    def trace(self, b: Bindings, ctx: Context) -> Trace:
        """With the part."""
        return Trace("not shown", self.test(b, ctx), parts=[self.part.trace(dict(b), ctx)])


@dataclass(slots=True, frozen=True)
class Quantified:
    """How many facts of a type in a scope meet a condition: at least one, none, or a number compared.

    No fact of the type in the scope is unknown, not zero, unless a witness shows that it would have been read. `among`
    narrows what counts as being there to be asked: of pings only the large ones, of measurements those that say
    something. Facts that do not meet it are as good as not read.
    """

    word: str  # exists, none or count
    name: str
    kind: str
    within: str
    subject: str
    where: All
    operator: str = "at_least"
    operand: Constant = Constant(1)
    among: All = All(())

    def asks(self) -> Iterator[tuple[str, str]]:
        """Those of the facts it is about."""
        yield from self.where.asks()

    def _answers(self, b: Bindings, ctx: Context) -> tuple[list[Fact], int, bool]:
        """Facts that meet it, how many might, and whether any was there to be asked."""
        subject = b.get(self.subject)
        hits: list[Fact] = []
        unsure = 0
        if subject is None:  # an earlier quantifier found nothing to bind
            return hits, unsure, False
        candidates = [
            fact for fact in ctx.scope(self.kind, self.within, subject)
            if not self.among.parts or self.among.test({**b, self.name: fact}, ctx) is not False
        ]  # fmt: skip
        for fact in candidates:
            if fact is subject:
                continue
            answer = self.where.test({**b, self.name: fact}, ctx)
            if answer is True:
                hits.append(fact)
                if self.word == "exists":
                    return hits, unsure, True
            elif answer is None:
                unsure += 1
        for fact in ctx.unplaced(self.kind, self.within, subject):
            if fact is not subject and self.where.test({**b, self.name: fact}, ctx) is not False:
                unsure += 1
        witness = _WITNESS.get(self.kind)
        asked = bool(candidates) or (witness is not None and bool(ctx.scope(witness, self.within, subject)))
        return hits, unsure, asked

    def test(self, b: Bindings, ctx: Context) -> Truth:
        """Binds the first fact that meets it when the answer is True and the question was for one."""
        hits, unsure, asked = self._answers(b, ctx)
        if hits and self.word != "none":
            b[self.name] = hits[0]
        if self.word == "exists":
            return True if hits else (None if unsure or not asked else False)
        if self.word == "none":
            return False if hits else (None if unsure or not asked else True)
        if not asked:
            return None
        compare = OPERATORS[self.operator]
        low, high = compare(len(hits), self.operand.constant), compare(len(hits) + unsure, self.operand.constant)
        return low if low == high else None

    def trace(self, b: Bindings, ctx: Context) -> Trace:
        """With the number found and, of one fact, the conditions."""
        hits, unsure, asked = self._answers(b, ctx)
        truth = self.test(b, ctx)
        value = f"{len(hits)} found" + (f", {unsure} unsure" if unsure else "") + ("" if asked else ", none read")
        lacks = self.kind if truth is None and not unsure else ""
        subject = b.get(self.subject)
        samples = hits[:1] or (list(ctx.scope(self.kind, self.within, subject))[:1] if subject else [])
        parts = [self.where.trace({**b, self.name: fact}, ctx) for fact in samples]
        return Trace(f"{self.word} {self.kind} within {self.within}", truth, value, lacks, parts)


@dataclass(slots=True, frozen=True)
class Peers:
    """How a field of a fact stands against the same field of its peers."""

    variable: str
    field: str
    kind: str
    same: tuple[str, ...]
    across: str  # hosts, devices or any
    relation: str
    needed: int

    def _others(self, b: Bindings, ctx: Context) -> tuple[Any, list[Any]]:
        fact = b.get(self.variable)
        if fact is None:
            return None, []
        own = getattr(fact, self.field)
        peers = (peer for peer in ctx.peers(fact, self.kind, self.same) if peer is not fact)
        if self.across == "hosts":
            peers = (peer for peer in peers if peer.host is not None and peer.host != fact.host)
        elif self.across == "devices":
            peers = (peer for peer in peers if peer.host == fact.host)
        values = [getattr(peer, self.field) for peer in peers]
        return own, [value for value in values if value is not None]

    def asks(self) -> Iterator[tuple[str, str]]:
        """Its one field."""
        yield self.variable, self.field

    def test(self, b: Bindings, ctx: Context) -> Truth:
        """Unknown with fewer than `needed` peers."""
        own, others = self._others(b, ctx)
        return None if own is None or len(others) < self.needed else RELATIONS[self.relation](own, others)

    def trace(self, b: Bindings, ctx: Context) -> Trace:
        """With the values of the peers."""
        own, others = self._others(b, ctx)
        value = f"{_show(own)} against {_show(tuple(sorted(set(others), key=str)))} of {len(others)} peers"
        text = f"{self.variable}.{self.field} {self.relation} its peers ({self.across})"
        return Trace(text, self.test(b, ctx), value, f"peers of {self.kind}.{self.field}")


RELATIONS: dict[str, Callable[[Any, list[Any]], bool]] = {
    "below-all": lambda own, others: all(own < other for other in others),
    "above-all": lambda own, others: all(own > other for other in others),
    "differs-from-all": lambda own, others: all(own != other for other in others),
    "differs-from-any": lambda own, others: any(own != other for other in others),
    "equal-to-all": lambda own, others: all(own == other for other in others),
}


@dataclass(slots=True, frozen=True)
class Concluded:
    """An earlier finding of a rule or cause in a scope. It cannot be negated, so the order of rules never matters."""

    what: str  # rule or cause
    id: str
    within: str
    subject: str

    def asks(self) -> Iterator[tuple[str, str]]:
        """None: a finding has its own evidence."""
        yield from ()

    def test(self, b: Bindings, ctx: Context) -> Truth:
        """True once it was concluded."""
        subject = b.get(self.subject)
        for known in ctx.found:
            if getattr(known, self.what) != self.id:
                continue
            if self.within == "input" or getattr(known, self.within) in (None, getattr(subject, self.within, None)):
                return True
        return False

    def trace(self, b: Bindings, ctx: Context) -> Trace:
        """Without parts: the finding has its own proof."""
        return Trace(f"finding of {self.what} {self.id} within {self.within}", self.test(b, ctx))


# ------------------------------------------------------------------------------------------------------------- building


@dataclass(slots=True)
class Builder:
    """Turns the YAML of conditions into nodes, knowing which variables are bound so far."""

    thresholds: Mapping[str, float]
    variables: dict[str, str]  # variable: fact type
    subject: str

    def all(self, specs: object, path: Path) -> All:
        """A list of conditions that must all hold."""
        if not isinstance(specs, list) or not specs:
            raise ConditionError(path, "expected a list of conditions")
        return All(tuple(self.one(spec, (*path, i)) for i, spec in enumerate(specs)))

    def one(self, spec: object, path: Path) -> Node:
        """One condition; several keys of a mapping must all hold."""
        if not isinstance(spec, dict) or not spec:
            raise ConditionError(path, "expected a condition such as `port.state: ACTIVE`")
        nodes = [self._keyed(str(key), value, (*path, str(key))) for key, value in spec.items()]
        return nodes[0] if len(nodes) == 1 else All(tuple(nodes))

    def _keyed(self, key: str, value: object, path: Path) -> Node:
        if key == "all":
            return self.all(value, path)
        if key == "any":
            if not isinstance(value, list):
                raise ConditionError(path, "expected a list of conditions")
            return AnyOf(tuple(self._branch(spec, (*path, i)) for i, spec in enumerate(value)))
        if key in ("not", "not_shown"):
            if mentions(value, "finding"):
                raise ConditionError(path, "a finding cannot be negated: the order of rules would matter")
            part = self._branch(value, path)
            return Not(part) if key == "not" else NotShown(part)
        if key in ("exists", "none", "count"):
            return self._quantified(key, value, path)
        if key == "peers":
            return self._peers(value, path)
        if key == "finding":
            return self._finding(value, path)
        if "." in key:
            return self._compare(key, value, path)
        words = ("all", "any", "not", "not_shown", "exists", "none", "count", "peers", "finding")
        raise ConditionError(path, f"unknown condition {key}{near(key, words)}")

    def _branch(self, spec: object, path: Path) -> Node:
        """A part whose variables are not seen outside it."""
        inner = Builder(self.thresholds, dict(self.variables), self.subject)
        return inner.all(spec, path) if isinstance(spec, list) else inner.one(spec, path)

    def field(self, name: str, path: Path) -> tuple[str, str, str]:
        """`variable.field` -> variable, field, fact type."""
        variable, _, field_name = name.partition(".")
        kind = self.variables.get(variable)
        if kind is None:
            raise ConditionError(path, f"unknown variable {variable}{near(variable, self.variables)}")
        known = field_names(FACT_TYPES[kind])
        if field_name not in known:
            raise ConditionError(path, f"{kind} has no field {field_name}{near(field_name, known)}")
        return variable, field_name, kind

    def kind(self, name: object, path: Path) -> str:
        """The name of a fact type, if there is such a type."""
        if name not in FACT_TYPES:
            raise ConditionError(path, f"unknown fact type {name}{near(str(name), FACT_TYPES)}")
        return str(name)

    def _compare(self, key: str, value: object, path: Path) -> Node:
        variable, field_name, kind = self.field(key, path)
        if not isinstance(value, dict):
            value = {"in" if isinstance(value, list) else "is": value}
        nodes: list[Node] = []
        for operator, operand in value.items():
            here = (*path, str(operator))
            if operator == "known":
                nodes.append(IsKnown(variable, field_name, bool(operand)))
                continue
            if operator not in OPERATORS:
                raise ConditionError(here, f"unknown operator {operator}{near(str(operator), OPERATORS)}")
            nodes.append(Compare(variable, field_name, operator, self._operand(operator, operand, here), kind))
        return nodes[0] if len(nodes) == 1 else All(tuple(nodes))

    def _operand(self, operator: str, spec: object, path: Path) -> Operand:
        if isinstance(spec, dict):
            if set(spec) == {"field"}:
                variable, name, _ = self.field(str(spec["field"]), path)
                return FieldOf(variable, name)
            if set(spec) == {"share", "of"}:
                variable, name, _ = self.field(str(spec["of"]), path)
                return FieldOf(variable, name, self.threshold(spec["share"], path))
            raise ConditionError(path, "expected {field: variable.field} or {share: $threshold, of: variable.field}")
        if isinstance(spec, str) and spec.startswith("$"):
            return self.threshold(spec, path)
        if isinstance(spec, bool):
            return Constant(spec)
        if isinstance(spec, int | float):
            raise ConditionError(path, f"a bare number ({spec}): name it in knowledge/reference/thresholds.yaml")
        if operator in NUMERIC:
            raise ConditionError(path, f"{operator} compares numbers: expected $threshold, a field or a share of one")
        if operator in ("matches", "has_match", "first_matches"):
            return Constant(_pattern(str(spec), path))
        return Constant(tuple(spec) if isinstance(spec, list) else spec)

    def threshold(self, spec: object, path: Path) -> Constant:
        """`$name` -> its value."""
        name = str(spec).removeprefix("$")
        if not str(spec).startswith("$"):
            raise ConditionError(path, f"a bare number ({spec}): name it in knowledge/reference/thresholds.yaml")
        if name not in self.thresholds:
            raise ConditionError(path, f"unknown threshold {name}{near(name, self.thresholds)}")
        return Constant(self.thresholds[name], name)

    def _quantified(self, word: str, spec: object, path: Path) -> Quantified:
        allowed = {"within", "where", "of", "among"} | ({"is"} if word == "count" else set())
        if not isinstance(spec, dict):
            raise ConditionError(path, "expected `variable: fact-type`, with `within` and `where`")
        names = [key for key in spec if key not in allowed]
        if len(names) != 1:
            raise ConditionError(path, f"expected one `variable: fact-type` beside {', '.join(sorted(allowed))}")
        name = str(names[0])
        kind = self.kind(spec[name], (*path, name))
        within = spec.get("within", "input")
        if within not in WITHIN:
            raise ConditionError((*path, "within"), f"unknown scope {within}{near(str(within), WITHIN)}")
        subject = str(spec.get("of", self.subject))
        if subject not in self.variables:
            raise ConditionError((*path, "of"), f"unknown variable {subject}{near(subject, self.variables)}")
        if word != "exists" and (mentions(spec.get("where"), "finding") or mentions(spec.get("among"), "finding")):
            raise ConditionError(path, "a finding cannot be counted or negated: the order of rules would matter")
        inner = Builder(self.thresholds, {**self.variables, name: kind}, subject)
        where = inner.all(spec["where"], (*path, "where")) if "where" in spec else All(())
        among = inner.all(spec["among"], (*path, "among")) if "among" in spec else All(())
        if word != "none":
            self.variables[name] = kind
        if word != "count":
            return Quantified(word, name, kind, within, subject, where, among=among)
        operator, operand = self._number(spec.get("is"), (*path, "is"))
        return Quantified(word, name, kind, within, subject, where, operator, operand, among)

    def _number(self, spec: object, path: Path) -> tuple[str, Constant]:
        if not isinstance(spec, dict) or len(spec) != 1 or next(iter(spec)) not in NUMERIC:
            raise ConditionError(path, f"expected one of {', '.join(NUMERIC)} with a $threshold")
        operator, operand = next(iter(spec.items()))
        return str(operator), self.threshold(operand, path)

    def _peers(self, spec: object, path: Path) -> Peers:
        if not isinstance(spec, dict) or not {"of", "same", "is"} <= set(spec) <= {"of", "same", "is", "across"}:
            raise ConditionError(path, "expected of, same, is and perhaps across")
        variable, name, kind = self.field(str(spec["of"]), (*path, "of"))
        same = tuple(str(item) for item in spec["same"])
        for item in same:
            self.field(f"{variable}.{item}", (*path, "same"))
        across = spec.get("across", "hosts")
        if across not in ("hosts", "devices", "any"):
            raise ConditionError((*path, "across"), f"unknown {across}: expected hosts, devices or any")
        if spec["is"] not in RELATIONS:
            raise ConditionError((*path, "is"), f"unknown relation {spec['is']}{near(str(spec['is']), RELATIONS)}")
        return Peers(variable, name, kind, same, across, str(spec["is"]), int(self.thresholds["peers-needed"]))

    def _finding(self, spec: object, path: Path) -> Concluded:
        if not isinstance(spec, dict) or len(set(spec) & {"rule", "cause"}) != 1:
            raise ConditionError(path, "expected rule or cause, and perhaps within")
        what = "rule" if "rule" in spec else "cause"
        within = spec.get("within", "input")
        if within not in ("host", "run", "input"):
            raise ConditionError((*path, "within"), f"unknown scope {within}: expected host, run or input")
        return Concluded(what, str(spec[what]), within, self.subject)


def mentions(spec: object, word: str) -> bool:
    """Whether a word stands anywhere in a condition as a key."""
    if isinstance(spec, dict):
        return word in spec or any(mentions(value, word) for value in spec.values())
    return isinstance(spec, list) and any(mentions(item, word) for item in spec)


def _pattern(text: str, path: Path) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ConditionError(path, f"not a regular expression: {error}") from None
    return text
