"""The facts of one diagnosis: merged by identity, found by type."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar, cast

from advisor.facts.base import Conflict, Fact, fact_name, field_names

F = TypeVar("F", bound=Fact)


def _merge(old: Fact, new: Fact) -> bool:
    """Fill what `old` does not know from `new` if the two contradict nowhere; says whether they were one."""
    names = field_names(type(old))
    for name in names:
        if name in old.VOLATILE:
            continue
        known, other = getattr(old, name), getattr(new, name)
        if known is not None and other is not None and known != other:
            return False
    for name in names:
        if getattr(old, name) is None:
            setattr(old, name, getattr(new, name))
    old.origins = tuple(sorted({*old.origins, *new.origins}))
    old.said_at = {**new.said_at, **old.said_at}
    return True


def _disagreements(group: list[Fact]) -> Iterator[Conflict]:
    """One conflict fact for each field on which facts of one identity differ."""
    first = group[0]
    about = " ".join(str(part) for part in first.identity[3:])
    for name in field_names(type(first)):
        values: dict[str, Fact] = {}
        for fact in group:
            value = getattr(fact, name)
            if value is not None:
                values.setdefault(str(value), fact)
        if len(values) > 1:
            yield Conflict(
                host=first.host, run=first.run, fact=fact_name(type(first)), about=about, field=name,
                values=tuple(values), origins=tuple(fact.origins[0] for fact in values.values() if fact.origins),
            )  # fmt: skip


class FactStore:
    """Facts of one input, grouped by type; equal ones merged, unequal ones kept with a conflict beside them."""

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self._about: dict[type[Fact], dict[tuple[Any, ...], list[Fact]]] = defaultdict(dict)
        self.add(facts)

    def add(self, facts: Iterable[Fact]) -> None:
        """Merge facts in. The result does not depend on their order."""
        for fact in sorted(facts, key=lambda f: f.origins):
            group = self._about[type(fact)].setdefault(fact.identity, [])
            if not any(_merge(known, fact) for known in group):
                group.append(fact)

    def of(self, kind: type[F]) -> list[F]:
        """All facts of one type; conflicts are worked out when asked for."""
        if kind is Conflict:
            return cast(list[F], self._conflicts())
        return cast(list[F], [fact for group in self._about.get(kind, {}).values() for fact in group])

    def _conflicts(self) -> list[Conflict]:
        groups = (group for kind in self._kinds() for group in self._about[kind].values() if len(group) > 1)
        return [conflict for group in groups for conflict in _disagreements(group)]

    def _kinds(self) -> list[type[Fact]]:
        return sorted(self._about, key=lambda kind: kind.__name__)

    def __iter__(self) -> Iterator[Fact]:
        for kind in self._kinds():
            yield from self.of(kind)
        yield from self._conflicts()

    def __len__(self) -> int:
        return sum(len(self.of(kind)) for kind in self._about)
