r"""`perfquery`: counters of one InfiniBand port. infiniband-diags 2.x, rdma-core 5x (from its source; few real files).

It names the port by LID, not by device. The basic counters have few bits: data counters of 32 bits are full within
seconds and then stand, hence `-x`. Data counters are in words of 4 bytes.

>>> from advisor.sources.base import Segment
>>> SAMPLE = '''\
... # Port extended counters: Lid 42 port 1 (CapMask: 0x5A00 CapMask2: 0x0000003)
... PortSelect:......................1
... CounterSelect:...................0x0000
... PortXmitData:....................1000
... PortRcvData:.....................2000
... SymbolErrorCounter:..............3
... '''
>>> [counters] = parse(Segment("p.txt", SAMPLE.splitlines(), range(1, 99)))
>>> counters.lid, counters.port, counters.xmit_bytes, counters.symbol_error, counters.symbol_error_delta
(42, 1, 4000, 3, None)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.facts import Fact, RdmaCounters
from advisor.sources.base import Command, Problem, Segment, Source
from advisor.sources.rdma_counters import Readings, counters_fact

_HEADING = re.compile(
    r"\s*# Port (?:extended )?counters: (?:Lid (\d{1,5})|DR path \S{1,200}) port (\d{1,3}|ALL)\b.{0,200}"
)
_ROW = re.compile(r"\s*([A-Za-z0-9]{3,60}):\.+(0x[0-9A-Fa-f]{1,16}|\d{1,20})\s*")
_FAILED = re.compile(r"\s*(?:ibwarn: .{0,40}: can't open UMAD port.{0,200}|perfquery: iberror: failed: .{1,200})")
_DEVICE = re.compile(r"(?:^|\s)(?:-C|--Ca)[= ]?\s*([\w.-]{1,64})")
_NAMES = {
    "SymbolErrorCounter": "symbol_error", "LinkErrorRecoveryCounter": "link_error_recovery",
    "LinkDownedCounter": "link_downed", "PortRcvErrors": "port_rcv_errors",
    "PortRcvRemotePhysicalErrors": "port_rcv_remote_physical_errors",
    "PortRcvSwitchRelayErrors": "port_rcv_switch_relay_errors", "PortXmitDiscards": "port_xmit_discards",
    "LocalLinkIntegrityErrors": "local_link_integrity_errors",
    "ExcessiveBufferOverrunErrors": "excessive_buffer_overrun_errors", "VL15Dropped": "vl15_dropped",
    "PortXmitData": "port_xmit_data", "PortRcvData": "port_rcv_data", "PortXmitWait": "port_xmit_wait",
}
_Port = tuple[int | None, int | None]


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """A fact for each port that was asked."""
    ports: dict[_Port, Readings] = {}
    current: Readings | None = None
    for i, line in enumerate(segment.lines):
        if len(line) > 500:
            continue
        if heading := _HEADING.fullmatch(line):
            lid = int(heading[1]) if heading[1] else None
            port = int(heading[2]) if heading[2].isdigit() else None
            current = ports.setdefault((lid, port), Readings())
            current.lines.append(i)
        elif row := _ROW.fullmatch(line):
            if current is None:  # a pasted part
                current = ports.setdefault((None, None), Readings())
            current.add(i, _NAMES.get(row[1], row[1]), int(row[2], 0) if not row[2].startswith("0x") else None)
        elif failed := _FAILED.fullmatch(line):
            segment.skip(i)
            yield Problem(segment.numbers[i], f"perfquery could not ask: {failed[0].strip()}")
    device = _DEVICE.search((segment.command or "")[:1000])
    for (lid, port_number), readings in ports.items():
        if readings.values:
            name = device[1] if device else None
            yield counters_fact(segment, readings, device=name, port=port_number, lid=lid)
        else:
            for i in readings.lines:
                segment.skip(i)
            yield Problem(segment.numbers[readings.lines[0]], "no counters follow")


SOURCE = Source(
    id="perfquery",
    title="perfquery",
    facts=(RdmaCounters,),
    needles=("ounters: ", "Port", "UMAD port", "perfquery: iberror"),
    signature=re.compile(
        r"^[ \t]*# Port (?:extended )?counters: |^[ \t]*(?:Port(?:Xmit|Rcv)Data|SymbolErrorCounter):\.+\d"
        r"|^[ \t]*ibwarn: .{0,40}: can't open UMAD port|^[ \t]*perfquery: iberror: failed: ",
        re.M,
    ),
    parse=parse,
    commands=(Command(("perfquery", "-x"), root=True, stderr=True),),
    versions="infiniband-diags 2.x, rdma-core 5x",
)
