"""`nccl-tests` and `rccl-tests`: one `CollectiveTest` for each table, from text or from the `-J` JSON.

Seen: nccl-tests 1.0.0 to 2.19.6 (layouts from the sources of the tags, 2.19.6 also from real runs), rccl-tests of
2024. Columns are read from the header row; a table without one is known by its number of cells. The program writes a
row in two or three parts, so that NCCL's own lines may stand in the midst of it: the parts are joined again.

    >>> SAMPLE = '''# nThread 1 nGpus 2 minBytes 1048576 maxBytes 4194304 step: 4(factor) warmup iters: 1 iters: 20
    ... # Using devices
    ... #  Rank  0 Group  0 Pid   4021 on     node07 device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
    ... #  Rank  1 Group  0 Pid   4021 on     node07 device  1 [0000:43:00] NVIDIA H100 80GB HBM3
    ... #      size     count    type redop  root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
    ... #       (B) (elements)                        (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
    ...     1048576    262144   float   sum    -1    25.10   41.78   41.78       0    24.90   42.11   42.11       0
    ...     4194304   1048576   float   sum    -1
    ...    40.20  104.34  104.34       0    39.90  105.12  105.12       0
    ... # Out of bounds values : 0 OK
    ... # Avg bus bandwidth    : 73.3375
    ... '''
    >>> segment = Segment("tests.txt", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.host, f.collective, f.nranks, f.size_bytes, f.busbw_gbyte_s, f.wrong) for f in parse(segment)]
    [('node07', 'all_reduce', 2, 4194304, 105.12, 0)]
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor, isfinite
from pathlib import PurePosixPath
from typing import Any

from advisor.facts import CollectiveTest, EnvVar, Fact, Origin, Point
from advisor.facts.measurement import deciding_rows, summarise
from advisor.sources.base import Problem, Segment, Source

_TYPE_NAMES = (
    "int8", "uint8", "int32", "uint32", "int64", "uint64", "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2",
    "fp8_e4m3", "fp8_e5m2", "char", "int",
)  # fmt: skip
_TYPES = frozenset(_TYPE_NAMES)
_LONGEST_LINE = 4000  # characters; a row has about 200, a failure quotes the library's last message

# 1.23   1.2e+06   1,23 (spreadsheet)   0* (rccl-tests: above the threshold)   5e-07 (delta before v2.13)
_NUMBER = re.compile(r"[-+]?\d{1,20}(?:[.,]\d{1,12})?(?:e[-+]?\d{1,3})?\*?", re.IGNORECASE)
_NO_NUMBER = frozenset({"N/A", "nan", "-nan", "inf", "-inf"})
_SIZE = re.compile(r"\d{1,18}")
_STAMP = re.compile(r"\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d")

_VERSION = re.compile(r"nccl-tests version (\S{1,40})(?: nccl-headers=(\d{1,9}))?(?: nccl-library=(\d{1,9}))?")
_STARTING = re.compile(r"Collective test (?:starting|concluded): (\S{1,200})")
_CONFIG = re.compile(r"nThread +(\d{1,9}) +nGpus +(\d{1,9})(?: |$)")
_VALIDATION = re.compile(r"validation: (\d{1,9})")
_RANK = re.compile(
    r"Rank +(?P<rank>\d{1,9}) +(?:Group +(?P<group>\d{1,9}) +)?(?:Pid +(?P<pid>\d{1,10}) +)?on +(?P<host>\S{1,255})"
    r" +device +\d{1,9} +\[[^\]]{0,40}\] ?(?P<gpu>.{0,200})"
)
_CUT_RANK = re.compile(r"Rank +\d{1,9} [^\n]{0,300}\.\.\.$")
_HEADER = re.compile(r"(?:size|bytes)\s+(?:count|N)\s+type\s[^\n]{0,400}(?:alg|bus)bw")
_HEADER_AROUND = re.compile(r"\(B\)\s+\(elements\)|(?:out-of|in)-place|\(us\)\s+\(GB/s\)")
_BOUNDS = re.compile(r"Out of bounds values +: +(\d{1,18}) ")
_AVERAGE = re.compile(r"Avg bus bandwidth +: +(\S{1,40})")
_RCCL = re.compile(r"rccl-tests: Version (\S{1,80})")
_FAILURE = re.compile(r"\S{1,255}: Test (?:NCCL|CUDA|HIP) failure \S{1,300} '(?P<text>.{0,2000})")
_TIMEOUT = re.compile(r"\S{1,255}: (?P<text>Test timeout \(\d{1,9}s\))")
_TRACE = re.compile(r"\.\. \S{1,255}(?: pid \d{1,10})?: Test failure ")
_GPU_COUNT = re.compile(r"(?P<text>Invalid number of GPUs: .{0,200})")
_NO_FACT = re.compile(
    r"Using devices|Blocking Enabled|Parallel Init Enabled|Swap Comms Enabled|Per-Iteration Report|Writing JSON output|"
    r"GPU memory usage|Reducing maxBytes to|NCCL Tests compiled with|Testing \d{1,9} cycle|Errors with asterisks|"
    r"Please check the number of processes|error: "
)
_PROGRAM = re.compile(r"\b([a-z]{3,12}(?:_[a-z]{3,12}){0,2})_perf\b")

_SIGNATURE = re.compile(
    r"^[ \t#]{0,200}(?:nccl-tests version |nThread +\d|(?:size|bytes)[ \t]{1,99}(?:count|N)[ \t]{1,99}type\b"
    r"|Avg bus bandwidth {1,9}:|rccl-tests: Version)|: Test (?:NCCL|CUDA|HIP) failure |: Test timeout \(\d"
    r'|"average_bus_bandwidth"|"out_of_place"'
    rf"|^[ \t]*\d{{1,18}}[ \t]+\d{{1,18}}[ \t]+(?:{'|'.join(_TYPE_NAMES)})(?:[ \t]+\S{{1,24}}){{8,20}}[ \t]*$",
    re.MULTILINE,
)
_NEEDLES = (
    "nccl-tests", "rccl-tests", "nThread", "type", "bus bandwidth", "Test NCCL failure", "Test CUDA failure",
    "Test HIP failure", "Test timeout", "average_bus_bandwidth", "out_of_place", "half", "float", "double", "int",
    "char", "f8", "fp8",
)  # fmt: skip


@dataclass(slots=True, frozen=True)
class _Columns:
    """Columns of a table: before the first time, then one group for each placement."""

    left: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    in_place_only: bool = False
    us_per_unit: float = 1.0

    @property
    def width(self) -> int:
        return len(self.left) + sum(map(len, self.groups))


@dataclass(slots=True, frozen=True)
class _Row:
    """A measured row with what tells the collective: redop None where there is no such column."""

    point: Point
    redop: str | None = None
    root: int | None = None
    checked: tuple[bool, bool] = (False, False)
    line: int | None = None


@dataclass(slots=True, frozen=True)
class _Device:
    """A line of the list of devices."""

    rank: int
    group: int
    pid: int | None
    host: str
    gpu: str | None


@dataclass(slots=True)
class _Run:
    """What was read of one table so far; `first` and `last` are indexes of its own lines."""

    first: int
    last: int
    tool: str = "nccl-tests"
    seen: set[str] = field(default_factory=set)
    program: str | None = None
    version: str | None = None
    headers: str | None = None
    library: str | None = None
    processes_gpus: int | None = None  # GPUs of one process: nThread * nGpus
    validated: bool | None = None
    devices: list[_Device] = field(default_factory=list)
    cut: bool = False
    columns: _Columns | None = None
    width: int | None = None  # cells of the first row, where there is no header
    rows: list[_Row] = field(default_factory=list)
    averages: list[float] = field(default_factory=list)
    average_line: int | None = None
    bounds: int | None = None
    finished: bool = False
    failures: list[tuple[int, str]] = field(default_factory=list)
    unfinished: int | None = None
    shown: str | None = None  # text of the origin where it is not the first line

    @property
    def interleaved(self) -> bool:
        """Several processes, each rank 0 of its own job, wrote this table together."""
        return sum(1 for device in self.devices if device.rank == 0) > 1

    def closed(self, kind: str) -> bool:
        """Whether a line of the head of a table (`kind`) starts another one."""
        if self.rows or self.finished or self.failures or self.columns:
            return True
        return kind in self.seen and any(device.rank for device in self.devices)


def _number(text: str) -> float | None:
    if not _NUMBER.fullmatch(text):
        return None
    value = float(text.rstrip("*").replace(",", "."))
    return value if isfinite(value) else None


def _is_cell(text: str) -> bool:
    return text in _NO_NUMBER or _NUMBER.fullmatch(text) is not None or _STAMP.fullmatch(text) is not None


def _nccl_version(code: int) -> str | None:
    """22803 -> 2.28.3; before 2.9 the thousands were the major version: 2708 -> 2.7.8."""
    if code >= 10000:
        return f"{code // 10000}.{code // 100 % 100}.{code % 100}"
    return f"{code // 1000}.{code // 100 % 10}.{code % 100}" if code >= 1000 else None


# --- header and rows ---------------------------------------------------------------------------------------------


def _columns(header: str, above: str) -> _Columns | None:
    """Columns of a header row; `above` is the line before it, which says whether a lone group is in-place."""
    renamed = {"bytes": "size", "N": "count", "op": "redop", "cputime": "time", "#wrong": "wrong"}
    words = [renamed.get(word, word) for word in header.lstrip("# ").split() if word != "timestamp"]
    starts = [at for at, word in enumerate(words) if word == "time"]
    if not starts or len(starts) > 2:
        return None
    ends = [*starts[1:], len(words)]
    groups = tuple(tuple(words[start:end]) for start, end in zip(starts, ends, strict=True))
    alone = len(groups) == 1 and "in-place" in above and "out-of-place" not in above
    first_release = header.lstrip("# ").startswith("bytes")  # v1.0.0 printed milliseconds
    return _Columns(tuple(words[: starts[0]]), groups, alone, 1000.0 if first_release else 1.0)


_GROUP = ("time", "algbw", "busbw", "wrong")
_LONG_GROUP = (*_GROUP, "i_min", "i_max", "i_p99", "i_cv%")
_OLD_GROUP = ("time", "algbw", "busbw", "error")
_DELTAS = frozenset({"error", "res", "delta"})  # columns of the largest deviation, not a count
_CHECKS = ("wrong", *_DELTAS)


def _columns_of(cells: Sequence[str]) -> _Columns | None:
    """Columns of a row without header, by its number of cells and, where these are not enough, its fourth cell."""
    key = ("size", "count", "type")
    match len(cells):
        case 11:
            return _Columns(key, (_OLD_GROUP,) * 2)
        case 12:
            return _Columns((*key, "redop" if cells[3].isalpha() else "root"), (_OLD_GROUP,) * 2)
        case 13:  # reduce had 13 cells before v2.13 too, with a delta (0e+00, 5e-07) as the last of each group
            old = re.fullmatch(r"\de(?:-\d\d|\+0[0-5])", cells[8]) is not None
            return _Columns((*key, "redop", "root"), (_OLD_GROUP if old else _GROUP,) * 2)
        case 21:
            return _Columns((*key, "redop", "root"), (_LONG_GROUP,) * 2)
    return None


def _half(names: Sequence[str], cells: Sequence[str], us_per_unit: float) -> dict[str, float | None]:
    values = {name: _number(cell) for name, cell in zip(names, cells, strict=True)}
    if us_per_unit != 1 and values["time"] is not None:
        values["time"] = round(values["time"] * us_per_unit, 3)
    return values


def _row(cells: list[str], columns: _Columns | None) -> _Row | None:
    """A row from its cells, None if they do not fit the columns."""
    columns = columns or _columns_of(cells)
    if columns is None:
        return None
    if len(cells) == columns.width - 1 and "redop" in columns.left and _number(cells[3]) is not None:
        cells = [*cells[:3], "", *cells[3:]]  # hypercube prints no name of an operation
    if len(cells) != columns.width:
        return None
    left = dict(zip(columns.left, cells[: len(columns.left)], strict=True))
    if not _SIZE.fullmatch(left.get("size", "")) or not all(map(_is_cell, cells[len(columns.left) :])):
        return None
    halves, start = [], len(columns.left)
    for names in columns.groups:
        halves.append(_half(names, cells[start : start + len(names)], columns.us_per_unit))
        start += len(names)
    if any((half["time"] or 0.0) < 0 for half in halves):
        return None  # a cut row whose root (-1) was taken for the time
    if columns.in_place_only:
        halves.insert(0, {})
    root = _number(left.get("root", ""))
    return _make_row(int(left["size"]), halves, left.get("redop"), None if root is None else int(root))


def _make_row(size: int, halves: list[dict[str, float | None]], redop: str | None, root: int | None) -> _Row:
    out, inside = halves[0], halves[1] if len(halves) > 1 else {}
    wrong = [half["wrong"] for half in (out, inside) if half.get("wrong") is not None]
    point = Point(
        size, out.get("time"), out.get("algbw"), out.get("busbw"), inside.get("time"), inside.get("algbw"),
        inside.get("busbw"), int(sum(value or 0.0 for value in wrong)) if wrong else None,
    )  # fmt: skip
    checks = [any(half.get(name) is not None for name in _CHECKS) for half in (out, inside)]
    return _Row(point, redop, root, (checks[0], checks[1]))


# --- which collective, how many ranks ----------------------------------------------------------------------------


def _ratio(rows: Sequence[_Row]) -> tuple[float, float] | None:
    """Ratio busbw / algbw of the fastest row and how far rounding may have moved it; None below 1 GB/s."""
    pairs = [
        (p.algbw_gbyte_s, p.busbw_gbyte_s) if p.busbw_gbyte_s else (p.in_place_algbw_gbyte_s, p.in_place_busbw_gbyte_s)
        for p in (row.point for row in rows)
    ]
    known = [(algbw, busbw) for algbw, busbw in pairs if algbw is not None and busbw]
    if not known:
        return None
    algbw, busbw = max(known)
    if algbw < 1:
        return None
    # two decimals, fewer where the number fills its six characters
    unit = 0.006 if max(algbw, busbw) < 1000 else 0.06 if max(algbw, busbw) < 10000 else 0.6
    return busbw / algbw, busbw / algbw * (unit / algbw + unit / busbw)


def _only_integer(low: float, high: float) -> int | None:
    return ceil(low) if ceil(low) == floor(high) else None


def _ranks_from(ratio: tuple[float, float], collective: str) -> int | None:
    """Number of ranks that the factor of a collective allows for, None unless it is one alone."""
    value, blur = ratio
    if collective == "all_reduce":  # 2(n-1)/n
        return _only_integer(2 / (2 - value + blur), 2 / (2 - value - blur)) if value + blur < 2 else None
    if collective in ("all_gather", "reduce_scatter", "alltoall", "gather", "scatter"):  # (n-1)/n
        return _only_integer(1 / (1 - value + blur), 1 / (1 - value - blur)) if value + blur < 1 else None
    return None


def _family(redop: str | None, root: int | None, checked: tuple[bool, bool]) -> dict[str, str]:
    """Collectives that print such columns, by their factor: `twice` 2(n-1)/n, `part` (n-1)/n, `whole` 1."""
    rooted = root is not None and root >= 0
    no_in_place = checked == (True, False)  # sendrecv and the all-to-alls have no in-place check
    if redop == "":
        return {"whole": "hypercube"}
    if redop not in (None, "none"):
        if rooted:
            return {"whole": "reduce"}
        if no_in_place:
            return {"whole": "sendrecv"}
        both = {"twice": "all_reduce", "part": "reduce_scatter"}
        return both if checked == (True, True) else both | {"whole": "sendrecv"}
    if rooted:
        return {"whole": "broadcast"}
    if no_in_place:
        return {"part": "alltoall"}
    return {"part": "all_gather"} if checked == (True, True) else {}


def _possible(kind: str, ratio: tuple[float, float], nranks: int | None) -> bool:
    """Whether a factor of this kind can give the ratio."""
    value, blur = ratio
    if kind == "whole":
        return abs(value - 1) <= blur
    if nranks is not None:
        factor = (nranks - 1) / nranks
        return nranks > 1 and abs(value - (2 * factor if kind == "twice" else factor)) <= blur
    if kind == "twice":
        return 1 - blur <= value <= 2 + blur
    return value < 1 - blur and ceil(1 / (1 - value + blur)) <= floor(1 / (1 - value - blur))


def _collective(rows: Sequence[_Row], nranks: int | None) -> str | None:
    """The collective by its factor and columns, None unless only one is possible."""
    ratio = _ratio(rows)
    if ratio is None:
        return None
    checked = (any(row.checked[0] for row in rows), any(row.checked[1] for row in rows))
    family = _family(rows[-1].redop, rows[-1].root, checked)
    names = [name for kind, name in family.items() if _possible(kind, ratio, nranks)]
    return names[0] if len(names) == 1 else None


# --- a table as a fact -------------------------------------------------------------------------------------------


def _ranks(run: _Run) -> tuple[int | None, int | None]:
    """Ranks of one communicator and number of communicators (NCCL_TESTS_SPLIT) as the list of devices has them."""
    groups = {device.group for device in run.devices}
    if not groups:
        return None, None
    if not run.cut:
        ranks = Counter(group for _, group in {(device.rank, device.group) for device in run.devices})
        return max(ranks.values()), len(groups)
    if run.processes_gpus is None or len(groups) > 1:
        return None, None
    return len({(device.host, device.pid) for device in run.devices}) * run.processes_gpus, 1


def _program(run: _Run, segment: Segment) -> str | None:
    for text in (run.program, segment.command, PurePosixPath(segment.file).name):
        m = _PROGRAM.search(text or "")
        if m:
            return m[1]
    return None


def _launched(command: str | None) -> int | None:
    """Processes that a launcher's command line starts; what stands behind the program belongs to the program."""
    words = (command or "").split()
    count = nodes = per_node = None
    launchers = ("mpirun", "mpiexec", "orterun", "prterun", "srun", "mpiexec.hydra")
    if not any(PurePosixPath(word).name in launchers for word in words):
        return None
    for at, word in enumerate(words):
        if "_perf" in word:
            break
        name, _, value = word.partition("=")
        value = value or (words[at + 1] if at + 1 < len(words) else "")
        if re.fullmatch(r"-n\d{1,7}|-N\d{1,7}", word):
            name, value = word[:2], word[2:]
        if not re.fullmatch(r"\d{1,7}", value):
            continue
        if name in ("-np", "--np", "-n", "--ntasks", "--n"):
            count = int(value)
        elif name in ("-N", "--nodes") and "srun" in (command or ""):
            nodes = int(value)
        elif name in ("--ntasks-per-node",):
            per_node = int(value)
    return count if count is not None else nodes * per_node if nodes and per_node else None


