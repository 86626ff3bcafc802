r"""Counters of RDMA ports: sysfs files as `grep` prints them, and `rdma statistic`. Linux 4.x to 6.x, mlx5 hw_counters.

Totals since the last reset prove nothing about now, so a second reading in the same text gives the growth. Data
counters are in words of 4 bytes. Error counters of few bits stop at their highest value.

>>> from advisor.sources.base import Segment
>>> SAMPLE = '''\
... /sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data:1000
... /sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error:7
... /sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data:251000
... /sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error:9
... '''
>>> [counters] = parse(Segment("c.txt", SAMPLE.splitlines(), range(1, 99)))
>>> counters.readings, counters.xmit_bytes, counters.xmit_bytes_delta, counters.symbol_error_delta
(2, 1004000, 1000000, 2)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from advisor.facts import Fact, RdmaCounters, field_names
from advisor.sources.base import Command, Problem, Segment, Source

_PATH = re.compile(
    r"(?:\S{0,200}/)?([\w.-]{1,64})/ports/(\d{1,3})/(?:hw_)?counters/(\w{1,64})\s*[:=]\s*(\d{1,20}|N/A.{0,40}|)\s*"
)
_STATISTIC = re.compile(r"link ([\w.-]{1,64})/(\d{1,3}) ((?:\w{1,64} \d{1,20}\b ?){2,})")
_SLEEP = re.compile(r"\bsleep (\d{1,6}(?:\.\d{1,3})?)\b")
_FIELDS = {name for name in field_names(RdmaCounters) if f"{name}_delta" in field_names(RdmaCounters)}
_NAMES = {"port_rcv_data": "rcv_bytes", "port_xmit_data": "xmit_bytes"}  # of others: without `port_`, lower case
_WORD_BYTES = 4
_BYTES = ("rcv_bytes", "xmit_bytes")
_HIGHEST = {  # of the counters of PortCounters (InfiniBand specification, 16.1.3.5), which stop there
    "symbol_error": 0xFFFF, "link_error_recovery": 0xFF, "link_downed": 0xFF, "rcv_errors": 0xFFFF,
    "rcv_remote_physical_errors": 0xFFFF, "rcv_switch_relay_errors": 0xFFFF, "xmit_discards": 0xFFFF,
    "local_link_integrity_errors": 0xF, "excessive_buffer_overrun_errors": 0xF, "vl15_dropped": 0xFFFF,
    "xmit_wait": 0xFFFFFFFF, "rcv_bytes": 0xFFFFFFFF * _WORD_BYTES, "xmit_bytes": 0xFFFFFFFF * _WORD_BYTES,
}


@dataclass(slots=True)
class Readings:
    """All readings of the counters of one port in a text, and the lines they stand in."""

    lines: list[int] = field(default_factory=list)
    started: int = 0
    values: dict[str, list[int]] = field(default_factory=dict)

    def add(self, line: int, name: str, number: int | None) -> None:
        """Take one printed counter; None where the kernel could not read it. Unknown names count as read."""
        self.lines.append(line)
        known = counter_field(name)
        if known is None or number is None:
            return
        seen = self.values.setdefault(known, [])
        if len(seen) == max(map(len, self.values.values()), default=0):
            self.started = line  # the first counter of a reading
        seen.append(number * _WORD_BYTES if known in _BYTES else number)


def counter_field(name: str) -> str | None:
    """Field of a sysfs counter, None for those that no rule needs."""
    known = _NAMES.get(name, name.lower().removeprefix("port_"))
    return known if known in _FIELDS else None


def _growth(name: str, seen: list[int]) -> int | None:
    """From the first to the last reading; None with one, after a reset, and where the counter stands at its end."""
    if len(seen) < 2 or any(b < a for a, b in pairwise(seen)) or seen[-1] == _HIGHEST.get(name):
        return None
    return seen[-1] - seen[0]


def counters_fact(segment: Segment, readings: Readings, **of: Any) -> RdmaCounters:
    """The fact of one port; `of` says which one."""
    for i in readings.lines:
        segment.skip(i)
    origin = segment.origin(readings.lines[0])
    count = max(map(len, readings.values.values()), default=1)
    slept = _SLEEP.findall(segment.command or "")
    fact = RdmaCounters(
        origins=(replace(origin, end=segment.numbers[readings.lines[-1]]),), reading=segment.at(readings.started),
        readings=count, interval_s=float(slept[0]) if len(slept) == 1 and count == 2 else None,
        saturated=tuple(sorted(n for n, seen in readings.values.items() if seen[-1] == _HIGHEST.get(n))),
        **of,
    )
    for name, seen in readings.values.items():
        setattr(fact, name, seen[-1])
        setattr(fact, f"{name}_delta", _growth(name, seen))
    return fact


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """A fact for each port with counters."""
    ports: dict[tuple[str, int], Readings] = {}
    for i, line in enumerate(segment.lines):
        if "counters/" in line and len(line) < 500 and (match := _PATH.fullmatch(line)):
            device, port, name, number = match.groups()
            readings = ports.setdefault((device, int(port)), Readings())
            readings.add(i, name, int(number) if number.isdigit() else None)
        elif line.startswith("link ") and len(line) < 20_000 and (match := _STATISTIC.match(line)):
            readings = ports.setdefault((match[1], int(match[2])), Readings())
            words = match[3].split()
            for name, number in zip(words[::2], words[1::2], strict=False):
                readings.add(i, name, int(number))
    for (device, port), readings in ports.items():
        if readings.values:
            yield counters_fact(segment, readings, device=device, port=port)
        for i in readings.lines:
            segment.skip(i)


SOURCE = Source(
    id="rdma-counters",
    title="counters of RDMA ports (sysfs, rdma statistic)",
    facts=(RdmaCounters,),
    needles=("counters/", "link "),
    signature=re.compile(
        r"/ports/\d{1,3}/(?:hw_)?counters/\w{1,64}[ \t]*[:=]|^link [\w.-]{1,64}/\d{1,3} \w{1,64} \d{1,20} \w", re.M
    ),
    parse=parse,
    commands=(
        Command((
            "find", "-L", "/sys/class/infiniband", "-maxdepth", "5",
            "(", "-name", "device", "-o", "-name", "subsystem", ")", "-prune", "-o",
            "(", "-path", "*/ports/*/counters/*", "-o", "-path", "*/ports/*/hw_counters/*", ")",
            "-exec", "grep", "-sH", ".", "{}", "+",
        )),
    ),
    versions="Linux 4.x to 6.x",
)
