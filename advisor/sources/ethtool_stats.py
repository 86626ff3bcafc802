r"""`ethtool -S IFACE`: counters that the driver keeps of an Ethernet interface.

Seen: mlx5_core and ena names, ethtool 4 to 6.15. Totals since the driver was loaded; the text does not name the
interface, the command does.

    >>> SAMPLE = '''NIC statistics:
    ...      rx_packets: 7100
    ...      rx_out_of_buffer: 12
    ...      rx_prio3_pause: 40
    ...      rx_prio4_pause: 2
    ... '''
    >>> segment = Segment("stats.txt", SAMPLE.splitlines(), range(1, 99), command="ethtool -S ens6f0")
    >>> [(f.interface, f.rx_out_of_buffer, f.rx_priority_pause, f.rx_crc_errors) for f in parse(segment)]
    [('ens6f0', 12, 42, None)]
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.facts import Fact, NicCounters
from advisor.sources.base import Command, Problem, Segment, Source

_ROW = re.compile(r"^\s{1,12}([A-Za-z0-9_.\[\]-]{1,80}): (\d{1,20})\s*$")
_CUT = re.compile(r"^\s{3,12}[A-Za-z0-9_.\[\]-]{1,80}:?\s*$")
_INTERFACE = re.compile(r"\bethtool (?:-S|--statistics) ([a-zA-Z][\w.@:-]{0,60})")
_PRIORITY_PAUSE = re.compile(r"^(rx|tx)_prio\d_pause$")
_FIELDS = {
    "rx_out_of_buffer": "rx_out_of_buffer",
    "rx_discards_phy": "rx_discards",
    "tx_discards_phy": "tx_discards",
    "rx_crc_errors_phy": "rx_crc_errors",
    "rx_symbol_err_phy": "rx_symbol_errors",
    "rx_pcs_symbol_err_phy": "rx_uncorrected_symbols",
    "rx_oversize_pkts_phy": "rx_oversize",
    "link_down_events_phy": "link_downs",
    "rx_pause_ctrl_phy": "rx_pause",
    "tx_pause_ctrl_phy": "tx_pause",
    "tx_pause_storm_warning_events": "tx_pause_storms",
    "bw_in_allowance_exceeded": "bandwidth_in_exceeded",
    "bw_out_allowance_exceeded": "bandwidth_out_exceeded",
    "pps_allowance_exceeded": "packet_rate_exceeded",
}


def _field(name: str) -> str | None:
    """The field a driver's counter adds to, None where it is not kept."""
    if m := _PRIORITY_PAUSE.match(name):
        return f"{m[1]}_priority_pause"
    return _FIELDS.get(name)


def _block(segment: Segment, first: int) -> Iterator[Fact | Problem]:
    """The counters below a title; no fact where none of them is kept."""
    facts = NicCounters(reading=segment.at(first))
    last, known = first, False
    for index in range(first + 1, len(segment.lines)):
        line = segment.lines[index][:200]
        m = _ROW.match(line)
        if m is None:
            if _CUT.match(line):
                segment.skip(index)
                yield Problem(segment.numbers[index], "a counter without its value")
            break
        last = index
        if field := _field(m[1]):
            setattr(facts, field, (getattr(facts, field) or 0) + int(m[2]))
            known = True
    facts.origins = (segment.origin(first, last),)
    named = _INTERFACE.search(segment.command or "")
    facts.interface = named[1] if named else None
    if known:
        yield facts


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact a `NIC statistics:` block, over all queues and priorities."""
    for index, line in enumerate(segment.lines):
        if line.strip() == "NIC statistics:":
            yield from _block(segment, index)


SOURCE = Source(
    id="ethtool-stats",
    title="ethtool -S",
    facts=(NicCounters,),
    needles=("NIC statistics:",),
    signature=re.compile(r"^NIC statistics:\s*$", re.MULTILINE),
    parse=parse,
    commands=(Command(("ethtool", "-S", "{interface}")),),
    versions="ethtool 4 to 6.15; counters of mlx5_core and ena",
)