def _places(run: _Run) -> dict[str, Any]:
    """What the list of devices says about hosts and GPUs."""
    if not run.devices:
        return {}
    hosts = tuple(dict.fromkeys(device.host for device in run.devices))
    gpus = {device.gpu for device in run.devices if device.gpu}
    found: dict[str, Any] = {"hosts": hosts, "gpu": gpus.pop() if len(gpus) == 1 else None}
    if len(hosts) == 1:
        found["host"] = hosts[0]
    if not run.interleaved:
        found["nnodes"] = len(hosts)
        per_host = Counter(host for host, _ in {(device.host, device.rank) for device in run.devices})
        if run.cut:  # the list is not whole: count the processes
            pids = Counter(host for host, _ in {(device.host, device.pid) for device in run.devices})
            found["gpus_per_host"] = max(pids.values()) * run.processes_gpus if run.processes_gpus else None
        else:
            found["gpus_per_host"] = max(per_host.values())
    return found


def _wrong(run: _Run, summed: int | None) -> int | None:
    """Wrong elements; before v2.13 rows carry a delta and only the last lines say how many values are out of bounds."""
    if run.bounds:
        return max(summed or 0, run.bounds)
    if summed is None and run.bounds == 0 and run.columns and run.validated is not False:
        return 0 if any(_DELTAS.intersection(group) for group in run.columns.groups) else None
    return summed


