"""DeepSpeed's comms logger: a line for each collective, and the table of `deepspeed.comm.log_summary()`.

UNVERIFIED in part: read from DeepSpeed's source, no real log at hand. `Gbps` are decimal gigabits, sizes are binary
labels with two decimals; printed all-reduce throughput counts the size twice, so ours comes from size and time.

    >>> SAMPLE = '''Comm. Op  Message Size  Count  Total Latency(ms)  Avg Latency(ms)  tput_avg (Gbps)  busbw_avg (Gbps)
    ... all_reduce
    ...              64.0 MB       20     80.0               4.0              268.4            251.7
    ... '''
    >>> segment = Segment("train.log", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.collective, f.size_bytes, f.calls, f.mean_us, f.algbw_gbyte_s) for f in parse(segment)]
    [('all_reduce', 67108864, 20, 4000.0, 16.777)]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from advisor.facts import Fact, LoggedCollective
from advisor.sources.base import Problem, Segment, Source

_LONGEST_LINE = 600
_HEADER = re.compile(r"Comm\. Op\s+Message Size\s+Count\s+(\S.*)")
_NAME = re.compile(r"(?:\[.{1,200}\] )?([a-z][a-z_0-9]{2,60})(?: \| \[Caller Func: \S{1,80}\])?\s*")
_ROW = re.compile(
    r"\s+(\d{1,6}(?:\.\d{1,3})?) ?([KMGT]?B)\s+(\d{1,12})((?:\s+\d{1,15}(?:\.\d{1,6})?(?:e[+-]\d\d)?){2,4})\s*"
)
_CALL = re.compile(
    r"comm op: ([a-z]\w{1,60})(?: \| \[Caller Func: \S{1,80}\])? \| time ?\(ms\): (\d{1,12}(?:\.\d{1,6})?)"
    r" \| msg size: (\d{1,6}(?:\.\d{1,3})?) ?([KMGT]?B)\b"
)
_UNITS = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}
_WHOLE_SIZE = ("all_reduce", "broadcast", "inference_all_reduce")  # size is that of nccl-tests


@dataclass(slots=True)
class _Calls:
    """The lines of single calls of one collective at one size."""

    first: int
    last: int
    times_ms: list[float]


def _bytes(number: str, unit: str) -> int:
    return round(float(number) * _UNITS[unit])


def _algbw(collective: str, size: int, mean_us: float) -> float | None:
    return round(size / mean_us / 1e3, 3) if collective in _WHOLE_SIZE and mean_us > 0 else None


def _row(segment: Segment, i: int, row: re.Match[str], name: str, *, straggler: bool) -> LoggedCollective:
    """A row of the table: total, straggler total where shown, mean."""
    values = [round(float(text) * 1e3, 3) for text in row[4].split()]
    mean, size = values[2 if straggler else 1], _bytes(row[1], row[2])
    return LoggedCollective(
        origins=(segment.origin(i),), log=segment.at(i), summary=True, collective=name, size_bytes=size,
        calls=int(row[3]), mean_us=mean, total_us=values[0], straggler_us=values[1] if straggler else None,
        algbw_gbyte_s=_algbw(name, size, mean),
    )


def _table(segment: Segment, first: int, header: str) -> Iterator[LoggedCollective]:
    """The rows below a header; the name of the collective stands on a line of its own before them."""
    straggler = "traggler" in header
    name = None
    for i in range(first + 1, len(segment.lines)):
        line = segment.lines[i]
        row = _ROW.fullmatch(line) if len(line) < _LONGEST_LINE else None
        if row and name and len(row[4].split()) > (2 if straggler else 1):
            yield _row(segment, i, row, name, straggler=straggler)
        elif len(line) < _LONGEST_LINE and (named := _NAME.fullmatch(line)):
            name = named[1]
            segment.skip(i)
        elif line.strip():
            return


def _single(segment: Segment) -> Iterator[LoggedCollective]:
    calls: dict[tuple[str, int], _Calls] = {}
    for i, line in enumerate(segment.lines):
        call = _CALL.search(line) if "comm op: " in line and len(line) < _LONGEST_LINE else None
        if not call:
            continue
        segment.skip(i)
        seen = calls.setdefault((call[1], _bytes(call[3], call[4])), _Calls(i, i, []))
        seen.last = i
        seen.times_ms.append(float(call[2]))
    for (name, size), seen in calls.items():
        mean = round(fmean(seen.times_ms) * 1e3, 3)
        yield LoggedCollective(
            origins=(segment.origin(seen.first),), log=segment.at(seen.first), summary=False, collective=name,
            size_bytes=size, calls=len(seen.times_ms), mean_us=mean, total_us=round(sum(seen.times_ms) * 1e3, 3),
            algbw_gbyte_s=_algbw(name, size, mean),
        )


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """The rows of every table, and single calls put together by collective and size."""
    for i, line in enumerate(segment.lines):
        header = _HEADER.search(line) if len(line) < _LONGEST_LINE else None
        if header:
            segment.skip(i)
            rows = list(_table(segment, i, header[1]))
            yield from rows
            if not rows:
                yield Problem(segment.numbers[i], "the table of collectives has no rows")
    yield from _single(segment)


SOURCE = Source(
    id="deepspeed-comms",
    title="DeepSpeed comms logger",
    facts=(LoggedCollective,),
    needles=("comm op: ", "Comm. Op"),
    signature=re.compile(
        r"comm op: [a-z]\w{1,60}[^\n]{0,100} \| time ?\(ms\): |Comm\. Op[ \t]+Message Size[ \t]+Count"
    ),
    parse=parse,
    versions="UNVERIFIED: layout from the source",
)
