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
from advisor.sources.base import Segment, Source


@cache
def load(source: str) -> Source:
    """A source by its id."""
    found: Source = import_module(f"{__name__}.{source.replace('-', '_')}").SOURCE
    return found


def all_sources() -> list[Source]:
    """Every source, sorted by id."""
    names = (module.name for module in iter_modules(__path__) if module.name != "base")
    return sorted(map(load, names), key=lambda source: source.id)


def candidates(segment: Segment) -> Iterator[Source]:
    """The sources whose output the segment can hold, sorted by id."""
    for source, known in catalogue()["sources"].items():
        text = segment.text if known["in_nccl_lines"] else segment.searched
        if any(needle in text for needle in known["needles"]):
            yield load(source)
