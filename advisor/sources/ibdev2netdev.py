r"""`ibdev2netdev`: which network interface belongs to which RDMA port.

MLNX_OFED and DOCA-OFED, plain and -v, and the arrow `<===>` of old releases. Only -v gives the port's own state; what
stands last in a line is that of the interface.

>>> from advisor.sources.base import Segment
>>> SAMPLE = '''\
... mlx5_1 port 1 ==> ibs3f1 (Down)
... 0000:5e:00.0 mlx5_4 (MT4123 - MCX653106A-HDAT) ConnectX-6 card fw 20.39.2048 port 1 (ACTIVE) ==> ens5 (Up)
... '''
>>> for f in parse(Segment("map.txt", SAMPLE.splitlines(), range(1, 99))):
...     print(f.device, f.port, f.netdev, f.netdev_up, f.state, f.board, f.firmware, f.pci)
mlx5_1 1 ibs3f1 False None None None None
mlx5_4 1 ens5 True ACTIVE MT4123 20.39.2048 0000:5e:00.0
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.facts import Fact, RdmaPort
from advisor.grammar.hardware import pci_address, port_state
from advisor.sources.base import Command, Problem, Segment, Source

_LONGEST = 600
_ROW = re.compile(
    r"\s*(?:(?P<pci>[0-9A-Fa-f:.]{7,20})\s+)?(?P<device>[A-Za-z][\w.-]{0,63})\s+"
    r"(?:\((?P<board>MT\d{1,9})?\s*-[^)]{0,100}\)(?P<card>.{0,300}?)\s+)?port\s+(?P<port>\d{1,3})"
    r"(?:\s+\((?P<state>\w{1,20})\s*\))?\s+(?P<arrow>==>|<===>)"
    r"(?:\s+(?P<netdev>[^\s()]{1,64}))?(?:\s+\((?P<up>\w{0,20})\s*\))?\s*"
)
_FIRMWARE = re.compile(r"\bfw\s+(\d[\w.]{0,30})")
_UP = {"up": True, "down": False}


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One port a line; a port without an interface is recognised and left out."""
    for i, line in enumerate(segment.lines):
        row = _ROW.fullmatch(line) if "=>" in line and len(line) < _LONGEST else None
        if not row:
            continue
        segment.skip(i)
        if row["arrow"] == "==>" and row["up"] is None:  # only old releases end without the state of the interface
            yield Problem(segment.numbers[i], "the line of a port is cut off")
            continue
        if not row["netdev"]:
            continue
        firmware = _FIRMWARE.search(row["card"] or "")
        yield RdmaPort(
            origins=(segment.origin(i),), device=row["device"], port=int(row["port"]),
            state=port_state(row["state"] or ""), board=row["board"], firmware=firmware[1] if firmware else None,
            pci=pci_address(row["pci"] or ""), netdev=row["netdev"], netdev_up=_UP.get((row["up"] or "").lower()),
        )  # fmt: skip


SOURCE = Source(
    id="ibdev2netdev",
    title="ibdev2netdev",
    facts=(RdmaPort,),
    needles=("==>", "<===>"),
    signature=re.compile(r"\bport[ \t]+\d{1,3}[ \t]+(?:\(\w{1,20}[ \t]*\)[ \t]+)?(?:==>|<===>)"),
    parse=parse,
    commands=(Command(("ibdev2netdev", "-v")),),
    versions="MLNX_OFED 3 to 24, DOCA-OFED",
)
