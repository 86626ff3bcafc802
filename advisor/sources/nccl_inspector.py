"""NCCL's Inspector plugin: one JSON object a line for every collective of a process.

Seen: output format v4.0 (NCCL 2.28 to 2.30). The execution time includes waiting for peers: the rank that arrives last
has the shortest. Only times taken on the GPU (`kernel_gpu`) count, and the first five collectives of a communicator do
not: they set up connections.

    >>> line = ('{"header":{"id":"0x7f","rank":1,"n_ranks":16,"nnodes":2},'
    ...         '"metadata":{"inspector_output_format_version":"v4.0","hostname":"node02"},'
    ...         '"coll_perf":{"coll":"AllReduce","coll_sn":%d,"coll_msg_size_bytes":1048576,'
    ...         '"coll_exec_time_us":%d,"coll_timing_source":"kernel_gpu","coll_busbw_gbs":%.1f}}')
    >>> segment = Segment("n2-pid7.log", [line % (n, 100 + n, 9.5 - n / 10) for n in range(9)], range(1, 99))
    >>> [(f.host, f.rank, f.collective, f.calls, f.left_out, f.median_us, f.busbw_gbyte_s) for f in parse(segment)]
    [('node02', 1, 'AllReduce', 4, 5, 106.5, 8.85)]
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite
from statistics import median
from typing import Any

from advisor.facts import Fact, InspectorCollective
from advisor.sources.base import Problem, Segment, Source

_WARM_UP = 5  # sequence numbers 0 to 4 of each communicator
_LONGEST_LINE = 10_000
_Key = tuple[str, int, str, int]


@dataclass(slots=True)
class _Calls:
    """Calls of one collective at one size by one rank."""

    fact: InspectorCollective
    first: int
    last: int
    times: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    def finish(self, segment: Segment) -> InspectorCollective:
        """The fact with its medians."""
        fact = self.fact
        fact.calls = len(self.times)
        if self.times:
            fact.median_us, fact.min_us, fact.max_us = median(self.times), min(self.times), max(self.times)
        if self.rates:
            fact.busbw_gbyte_s, fact.max_busbw_gbyte_s = round(median(self.rates), 3), max(self.rates)
        fact.origins = (segment.origin(self.first), segment.origin(self.last))
        return fact


def _object(line: str) -> dict[str, Any] | None:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _part(data: dict[str, Any], name: str) -> dict[str, Any]:
    part = data.get(name)
    return part if isinstance(part, dict) else {}


def _number(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= 0:
        return float(value)
    return None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """An InspectorCollective for each communicator, rank, collective and size."""
    seen: dict[_Key, _Calls] = {}
    for i, line in enumerate(segment.lines):
        if '"inspector_output_format_version"' not in line:
            continue
        data = _object(line) if len(line) <= _LONGEST_LINE else None
        if data is None:
            yield Problem(segment.numbers[i], "a line of the inspector is no complete JSON")
            continue
        segment.skip(i)
        _add(seen, data, i)
    for calls in seen.values():
        yield calls.finish(segment)


def _add(seen: dict[_Key, _Calls], data: dict[str, Any], index: int) -> None:
    header, call = _part(data, "header"), _part(data, "coll_perf")
    rank, size = _whole(header.get("rank")), _whole(call.get("coll_msg_size_bytes"))
    comm, collective = str(header.get("id", ""))[:60], str(call.get("coll", ""))[:60]
    if rank is None or size is None or not collective:
        return  # a point-to-point record, or a header alone
    calls = seen.get((comm, rank, collective, size))
    if calls is None:
        host = _part(data, "metadata").get("hostname")
        fact = InspectorCollective(
            host=str(host).partition(".")[0][:255] if host else None, comm=comm, rank=rank, collective=collective,
            size_bytes=size, nranks=_whole(header.get("n_ranks")), nnodes=_whole(header.get("nnodes")),
        )  # fmt: skip
        calls = seen[comm, rank, collective, size] = _Calls(fact, index, index)
    calls.last = index
    time, rate = _number(call.get("coll_exec_time_us")), _number(call.get("coll_busbw_gbs"))
    serial = _whole(call.get("coll_sn"))
    if time is None or call.get("coll_timing_source") != "kernel_gpu" or (serial is not None and serial < _WARM_UP):
        calls.fact.left_out += 1
        return
    calls.times.append(time)
    if rate is not None:
        calls.rates.append(rate)


SOURCE = Source(
    id="nccl-inspector",
    title="NCCL Inspector",
    facts=(InspectorCollective,),
    needles=('"inspector_output_format_version"',),
    signature=re.compile(r'"inspector_output_format_version"'),
    parse=parse,
    versions="output format v4.0 (NCCL 2.28 to 2.30)",
)