def _origins(run: _Run, segment: Segment) -> tuple[Origin, ...]:
    origin = replace(segment.origin(run.first, text=run.shown), end=segment.numbers[run.last])
    return (origin, *(segment.origin(index) for index, _ in run.failures[:1]))


def _said_at(run: _Run, segment: Segment) -> dict[str, Origin]:
    """Where single fields of the table were read: the largest row, the smallest, the failure."""
    said = {
        name: segment.origin(line)
        for name, at in deciding_rows([row.point for row in run.rows]).items()
        if (line := run.rows[at].line) is not None
    }
    if run.average_line is not None:
        said["average_busbw_gbyte_s"] = segment.origin(run.average_line)
    if run.failures:
        said |= dict.fromkeys(("failed", "error"), segment.origin(run.failures[0][0]))
    return said


def _test(run: _Run, segment: Segment, tables: int | None) -> CollectiveTest:
    fields: dict[str, Any] = summarise([row.point for row in run.rows]) | _places(run)
    fields["wrong"] = _wrong(run, fields.get("wrong"))
    nranks, groups = _ranks(run)
    ratio = _ratio(run.rows)
    collective = _program(run, segment) or _collective(run.rows, nranks)
    if nranks is None and fields.get("zero_busbw"):
        nranks = 1  # the factor of one rank, and of no other number, is 0
    elif nranks is None and ratio and collective:
        nranks = _ranks_from(ratio, collective)
    failed = True if run.failures else False if run.finished else None
    return CollectiveTest(
        test=segment.at(run.first), tool=run.tool, tool_version=run.version, collective=collective, nranks=nranks,
        groups=groups, nccl_version=run.library, headers_version=run.headers, tables=tables, failed=failed,
        average_busbw_gbyte_s=run.averages[0] if len(run.averages) == 1 else None,
        launched=_launched(segment.command), unfinished_size_bytes=None if run.finished else run.unfinished,
        error=run.failures[0][1] if run.failures else None, origins=_origins(run, segment),
        said_at=_said_at(run, segment), **fields,
    )  # fmt: skip


