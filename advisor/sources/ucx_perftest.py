"""`ucx_perftest`: bandwidth, message rate and latency of UCX. One `RdmaTest` for each result.

Layout from the source of UCX 1.22 (no real output at hand). `MB/s` are MiB/s. Times are latencies, half a round trip,
only where the header says `latency`; with `overhead` they are the cost of posting and give no latency. Results of a
batch (`Final:` several times) become tests of their own; a size is known from the header, the command, or not at all.

    >>> SAMPLE = '''
    ... | API:          protocol layer                                 |
    ... | Test:         tag match bandwidth                            |
    ... | Send memory:  cuda                                           |
    ... | Recv memory:  cuda                                           |
    ... | Message size: 4194304                                        |
    ... |              |              |       overhead (usec)        |   bandwidth (MB/s)  |  message rate (msg/s) |
    ... |    Stage     | # iterations | 50.0%ile | average | overall |  average |  overall |  average  |  overall  |
    ... [thread 0]              1000    168.120   171.331   171.331    23346.61   23346.61        5837        5837
    ... Final:                  2000    168.110   171.302   171.316    23350.50   23348.55        5838        5837
    ... '''
    >>> segment = Segment("ucx.txt", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.operation, f.kind, f.gpu_memory, f.size_bytes, f.average_gbit_s, f.t_avg_us) for f in parse(segment)]
    [('tag match bandwidth', 'bandwidth', True, 4194304, 195.862, None)]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from advisor.facts import Fact, RdmaPoint, RdmaTest
from advisor.facts.measurement import summarise_rdma
from advisor.sources.base import Problem, Segment, Source

_LONGEST_LINE = 1000
_MIB_GBIT = 1048576 * 8 / 1e9

_FIELD = re.compile(
    r"\| (?P<name>API|Test|Data layout|Send memory|Recv memory|Send device|Recv device|Message size|Window size"
    r"|AM header size): {1,12}(?P<value>\S[^|]{0,100}?) {0,99}\|"
)
_KIND = re.compile(r"\|[ |]{10,60} {3,20}(?P<kind>overhead|latency) \(usec\) {1,20}\| {1,9}bandwidth \(MB/s\)")
_HEADER = re.compile(r"\| {1,9}(?:Stage|Test) {1,9}\| # iterations \| {0,3}(?P<rank>\d{1,3}\.\d)%ile \|")
_CSV_HEADER = re.compile(r"(?:[^,\s]{1,80},){0,5}iterations,(?P<rank>\d{1,3}\.\d)_percentile_lat,avg_lat,")
_STAGE = re.compile(r"(?P<stage>\[thread \d{1,4}\]|Final:|[A-Za-z]\S{0,80})?\s{0,60}")
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,6})?")
_WAITING = re.compile(r"Waiting for connection\.\.\.$")
_ACCEPTED = re.compile(r"Accepted connection from (?P<peer>\S{1,100}?):\d{1,5}$")
_UCX_LINE = re.compile(
    r"\[\d{1,12}\.\d{1,9}\] {1,3}\[(?P<host>[^:\]\s]{1,255}):\d{1,10}:\S{1,10}\] {1,20}"
    r"(?:\S{1,80}:\d{1,6} {1,4}UCX {1,4}(?P<level>ERROR|WARN|INFO|DIAG) {1,4})?(?P<text>.{0,300})"
)
_LANE = re.compile(
    r"\b(?P<transport>(?:rc|dc|ud|gga)(?:_[a-z0-9]{1,10})?|tcp|cuda_ipc|sysv|posix|cma)"
    r"/(?P<device>[a-z][\w.-]{0,30}(?::\d{1,3})?)"
)
_PROGRAM = re.compile(r"\bucx_perftest(?:_daemon)?\b")
_FLAGS = frozenset("loByzCUINfvXqhV6e")

_SIGNATURE = re.compile(
    r"^\| API: {1,12}\S|^\| {1,9}(?:Stage|Test) {1,9}\| # iterations \||iterations,\d{1,3}\.\d_percentile_lat,",
    re.MULTILINE,
)


@dataclass(slots=True)
class _Run:
    """One test under way; `first` and `last` are indexes of its own lines."""

    first: int
    last: int
    header: dict[str, str] = field(default_factory=dict)
    latency: bool | None = None
    median: bool = True
    csv: bool = False
    table: bool = False
    server: bool = False
    peer: str | None = None
    host: str | None = None
    lanes: dict[str, str] = field(default_factory=dict)
    stages: list[list[float]] = field(default_factory=list)
    threads: set[str] = field(default_factory=set)
    final: list[float] | None = None
    error: str | None = None


def _arguments(command: str | None) -> list[str] | None:
    m = _PROGRAM.search(command or "")
    if m is None or command is None:
        return None
    return re.split(r"\s\d?>|[|;&>]", command[m.end() :], maxsplit=1)[0].split()


def _option(arguments: list[str] | None, letter: str) -> str | None:
    for at, word in enumerate(arguments or ()):
        if word == f"-{letter}" and at + 1 < len(arguments or ()):
            return (arguments or [])[at + 1]
        if word.startswith(f"-{letter}") and len(word) > 2:
            return word[2:]
    return None


def _server_name(arguments: list[str] | None) -> str | None:
    words = iter(arguments or ())
    for word in words:
        if not word.startswith("-"):
            return word
        if len(word) == 2 and word[1] not in _FLAGS:
            next(words, None)
    return None


def _size(run: _Run, arguments: list[str] | None) -> int | None:
    text = run.header.get("Message size") or _option(arguments, "s") or ""
    sizes = text.split(",")
    return sum(map(int, sizes)) if all(re.fullmatch(r"\d{1,15}", size) for size in sizes) else None


def _gpu(run: _Run, arguments: list[str] | None) -> bool | None:
    kinds = [run.header[name] for name in ("Send memory", "Recv memory") if name in run.header]
    if not kinds:
        memory = _option(arguments, "m")
        if memory is None:
            return None if arguments is None else False
        kinds = memory.split(",")
    return any(kind != "host" for kind in kinds)


def _split(text: str, *, csv: bool) -> tuple[str, list[float]]:
    """Stage (`[thread 0]`, `Final:`, a name) and numbers of a row; no numbers where it is none."""
    if csv:  # names of batch tests may come first
        words = text.split(",")
        words = words[-8:] if len(words) >= 8 else words[-4:]
        stage = ""
    else:
        m = _STAGE.match(text)
        stage = (m["stage"] or "") if m else ""
        words = [word.replace(",", "") for word in text[m.end() if m else 0 :].split()]
    return (stage, [float(word) for word in words]) if all(map(_NUMBER.fullmatch, words)) else (stage, [])


def _cells(run: _Run) -> list[float] | None:
    """The result: the final row, or the last of one thread's rows where the output ends before it."""
    if run.final is not None:
        return run.final
    return run.stages[-1] if run.stages and len(run.threads) <= 1 else None


