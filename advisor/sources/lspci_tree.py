r"""`lspci -tv`: which PCI devices stand below which bridge. pciutils 3.1 to 3.13.

Columns carry the tree: a line goes on at the branch above whose `+` or `\` stands in the same column, so a paste that
lost its blanks is refused. The tree names no classes and no links.

>>> from advisor.sources.base import Segment
>>> SAMPLE = '''\
... -+-[0000:16]---01.0-[17-1a]----00.0-[18-1a]--+-00.0-[19]----00.0  NVIDIA Corporation Device 2330
...  |                                           \\-01.0-[1a]----00.0  Mellanox Technologies MT2910 Family
...  \\-[0000:00]-+-00.0  Intel Corporation Device 09a2
... '''
>>> [(f.bdf, f.parent, f.device_text) for f in parse(Segment("t.txt", SAMPLE.splitlines(), range(1, 9))) if f.parent]
... # doctest: +NORMALIZE_WHITESPACE
[('0000:17:00.0', '0000:16:01.0', None), ('0000:18:00.0', '0000:17:00.0', None),
 ('0000:19:00.0', '0000:18:00.0', 'NVIDIA Corporation Device 2330'), ('0000:18:01.0', '0000:17:00.0', None),
 ('0000:1a:00.0', '0000:18:01.0', 'Mellanox Technologies MT2910 Family')]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from advisor.facts import Fact, PciLink
from advisor.grammar.hardware import pci_address
from advisor.sources.base import Command, Problem, Segment, Source

_WIDEST = 1000
_TREE = re.compile(r"[ |]{0,300}(?:-?[-+\\]-|-\[)[-+\\\[\]:.0-9a-f]{4,400}(?:  \S.*)?\s*")
_NODE = re.compile(
    r"\[(?P<domain>[0-9a-f]{4,8}):(?P<root>[0-9a-f]{2})(?:-[0-9a-f]{2})?\]"
    r"|(?<![0-9a-f])(?P<device>[0-9a-f]{2}\.[0-7])(?:-\[(?P<bus>[0-9a-f]{2})(?:-[0-9a-f]{2})?\])?"
)
_NAME = re.compile(r"  (\S.*?)\s*$")
_IDS = re.compile(r"(?<=\S) \[[0-9a-f]{4}:[0-9a-f]{4}\]$")  # printed with -nn only


@dataclass(slots=True, frozen=True)
class _Bus:
    """A bus, and the bridge that leads to it; the bridge of a root bus is None."""

    domain: str
    number: str
    bridge: str | None


@dataclass(slots=True)
class _Tree:
    """The branches that are open, by the column of their `+`."""

    branches: dict[int, _Bus] = field(default_factory=dict)
    lost: bool = False

    def nodes(self, line: str) -> Iterator[tuple[str, str | None, bool]]:
        """(address, bridge above, is a bridge itself) of each device of a line."""
        bus: _Bus | None = None
        for node in _NODE.finditer(line):
            if node["root"]:
                bus = _Bus(node["domain"], node["root"], None)
                continue
            column = node.start() - 2
            mark = line[column] if column >= 0 else ""
            if bus is None:
                bus = self.branches.get(column)
            if bus is None:
                self.lost = True
                return
            if mark == "+":
                self.branches[column] = bus
            address = pci_address(f"{bus.domain}:{bus.number}:{node['device']}")
            if address is None:
                return
            yield address, bus.bridge, node["bus"] is not None
            if node["bus"] is None:
                return
            bus = _Bus(bus.domain, node["bus"], address)


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact for each device, with the bridge above it; the name of those that are no bridge."""
    tree = _Tree()
    for i, line in enumerate(segment.lines):
        if len(line) > _WIDEST or not _TREE.fullmatch(line):
            continue
        was_lost = tree.lost
        for address, bridge, is_bridge in tree.nodes(line):
            name = None if is_bridge else _NAME.search(line.lstrip(" |"))
            yield PciLink(
                origins=(segment.origin(i),), bdf=address, parent=bridge, kind="bridge" if is_bridge else None,
                device_text=_IDS.sub("", name[1]) if name else None,
            )
        if tree.lost and not was_lost:
            yield Problem(segment.numbers[i], "the columns of the tree are lost: no branch stands above this line")


SOURCE = Source(
    id="lspci-tree",
    title="lspci -tv",
    facts=(PciLink,),
    needles=("]-", "]--"),
    signature=re.compile(r"^-(?:\+-)?\[[0-9a-f]{4,8}:[0-9a-f]{2}(?:-[0-9a-f]{2})?\]-", re.M),
    parse=parse,
    commands=(Command(("lspci", "-tv"), seconds=1, timeout=15),),
    versions="pciutils 3.1 to 3.13",
)
