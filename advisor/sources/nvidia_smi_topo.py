r"""`nvidia-smi topo -m`: the paths between the GPUs and NICs of a host. Drivers 384 to 580 seen.

Header and rows are separated by tabs, which pastes turn into blanks; terminals wrap long rows; the legend that names
the NICs may be cut off. `-mp` shows the PCIe path also where NVLinks are, so GPU pairs are left out there. The
`-p2p` matrix has the same header, and other cells (OK, CNS, NS, ...): it is not read here.

>>> from advisor.sources.base import Segment
>>> SAMPLE = '''\
...         GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity
... GPU0     X      NV12    PXB     0-31    0
... GPU1    NV12     X      SYS     32-63   1
... NIC0    PXB     SYS      X
...
... NIC Legend:
...
...   NIC0: mlx5_2
... '''
>>> facts = list(parse(Segment("topo.txt", SAMPLE.splitlines(), range(1, 99))))
>>> [(f.a, f.b, f.path, f.nvlinks) for f in facts if isinstance(f, TopoPath)]
[('GPU0', 'GPU1', 'NV', 12), ('GPU0', 'mlx5_2', 'PXB', None), ('GPU1', 'mlx5_2', 'SYS', None)]
>>> [(f.index, f.cpu_affinity, f.numa_affinity) for f in facts if isinstance(f, Gpu)]
[(0, '0-31', '0'), (1, '32-63', '1')]
>>> [(f.gpus, f.nics, f.gpu_paths, f.best_nic_paths) for f in facts if isinstance(f, GpuTopology)]
[(2, 1, ('NV12',), ('PXB', 'SYS'))]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

from advisor.facts import Fact, Gpu, GpuTopology, TopoPath
from advisor.sources.base import Command, Problem, Segment, Source

_GPU = re.compile(r"GPU\d{1,4}")
_CELL = re.compile(r"X|NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|SOC")
_P2P = {"OK", "CNS", "GNS", "TNS", "NS", "U"}  # cells of `topo -p2p`
_DEVICE = re.compile(r"[A-Za-z][\w.:-]{0,63}")
_AFFINITY = re.compile(r"[\d,-]+|N/A")
_NIC_NAME = re.compile(r"\s*(NIC\d{1,4}):\s+(\S+)\s*")
_LEGEND = re.compile(r"\s*(?:NIC )?Legend:\s*|\s*(?:X|SYS|SOC|NODE|PHB|PXB|PIX|NV#)\s+= .*")
_NEAR_TO_FAR = ("PIX", "PXB", "PHB", "NODE", "SYS")
_WORDS = {"CPU", "NUMA", "GPU", "Affinity", "ID"}  # of the headings of the last columns
_COLUMNS = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_HEADER_LINES = 12  # a header of 8 GPUs and 18 NICs fills three lines of 80 columns


@dataclass(slots=True)
class _Row:
    """One row: its cells as far as they are valid, and what stands in the affinity columns."""

    first: int
    last: int
    cells: list[str]
    rest: list[str]


@dataclass(slots=True)
class _Table:
    first: int
    header_end: int
    devices: list[str]
    columns: tuple[str, ...]
    rows: dict[str, _Row] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    p2p: bool = False

    def cell(self, a: str, b: str) -> str | None:
        """The printed path between two devices, from the row of either; None where both are cut."""
        for row, column in ((a, b), (b, a)):
            cells = self.rows[row].cells if row in self.rows else []
            place = self.devices.index(column)
            if place < len(cells):
                return cells[place]
        return None

    @property
    def gpus(self) -> list[str]:
        return [device for device in self.devices if _GPU.fullmatch(device)]

    @property
    def nics(self) -> list[str]:
        return [device for device in self.devices if not _GPU.fullmatch(device) and not device.startswith("MIG")]


def _join(tokens: list[str], more: list[str]) -> list[str]:
    """Tokens of a wrapped header with those of its next line; a number at its start ends the last word."""
    if more[0].isdigit():
        return [*tokens[:-1], tokens[-1] + more[0], *more[1:]]
    return tokens + more


def _starts_row(tokens: list[str]) -> bool:
    return len(tokens) > 1 and _DEVICE.fullmatch(tokens[0]) is not None and (
        _CELL.fullmatch(tokens[1]) is not None or tokens[1] in _P2P
    )


def _header(lines: list[str], start: int) -> _Table | None:
    """The table whose header begins at a line, None if none does."""
    first = lines[start].split()
    if not first or not _GPU.fullmatch(first[0]) or _starts_row(first):
        return None
    tokens, end = first, start
    for i in range(start + 1, min(len(lines), start + _HEADER_LINES)):
        more = lines[i].split()
        if not more or _starts_row(more):
            break
        if not all(token in _WORDS or (token[-1:].isdigit() and "Affinity" not in tokens) for token in more):
            break
        tokens, end = _join(tokens, more), i
    stop = next((i for i, token in enumerate(tokens) if token in ("CPU", "NUMA", "GPU")), len(tokens))
    devices = tokens[:stop]
    if not all(_DEVICE.fullmatch(device) for device in devices) or len(set(devices)) != len(devices):
        return None
    trailer = " ".join(tokens[stop:])
    return _Table(start, end, devices, tuple(name for name in _COLUMNS if name in trailer))


def _fields(line: str, devices: int) -> tuple[list[str], list[str]]:
    """Cells and trailing columns of a row without its label; tabs keep empty columns apart, blanks do not."""
    if line.count("\t") >= devices:
        parts = [part.strip() for part in line.strip(" ").split("\t")][1:]
        return [part for part in parts[:devices] if part], parts[devices:]
    tokens = line.split()[1:]
    return tokens[:devices], tokens[devices:]


def _valid(cells: list[str]) -> list[str]:
    """The cells before the first that is none."""
    for i, cell in enumerate(cells):
        if not _CELL.fullmatch(cell) and cell not in ("N/A", "?"):
            return cells[:i]
    return cells


def _glue(row: _Row, tokens: list[str], devices: int) -> bool:
    """Add the tokens of a wrapped line to its row; False if they are no part of it."""
    if len(row.cells) < devices:
        cells, tokens = row.cells, list(tokens)
        if not _CELL.fullmatch(tokens[0]) and cells and _CELL.fullmatch(cells[-1] + tokens[0]):
            cells[-1] += tokens.pop(0)  # wrapped inside a cell
        if len(cells) < devices and tokens and not _CELL.fullmatch(tokens[0]):
            return False
        missing = devices - len(cells)
        cells.extend(_valid(tokens[:missing]))
        row.rest.extend(tokens[missing:])
        return True
    if not all(_AFFINITY.fullmatch(token) for token in tokens):
        return False
    if row.rest and (row.rest[-1].endswith(("-", ",")) or tokens[0].startswith(("-", ","))):
        row.rest[-1] += tokens[0]
        tokens = tokens[1:]
    row.rest.extend(tokens)
    return True


def _read_rows(segment: Segment, table: _Table, end: int) -> None:
    """Fill in the rows and the NIC legend of a table that reaches to line `end`."""
    current: _Row | None = None
    for i in range(table.header_end + 1, end):
        line = segment.lines[i]
        tokens = line.split()
        named = _NIC_NAME.fullmatch(line)
        if not tokens:
            continue
        if named:
            table.names.setdefault(named[1], named[2])
            segment.skip(i)
            current = None
        elif _LEGEND.fullmatch(line):
            segment.skip(i)
            current = None
        elif tokens[0] in table.devices and _starts_row(tokens) and tokens[0] not in table.rows:
            cells, rest = _fields(line, len(table.devices))
            table.p2p = table.p2p or any(cell in _P2P for cell in cells)
            current = table.rows[tokens[0]] = _Row(i, i, _valid(cells), rest)
        elif current and current.last == i - 1 and _glue(current, tokens, len(table.devices)):
            current.last = i
        else:
            current = None


def _affinity(text: str) -> str | None:
    return text if text != "N/A" and _AFFINITY.fullmatch(text) else None


def _affinities(table: _Table, row: _Row) -> tuple[str | None, str | None]:
    """CPU and NUMA affinity of a row, None where empty or N/A."""
    rest = list(row.rest)
    if "GPU NUMA ID" in table.columns and len([item for item in rest if item]) > 1:
        while rest and not rest[-1]:
            rest.pop()
        rest.pop()  # the last column; an empty field stands before it
    values = dict(zip(table.columns, rest, strict=False))
    cpu, numa = (values.get(name, "") for name in _COLUMNS[:2])
    return _affinity(cpu), _affinity(numa)


def _path(cell: str | None) -> tuple[str | None, int | None]:
    """Path and number of NVLinks of a cell. SOC is what old drivers call SYS."""
    if cell is None or cell in ("N/A", "?"):
        return None, None
    if cell.startswith("NV"):
        return "NV", int(cell[2:])
    return ("SYS" if cell == "SOC" else cell), None


def _paths(segment: Segment, table: _Table, *, nvlink_shown: bool) -> Iterator[TopoPath]:
    gpus, nics = table.gpus, table.nics
    pairs = [(a, b, "gpu-gpu") for a, b in combinations(gpus, 2)] if nvlink_shown else []
    pairs += [(a, b, "gpu-nic") for a in gpus for b in nics]
    for a, b, kind in pairs:
        path, nvlinks = _path(table.cell(a, b))
        row = table.rows.get(a) or table.rows.get(b)
        if path is None or row is None:
            continue
        origin = segment.origin(row.first, row.last)
        names = (table.names.get(a, a), table.names.get(b, b))
        yield TopoPath(origins=(origin,), a=names[0], b=names[1], kind=kind, path=path, nvlinks=nvlinks)


def _spans_numa(affinity: str | None) -> bool | None:
    return None if affinity is None else "-" in affinity or "," in affinity


def _summary(segment: Segment, table: _Table, last: int, gpus: list[Gpu]) -> GpuTopology:
    """The whole table in one fact."""
    cells = [table.cell(a, b) for a, b in combinations(table.gpus, 2)]
    between = [(cell, *_path(cell)) for cell in cells]
    known = [path for _, path, _ in between if path]
    links = [count for _, _, count in between if count is not None]
    best: set[str] = set()
    for gpu in table.gpus:
        to_nics = {_path(table.cell(gpu, nic))[0] for nic in table.nics}
        best |= set([path for path in _NEAR_TO_FAR if path in to_nics][:1])
    all_nvlink = None
    if any(path != "NV" for path in known):
        all_nvlink = False
    elif known and len(known) == len(between):
        all_nvlink = True
    spans = [span for gpu in gpus if (span := _spans_numa(gpu.numa_affinity)) is not None]
    return GpuTopology(
        origins=(segment.origin(table.first, last),), gpus=len(table.gpus), nics=len(table.nics),
        gpu_paths=tuple(sorted({"SYS" if cell == "SOC" else cell for cell, path, _ in between if cell and path})),
        best_nic_paths=tuple(sorted(best)), all_nvlink=all_nvlink, min_nvlinks=min(links, default=None),
        gpus_spanning_numa=sum(spans) if spans else None,
    )


def _damage(segment: Segment, table: _Table) -> Iterator[Problem]:
    missing = [gpu for gpu in table.gpus if gpu not in table.rows]
    if missing:
        yield Problem(segment.numbers[table.first], f"rows are missing: {', '.join(missing[:8])}")
    for name, row in table.rows.items():
        if len(row.cells) < len(table.devices):
            line = segment.numbers[row.first]
            yield Problem(line, f"row {name} holds {len(row.cells)} of {len(table.devices)} cells")


def _table_facts(segment: Segment, table: _Table) -> Iterator[Fact | Problem]:
    nvlink_shown = re.search(r"topo\s+(?:\S+\s+)?-mp\b", segment.command or segment.lines[0][:200]) is None
    last = max(row.last for row in table.rows.values())
    segment.skip(table.first, table.header_end)
    for row in table.rows.values():
        segment.skip(row.first, row.last)
    gpus = []
    for name in table.gpus:
        own = table.rows.get(name)
        if own:
            cpu, numa = _affinities(table, own)
            origin = segment.origin(own.first, own.last)
            gpus.append(Gpu(origins=(origin,), index=int(name[3:]), cpu_affinity=cpu, numa_affinity=numa))
    yield from gpus
    yield from _paths(segment, table, nvlink_shown=nvlink_shown)
    if nvlink_shown:
        yield _summary(segment, table, max(last, table.header_end), gpus)
    yield from _damage(segment, table)


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """Facts of every such table of the segment."""
    tables: list[_Table] = []
    for i in range(len(segment.lines)):
        if "GPU" not in segment.lines[i] or (tables and i <= tables[-1].header_end):
            continue
        table = _header(segment.lines, i)
        if table:
            tables.append(table)
    ends = [*(table.first for table in tables), len(segment.lines)]
    for table, end in zip(tables, ends[1:], strict=True):
        understood = set(segment.understood)
        _read_rows(segment, table, end)
        cells = [cell for row in table.rows.values() for cell in row.cells]
        if table.p2p or not (table.columns or any(cell != "X" for cell in cells)):
            segment.understood = understood  # the -p2p matrix, or a table that cannot be told from it
        elif table.rows:
            yield from _table_facts(segment, table)
        elif table.columns:
            yield Problem(segment.numbers[table.first], "the table has no rows")


SOURCE = Source(
    id="nvidia-smi-topo",
    title="nvidia-smi topo -m",
    facts=(Gpu, TopoPath, GpuTopology),
    needles=("GPU",),
    signature=re.compile(
        r"^[ \t]*GPU\d+[ \t]+(?:X[ \t]+)?(?:NV\d+|PIX|PXB|PHB|NODE|SYS|SOC)[ \t]*(?:[ \tXNPS]|$)"
        r"|^[ \t]*GPU\d+[ \t][^\n]{0,4000}\bCPU Affinity",
        re.M,
    ),
    parse=parse,
    commands=(Command(("nvidia-smi", "topo", "-m"), seconds=2, timeout=20),),
    versions="drivers 384 to 580",
)
