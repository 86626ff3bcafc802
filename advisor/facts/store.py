"""The facts of one diagnosis: merged by identity, found by type, host and run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TypeVar, cast

from advisor.facts.base import Conflict, Fact, fact_name, field_names

F = TypeVar("F", bound=Fact)


def _merge(old: Fact, new: Fact) -> bool:
    """Fill what `old` does not know from `new` if the two contradict nowhere; says whether they were one."""
    names = field_names(type(old))
    for name in names:
        known, other = getattr(old, name), getattr(new, name)
        if known is not None and other is not None and known != other:
            return False
    for name in names:
        if getattr(old, name) is None:
            setattr(old, name, getattr(new, name))
    old.origins = tuple(sorted({*old.origins, *new.origins}))
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
            origins = tuple(fact.origins[0] for fact in values.values() if fact.origins)
            yield Conflict(
                host=first.host, run=first.run, origins=origins, fact=fact_name(type(first)), about=about, field=name,
                values=tuple(values),
            )


class FactStore:
    """Facts of one input, grouped by type; equal ones merged, unequal ones kept with a conflict beside them."""

    def __init__(self, facts: Iterable[Fact] = ()) -> None:
        self._by_type: dict[type[Fact], list[Fact]] = defaultdict(list)
        self.add(facts)

    def add(self, facts: Iterable[Fact]) -> None:
        """Merge facts in. The result does not depend on their order."""
        groups: dict[tuple[object, ...], list[Fact]] = defaultdict(list)
        for fact in sorted(facts, key=lambda f: f.origins):
            groups[fact.identity].append(fact)
        for group in groups.values():
            distinct: list[Fact] = []
            for fact in group:
                if not any(_merge(known, fact) for known in distinct):
                    distinct.append(fact)
            self._by_type[type(distinct[0])].extend(distinct)
            if len(distinct) > 1:
                self._by_type[Conflict].extend(_disagreements(distinct))

    def of(self, kind: type[F]) -> list[F]:
        """All facts of one type."""
        return cast(list[F], self._by_type.get(kind, []))

    def __iter__(self) -> Iterator[Fact]:
        for kind in sorted(self._by_type, key=lambda k: k.__name__):
            yield from self._by_type[kind]

    def __len__(self) -> int:
        return sum(map(len, self._by_type.values()))
