r"""`ibstat`: RDMA devices and their ports. infiniband-diags 2.x and rdma-core up to 5x seen.

The rate has neither lanes nor the name of the speed: `100` is 4X EDR as well as 2X HDR. `40 (FDR10)` is the one
exception. Without a device or driver it prints nothing at all, which says nothing.

>>> from advisor.sources.base import Segment
>>> SAMPLE = '''\
... CA 'mlx5_3'
... 	CA type: MT4123
... 	Number of ports: 1
... 	Firmware version: 20.41.1000
... 	Node GUID: 0x1c34da0300112233
... 	Port 1:
... 		State: Initializing
... 		Physical state: LinkUp
... 		Rate: 200
... 		Base lid: 65535
... 		SM lid: 0
... 		Link layer: InfiniBand
... '''
>>> [port] = parse(Segment("ibstat.txt", SAMPLE.splitlines(), range(1, 99)))
>>> port.device, port.port, port.state, port.rate_gbit_s, port.width, port.board, port.sm_lid, port.node_guid
('mlx5_3', 1, 'INIT', 200.0, None, 'MT4123', 0, '1c34da0300112233')
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from advisor.facts import Fact, RdmaPort
from advisor.grammar.hardware import guid, integer, link_layer, phys_state, port_state, value
from advisor.sources.base import Command, Problem, Segment, Source

_CA = re.compile(r"\s*CA:? '([^'\s]{1,64})'\s*")
_PORT = re.compile(r"\s*Port (\d{1,3}):\s*")
_ROW = re.compile(
    r"\s*(CA type|Number of ports|Firmware version|Hardware version|Node GUID|System image GUID|State|Physical state"
    r"|Rate|Effective speed|Base lid|LMC|SM lid|Capability mask|Port GUID|Link layer):\s*(.*)"
)
_RATE = re.compile(r"(\d{1,5}(?:\.\d{1,3})?)(?:\s*\((\w{1,8})\))?\s*")
_FAILED = re.compile(r"\s*ibpanic: .{0,40}: (stat of (?:IB device|CA) .{1,200})")


@dataclass(slots=True)
class _Rows:
    """Rows of a device (port None) or of a port, and the lines they stand in."""

    lines: list[int]
    port: int | None = None
    values: dict[str, str] = field(default_factory=dict)

    def get(self, key: str) -> str:
        return self.values.get(key, "")


@dataclass(slots=True)
class _Device:
    name: str
    own: _Rows
    ports: list[_Rows] = field(default_factory=list)


def _fact(segment: Segment, device: _Device, port: _Rows) -> RdmaPort:
    rate = _RATE.fullmatch(port.get("Rate"))
    own = device.own
    for i in port.lines:
        segment.skip(i)
    first, last = port.lines[0], port.lines[-1]
    origin = segment.origin(first, text=f"CA '{device.name}' {segment.lines[first].strip()}")
    return RdmaPort(
        origins=(replace(origin, end=segment.numbers[last]),), device=device.name, port=port.port or 0,
        state=port_state(port.get("State")), phys_state=phys_state(port.get("Physical state")),
        rate_gbit_s=float(rate[1]) if rate else None, speed=rate[2] if rate else None,
        link_layer=link_layer(port.get("Link layer")), sm_lid=integer(port.get("SM lid")),
        board=value(own.get("CA type")), firmware=value(own.get("Firmware version")),
        node_guid=guid(own.get("Node GUID")), system_guid=guid(own.get("System image GUID")),
    )


def _devices(segment: Segment) -> list[_Device]:
    devices: list[_Device] = []
    rows: _Rows | None = None
    for i, line in enumerate(segment.lines):
        ca = _CA.fullmatch(line)
        if ca:
            rows = _Rows([i])
            devices.append(_Device(ca[1], rows))
            segment.skip(i)
        elif devices and (port := _PORT.fullmatch(line)):
            rows = _Rows([i], int(port[1]))
            devices[-1].ports.append(rows)
        elif rows and (row := _ROW.fullmatch(line)) and row[1] not in rows.values:
            rows.values[row[1]] = row[2].strip()
            rows.lines.append(i)
            segment.skip(i)
    return devices


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """A fact for each port."""
    for device in _devices(segment):
        for port in device.ports:
            yield _fact(segment, device, port)
            if "State" not in port.values or "Rate" not in port.values:
                line = segment.numbers[port.lines[-1]]
                yield Problem(line, f"the block of {device.name} port {port.port} is cut off")
        if not device.ports and integer(device.own.get("Number of ports")) != 0:
            yield Problem(segment.numbers[device.own.lines[-1]], f"{device.name} is listed without its ports")
    for i, text in enumerate(segment.lines):
        if "ibpanic" in text and (failed := _FAILED.fullmatch(text)):
            segment.skip(i)
            yield Problem(segment.numbers[i], f"ibstat could not read a device: {failed[1]}")


SOURCE = Source(
    id="ibstat",
    title="ibstat",
    facts=(RdmaPort,),
    needles=("CA '", "CA: '", "ibpanic: "),
    signature=re.compile(r"^[ \t]*CA:? '[^'\s]{1,64}'[ \t]*$|^[ \t]*ibpanic: .{0,40}: stat of ", re.M),
    parse=parse,
    commands=(Command(("ibstat",), stderr=True),),
    versions="infiniband-diags 2.0 to rdma-core 5x",
)