def _fields(run: _Run, size: int | None) -> dict[str, Any]:
    cells = _cells(run)
    if cells is None:
        return {}
    if len(cells) == 8:
        typical, average, overall, rate = cells[1], cells[2], cells[3], cells[5]
    else:  # several threads: only the overall figures
        typical, average, overall, rate = None, None, cells[1], cells[2]
    gbit_s = round(rate * _MIB_GBIT, 3)
    times: dict[str, Any] = {}
    if run.latency:
        times = {"t_typical_us": typical if run.median else None, "t_avg_us": overall if average is None else average}
    if size is None:
        return {"average_gbit_s": gbit_s} | times
    return summarise_rdma([RdmaPoint(size, gbit_s, **times)])


def _fact(run: _Run, segment: Segment) -> RdmaTest:
    arguments = _arguments(segment.command)
    operation = _option(arguments, "t") or run.header.get("Test")
    if run.latency is None and run.header.get("Test", "").endswith((" latency", " bandwidth")):
        run.latency = run.header["Test"].endswith(" latency")
    half = bool(operation and not re.search(r"get|atomic|fadd|swap|cswap|add\b", operation))
    peer = run.peer or _server_name(arguments)
    server = True if run.server else None if arguments is None else _server_name(arguments) is None
    return RdmaTest(
        host=run.host, test=segment.at(run.first), tool="ucx_perftest", operation=operation,
        kind=None if run.latency is None else "latency" if run.latency else "bandwidth",
        device=",".join(sorted(run.lanes)) or _option(arguments, "d"),
        transport=",".join(sorted(set(run.lanes.values()))) or _option(arguments, "x"),
        peer=peer, is_server=server, gpu_memory=_gpu(run, arguments), unit="MB/s" if _cells(run) else None,
        round_trip=False if run.latency and half else None,
        error="other" if run.error else None, error_text=run.error,
        origins=(replace(segment.origin(run.first), end=segment.numbers[run.last]),),
        **_fields(run, _size(run, arguments)),
    )  # fmt: skip


