"""Node lists as people write them: node[01-63]."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

_NUMBERED = re.compile(r"^(.*?)(\d+)(\D*)$")


def fold(hosts: Iterable[str]) -> list[str]:
    """Folded names, sorted: `fold(["node01", "node02", "node04", "login"])` gives `["login", "node[01-02,04]"]`."""
    alone: list[str] = []
    groups: dict[tuple[str, int, str], list[int]] = defaultdict(list)
    for host in sorted(set(hosts)):
        match = _NUMBERED.match(host)
        if match is None or re.fullmatch(r"[\d.:]+", host):
            alone.append(host)
        else:
            groups[match[1], len(match[2]), match[3]].append(int(match[2]))
    for (before, width, after), numbers in groups.items():
        ranges = _ranges(sorted(numbers), width)
        inner = ranges[0] if len(numbers) == 1 else f"[{','.join(ranges)}]"
        alone.append(f"{before}{inner}{after}")
    return sorted(alone)


def _ranges(numbers: list[int], width: int) -> list[str]:
    out: list[str] = []
    start = last = numbers[0]
    for number in [*numbers[1:], None]:
        if number is not None and number == last + 1:
            last = number
            continue
        out.append(f"{start:0{width}d}" if start == last else f"{start:0{width}d}-{last:0{width}d}")
        if number is not None:
            start = last = number
    return out
