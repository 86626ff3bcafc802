"""`numactl -H`: NUMA nodes, their processors and memory. MB are 2^20 bytes.

    >>> SAMPLE = '''available: 2 nodes (0-1)
    ... node 0 cpus: 0 1 2 3 8 9
    ... node 0 size: 1024 MB
    ... node 0 free: 512 MB
    ... node 1 cpus: 4 5 6 7
    ... node distances:
    ... node   0   1
    ...   0:  10  21
    ...   1:  21  10
    ... '''
    >>> segment = Segment("numactl.txt", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.node, f.cpus, f.cpu_count, f.size_bytes, f.distances) for f in parse(segment)]
    [(0, '0-3,8-9', 6, 1073741824, (10, 21)), (1, '4-7', 4, None, (21, 10))]
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.facts import Fact, NumaNode
from advisor.sources.base import Command, Problem, Segment, Source

_AVAILABLE = re.compile(r"^available: \d+ nodes? \(")
_CPUS = re.compile(r"^node (\d{1,4}) cpus:((?: \d{1,5})*) *$")
_MEMORY = re.compile(r"^node (\d{1,4}) (size|free): (\d{1,12}) MB *$")
_DISTANCES = re.compile(r"^ {1,4}(\d{1,4}): +(\d{1,4}(?: +\d{1,4})*) *$")
_TITLES = re.compile(r"^node distances:|^node(?: +\d{1,4})+ *$|^No NUMA (?:support )?available")


def ranges(numbers: list[int]) -> str:
    """`[0, 1, 2, 8]` -> `0-2,8`."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact a node (MB printed, bytes kept)."""
    nodes: dict[int, NumaNode] = {}
    places: dict[int, list[int]] = {}

    def node(number: str, index: int) -> NumaNode:
        places.setdefault(int(number), []).append(index)
        segment.skip(index)
        return nodes.setdefault(int(number), NumaNode(node=int(number)))

    for index, line in enumerate(segment.lines):
        if len(line) > 20_000:
            continue
        if m := _CPUS.match(line):
            cpus = [int(cpu) for cpu in m[2].split()]
            fact = node(m[1], index)
            fact.cpus, fact.cpu_count = ranges(cpus), len(cpus)
        elif m := _MEMORY.match(line):
            setattr(node(m[1], index), f"{m[2]}_bytes", int(m[3]) * 2**20)
        elif nodes and (m := _DISTANCES.match(line)):
            node(m[1], index).distances = tuple(int(text) for text in m[2].split())
        elif _AVAILABLE.match(line) or (nodes and _TITLES.match(line)):
            segment.skip(index)
    for number, fact in nodes.items():
        lines = places[number]
        fact.origins = (segment.origin(lines[0]),)
        yield fact


SOURCE = Source(
    id="numactl",
    title="numactl -H (NUMA nodes)",
    facts=(NumaNode,),
    needles=("nodes (", " cpus:"),
    signature=re.compile(r"^available: \d+ nodes? \(|^node \d+ cpus:", re.MULTILINE),
    parse=parse,
    commands=(Command(("numactl", "-H")),),
    versions="numactl 2.0.9 to 2.0.19",
)
