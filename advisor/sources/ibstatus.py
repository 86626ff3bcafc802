r"""`ibstatus`: state and rate of RDMA ports, and the sysfs files it reads, as `grep` prints them.

infiniband-diags 1.6 to rdma-core 5x; the values are the kernel's. Kernels that do not know a speed print it as SDR
(`10 Gb/sec (4X)`), so a low rate may be the name's fault. Ethernet ports print an InfiniBand-like rate as well, and
have subnet manager LID 0 by nature.

>>> from advisor.sources.base import Segment
>>> SAMPLE = '''\
... Infiniband device 'mlx5_4' port 1 status:
... 	default gid:	 fe80:0000:0000:0000:5000:0001:0002:0003
... 	base lid:	 0x2a
... 	sm lid:		 0x3
... 	state:		 2: INIT
... 	phys state:	 5: LinkUp
... 	rate:		 100 Gb/sec (2X HDR)
... 	link_layer:	 InfiniBand
... '''
>>> [port] = parse(Segment("ibstatus.txt", SAMPLE.splitlines(), range(1, 99)))
>>> port.device, port.port, port.state, port.phys_state, port.rate_gbit_s, port.width, port.speed, port.sm_lid
('mlx5_4', 1, 'INIT', 'LinkUp', 100.0, 2, 'HDR', 3)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from advisor.facts import Fact, RdmaAbsent, RdmaPort
from advisor.grammar.hardware import ib_rate, integer, link_layer, phys_state, port_state
from advisor.sources.base import Command, Problem, Segment, Source

_HEADER = re.compile(r"\s*Infiniband device '([^'\s]{1,64})' port (\d{1,3}) status:\s*")
_ROW = re.compile(r"\s*(default gid|base lid|sm lid|state|phys state|rate|link_layer):\s*(.*)")
_SYSFS = re.compile(
    r"/sys/class/infiniband/([^/\s:]{1,64})/ports/(\d{1,3})/(state|phys_state|rate|link_layer|sm_lid|lid):(.*)"
)
_NAMES = {"sm_lid": "sm lid", "phys_state": "phys state", "lid": "base lid"}
_NO_DEVICE = re.compile(r"\s*Fatal error:\s+No devices\s*")


@dataclass(slots=True)
class _Block:
    device: str
    port: int
    first: int
    last: int
    rows: dict[str, str] = field(default_factory=dict)


def _fact(segment: Segment, block: _Block) -> RdmaPort:
    rows = block.rows
    rate, width, speed = ib_rate(rows.get("rate", ""))
    origin = replace(segment.origin(block.first), end=segment.numbers[block.last])  # other lines may stand between
    return RdmaPort(
        origins=(origin,), device=block.device, port=block.port,
        state=port_state(rows.get("state", "")), phys_state=phys_state(rows.get("phys state", "")),
        rate_gbit_s=rate, width=width, speed=speed, link_layer=link_layer(rows.get("link_layer", "")),
        sm_lid=integer(rows.get("sm lid", "")),
    )


def _sysfs(segment: Segment) -> Iterator[RdmaPort]:
    """Ports from lines `/sys/class/infiniband/mlx5_0/ports/1/rate:200 Gb/sec (4X HDR)`."""
    blocks: dict[tuple[str, int], _Block] = {}
    for i, line in enumerate(segment.lines):
        match = _SYSFS.fullmatch(line)
        if match:
            segment.skip(i)
            block = blocks.setdefault((match[1], int(match[2])), _Block(match[1], int(match[2]), i, i))
            block.last = i
            block.rows.setdefault(_NAMES.get(match[3], match[3]), match[4].strip())
    for block in blocks.values():
        yield _fact(segment, block)


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """A fact for each port, or the one that there is no device."""
    blocks: list[_Block] = []
    for i, line in enumerate(segment.lines):
        header = _HEADER.fullmatch(line)
        row = _ROW.fullmatch(line) if blocks and not header else None
        if header:
            blocks.append(_Block(header[1], int(header[2]), i, i))
        elif row and row[1] not in blocks[-1].rows:
            blocks[-1].rows[row[1]] = row[2]
            blocks[-1].last = i
            segment.skip(i)
        elif _NO_DEVICE.fullmatch(line):
            yield RdmaAbsent(origins=(segment.origin(i),), tool="ibstatus")
    for block in blocks:
        yield _fact(segment, block)
        if not {"state", "rate"} <= block.rows.keys():
            yield Problem(segment.numbers[block.last], f"the block of {block.device} port {block.port} is cut off")
    yield from _sysfs(segment)


SOURCE = Source(
    id="ibstatus",
    title="ibstatus",
    facts=(RdmaPort, RdmaAbsent),
    needles=("Infiniband device '", "Fatal error:", "/sys/class/infiniband/"),
    signature=re.compile(
        r"^[ \t]*Infiniband device '[^'\s]{1,64}' port \d+ status:|^[ \t]*Fatal error:[ \t]+No devices[ \t]*$"
        r"|^/sys/class/infiniband/[^/\s:]{1,64}/ports/\d{1,3}/(?:state|phys_state|rate|link_layer|sm_lid):",
        re.M,
    ),
    parse=parse,
    commands=(
        Command(("ibstatus",), stderr=True),
        Command((
            "find", "-L", "/sys/class/infiniband", "-maxdepth", "4",
            "(", "-name", "device", "-o", "-name", "subsystem", ")", "-prune", "-o", "-path", "*/ports/*",
            "(", "-name", "state", "-o", "-name", "phys_state", "-o", "-name", "rate", "-o", "-name", "link_layer",
            "-o", "-name", "sm_lid", ")", "-exec", "grep", "-sH", ".", "{}", "+",
        )),
    ),
    versions="infiniband-diags 1.6 to rdma-core 5x",
)