# --- text --------------------------------------------------------------------------------------------------------


class _Reader:
    """Reads lines into runs; a line that is not of this tool leaves it as it was."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.runs: list[_Run] = []
        self.problems: list[Problem] = []
        self.cells: list[str] = []
        self.cell_lines: list[int] = []
        self.patterns = (
            (_RANK, self._rank), (_CONFIG, self._config), (_VERSION, self._version), (_STARTING, self._starting),
            (_HEADER, self._header), (_HEADER_AROUND, self._skip), (_BOUNDS, self._bounds),
            (_AVERAGE, self._average), (_CUT_RANK, self._cut), (_RCCL, self._rccl), (_FAILURE, self._failure),
            (_TIMEOUT, self._failure), (_GPU_COUNT, self._failure), (_TRACE, self._trace), (_NO_FACT, self._skip),
        )  # fmt: skip

    @property
    def run(self) -> _Run | None:
        return self.runs[-1] if self.runs else None

    def read(self, index: int, line: str) -> None:
        text = line.strip()
        if not text or " NCCL INFO " in text or len(text) > _LONGEST_LINE:
            return
        if text[0].isdigit() or text in _NO_NUMBER:
            self._cells(index, text)
            return
        body = text.lstrip("# ") if text[0] == "#" else text
        if not body and self.run is not None:
            self.segment.skip(index)
        for pattern, method in self.patterns:
            m = pattern.match(body)
            if m:
                method(index, m)
                return

    def finish(self) -> None:
        self._end_row(last=True)

    # lines before the table

    def _open(self, index: int, kind: str) -> _Run:
        run = self.run
        if run is None or run.closed(kind):
            self._end_row(last=True)
            run = _Run(index, index)
            self.runs.append(run)
        run.seen.add(kind)
        return self._touch(index, run)

    def _touch(self, index: int, run: _Run) -> _Run:
        run.last = index
        self.segment.skip(index)
        return run

    def _current(self, index: int) -> _Run:
        run = self.run
        if run is None:
            run = _Run(index, index)
            self.runs.append(run)
        return self._touch(index, run)

    def _skip(self, index: int, _: re.Match[str]) -> None:
        self.segment.skip(index)

    def _version(self, index: int, m: re.Match[str]) -> None:
        run = self._open(index, "version")
        run.version = m[1]
        run.headers = _nccl_version(int(m[2])) if m[2] else None
        run.library = _nccl_version(int(m[3])) if m[3] else None

    def _starting(self, index: int, m: re.Match[str]) -> None:
        if "concluded" in m[0]:
            run = self._current(index)
            run.finished = True
        else:
            run = self._open(index, "starting")
        run.program = m[1]

    def _config(self, index: int, m: re.Match[str]) -> None:
        run = self._open(index, "config")
        run.processes_gpus = int(m[1]) * int(m[2])
        check = _VALIDATION.search(m.string)
        run.validated = int(check[1]) > 0 if check else None

    def _rccl(self, index: int, m: re.Match[str]) -> None:
        run = self._open(index, "rccl")
        run.tool, run.version = "rccl-tests", m[1]

    def _rank(self, index: int, m: re.Match[str]) -> None:
        run = self._open(index, "rank")
        pid = int(m["pid"]) if m["pid"] else None
        run.devices.append(_Device(int(m["rank"]), int(m["group"] or 0), pid, m["host"], m["gpu"].strip() or None))
        run.seen.discard("rank")  # ranks follow one another; only a finished head ends their list
        run.cut = run.cut or m["gpu"].endswith("...")

    def _cut(self, index: int, _: re.Match[str]) -> None:
        self._open(index, "cut").cut = True

    def _header(self, index: int, m: re.Match[str]) -> None:
        run = self.run
        self._end_row(last=run is None or not run.interleaved)
        if run is None or run.finished or (run.rows and not run.interleaved):
            run = _Run(index, index)
            self.runs.append(run)
        above = self.segment.lines[index - 1] if index else ""
        run.columns = _columns(m.string, above) or run.columns
        self._touch(index, run)

    # the table

    def _complete(self) -> bool:
        cells = len(self.cells)
        run = self.run
        return cells >= run.columns.width if run and run.columns else cells in (11, 12, 13, 21)

    def _cells(self, index: int, text: str) -> None:
        cells = text.split()
        starts = len(cells) > 3 and cells[2] in _TYPES and all(map(_SIZE.fullmatch, cells[:2]))
        if starts:
            self._end_row()
        elif not self.cells or self._complete() or not all(map(_is_cell, cells)):
            return
        self.cells += [cell for cell in cells if not _STAMP.fullmatch(cell)]
        self.cell_lines.append(index)
        if self._complete():
            self._end_row()

    def _end_row(self, *, last: bool = False) -> None:
        """Take the row that the parts make; `last`: nothing more of this table follows."""
        cells, lines = self.cells, self.cell_lines
        self.cells, self.cell_lines = [], []
        if not cells:
            return
        run = self.run
        if run is None or (run.finished and not run.interleaved):
            run = _Run(lines[0], lines[0])
            self.runs.append(run)
        for index in lines:
            self._touch(index, run)
        run.width = run.width or len(cells)
        row = _row(cells, run.columns) if run.columns or run.width == len(cells) else None
        if row is not None:
            if row.point.size_bytes:  # alltoall starts with a row of 0 bytes where the size is below the ranks
                run.rows.append(replace(row, line=lines[0]))
            return
        number = self.segment.numbers[lines[0]]
        if last and all(map(_is_cell, cells[5:])):
            run.unfinished = int(cells[0])
            self.problems.append(Problem(number, f"The row of {cells[0]} bytes ends early."))
        else:
            self.problems.append(Problem(number, f"The row of {cells[0]} bytes does not fit its columns."))

    # lines after the table

    def _bounds(self, index: int, m: re.Match[str]) -> None:
        self._end_row(last=True)
        run = self._current(index)
        run.bounds = (run.bounds or 0) + int(m[1])

    def _average(self, index: int, m: re.Match[str]) -> None:
        self._end_row(last=True)
        run = self._current(index)
        run.finished = True
        value = _number(m[1])
        if value is not None:
            run.averages.append(value)
            run.average_line = index

    def _failure(self, index: int, m: re.Match[str]) -> None:
        self._end_row(last=True)
        run = self._current(index) if self.run is None or not self.run.finished else self._open(index, "failure")
        run.failures.append((index, m["text"].rstrip().removesuffix("'").rstrip(" /")))

    def _trace(self, index: int, _: re.Match[str]) -> None:
        run = self._current(index)
        if not run.failures:
            run.failures.append((index, self.segment.lines[index].strip()[:300]))


def _tables(runs: Sequence[_Run]) -> int | None:
    """How many lists of devices hold rank 0 and no other; None where no list was printed."""
    ranks = [device.rank for run in runs for device in run.devices]
    if not ranks:
        return None
    return sum(1 for rank, following in zip(ranks, [*ranks[1:], 0], strict=True) if rank == 0 and following != 1)


# --- JSON --------------------------------------------------------------------------------------------------------

_KEPT_ENV = re.compile(r"(?:NCCL|UCX|FI|OMPI|SLURM)_[A-Z0-9_]{1,100}")
_SECRET = re.compile(r"TOKEN|SECRET|PASS|JWT|CRED|_KEY")
_DECODER = json.JSONDecoder()


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) else None


def _int(value: object) -> int | None:
    number = _float(value)
    return None if number is None else int(number)


def _decode(text: str, start: int) -> tuple[Any, int] | None:
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None


def _salvage(text: str, start: int) -> dict[str, Any]:
    """What a cut object still holds: whole values of the keys that matter and the whole rows of `results`."""
    found: dict[str, Any] = {}
    for key in ("args", "env", "nccl_version", "config"):
        m = re.compile(rf'"{key}"\s*:\s*').search(text, start)
        value = _decode(text, m.end()) if m else None
        if value is not None:
            found[key] = value[0]
    m = re.compile(r'"results"\s*:\s*\[[\s,]*').search(text, start)
    rows, at = [], m.end() if m else len(text)
    separator = re.compile(r"[\s,]*")
    while (row := _decode(text, at)) is not None:
        rows.append(row[0])
        at = separator.match(text, row[1]).end()  # type: ignore[union-attr]
    return found | {"results": rows}


def _json_objects(text: str) -> Iterator[tuple[dict[str, Any], int, int, bool]]:
    """Each result object of the text: the object, its first and last character, whether it is whole."""
    at, tries = text.find("{"), 0
    while at >= 0 and tries < 20:
        found = _decode(text, at)
        if found is None:
            tries += 1
            following = text.find("\n{", at + 1)
            piece_end = len(text) if following < 0 else following
            if '"nccl_version"' in text[at:piece_end]:
                yield _salvage(text[at:piece_end], 0), at, piece_end - 1, False
            at = following + 1 if following >= 0 else -1
            continue
        value, end = found
        if "results" in _object(value) and ("config" in value or "average_bus_bandwidth" in value):
            yield value, at, end - 1, True
        at = text.find("{", end)


def _json_half(value: object) -> dict[str, float | None]:
    half = _object(value)
    time = half.get("time", half.get("cpu_time"))
    return {
        "time": _float(time), "algbw": _float(half.get("alg_bw")), "busbw": _float(half.get("bus_bw")),
        "wrong": _float(half.get("nwrong")),
    }  # fmt: skip


def _json_row(value: object) -> _Row | None:
    row = _object(value)
    size = _int(row.get("size"))
    if not size or size < 0:
        return None
    root = _number(str(row.get("root", "")).strip())
    halves = [_json_half(row.get("out_of_place")), _json_half(row.get("in_place"))]
    redop = row.get("redop")
    return _make_row(size, halves, redop if isinstance(redop, str) else None, None if root is None else int(root))


def _json_devices(config: dict[str, Any]) -> Iterator[_Device]:
    for item in _list(config.get("devices")):
        device = _object(item)
        rank, host = _int(device.get("rank")), device.get("hostname")
        if rank is not None and isinstance(host, str) and host:
            gpu = device.get("device_info")
            name = gpu.strip() if isinstance(gpu, str) else ""
            yield _Device(rank, _int(device.get("group")) or 0, _int(device.get("pid")), host, name or None)


def _json_run(value: dict[str, Any], first: int, last: int, *, whole: bool) -> _Run:
    config = _object(value.get("config"))
    run = _Run(first, last)
    arguments = [word for word in _list(value.get("args")) if isinstance(word, str)]
    run.program = PurePosixPath(arguments[0]).name if arguments else None
    run.library = _nccl_version(_int(value.get("nccl_version")) or 0)
    threads, gpus = _int(config.get("nthreads")), _int(config.get("ngpus"))
    run.processes_gpus = threads * gpus if threads and gpus else None
    run.devices = list(_json_devices(config))
    run.shown = f'{{"results": [{len(_list(value.get("results")))} rows]}}'  # the first line may hold the environment
    run.cut = True  # the list may hold the first rank of each process only
    run.rows = [row for item in _list(value.get("results")) if (row := _json_row(item))]
    average = _float(_object(value.get("average_bus_bandwidth")).get("bandwidth"))
    run.averages = [] if average is None else [average]
    run.bounds = _int(_object(value.get("out_of_bounds")).get("count"))
    run.finished = whole and average is not None
    if not run.finished:  # on success `errors` may still hold NCCL's last message
        run.failures = [(first, text) for text in _list(value.get("errors")) if isinstance(text, str) and text.strip()]
    return run


def _environment(value: dict[str, Any], origin: Origin, host: str | None) -> Iterator[EnvVar]:
    """Settings of the network only: the file holds the whole environment, secrets included."""
    for item in _list(value.get("env")):
        name, equals, content = item.partition("=") if isinstance(item, str) else ("", "", "")
        if equals and _KEPT_ENV.fullmatch(name) and not _SECRET.search(name):
            yield EnvVar(name=name, value=content, where="environment", host=host, origins=(origin,))


def _json(segment: Segment, taken: set[int]) -> Iterator[Fact | Problem]:
    """Tests of the JSON objects in the text; the indexes of their lines go into `taken`."""
    text = segment.text
    line_ends = [m.start() for m in re.finditer("\n", text)]
    for value, start, end, whole in _json_objects(text):
        first, last = bisect_left(line_ends, start), bisect_left(line_ends, end)
        run = _json_run(value, first, last, whole=whole)
        segment.skip(first, last)
        taken.update(range(first, last + 1))
        tables = _tables([run]) if run.processes_gpus == 1 else None
        fact = _test(run, segment, tables)
        yield fact
        yield from _environment(value, fact.origins[0], fact.host)
        if not whole:
            yield Problem(segment.numbers[first], f"The JSON object ends early, after {len(run.rows)} whole rows.")


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One `CollectiveTest` for each table; of the JSON also the network variables of its environment."""
    taken: set[int] = set()
    if '"bus_bw"' in segment.text or '"average_bus_bandwidth"' in segment.text:
        yield from _json(segment, taken)
    reader = _Reader(segment)
    for index, line in enumerate(segment.lines):
        if index not in taken:
            reader.read(index, line)
    reader.finish()
    tables = _tables(reader.runs)
    for run in reader.runs:
        yield _test(run, segment, tables)
    yield from reader.problems


SOURCE = Source(
    id="nccl-tests",
    title="nccl-tests, rccl-tests",
    facts=(CollectiveTest, EnvVar),
    needles=_NEEDLES,
    signature=_SIGNATURE,
    parse=parse,
    versions="nccl-tests 1.0.0 to 2.19.6, rccl-tests 2024",
)
