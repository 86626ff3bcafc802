"""The sources, found by walking this package: a new tool is one new module with a `SOURCE`."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from advisor.sources.base import Source


@cache
def all_sources() -> tuple[Source, ...]:
    """Every source, sorted by id."""
    names = (module.name for module in iter_modules(__path__) if module.name != "base")
    found = [import_module(f"{__name__}.{name}").SOURCE for name in names]
    return tuple(sorted(found, key=lambda source: source.id))
