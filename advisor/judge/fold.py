"""Chains: a cause that another one brings about is folded under it, down to the root."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.judge.confidence import LEVELS, Judged


def _together(a: Judged, b: Judged) -> bool:
    """Whether two causes can be about the same machines and the same run."""
    hosts = not a.hosts or not b.hosts or bool(set(a.hosts) & set(b.hosts))
    runs = not a.runs or not b.runs or bool(a.runs & b.runs)
    return hosts and runs


def fold(causes: Sequence[Judged], pages: Mapping[str, Mapping[str, Any]]) -> None:
    """Fill in `caused_by`. A parent must be at least as sure as its child, or likely."""
    by_id = {cause.id: cause for cause in causes}
    for cause in causes:
        for parent_id in pages[cause.id]["parents"]:
            parent = by_id.get(parent_id)
            if parent is None or parent is cause or not _together(cause, parent) or _leads_to(parent, cause, by_id):
                continue
            level = LEVELS.index(parent.confidence)
            if level >= min(LEVELS.index(cause.confidence), LEVELS.index("likely")) and not parent.contradicted:
                cause.caused_by.append(parent_id)


def _leads_to(start: Judged, target: Judged, by_id: Mapping[str, Judged]) -> bool:
    """Whether following `caused_by` from start comes to target: folding would make a circle."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        cause = waiting.pop()
        if target.id in cause.caused_by:
            return True
        seen.add(cause.id)
        waiting += [by_id[i] for i in cause.caused_by if i not in seen]
    return False
