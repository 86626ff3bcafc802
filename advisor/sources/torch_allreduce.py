"""Micro-benchmarks of collectives that scripts print: tables with algbw or busbw, and single `busbw: 20.9 GBps` lines.

Seen: this project's own benchmark (`advisor bench allreduce`, text and JSON, real runs of torch 2.11 and 2.13 with
nccl and gloo), and public scripts. The unit is taken from the header, or from behind the number, and from nowhere else:
`GBps` and `GB/s` are bytes, `Gbps` and `Gb/s` are bits. A header without rows is a fact too: the run hung or died in
its first collective.

    >>> SAMPLE = '''# torch 2.11.0+cu130 backend nccl world 4
    ... #        bytes      time_us  algbw_GBps  busbw_GBps
    ...       67108864       9012.4       7.446      11.169
    ... The average bandwidth of all_reduce with a 4.0GB payload (5 trials, 16 ranks):
    ...  algbw: 10.402 GBps (83.2 Gbps)
    ...  busbw: 19.504 GBps (156.0 Gbps)
    ... '''
    >>> segment = Segment("bench.log", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.collective, f.nranks, f.backend, f.size_bytes, f.busbw_gbyte_s) for f in parse(segment)]
    [('all_reduce', 4, 'nccl', 67108864, 11.169), ('all_reduce', 16, None, 4000000000, 19.504)]
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

from advisor.facts import CollectiveTest, Fact, Point
from advisor.facts.measurement import deciding_rows, summarise
from advisor.sources.base import Problem, Segment, Source

_LONGEST_LINE = 1000  # characters of a header or a row
_CONTEXT_LINES = 3  # lines before or between single figures that may belong to them

_UNIT = r"(?:[KMGT]i?)?[Bb](?:its?|ytes?)?(?:/s(?:ec)?|ps)"
_NAME = r"(?:alg|algo|bus)_?bw"
_HEAD = re.compile(r"^# torch (\S{1,60}) backend (\S{1,40}) world (\d{1,9})\s*$")
_HOST = re.compile(r"^# host (?P<name>\S{1,255}) ranks (?P<ranks>\d{1,7})(?: gpu (?P<gpu>.{1,200}))?$")
_NCCL = re.compile(r"^# nccl (\d[\w.+-]{0,40})$")
_FAILED = re.compile(r"^# failed (?:at (\d{1,18}) bytes|before the first size): (.{1,600})$")
_ENDED = re.compile(r"^# done$")
_REMARK = re.compile(r"^# (?:all_reduce dtype \S+ iterations \d|left out \d+ bytes and more: )|^allreduce: ")
_COLUMN = re.compile(
    rf"(?P<name>[A-Za-z][A-Za-z_]{{0,30}}?)_?[(\[]?(?P<unit>{_UNIT}|[KMG]i?B|bytes|B|us|ms|s|µs|usec|msec|sec)?[)\]]?"
)
_BANDWIDTH_COLUMN = re.compile(rf"{_NAME}[ _]?[(\[]?{_UNIT}", re.IGNORECASE)
_SPACED_UNIT = re.compile(r"\s{1,3}(?=[(\[](?:[KMGT]?i?[Bb]|us|ms|s|µs|usec|msec)[^)\]\s]{0,8}[)\]])")
_SINGLE = re.compile(
    rf"(?P<name>{_NAME})\b[^:=\n|]{{0,60}}[:=]\s{{0,9}}(?P<value>\d{{1,9}}(?:\.\d{{1,9}})?)\s{{0,3}}(?P<unit>{_UNIT})",
    re.IGNORECASE,
)
_PAYLOAD = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s?([KMGT]i?B) (?:payload|message|buffer|tensor)", re.IGNORECASE)
_RANKS = re.compile(r"\b(\d{1,7}) (?:ranks|GPUs|gpus|processes)\b|\bworld(?:[ _]size)?[ :=]{1,3}(\d{1,7})\b")
_COLLECTIVE = re.compile(
    r"(?P<all_reduce>all[_-]?reduce)|(?P<all_gather>all[_-]?gather)|(?P<reduce_scatter>reduce[_-]?scatter)"
    r"|(?P<alltoall>all[_-]?to[_-]?all)|(?P<broadcast>broadcast)|(?P<sendrecv>send[_-]?recv)",
    re.IGNORECASE,
)
_DIED = re.compile(r"(?:^|\]:\s?)Traceback \(most recent call last\)|Watchdog caught collective operation timeout")
_JSON_ROWS = re.compile(rf'"{_NAME}_(?:{_UNIT})"\s*:|"tool"\s*:\s*"torch-allreduce"', re.IGNORECASE)

_SIGNATURE = re.compile(
    rf"^# torch \S{{1,60}} backend |{_NAME}[ _]?[(\[]?{_UNIT}(?![)\]]?\s{{0,9}}:)"  # no colon: DeepSpeed's line
    rf"|{_NAME}\b[^:=\n|]{{0,60}}[:=]\s{{0,9}}[\d.]{{1,20}}\s{{0,3}}{_UNIT}"
    r'|"tool"\s{0,9}:\s{0,9}"torch-allreduce"',
    re.MULTILINE | re.IGNORECASE,
)
_SIZES = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_TIMES = {"us": 1.0, "µs": 1.0, "usec": 1.0, "ms": 1e3, "msec": 1e3, "s": 1e6, "sec": 1e6}
_SIZE_NAMES = frozenset({"size", "bytes", "nbytes", "size_bytes", "message_size", "msg_size", "msgsize", "payload"})
_TIME_NAMES = frozenset({"time", "latency", "duration", "lat", "time_avg", "avg_time"})
_NUMBER = re.compile(r"\d{1,20}(?:\.\d{1,12})?(?:e[-+]?\d{1,3})?", re.IGNORECASE)
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,6})?)\s?(?:([KMGT])(i?)B?|B|bytes)?", re.IGNORECASE)


@dataclass(slots=True, frozen=True)
class _Column:
    """A column that is used: role `size`, `time`, `algbw`, `busbw`, `wrong`, `op`; factor to bytes, us or GB/s."""

    role: str
    factor: float = 1.0
    unit: str = ""


@dataclass(slots=True)
class _Table:
    """A benchmark under way: a table, or single figures."""

    first: int
    last: int
    version: str | None = None
    backend: str | None = None
    nranks: int | None = None
    tool: str = "torch-allreduce"
    collective: str | None = None
    columns: tuple[_Column | None, ...] = ()
    points: list[Point] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)  # of the points
    figures: dict[str, float] = field(default_factory=dict)
    size: int | None = None
    hosts: dict[str, int] = field(default_factory=dict)  # ranks of each
    gpus: set[str] = field(default_factory=set)
    nccl: str | None = None
    failed: bool | None = None
    error: str | None = None
    unfinished: int | None = None

    def host(self, name: str, ranks: int, gpu: str | None) -> None:
        """Add ranks on a host."""
        self.hosts[name] = self.hosts.get(name, 0) + ranks
        if gpu:
            self.gpus.add(gpu)


def _gbyte_s(unit: str) -> float:
    """Factor from a unit of rate to 10^9 byte/s: GBps 1, Gbps 1/8, MiB/s 2^20/10^9."""
    prefix = unit[0].upper() if unit[0].upper() in "KMGT" else ""
    binary = unit[1:2] == "i"
    letter = unit[len(prefix) + binary]
    bits = letter == "b" and "byte" not in unit.lower()
    scale = 2.0 ** _SIZES[prefix] if binary else 1000.0 ** (_SIZES[prefix] // 10)
    return scale / (8 if bits else 1) / 1e9


def _known_column(cell: str) -> _Column | None:
    """What a word of a header means; None for a column that is not used."""
    m = _COLUMN.fullmatch(cell)
    if m is None:
        return None
    name, unit = m["name"].lower().rstrip("_"), m["unit"] or ""
    plain = name.replace("_", "").replace("algo", "alg")
    if plain in ("algbw", "busbw"):
        return _Column(plain, _gbyte_s(unit), unit) if re.fullmatch(_UNIT, unit) else None
    if name in _SIZE_NAMES or cell.lower() in ("bytes", "size_bytes", "nbytes"):
        prefix = unit[0] if unit.startswith(("K", "M", "G")) else ""
        return _Column("size", 2.0 ** _SIZES[prefix], unit)
    if name in _TIME_NAMES:
        return _Column("time", _TIMES[unit], unit) if unit in _TIMES else None
    if cell == "wrong":
        return _Column("wrong")
    return _Column("op") if name in ("op", "collective", "coll", "operation") else None


def _cells(line: str) -> list[str]:
    """Cells of a row or a header: separated by bars, commas or blanks; `algbw (GB/s)` is one cell."""
    text = _SPACED_UNIT.sub("", line.strip().lstrip("#").strip())
    for separator in ("|", ",", ";"):
        if separator in text:
            return [cell.strip() for cell in text.strip(separator).split(separator)]
    return text.split()


def _columns(line: str) -> tuple[_Column | None, ...]:
    """Columns of a header with a size and a bandwidth whose unit it names; empty for any other line."""
    if len(line) > _LONGEST_LINE or not _BANDWIDTH_COLUMN.search(line) or ":" in line or "=" in line:
        return ()
    columns = tuple(map(_known_column, _cells(line)))
    roles = {column.role for column in columns if column}
    return columns if "size" in roles and roles & {"algbw", "busbw"} else ()


def _bytes(cell: str, column: _Column) -> int | None:
    """A size in bytes; the cell may carry its own suffix (`256M`, `1GiB`), which is binary as in these tools."""
    m = _SIZE.fullmatch(cell.strip())
    if m is None:
        return None
    factor = 2.0 ** _SIZES[m[2].upper()] if m[2] else column.factor
    return round(float(m[1]) * factor)


def _row(values: Mapping[_Column, str]) -> Point | None:
    """A row from the cells of its known columns, None if it is none."""
    size, found = None, {}
    for column, cell in values.items():
        if column.role == "size":
            size = _bytes(cell, column)
        elif column.role != "op":
            if not _NUMBER.fullmatch(cell.strip()):
                return None
            found[column.role] = round(float(cell) * column.factor, 6)
    if not size or not all(map(isfinite, found.values())):
        return None
    time, algbw = found.get("time"), found.get("algbw")
    if time and algbw and algbw > 0.01 and not 0.1 < size / time / 1e3 / algbw < 10:
        return None  # another tool's line with as many numbers
    wrong = found.get("wrong")
    return Point(size, time, algbw, found.get("busbw"), wrong=None if wrong is None else int(wrong))


def _collective_in(text: str) -> str | None:
    m = _COLLECTIVE.search(text)
    return m.lastgroup if m else None


def _fact(table: _Table, segment: Segment) -> CollectiveTest:
    fields = summarise(table.points)
    if not table.points and table.figures:
        fields = {"size_bytes": table.size} | {f"{name}_gbyte_s": rate for name, rate in table.figures.items()}
        if table.size:
            fields = summarise([Point(table.size, None, table.figures.get("algbw"), table.figures.get("busbw"))])
    origin = replace(segment.origin(table.first), end=segment.numbers[table.last])
    said = {name: segment.origin(table.lines[at]) for name, at in deciding_rows(table.points).items() if table.lines}
    return CollectiveTest(
        test=segment.at(table.first), tool=table.tool, tool_version=table.version, collective=table.collective,
        nranks=table.nranks, backend=table.backend, failed=table.failed, error=table.error,
        unfinished_size_bytes=table.unfinished, nccl_version=table.nccl, hosts=tuple(table.hosts),
        nnodes=len(table.hosts) or None, gpus_per_host=max(table.hosts.values()) if table.gpus else None,
        gpu=", ".join(sorted(table.gpus)) or None, origins=(origin,), said_at=said, **fields,
    )  # fmt: skip


class _Reader:
    """Reads lines into benchmarks; lines of other tools may stand anywhere between them."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.tables: list[_Table] = []
        self.figures: _Table | None = None

    def read(self, index: int, line: str) -> None:
        if " NCCL INFO " in line:
            return
        table = self.tables[-1] if self.tables else None
        if self._head(index, line) or self._header(index, line) or self._single(index, line):
            return
        if table is not None and table.version and line.startswith(("# ", "allreduce: ")):
            self._remark(index, line, table)
            return
        if table is not None and table.columns:
            if _DIED.search(line[:_LONGEST_LINE]):
                table.failed = True
            elif len(line) <= _LONGEST_LINE:
                self._row(index, line, table)

    def _head(self, index: int, line: str) -> bool:
        m = _HEAD.match(line)
        if m is None:
            return False
        self.tables.append(_Table(index, index, m[1], m[2], int(m[3]), collective="all_reduce"))
        self.segment.skip(index)
        return True

    def _remark(self, index: int, line: str, table: _Table) -> None:
        """What this project's benchmark says around its table, of its hosts and of its end."""
        if m := _HOST.match(line):
            table.host(m["name"], int(m["ranks"]), m["gpu"])
        elif m := _NCCL.match(line):
            table.nccl = m[1]
        elif m := _FAILED.match(line):
            table.failed, table.unfinished, table.error = True, int(m[1]) if m[1] else None, m[2]
        elif _ENDED.match(line):
            table.failed = False
        elif not _REMARK.match(line):
            return
        table.last = index
        self.segment.skip(index)

    def _header(self, index: int, line: str) -> bool:
        columns = _columns(line)
        if not columns:
            return False
        table = self.tables[-1] if self.tables else None
        if table is None or table.columns or table.figures:
            table = _Table(index, index)
            self.tables.append(table)
            self._context(index, line, table)
        table.columns, table.last = columns, index
        self.segment.skip(index)
        return True

    def _row(self, index: int, line: str, table: _Table) -> None:
        cells = _cells(line)
        if len(cells) != len(table.columns):
            return
        if all(set(cell) <= {"-", ":"} for cell in cells):  # the ruler of a Markdown table
            self.segment.skip(index)
            return
        values = {column: cell for column, cell in zip(table.columns, cells, strict=True) if column}
        point = _row(values)
        if point is None:
            return
        for column, cell in values.items():
            if column.role == "op":
                table.collective = _collective_in(cell) or table.collective
        table.points.append(point)
        table.lines.append(index)
        table.last = index
        self.segment.skip(index)

    def _single(self, index: int, line: str) -> bool:
        found = False
        for m in _SINGLE.finditer(line[:_LONGEST_LINE]):
            role = m["name"].lower().replace("_", "").replace("algo", "alg")
            table = self.figures
            if table is None or role in table.figures or index - table.last > _CONTEXT_LINES:
                table = self.figures = _Table(index, index)
                self.tables.append(table)
                self._context(index, line, table)
            table.figures[role] = round(float(m["value"]) * _gbyte_s(m["unit"]), 6)
            table.last = index
            self.segment.skip(index)
            found = True
        return found

    def _context(self, index: int, line: str, table: _Table) -> None:
        """Collective, ranks and payload as the line itself or the few before it name them."""
        before = self.segment.lines[max(0, index - _CONTEXT_LINES) : index]
        for at, text in enumerate(text[:_LONGEST_LINE] for text in (line, *reversed(before))):
            if " NCCL " in text:
                continue
            ranks, payload, collective = _RANKS.search(text), _PAYLOAD.search(text), _collective_in(text)
            if at and (ranks or payload) and collective:
                self.segment.skip(index - at)
                table.first = index - at
            if collective and f"{collective}_perf" in text:
                table.tool = "nccl-tests"
            table.collective = table.collective or collective
            table.nranks = table.nranks or (int(ranks[1] or ranks[2]) if ranks else None)
            if payload and table.size is None:
                binary, power = payload[2][1] == "i", _SIZES[payload[2][0].upper()]
                table.size = round(float(payload[1]) * (2.0**power if binary else 1000.0 ** (power // 10)))


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else None


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _objects(value: object) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _json_point(row: dict[str, Any]) -> Point | None:
    """A row of JSON from keys that are named like the columns, or carry the unit as this project's facts do."""
    named = {key.replace("_gbyte_s", "_GBps"): str(cell) for key, cell in row.items()}
    known = {_known_column(key): cell for key, cell in named.items()}
    return _row({column: cell for column, cell in known.items() if column})


def _json_table(value: dict[str, Any], table: _Table) -> bool:
    """Fill the table from an object with `results` (this project's benchmark) or `rows`; whether it is one of them."""
    own = value.get("tool") == "torch-allreduce"
    rows = value.get("results" if own else "rows")
    if not isinstance(rows, list):
        return False
    points = map(_json_point, _objects(rows))
    table.points = [point for point in points if point]
    table.backend = _word(value.get("backend"))
    table.nranks = _whole(value.get("world" if own else "ranks"))
    if own:
        table.version, table.nccl = _word(value.get("torch")), _word(value.get("nccl"))
        for host in _objects(value.get("hosts")):
            name, ranks = _word(host.get("name")), _whole(host.get("ranks"))
            if name and ranks:
                table.host(name, ranks, _word(host.get("gpu")))
        failed = value.get("failed")
        table.failed = failed is not None
        if isinstance(failed, dict):
            table.unfinished, table.error = _whole(failed.get("bytes")), _word(failed.get("text"))
    return True


def _json_tables(segment: Segment) -> Iterator[CollectiveTest]:
    """The benchmark as a JSON object, the first of the text."""
    text = segment.text
    start = text.find("{")
    try:
        value, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return
    first = text.count("\n", 0, start)
    table = _Table(first, first + text.count("\n", start, end - 1), collective="all_reduce")
    if not isinstance(value, dict) or not _json_table(value, table):
        return
    segment.skip(table.first, table.last)
    yield _fact(table, segment)


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One `CollectiveTest` for each table and each group of single figures."""
    if _JSON_ROWS.search(segment.text):
        found = list(_json_tables(segment))
        yield from found
        if found:
            return
    reader = _Reader(segment)
    for index, line in enumerate(segment.lines):
        reader.read(index, line)
    for table in reader.tables:
        yield _fact(table, segment)


SOURCE = Source(
    id="torch-allreduce",
    title="Collective micro-benchmark of a script",
    facts=(CollectiveTest,),
    needles=("# torch ", "bw", "BW", "Bw", '"torch-allreduce"'),
    signature=_SIGNATURE,
    parse=parse,
    versions="this project's benchmark with torch 2.11 and 2.13, public scripts",
)
