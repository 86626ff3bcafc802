"""`nsys stats` kernel summaries (text columns and CSV): GPU time by kernel.

Seen: report `cuda_gpu_kern_sum` of 2022 to 2025, `gpukernsum` before; numbers with or without thousands separators.
Total NCCL time is not exposed time: NCCL runs beside computation, and waits for other ranks.
Document: NVIDIA Nsight Systems, `nsys stats` reports.

    >>> SAMPLE = ''' ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):
    ...
    ...  Time (%)  Total Time (ns)  Instances   Avg (ns)   Med (ns)   Min (ns)   Max (ns)   StdDev (ns)  Name
    ...  --------  ---------------  ---------  ---------  ---------  ---------  ---------  -----------  ----
    ...      60.0       60,000,000         20  3,000,000  2,900,000  2,000,000  9,000,000       10,000  ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)
    ...      40.0       40,000,000        400    100,000    100,000     90,000    110,000        1,000  gemm
    ... '''
    >>> segment = Segment("stats.txt", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.nccl_share, f.nccl_kernels, f.nccl_median_us, f.nccl_max_us) for f in parse(segment)]
    [(0.6, 20, 2900.0, 9000.0)]
"""  # noqa: E501 - the tool's own width

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from advisor.facts import Fact, KernelTimes
from advisor.grammar.nccl_kernels import is_nccl_kernel
from advisor.sources.base import Problem, Segment, Source

_REPORTS = r"(?:cuda_gpu_kern_sum|gpukernsum|cuda_gpu_kern_gb_sum|gpukerngbsum)"
_TITLE = re.compile(rf"^ ?\*\* .{{1,80}}\({_REPORTS}\):\s*$")
_HEADER = re.compile(r"^\s*Time ?\(%\)[ ,]")
_COLUMNS = re.compile(r"\s{2,}")
_RULE = re.compile(r"^[\s-]+$")


@dataclass(slots=True)
class _Kernel:
    """One row, times in us."""

    name: str
    total: float
    count: int
    median: float | None
    most: float | None
    line: int


def _us(text: str | None) -> float | None:
    try:
        return round(float((text or "").replace(",", "")) / 1000, 3)
    except ValueError:
        return None


def _row(names: Sequence[str], cells: Sequence[str], line: int) -> _Kernel | None:
    """A row whose cells match the header; the name may hold the separators."""
    if len(cells) < len(names):
        return None
    values = dict(zip(names, [*cells[: len(names) - 1], " ".join(cells[len(names) - 1 :])], strict=True))
    total, count = _us(values.get("Total Time (ns)")), values.get("Instances", "").replace(",", "")
    if total is None or not count.isdecimal():
        return None
    return _Kernel(values["Name"], total, int(count), _us(values.get("Med (ns)")), _us(values.get("Max (ns)")), line)


def _cells(line: str, is_csv: bool) -> list[str]:
    if is_csv:
        return next(csv.reader([line]), [])
    return _COLUMNS.split(line.strip())


def _tables(segment: Segment) -> Iterator[tuple[int, list[_Kernel]]]:
    """The rows below each kernel header, with the header's index; a table ends with an empty line."""
    lines, i = segment.lines, 0
    while i < len(lines):
        header, start = lines[i], i
        i += 1
        if not _HEADER.match(header) or not header.rstrip().endswith("Name") or "Instances" not in header:
            continue  # not a summary by kernel
        is_csv = "," in header
        names = _cells(header, is_csv)
        rows: list[_Kernel] = []
        while i < len(lines) and (lines[i].strip() or not rows):
            row = None if _RULE.match(lines[i]) else _row(names, _cells(lines[i], is_csv), i)
            rows += [row] if row is not None else []
            segment.skip(i)
            i += 1
        segment.skip(start)
        yield start, rows


def _fact(segment: Segment, header: int, rows: Sequence[_Kernel]) -> KernelTimes:
    nccl = [row for row in rows if is_nccl_kernel(row.name)]
    total = sum(row.total for row in rows)
    largest = max(nccl or rows, key=lambda row: row.total)
    return KernelTimes(
        table=segment.at(header), kernels=sum(row.count for row in rows), nccl_kernels=sum(row.count for row in nccl),
        nccl_share=round(sum(row.total for row in nccl) / total, 4) if total else None,
        nccl_median_us=largest.median if nccl else None,
        nccl_max_us=max((row.most for row in nccl if row.most), default=None),
        longest=max(rows, key=lambda row: row.total).name[:120], origins=(segment.origin(largest.line),),
    )  # fmt: skip


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact a kernel table."""
    for i, line in enumerate(segment.lines):
        if _TITLE.match(line) or line.startswith(("Processing [", "Generating SQLite file", "NOTICE: Existing SQLite")):
            segment.skip(i)
    for header, rows in _tables(segment):
        if rows:
            yield _fact(segment, header, rows)
        else:
            yield Problem(segment.numbers[header], "a kernel table without rows")


SOURCE = Source(
    id="nsys-stats",
    title="nsys stats",
    facts=(KernelTimes,),
    needles=("Total Time (ns)",),
    signature=re.compile(r"^\s*Time ?\(%\)[ ,].{0,200}Instances", re.MULTILINE),
    parse=parse,
    versions="Nsight Systems 2022 to 2025",
)
