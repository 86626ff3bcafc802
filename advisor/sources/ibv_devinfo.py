r"""`ibv_devinfo`, plain and `-v`: RDMA devices, their ports, MTU and GID table. rdma-core 17 to 5x seen.

With -v speeds are per lane, and tools older than the card print `invalid speed (64)`: the code in parentheses is
right in both. GIDs come in short and in long spelling in one listing; old tools leave out their type.

>>> from advisor.sources.base import Segment
>>> SAMPLE = '''\
... hca_id:	mlx5_1
... 	transport:			InfiniBand (0)
... 	fw_ver:				22.38.1002
... 	node_guid:			b8ce:f603:0011:2244
... 	vendor_id:			0x02c9
... 	vendor_part_id:			4125
... 		port:	1
... 			state:			PORT_ACTIVE (4)
... 			max_mtu:		4096 (5)
... 			active_mtu:		1024 (3)
... 			sm_lid:			0
... 			link_layer:		Ethernet
... 			active_width:		4X (2)
... 			active_speed:		25.0 Gbps (32)
... 			phys_state:		LINK_UP (5)
... 			GID[  3]:		::ffff:10.9.0.12, RoCE v2
... '''
>>> port, gid = parse(Segment("ibv.txt", SAMPLE.splitlines(), range(1, 99)))
>>> port.device, port.state, port.rate_gbit_s, port.width, port.speed, port.active_mtu_bytes, port.board
('mlx5_1', 'ACTIVE', 100.0, 4, 'EDR', 1024, 'MT4125')
>>> gid.device, gid.index, gid.type, gid.address, gid.family
('mlx5_1', 3, 'v2', '10.9.0.12', 'ipv4')
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from advisor.facts import Fact, RdmaAbsent, RdmaPort, RoceGid
from advisor.grammar.hardware import (
    gid,
    gid_address,
    guid,
    integer,
    link_layer,
    phys_state,
    port_state,
    roce_type,
    value,
)
from advisor.sources.base import Command, Problem, Segment, Source

_DEVICE = re.compile(r"\s*hca_id:\s+(\S{1,64})\s*")
_PORT = re.compile(r"\s*port:\s+(\d{1,3})\s*")
_GID = re.compile(r"\s*GID\[\s*(\d{1,4})\]:\s+([0-9A-Fa-f:.]{2,45})(?:, (\S[^,]{0,20}))?\s*")
_ROW = re.compile(r"\s*([a-z][\w ]{1,40}):\s+(\S.*)")
_CAPABILITY = re.compile(r"\s+(?:[\w ]{1,60}:.*|[A-Z0-9_]{3,60}|Unknown flags: .*|[\w /-]{1,60})")
_ABSENT = re.compile(r"\s*(?:No IB devices found|Failed to get IB devices list: .{1,200})\s*")
_FAILED = re.compile(r"\s*(Failed to (?:open device|query (?:device|port)).{0,200})")
_CODE = re.compile(r"\((\d{1,4})\)\s*$")
_LANES = {1: 1, 2: 4, 4: 8, 8: 12, 16: 2}  # codes of the InfiniBand attribute PortInfo.LinkWidthActive
_SPEEDS = {  # codes of LinkSpeedActive: name, Gb/s of one lane as the kernel counts them
    1: ("SDR", 2.5), 2: ("DDR", 5.0), 4: ("QDR", 10.0), 8: ("FDR10", 10.0), 16: ("FDR", 14.0), 32: ("EDR", 25.0),
    64: ("HDR", 50.0), 128: ("NDR", 100.0), 256: ("XDR", 200.0),
}
_MELLANOX = 0x02C9


@dataclass(slots=True)
class _Port:
    device: str | None
    number: int | None
    first: int
    last: int
    board: dict[str, str]
    rows: dict[str, str] = field(default_factory=dict)
    gids: list[tuple[int, re.Match[str]]] = field(default_factory=list)

    def get(self, key: str) -> str:
        return self.rows.get(key, "")


def _code(text: str) -> int | None:
    match = _CODE.search(text)
    return int(match[1]) if match else None


def _mtu(text: str) -> int | None:
    return integer(text.partition(" ")[0])


def _link(port: _Port) -> tuple[float | None, int | None, str | None]:
    """Gb/s of all lanes, lanes, and name of the speed."""
    lanes = _LANES.get(_code(port.get("active_width")) or 0)
    name, lane_gbit_s = _SPEEDS.get(_code(port.get("active_speed")) or 0, (None, None))
    rate = lane_gbit_s * lanes if lane_gbit_s and lanes else None
    return rate, lanes, name


def _board(rows: dict[str, str]) -> str | None:
    part = integer(rows.get("vendor_part_id", ""))
    return f"MT{part}" if part and integer(rows.get("vendor_id", "")) == _MELLANOX else None


def _gids(segment: Segment, port: _Port) -> Iterator[RoceGid]:
    """Entries of the GID table; an InfiniBand port's entries are of type `ib` also where the tool does not say so."""
    on_infiniband = link_layer(port.get("link_layer")) == "InfiniBand"
    for i, match in port.gids:
        spelled = gid(match[2])
        if spelled is None:
            continue
        kind = roce_type(match[3] or "") or ("ib" if on_infiniband else None)
        address, family = (None, None) if kind == "ib" else gid_address(spelled)
        yield RoceGid(
            origins=(segment.origin(i),), device=port.device, port=port.number, index=int(match[1]), gid=spelled,
            type=kind, address=address, family=family,
        )


