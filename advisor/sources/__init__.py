"""The sources, found by walking this package: a new tool is one new module with a `SOURCE`.

Reading imports only the modules whose tools a text can be of: which strings each tool always prints stands in the
compiled catalogue, so that start-up does not grow with the number of tools.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from advisor.data import catalogue
from advisor.sources.base import Source


@cache
def load(source: str) -> Source:
    """A source by its id."""
    found: Source = import_module(f"{__name__}.{source.replace('-', '_')}").SOURCE
    return found


def all_sources() -> list[Source]:
    """Every source, sorted by id."""
    names = (module.name for module in iter_modules(__path__) if module.name != "base")
    return sorted(map(load, names), key=lambda source: source.id)


def candidates(text: str) -> Iterator[Source]:
    """The sources whose output the text can hold, sorted by id."""
    for source, needles in catalogue()["sources"].items():
        if any(needle in text for needle in needles):
            yield load(source)
