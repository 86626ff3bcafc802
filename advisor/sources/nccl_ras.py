"""NCCL's RAS service: `ncclras`, text and JSON, or the same read from its port.

Seen: NCCL 2.24 to 2.28 (JSON from 2.28.7). A mismatch of operation counts can be a moment's difference on a running
job; only counts that stay show a hang. The ranks with the lower count are the ones that have not arrived.

    >>> SAMPLE = '''NCCL version 2.27.5 compiled with CUDA 12.9
    ... CUDA runtime version 12090, driver version 12090
    ...
    ... Warnings
    ... ========
    ...
    ... #0-0 (1f00ba5e1f00ba5e) MISMATCH
    ...   Communicator ranks have different AllReduce operation counts
    ...   7 ranks have launched up to operation 512
    ...   Rank 5 has launched up to operation 511 -- GPU 5 managed by process 700 on node 10.0.0.2
    ... '''
    >>> segment = Segment("ras.txt", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.operation, f.counts, f.lagging_ranks, f.lagging_hosts) for f in parse(segment) if isinstance(f, RasProblem)]
    [('AllReduce', (511, 512), (5,), ('10.0.0.2',))]
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from advisor.facts import Fact, RasProblem, RasReport
from advisor.sources.base import Problem, Segment, Source

_LONGEST_LINE = 1000
_MAX_RANKS = 100_000

_VERSION = re.compile(r"^NCCL version (?P<version>\d[\w.+-]{0,40}) compiled with CUDA (?P<cuda>[\d.]{1,10})\s*$")
_RUNTIME = re.compile(r"^CUDA runtime version \d{1,9}, driver version \d{1,9}\s*$")
_TOTALS = re.compile(r"^\s*(\d{1,9})\s+(\d{1,9})(?:-\d{1,9})?\s+(\d{1,9})(?:-\d{1,9})?\s+(\d{1,9})\s+(\d{1,9})\s*$")
_GROUP = re.compile(
    r"^\s*\d{1,9}\s+(?P<comms>\d{1,9})(?:\s+\d{1,9}(?:-\d{1,9})?){4}\s+(?P<status>[A-Z]{2,20}(?:,[A-Z]{2,20}){0,8})"
    r"\s+(?P<errors>[A-Z]{2,20}(?:,[A-Z]{2,20}){0,8})\s*$"
)
_PROBLEM = re.compile(r"^#(?P<number>\d{1,9}(?:-\d{1,9})?) \((?P<comm>[0-9a-f]{8,32})\) (?P<kind>[A-Z]{2,20})")
_LOOSE = re.compile(r"^(?P<kind>INCOMPLETE|DEAD|TIMEOUT|ERROR|MISMATCH)\s*$")
_COUNTS = re.compile(r"^\s+Communicator ranks have different (?P<operation>\w{1,40}) operation counts")
_MANY = re.compile(r"^\s+(?P<ranks>\d{1,9}) ranks have launched up to operation (?P<count>\d{1,18})")
_ONE = re.compile(
    r"^\s+Rank (?P<rank>\d{1,9}) has launched up to operation (?P<count>\d{1,18})"
    r"(?: -- GPU .{1,80}? on node (?P<node>\S{1,255}))?"
)
_RANK_LINE = re.compile(r"^\s+Rank (?P<rank>\d{1,9})\b(?:.{0,200} on node (?P<node>\S{1,255}))?")
_FURNITURE = re.compile(
    r"^(?:OK|={3,}|Job summary|Communicators\.\.\. \([\d.]{1,12}s\)|Errors|Warnings|Group\s+Comms.*|\s+#\s+in group.*"
    r"|\s*Nodes\s+Processes.*|\(total\).*|\s*The outlier .*)\s*$"
)


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """A RasReport for each answer, a RasProblem for each communicator that it lists as wrong."""
    if segment.text.lstrip()[:1] == "{":
        yield from _json(segment)
        return
    starts = [i for i, line in enumerate(segment.lines) if _VERSION.match(line[:_LONGEST_LINE])]
    for first, end in pairwise([*starts, len(segment.lines)]):
        if any(_RUNTIME.match(line) for line in segment.lines[first + 1 : first + 3]):
            yield from _report(segment, first, end)


def _report(segment: Segment, first: int, end: int) -> Iterator[Fact | Problem]:
    version = _VERSION.match(segment.lines[first])
    report = RasReport(report=segment.at(first), nccl_version=version["version"] if version else None)
    report.origins = (segment.origin(first),)
    statuses, errors, groups, complete = set[str](), set[str](), 0, False
    problems: list[Fact] = []
    i = first
    if first and segment.lines[first - 1].strip() == "OK":
        segment.skip(first - 1)
    while i < end:
        line = segment.lines[i][:_LONGEST_LINE]
        if group := _GROUP.match(line):
            statuses |= set(group["status"].split(","))
            errors |= set(group["errors"].split(","))
            groups += int(group["comms"])
            report.origins = (*report.origins, segment.origin(i))
        elif (totals := _TOTALS.match(line)) and report.nodes is None:
            report.nodes, report.processes, report.gpus = int(totals[1]), int(totals[4]), int(totals[5])
            segment.skip(i)
        elif _PROBLEM.match(line):
            fact, i = _problem(segment, i, end, report.report)
            problems.append(fact)
            continue
        elif loose := _LOOSE.match(line):
            problems.append(RasProblem(report=report.report, kind=loose["kind"], origins=(segment.origin(i),)))
        elif _FURNITURE.match(line) or _RUNTIME.match(line):
            complete = complete or line.startswith("Warnings")
            segment.skip(i)
        i += 1
    report.statuses, report.errors = tuple(sorted(statuses)), tuple(sorted(errors))
    report.communicators = groups or None
    if errors:
        report.healthy = errors == {"OK"} and not problems and "ABORT" not in statuses
    yield report
    yield from problems
    if not complete:
        yield Problem(segment.numbers[end - 1], "the RAS report ends before its warnings")


def _problem(segment: Segment, first: int, end: int, report: str) -> tuple[Fact, int]:
    """The block below `#0-0 (hash) KIND`, and the index of the first line after it."""
    head = _PROBLEM.match(segment.lines[first])
    fact = RasProblem(report=report, comm=head["comm"] if head else None, kind=head["kind"] if head else "ERROR")
    ranks: dict[int, list[tuple[int, str | None]]] = defaultdict(list)
    many: dict[int, int] = defaultdict(int)
    missing: list[int] = []
    last = first
    for i in range(first + 1, end):
        line = segment.lines[i][:_LONGEST_LINE]
        if not line.startswith(" "):
            break
        last = i
        if one := _ONE.match(line):
            ranks[int(one["count"])].append((int(one["rank"]), one["node"]))
        elif several := _MANY.match(line):
            many[int(several["count"])] += int(several["ranks"])
        elif counts := _COUNTS.match(line):
            fact.operation = counts["operation"]
        elif (rank := _RANK_LINE.match(line)) and fact.kind in ("INCOMPLETE", "DEAD"):
            missing.append(int(rank["rank"]))
        if not fact.text:
            fact.text = line.strip()
    fact.missing_ranks = tuple(sorted(missing))
    _lagging(fact, ranks, many)
    fact.origins = tuple(segment.origin(i) for i in range(first, last + 1))
    return fact, last + 1


def _lagging(fact: RasProblem, ranks: Mapping[int, list[tuple[int, str | None]]], many: Mapping[int, int]) -> None:
    """The ranks with the lowest count. Of a group too large to be listed the ranks are not known."""
    counts = sorted({*ranks, *many})
    fact.counts = tuple(counts)
    if len(counts) < 2:
        return
    low = ranks.get(counts[0], [])
    if counts[0] not in many:
        fact.lagging_ranks = tuple(sorted(rank for rank, _ in low))
        fact.lagging_hosts = tuple(sorted({node for _, node in low if node}))
    fact.ahead_ranks = sum(len(ranks.get(c, [])) + many.get(c, 0) for c in counts[1:])


# ------------------------------------------------------------------------------------------------------------ JSON


def _json(segment: Segment) -> Iterator[Fact | Problem]:
    try:
        data = json.loads(segment.text)
    except (ValueError, RecursionError):
        yield Problem(segment.numbers[0], "the RAS report is no complete JSON")
        return
    communicators = data.get("communicators") if isinstance(data, dict) else None
    if not isinstance(communicators, list):
        return
    report = RasReport(
        report=segment.at(0), nccl_version=_text(data.get("nccl_version")), timestamp=_text(data.get("timestamp")),
        communicators=len(communicators), origins=(segment.origin(0, len(segment.lines) - 1),),
    )  # fmt: skip
    problems: list[RasProblem] = []
    statuses, hosts, processes, gpus = set[str](), set[str](), set[object](), set[object]()
    for comm in (item for item in communicators if isinstance(item, dict)):
        ranks = [r for r in _list(comm, "ranks") if isinstance(r.get("rank"), int)]
        for rank in (*ranks, *_list(comm, "missing_ranks")):
            host, pid = _text(rank.get("host")) or "", rank.get("pid")
            hosts.add(host)
            processes.add((host, str(pid)))
            gpus.add((host, str(rank.get("nvml_dev", rank.get("cuda_dev")))))
            status = rank.get("status")
            statuses |= {str(status["init_state"])} if isinstance(status, dict) and "init_state" in status else set()
        problems += _json_problems(segment, comm, ranks, report.report)
    report.nodes, report.processes, report.gpus = len(hosts) or None, len(processes) or None, len(gpus) or None
    report.statuses = tuple(sorted(statuses))
    report.errors = tuple(sorted({p.kind for p in problems})) or ("OK",)
    report.healthy = not problems
    yield report
    yield from problems


def _json_problems(
    segment: Segment, comm: Mapping[str, Any], ranks: list[dict[str, Any]], report: str
) -> Iterator[RasProblem]:
    hash_ = _text(comm.get("hash"))
    origins = (segment.origin(0, len(segment.lines) - 1, f"communicator {hash_}"),)
    missing = sorted(r["rank"] for r in _list(comm, "missing_ranks") if isinstance(r.get("rank"), int))
    if missing:
        dead = any(isinstance(s := r.get("status"), dict) and s.get("considered_dead") is True
                   for r in _list(comm, "missing_ranks"))  # fmt: skip
        yield RasProblem(
            report=report, comm=hash_, kind="DEAD" if dead else "INCOMPLETE", missing_ranks=tuple(missing),
            origins=origins,
        )  # fmt: skip
    counted: dict[str, dict[int, list[tuple[int, str | None]]]] = defaultdict(lambda: defaultdict(list))
    for rank in ranks:
        counts = rank.get("collective_counts")
        for operation, count in counts.items() if isinstance(counts, dict) else ():
            if isinstance(count, int):
                counted[operation][count].append((rank["rank"], _text(rank.get("host"))))
    for operation, by_count in sorted(counted.items()):
        if len(by_count) > 1:
            fact = RasProblem(report=report, comm=hash_, kind="MISMATCH", operation=operation, origins=origins)
            _lagging(fact, by_count, {})
            yield fact
    states = [status for rank in ranks if isinstance(status := rank.get("status"), dict)]
    failed = [status for status in states if status.get("async_error") not in (None, 0, "0")]
    if failed:
        text = f"async_error on {len(failed)} ranks"
        yield RasProblem(report=report, comm=hash_, kind="ERROR", text=text, origins=origins)


def _list(of: object, key: str) -> list[dict[str, Any]]:
    """The objects of a list inside an object; none where there is no such list."""
    items = of.get(key) if isinstance(of, dict) else None
    return [item for item in items[:_MAX_RANKS] if isinstance(item, dict)] if isinstance(items, list) else []


def _text(value: object) -> str | None:
    return None if value is None or isinstance(value, dict | list) else str(value)[:300]


SOURCE = Source(
    id="nccl-ras",
    title="NCCL RAS (ncclras)",
    facts=(RasReport, RasProblem),
    needles=("compiled with CUDA", '"communicators_count"'),
    signature=re.compile(
        r"^NCCL version \d[\w.+-]{0,40} compiled with CUDA [\d.]{1,10}\s*\n\s{0,9}CUDA runtime version|"
        r'\A\s{0,99}\{(?=[^\0]{0,2000}"nccl_version")(?=[^\0]{0,4000}"communicators_count")',
        re.MULTILINE,
    ),
    parse=parse,
    versions="NCCL 2.24 to 2.28",
)
