"""Sets of moments as sorted lists of (start, end) that do not touch: how long did A happen while B did not."""

from __future__ import annotations

from collections.abc import Iterable

Intervals = list[tuple[float, float]]


def union(spans: Iterable[tuple[float, float]]) -> Intervals:
    """Any spans, overlapping and in any order, as a set; empty and backward ones are dropped.

    >>> union([(4, 6), (0, 2), (1, 3), (3, 3)])
    [(0, 3), (4, 6)]
    """
    merged: Intervals = []
    for start, end in sorted(spans):
        if end <= start:
            continue
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def length(spans: Intervals) -> float:
    """How long a set lasts together."""
    return sum(end - start for start, end in spans)


def common(a: Intervals, b: Intervals) -> Intervals:
    """What is in both sets.

    >>> common([(0, 5), (7, 9)], [(3, 8)])
    [(3, 5), (7, 8)]
    """
    found: Intervals = []
    i = j = 0
    while i < len(a) and j < len(b):
        start, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if start < end:
            found.append((start, end))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return found


def without(a: Intervals, b: Intervals) -> Intervals:
    """What is in `a` and not in `b`.

    >>> without([(0, 5), (7, 9)], [(1, 2), (4, 8)])
    [(0, 1), (2, 4), (8, 9)]
    """
    found: Intervals = []
    j = 0
    for start, end in a:
        while j < len(b) and b[j][1] <= start:
            j += 1
        left, k = start, j
        while k < len(b) and b[k][0] < end:
            if b[k][0] > left:
                found.append((left, b[k][0]))
            left = max(left, b[k][1])
            k += 1
        if left < end:
            found.append((left, end))
    return found
