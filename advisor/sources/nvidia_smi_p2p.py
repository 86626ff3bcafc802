r"""`nvidia-smi topo -p2p LETTER`: which GPUs of a host can reach each other's memory. Drivers 450 to 580.

The table looks like that of `topo -m`, with other cells. What was asked for (r read, w write, n NVLink, a atomics,
p PCI) is not printed; it is known from the command, or from a file named as this tool's collection names it.

>>> from advisor.sources.base import Segment
>>> SAMPLE = '''\
...  	GPU0	GPU1	GPU2
...  GPU0	X	OK	CNS
...  GPU1	OK	X	OK
...  GPU2	CNS	OK	X
... '''
>>> [fact] = parse(Segment("p2p.txt", SAMPLE.splitlines(), range(1, 9), command="nvidia-smi topo -p2p r"))
>>> fact.capability, fact.gpus, fact.states, fact.pairs, fact.refused_pairs, fact.all_ok
('read', 3, ('CNS', 'OK'), 3, ('GPU0-GPU2',), False)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from advisor.facts import Fact, GpuPeerAccess
from advisor.sources.base import Command, Problem, Segment, Source

_CAPABILITIES = {"r": "read", "w": "write", "n": "nvlink", "a": "atomics", "p": "pci"}
_ASKED = re.compile(r"p2p[ =_-]{1,2}([rwnap])(?![A-Za-z])")
_GPU = re.compile(r"GPU\d{1,3}")
_STATES = {"OK", "CNS", "GNS", "TNS", "NS", "U"}
_LEGEND = re.compile(r"\s*(?:Legend:|(?:X|OK|CNS|GNS|TNS|NS|U)\s+= .{1,60})\s*")
_MOST = 128  # GPUs of a host


@dataclass(slots=True)
class _Table:
    first: int
    last: int
    gpus: list[str]
    rows: dict[str, list[str]] = field(default_factory=dict)

    def add(self, tokens: list[str]) -> bool:
        """Take a row; False if it is none of this table."""
        if tokens[0] not in self.gpus or tokens[0] in self.rows or not _STATES.union("X").issuperset(tokens[1:]):
            return False
        self.rows[tokens[0]] = tokens[1 : len(self.gpus) + 1]
        return True

    def states(self) -> dict[tuple[str, str], set[str]]:
        """The cells of each pair of GPUs, of both directions where both were printed."""
        found: dict[tuple[str, str], set[str]] = {}
        for a, cells in self.rows.items():
            for b, cell in zip(self.gpus, cells, strict=False):
                if a != b and cell in _STATES:
                    pair = (a, b) if self.gpus.index(a) < self.gpus.index(b) else (b, a)
                    found.setdefault(pair, set()).add(cell)
        return dict(sorted(found.items(), key=lambda item: (int(item[0][0][3:]), int(item[0][1][3:]))))


def _tables(segment: Segment) -> list[_Table]:
    tables: list[_Table] = []
    for i, line in enumerate(segment.lines):
        tokens = line.split() if len(line) < 4000 else []
        if not tokens:
            continue
        if len(tokens) <= _MOST and all(map(_GPU.fullmatch, tokens)) and len(set(tokens)) == len(tokens):
            tables.append(_Table(i, i, tokens))
        elif tables and len(tokens) > 1 and tables[-1].add(tokens):
            tables[-1].last = i
    return tables


def _capability(segment: Segment) -> str | None:
    asked = _ASKED.search((segment.command or "")[:1000]) or _ASKED.search(segment.file[-200:])
    return _CAPABILITIES[asked[1]] if asked else None


def _fact(segment: Segment, table: _Table, capability: str | None) -> GpuPeerAccess:
    states = table.states()
    known = {pair: cells for pair, cells in states.items() if cells != {"U"}}
    every = len(table.gpus) * (len(table.gpus) - 1) // 2
    refused = tuple("-".join(pair) for pair, cells in known.items() if cells & (_STATES - {"OK", "U"}))
    return GpuPeerAccess(
        origins=(segment.origin(table.first, table.last),), capability=capability, gpus=len(table.gpus),
        states=tuple(sorted(set().union(*states.values()))), pairs=len(known), refused_pairs=refused,
        all_ok=False if refused else True if len(known) == every else None,
    )


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact for each table with a cell that only this command prints."""
    capability = _capability(segment)
    for table in _tables(segment):
        if not table.states():
            continue
        yield _fact(segment, table, capability)
        short = [gpu for gpu in table.gpus if len(table.rows.get(gpu, [])) < len(table.gpus)]
        if short:
            yield Problem(segment.numbers[table.last], f"rows are missing or cut: {', '.join(short[:8])}")
    for i, line in enumerate(segment.lines):
        if len(line) < 100 and _LEGEND.fullmatch(line):
            segment.skip(i)


SOURCE = Source(
    id="nvidia-smi-p2p",
    title="nvidia-smi topo -p2p",
    facts=(GpuPeerAccess,),
    needles=("GPU0", "GPU1"),
    signature=re.compile(
        r"^ ?GPU\d{1,3}[ \t]+(?:(?:X|OK|[CGT]?NS|U)[ \t]+){0,127}(?:OK|[CGT]?NS)[ \t]*(?:[XOCGTNU]|$)", re.M
    ),
    parse=parse,
    commands=(
        Command(("nvidia-smi", "topo", "-p2p", "r"), seconds=2, timeout=20),
        Command(("nvidia-smi", "topo", "-p2p", "n"), seconds=2, timeout=20),
    ),
    versions="drivers 450 to 580",
)