def _port_fact(segment: Segment, port: _Port) -> RdmaPort:
    rate, lanes, speed = _link(port)
    board = port.board
    origin = segment.origin(port.first, text=f"hca_id: {port.device} {segment.lines[port.first].strip()}")
    return RdmaPort(
        origins=(replace(origin, end=segment.numbers[port.last]),), device=port.device or "", port=port.number or 0,
        state=port_state(port.get("state")), phys_state=phys_state(port.get("phys_state")), rate_gbit_s=rate,
        width=lanes, speed=speed, link_layer=link_layer(port.get("link_layer")), board=_board(board),
        firmware=value(board.get("fw_ver", "")), node_guid=guid(board.get("node_guid", "")),
        system_guid=guid(board.get("sys_image_guid", "")), sm_lid=integer(port.get("sm_lid")),
        active_mtu_bytes=_mtu(port.get("active_mtu")), max_mtu_bytes=_mtu(port.get("max_mtu")),
    )


def _ports(segment: Segment) -> list[_Port]:
    ports: list[_Port] = []
    name: str | None = None
    board: dict[str, str] = {}
    current: _Port | None = None
    for i, line in enumerate(segment.lines):
        if found := _DEVICE.fullmatch(line):
            name, board, current = found[1], {}, None
            segment.skip(i)
        elif name and (found := _PORT.fullmatch(line)):
            current = _Port(name, int(found[1]), i, i, board)
            ports.append(current)
        elif found := _GID.fullmatch(line):
            if current is None:  # a pasted part of a listing
                current = _Port(name, None, i, i, board)
                ports.append(current)
            current.gids.append((i, found))
            segment.skip(i)
        elif name and (found := _ROW.fullmatch(line)):
            rows = board if current is None else current.rows
            rows.setdefault(found[1], found[2].strip())
            if current:
                current.last = i
            segment.skip(i)
        elif name and len(line) < 200 and _CAPABILITY.fullmatch(line):
            segment.skip(i)
    return ports


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """A fact for each port and each entry of its GID table, or the one that there is no device."""
    for port in _ports(segment):
        if port.device is not None and port.number is not None:
            yield _port_fact(segment, port)
            if "state" not in port.rows:
                yield Problem(segment.numbers[port.last], f"the block of {port.device} port {port.number} is cut off")
        yield from _gids(segment, port)
    tool = "ibv_devices" if (segment.command or "").startswith("ibv_devices") else "ibv_devinfo"
    for i, line in enumerate(segment.lines):
        if len(line) > 400 or ("No IB" not in line and "Failed to" not in line):
            continue
        if _ABSENT.fullmatch(line):
            yield RdmaAbsent(origins=(segment.origin(i),), tool=tool)
        elif failed := _FAILED.fullmatch(line):
            segment.skip(i)
            yield Problem(segment.numbers[i], f"ibv_devinfo could not read a device: {failed[1]}")


SOURCE = Source(
    id="ibv-devinfo",
    title="ibv_devinfo",
    facts=(RdmaPort, RoceGid, RdmaAbsent),
    needles=("hca_id:", "GID[", "No IB devices found", "Failed to get IB devices list"),
    signature=re.compile(
        r"^[ \t]*(?:hca_id:[ \t]+\S|GID\[ *\d+\]:[ \t]|No IB devices found[ \t]*$|Failed to get IB devices list: )",
        re.M,
    ),
    parse=parse,
    commands=(Command(("ibv_devinfo", "-v"), stderr=True),),
    versions="rdma-core 17 to 5x",
)
