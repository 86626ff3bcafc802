"""`mpstat -P ALL`, also with `-o JSON`: what the processors did, as means over the readings.

Seen: sysstat 11 to 12.7, 12- and 24-hour clocks, decimal commas. Columns are read by name: `%usr` is what tells this
table from that of `sar -u`. The averages at the end are used only where no reading stands before them.

    >>> SAMPLE = '''Linux 6.8.0 (gpu11) 	01/14/26 	_x86_64_	(2 CPU)
    ...
    ... 09:12:44     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle
    ... 09:12:45     all    2.00    0.00    1.00    0.00    0.00   50.00    0.00    0.00    0.00   47.00
    ... 09:12:45       0    2.00    0.00    1.00    0.00    0.00    0.00    0.00    0.00    0.00   97.00
    ... 09:12:45       1    1.00    0.00    0.00    0.00    0.00   99.00    0.00    0.00    0.00    0.00
    ... '''
    >>> [load] = parse(Segment("mpstat.txt", SAMPLE.splitlines(), range(1, 99)))
    >>> load.host, load.cpus, load.softirq_share, load.busiest_softirq_cpu, load.busiest_softirq_share
    ('gpu11', 2, 0.5, 1, 0.99)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from advisor.facts import CpuLoad, Fact
from advisor.sources.base import Command, Problem, Segment, Source

_LONGEST_LINE = 400
_BANNER = re.compile(r"Linux \S{1,100} \(([^\s()]{1,100})\)\s+\S{1,20}\s+_\S{1,20}_\s+\(\d+ CPU\)\s*")
_HEADER = re.compile(r"(?:\d\d:\d\d:\d\d(?: [AP]M)?|[^\W\d]\S{2,20}:) +CPU +(%usr(?: +%[a-z]{2,8}){2,12}) *")
_ROW = re.compile(r"(\d\d:\d\d:\d\d(?: [AP]M)?|[^\W\d]\S{2,20}:) +(all|\d{1,5})((?: +\d{1,3}[.,]\d\d){3,12}) *")


@dataclass(slots=True)
class _Run:
    """One run: per CPU (`all` or a number) its rows, percent by column."""

    first: int
    last: int
    host: str | None = None
    columns: list[str] = field(default_factory=list)
    rows: dict[str, list[dict[str, float]]] = field(default_factory=dict)
    averages: dict[str, list[dict[str, float]]] = field(default_factory=dict)

    def fact(self, segment: Segment) -> CpuLoad:
        rows = self.rows or self.averages
        single = {int(cpu): _means(found) for cpu, found in rows.items() if cpu.isdigit()}
        # a CPU that is off line has zeros everywhere
        busy = {cpu: 1 - means["idle"] for cpu, means in single.items() if "idle" in means and any(means.values())}
        soft = {cpu: means["soft"] for cpu, means in single.items() if "soft" in means}
        busiest, softest = _most(busy), _most(soft)
        overall = _means(rows.get("all", []))
        return CpuLoad(
            origins=(segment.origin(self.first, self.last),), host=self.host, sample=segment.at(self.first),
            readings=max(map(len, self.rows.values()), default=0), cpus=len(single) or None,
            busiest_cpu=busiest, busiest_share=None if busiest is None else round(busy[busiest], 4),
            busiest_softirq_cpu=softest, busiest_softirq_share=None if softest is None else soft[softest],
            user_share=overall.get("usr"), system_share=overall.get("sys"), softirq_share=overall.get("soft"),
            iowait_share=overall.get("iowait"), steal_share=overall.get("steal"), idle_share=overall.get("idle"),
        )


def _means(rows: list[dict[str, float]]) -> dict[str, float]:
    """Mean of each column as a share."""
    return {name: round(fmean(row[name] for row in rows) / 100, 4) for name in (rows[0] if rows else ())
            if all(name in row for row in rows)}  # fmt: skip


def _most(values: dict[int, float]) -> int | None:
    """The CPU with the greatest value, None where that is zero everywhere."""
    cpu = max(values, key=lambda cpu: (values[cpu], -cpu), default=None)
    return cpu if cpu is not None and values[cpu] > 0 else None


def _table(segment: Segment) -> Iterator[_Run]:
    host, banner = None, None
    run: _Run | None = None
    for i, line in enumerate(segment.lines):
        if len(line) > _LONGEST_LINE:
            continue
        if found := _BANNER.fullmatch(line):
            host, banner, run = found[1], i, None
        elif header := _HEADER.fullmatch(line):
            if run is None:
                run = _Run(i, i, host)
                segment.skip(i if banner is None else banner)
                yield run
            run.columns = [name.removeprefix("%") for name in header[1].split()]
            run.last = i
        elif run and (row := _ROW.fullmatch(line)):
            values = [float(text.replace(",", ".")) for text in row[3].split()]
            if len(values) == len(run.columns):
                kind = run.rows if row[1][0].isdigit() else run.averages
                kind.setdefault(row[2], []).append(dict(zip(run.columns, values, strict=True)))
                run.last = i


def _numbers(entry: dict[str, Any]) -> dict[str, float]:
    return {name: float(x) for name, x in entry.items() if name != "cpu" and isinstance(x, (int, float))}


def _json(segment: Segment, first: int) -> Iterator[Fact | Problem]:
    """The runs of a JSON document; one host each."""
    last = max(i for i, line in enumerate(segment.lines) if line.strip())
    try:
        document, _ = json.JSONDecoder().raw_decode("\n".join(segment.lines[first:]).lstrip())
        hosts = [dict(host) for host in document["sysstat"]["hosts"]]
        for host in hosts:
            run = _Run(first, last, str(host["nodename"]) if host.get("nodename") else None)
            for reading in host["statistics"]:
                for entry in reading.get("cpu-load", ()):
                    run.rows.setdefault(str(entry["cpu"]), []).append(_numbers(entry))
            if any("usr" in row for rows in run.rows.values() for row in rows):
                yield run.fact(segment)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        yield Problem(segment.numbers[last], "the JSON is cut or damaged")


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact for each run."""
    start = next((i for i, line in enumerate(segment.lines) if line.startswith("{")), None)
    if start is not None and '"sysstat"' in segment.text[:2000] and '"usr"' in segment.text:
        yield from _json(segment, start)
    for run in list(_table(segment)):
        if run.rows or run.averages:
            yield run.fact(segment)
        else:
            yield Problem(segment.numbers[run.last], "no row stands below the header")


SOURCE = Source(
    id="mpstat",
    title="mpstat",
    facts=(CpuLoad,),
    needles=("%usr", '"usr"'),
    signature=re.compile(r'CPU +%usr +%|"cpu-load"\s{0,20}:\s{0,20}\[\s{0,100}\{"cpu": ?"\w{1,5}", ?"usr"'),
    parse=parse,
    commands=(Command(("mpstat", "-P", "ALL", "1", "3"), seconds=3, timeout=15),),
    versions="sysstat 11 to 12.7",
)