class _Reader:
    """Reads lines into tests."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.runs: list[_Run] = []

    def read(self, index: int, line: str) -> None:
        text = line.strip()
        if not text or len(text) > _LONGEST_LINE:
            return
        for pattern, method in (
            (_FIELD, self._field), (_KIND, self._kind), (_HEADER, self._header), (_CSV_HEADER, self._header),
            (_UCX_LINE, self._ucx), (_WAITING, self._peer), (_ACCEPTED, self._peer),
        ):  # fmt: skip
            m = pattern.match(text)
            if m:
                method(index, m)
                return
        run = self.runs[-1] if self.runs else None
        if run is None:
            return
        if run.table and self._row(index, text, run):
            return
        if re.match(r"[+|][-+ |]", text) or set(text) <= {"+", "-"}:
            for m in _LANE.finditer(text):
                run.lanes[m["device"]] = m["transport"]
            self.segment.skip(index)

    def _current(self, index: int, *, fresh: bool = False) -> _Run:
        if fresh or not self.runs:
            self.runs.append(_Run(index, index))
        run = self.runs[-1]
        run.last = index
        self.segment.skip(index)
        return run

    def _used(self) -> bool:
        return bool(self.runs) and (self.runs[-1].final is not None or bool(self.runs[-1].stages))

    def _field(self, index: int, m: re.Match[str]) -> None:
        fresh = self._used() or (bool(self.runs) and m["name"] in self.runs[-1].header)
        self._current(index, fresh=fresh).header[m["name"]] = m["value"].strip()

    def _kind(self, index: int, m: re.Match[str]) -> None:
        self._current(index, fresh=self._used()).latency = m["kind"] == "latency"

    def _header(self, index: int, m: re.Match[str]) -> None:
        run = self._current(index, fresh=self._used())
        run.table, run.csv = True, m.re is _CSV_HEADER
        run.median = m["rank"] == "50.0"

    def _peer(self, index: int, m: re.Match[str]) -> None:
        run = self._current(index, fresh=self._used())
        run.server = True
        if m.re is _ACCEPTED:
            run.peer = m["peer"]

    def _ucx(self, index: int, m: re.Match[str]) -> None:
        run = self._current(index)
        run.host = run.host or m["host"]
        if m["level"] == "ERROR":
            run.error = run.error or m["text"].strip()
        for lane in _LANE.finditer(m["text"]):
            run.lanes[lane["device"]] = lane["transport"]

    def _row(self, index: int, text: str, run: _Run) -> bool:
        stage, cells = _split(text, csv=run.csv)
        if len(cells) not in (4, 8):
            return False
        if run.final is not None:  # the next test of a batch: its size is not printed
            run = self._current(index, fresh=True)
            before = self.runs[-2]
            run.table, run.csv, run.latency, run.median = True, before.csv, before.latency, before.median
            run.host, run.peer, run.server, run.lanes = before.host, before.peer, before.server, before.lanes
        if stage.startswith("[thread"):
            run.stages.append(cells)
            run.threads.add(stage)
        else:
            run.final = cells
        run.last = index
        self.segment.skip(index)
        return True


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One `RdmaTest` for each result, and for a table without one (the test hung or failed)."""
    reader = _Reader(segment)
    for index, line in enumerate(segment.lines):
        reader.read(index, line)
    for run in reader.runs:
        if run.table or run.header or run.error:
            yield _fact(run, segment)


SOURCE = Source(
    id="ucx-perftest",
    title="ucx_perftest",
    facts=(RdmaTest,),
    needles=("| API:", "# iterations |", "_percentile_lat"),
    signature=_SIGNATURE,
    parse=parse,
    versions="1.22 (from its source)",
)
