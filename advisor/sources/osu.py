"""OSU micro-benchmarks: pairs as `RdmaTest` (tool `osu_bw`, `osu_latency`, …), collectives as `CollectiveTest`.

UNVERIFIED in part: the layouts come from sources of 4.x and 7.x and from one public paste of 5.7. `MB/s` are 10^6
bytes; the latency of a pair is half a round trip. The fabric may be RDMA or TCP, the text does not say. Collectives
print times only, so their tests have no bandwidth; tool is `osu`.

    >>> SAMPLE = '''# OSU MPI-CUDA Bandwidth Test v7.3
    ... # Send Buffer on DEVICE (D) and Receive Buffer on DEVICE (D)
    ... # Size      Bandwidth (MB/s)
    ... 1                       0.62
    ... 4194304             24310.55
    ...
    ... # OSU MPI Allreduce Latency Test v7.3
    ... # Size       Avg Latency(us)
    ... 8                       4.10
    ... 1048576              1890.22
    ... '''
    >>> segment = Segment("osu.txt", SAMPLE.splitlines(), range(1, 99))
    >>> pair, collective = parse(segment)
    >>> pair.tool, pair.gpu_memory, pair.size_bytes, pair.average_gbit_s
    ('osu_bw', True, 4194304, 194.484)
    >>> collective.tool, collective.collective, collective.time_us, collective.busbw_gbyte_s
    ('osu', 'all_reduce', 4.1, None)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from advisor.facts import CollectiveTest, Fact, Origin, Point, RdmaPoint, RdmaTest
from advisor.facts.measurement import deciding_rdma_rows, deciding_rows, summarise, summarise_rdma
from advisor.sources.base import Problem, Segment, Source

_LONGEST_LINE = 400
_TITLE = re.compile(
    r"# ?OSU (?P<library>MPI|NCCL)(?P<call>_[A-Z]\w{1,30})?(?P<accelerator>-CUDA|-ROCM|-OPENACC)?"
    r" (?P<name>\S[^\n]{0,60}?) ?[Tt]est(?: v(?P<version>[\w.]{1,12}))?$"
)
_HEADER = re.compile(r"#? ?Size\s{1,40}(?:Bandwidth|Latency|Avg Latency|Overall|MB/s)")
_BARRIER = re.compile(r"# ?Avg Latency ?\(us\)")
_COLUMN = re.compile(
    r"Bandwidth \(MB/s\)|MB/s|Messages/s|(?:Avg |Min |Max |P\d\d(?:\.\d)? (?:Tail )?)?(?:Lat|Latency) ?\(us\)"
    r"|Overall\(us\)|Compute\(us\)|Coll\. Init\(us\)|MPI_Test\(us\)|MPI_Wait\(us\)|(?:Pure|Min|Max) Comm\.\(us\)"
    r"|Overlap\(%\)|Iterations|Validation|Trans[mf](?:it|er) Size"
)
_NUMBER = re.compile(r"\d{1,15}(?:\.\d{1,6})?")
_BUFFERS = re.compile(r"# Send Buffer on (\w{4,8}) .{0,12}and Receive Buffer on (\w{4,8}) ")
_PAIRS = re.compile(r"# \[ pairs: (\d{1,7}) \]")
_NO_FACT = re.compile(r"# (?:Datatype|Overall = |Window creation|Synchronization|Number of|Min |Buffer)")
_PROGRAM = re.compile(r"\bosu_[a-z_]{2,24}\b")
_COLLECTIVES = (
    ("allreduce", "all_reduce"), ("allgather", "all_gather"), ("reduce_scatter", "reduce_scatter"),
    ("all-to-all", "alltoall"), ("broadcast", "broadcast"), ("barrier", "barrier"), ("scatter", "scatter"),
    ("gather", "gather"), ("reduce", "reduce"),
)  # fmt: skip

_SIGNATURE = re.compile(
    r"^# ?OSU (?:MPI|NCCL)[_ -]|^# ?Size[ \t]{1,40}(?:Bandwidth \(MB/s\)|(?:Avg )?Latency ?\(us\))", re.MULTILINE
)


@dataclass(slots=True)
class _Run:
    """One benchmark under way; `first` and `last` are indexes of its own lines."""

    first: int
    last: int
    library: str | None = None
    call: str | None = None
    name: str = ""
    version: str | None = None
    gpu: bool | None = None
    pairs: int | None = None
    columns: tuple[str, ...] = ()
    rows: list[dict[str, float]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    barrier_us: float | None = None

    @property
    def collective(self) -> str | None:
        if self.call:
            return None
        low = self.name.lower()
        return next((name for word, name in _COLLECTIVES if word in low), None)


def _value(row: dict[str, float], *endings: str) -> float | None:
    return next((row[name] for ending in endings for name in row if name.replace(" (", "(").endswith(ending)), None)


def _average_us(row: dict[str, float]) -> float | None:
    """The average time of a row; of a non-blocking collective the time of its communication."""
    for name in ("Avg Latency(us)", "Avg Lat(us)", "Pure Comm.(us)"):
        if name in row:
            return row[name]
    return next((row[name] for name in ("Latency (us)", "Latency(us)") if name in row), None)


def _tool(run: _Run, command: str | None) -> str:
    m = _PROGRAM.search(command or "")
    if m:
        return m[0]
    low = run.name.lower()
    if "message rate" in low:
        return "osu_mbw_mr"
    kind = "latency" if "latency" in low else "bibw" if "bi-directional" in low else "bw"
    call = f"{run.call.lower()}_" if run.call else ""
    return f"osu_{'nccl_' if run.library == 'NCCL' else ''}{call}{kind}"


def _pair(run: _Run, segment: Segment) -> RdmaTest:
    points = []
    for row in run.rows:
        rate = _value(row, "Bandwidth(MB/s)", "MB/s")
        points.append(RdmaPoint(
            int(row["Size"]), None if rate is None else round(rate * 8 / 1e3, 6), t_avg_us=_average_us(row),
            t_min_us=row.get("Min Latency(us)"), t_max_us=row.get("Max Latency(us)"),
            t_typical_us=_value(row, "P50 Tail Lat(us)"), p99_us=_value(row, "P99 Tail Lat(us)"),
        ))  # fmt: skip
    low = run.name.lower()
    latency = any("Lat" in name for name in run.columns) if run.columns else "latency" in low
    operation = run.call.lower() if run.call else "send"
    fields = summarise_rdma(points)
    for name in ("average_gbit_s", "t_avg_us"):
        if fields.get(name) is not None:
            fields[name] = round(fields[name], 3)
    return RdmaTest(
        test=segment.at(run.first), tool=_tool(run, segment.command), tool_version=run.version, operation=operation,
        kind="latency" if latency else "bandwidth", pairs=run.pairs, unit=None if latency else "MB/s",
        bidirectional=None if latency or not run.name else "bi-directional" in low,
        round_trip=False if latency and operation == "send" else None, gpu_memory=run.gpu,
        origins=_origins(run, segment),
        said_at={name: segment.origin(run.lines[at]) for name, at in deciding_rdma_rows(points).items()}, **fields,
    )  # fmt: skip


def _collective(run: _Run, segment: Segment, name: str) -> CollectiveTest:
    points = [Point(int(row["Size"]), _average_us(row)) for row in run.rows if row["Size"]]
    lines = [line for line, row in zip(run.lines, run.rows, strict=True) if row["Size"]]
    fields = summarise(points)
    if run.barrier_us is not None:
        fields["time_us"] = run.barrier_us
    return CollectiveTest(
        test=segment.at(run.first), tool="osu", tool_version=run.version, collective=name,
        backend="nccl" if run.library == "NCCL" else None, origins=_origins(run, segment),
        said_at={name: segment.origin(lines[at]) for name, at in deciding_rows(points).items()}, **fields,
    )  # fmt: skip


def _origins(run: _Run, segment: Segment) -> tuple[Origin, ...]:
    return (replace(segment.origin(run.first), end=segment.numbers[run.last]),)


class _Reader:
    """Reads lines into benchmarks."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.runs: list[_Run] = []

    def _touch(self, index: int, run: _Run) -> None:
        run.last = index
        self.segment.skip(index)

    def read(self, index: int, line: str) -> None:
        text = line.strip()
        if not text or len(text) > _LONGEST_LINE:
            return
        run = self.runs[-1] if self.runs else None
        if text[0] == "#" or text.startswith("Size"):
            self._comment(index, text, run)
        elif run is not None and run.columns:
            self._row(index, text, run)

    def _comment(self, index: int, text: str, run: _Run | None) -> None:
        title = _TITLE.match(text)
        if title:
            self._title(index, title)
        elif _HEADER.match(text):
            if run is None or run.rows:
                run = _Run(index, index)
                self.runs.append(run)
            run.columns = ("Size", *_COLUMN.findall(text))
            self._touch(index, run)
        elif run is not None:
            self._detail(index, text, run)

    def _title(self, index: int, m: re.Match[str]) -> None:
        run = _Run(index, index, m["library"], (m["call"] or "").lstrip("_") or None, m["name"], m["version"])
        run.gpu = None if m["accelerator"] or m["library"] == "NCCL" else False
        self.runs.append(run)
        self._touch(index, run)

    def _detail(self, index: int, text: str, run: _Run) -> None:
        buffers, pairs = _BUFFERS.match(text), _PAIRS.match(text)
        if buffers:
            run.gpu = "HOST" not in (buffers[1], buffers[2])
        elif pairs:
            run.pairs = int(pairs[1])
        elif _BARRIER.match(text):
            run.columns = tuple(_COLUMN.findall(text))
        elif not _NO_FACT.match(text):
            return
        self._touch(index, run)

    def _row(self, index: int, text: str, run: _Run) -> None:
        cells = text.split()
        if len(cells) != len(run.columns):
            return
        numbers = {name: float(cell) for name, cell in zip(run.columns, cells, strict=True) if _NUMBER.fullmatch(cell)}
        if run.columns[0] != "Size" and len(numbers) == len(cells):
            run.barrier_us = _average_us(numbers)
        elif len(numbers) >= 2 and "Size" in numbers and "." not in cells[0]:
            run.rows.append(numbers)
            run.lines.append(index)
        else:
            return
        self._touch(index, run)


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One test for each table; a title without rows is one too (it hung or failed)."""
    reader = _Reader(segment)
    for index, line in enumerate(segment.lines):
        reader.read(index, line)
    for run in reader.runs:
        name = run.collective
        alone = not run.name and any(column.startswith("Avg Latency") for column in run.columns)
        if name:
            yield _collective(run, segment, name)
        elif not alone:  # a table of averages without its title: which collective it was is not known
            yield _pair(run, segment)


SOURCE = Source(
    id="osu",
    title="OSU micro-benchmarks",
    facts=(RdmaTest, CollectiveTest),
    needles=("OSU ", "Size"),
    signature=_SIGNATURE,
    parse=parse,
    versions="4.x to 7.x (from sources and one paste)",
)
