"""PyTorch profiler traces (Kineto, chrome trace JSON): where the time of one rank's steps went.

Seen: torch 2.11 (two ranks, real), fields of 2.2 on from the source; older traces name kernels only and spell the
categories `Kernel`, `Operator`. `ts` and `dur` are microseconds whatever `displayTimeUnit` says; clocks of two files
differ. The text is read event by event, so that a file which was cut off still says whose it is; its shares stay
unknown, since the GPU's events may be what is missing.

    >>> SAMPLE = '''{"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 2},
    ... "traceEvents": [
    ... {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#4", "pid": 7, "tid": 7, "ts": 100.0, "dur": 100.0},
    ... {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": 100.0, "dur": 20.0},
    ... {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 110.0, "dur": 40.0,
    ...  "args": {"device": 0, "stream": 7, "grid": [8, 1, 1]}},
    ... {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL(...)", "pid": 0, "tid": 16,
    ...  "ts": 140.0, "dur": 30.0, "args": {"device": 0, "stream": 16, "Collective name": "allreduce", "dtype": "Float",
    ...  "In msg nelems": 1000, "Out msg nelems": 1000, "Group size": 2, "Process Group Ranks": "[0, 1]"}}
    ... ], "traceName": "x.json"}'''
    >>> segment = Segment("trace.json", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.rank, f.computation_share, f.exposed_share, f.idle_share, f.message_bytes) for f in parse(segment)]
    [(1, 0.4, 0.2, 0.4, 4000)]
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from statistics import median
from typing import Any

from advisor.facts import Collective, Fact, Origin, TrainingTrace
from advisor.grammar.intervals import Intervals, common, length, union, without
from advisor.grammar.nccl_kernels import family, is_nccl_kernel
from advisor.sources.base import Problem, Segment, Source

_SIGNATURE = re.compile(r'"traceEvents"\s*:\s*\[')
_BLANK = re.compile(r"[\s,]*")
_COLON = re.compile(r"\s*:\s*")
_RANK_OF_NAME = re.compile(r"rank[_-]?(\d{1,6})(?!\d)", re.IGNORECASE)
_LOADER = re.compile(r"DataLoader[^_]{0,80}_.{0,200}__next__|dataloader_next|data/dataloader\.py\(\d+\): __next__")
_DECODER = json.JSONDecoder()
_MOST_COLLECTIVES = 20_000
_MOST_SPANS = 200_000  # of CPU activity, before they are merged
_SMALL_BYTES = 1 << 20
_CATEGORIES = {
    "kernel": "kernel", "gpu_memcpy": "copy", "memcpy": "copy", "gpu_memset": "set", "memset": "set",
    "cpu_op": "cpu", "operator": "cpu", "cuda_runtime": "cpu", "cuda_driver": "cpu", "runtime": "cpu",
    "user_annotation": "note", "python_function": "python",
}  # fmt: skip
_COLLECTIVES = {
    "allreduce": "all_reduce", "allreduce_coalesced": "all_reduce", "_allgather_base": "all_gather",
    "allgather": "all_gather", "allgather_into_tensor_coalesced": "all_gather", "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "reduce_scatter", "reduce_scatter_tensor_coalesced": "reduce_scatter",
    "all_to_all": "alltoall", "all_to_allv": "alltoall", "broadcast": "broadcast", "reduce": "reduce",
    "send": "sendrecv", "recv": "sendrecv",
}  # fmt: skip
_BYTES = {
    "Double": 8, "Long": 8, "ComplexFloat": 8, "Float": 4, "Int": 4, "Half": 2, "BFloat16": 2, "Short": 2, "Byte": 1,
    "Char": 1, "Bool": 1, "Float8_e4m3fn": 1, "Float8_e5m2": 1,
}  # fmt: skip


# ------------------------------------------------------------------------------------------------ from text to events


class _CutError(Exception):
    """The text ends, or stops to be JSON, at an offset."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


def _value(text: str, at: int) -> tuple[Any, int]:
    """The JSON value at an offset and where it ends."""
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        raise _CutError(at) from None


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _array(text: str, at: int) -> Iterator[tuple[Any, int]]:
    """The elements of the array whose `[` is just before an offset, each with the offset after it."""
    while True:
        at = _skip(_BLANK, text, at)
        if text.startswith("]", at):
            return
        value, at = _value(text, at)
        yield value, at


def _read(text: str, recorder: _Recorder) -> None:
    """Hand the members of the outer object to the recorder, the events one by one; _CutError where it breaks off."""
    at = text.find("{") + 1
    if at == 0:
        raise _CutError(0)
    while True:
        at = _skip(_BLANK, text, at)
        if text.startswith("}", at):
            return
        key, at = _value(text, at)
        at = _skip(_COLON, text, at)
        if key == "traceEvents" and text.startswith("[", at):
            at += 1
            for event, after in _array(text, at):
                at = after
                if isinstance(event, dict):
                    recorder.add(event)
            at = _skip(_BLANK, text, at) + 1
        else:
            value, at = _value(text, at)
            recorder.head[str(key)] = value


# ---------------------------------------------------------------------------------------------- from events to a record


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and abs(value) < 1e17 else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 60 else None


@dataclass(slots=True, frozen=True)
class _Kernel:
    """One kernel on a device. blocks: of its grid; args: of NCCL kernels, what they carried."""

    start: float
    end: float
    blocks: int = 0
    name: str = ""
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _Device:
    """What ran on one GPU: kernels, copies and memory sets."""

    kernels: list[_Kernel] = field(default_factory=list)
    nccl: list[_Kernel] = field(default_factory=list)
    others: list[tuple[float, float]] = field(default_factory=list)
    to_host: list[tuple[float, int]] = field(default_factory=list)


class _Recorder:
    """What is kept of the events of a trace, one event at a time."""

    def __init__(self) -> None:
        self.head: dict[str, Any] = {}
        self.steps: list[tuple[float, float]] = []
        self.devices: dict[int, _Device] = defaultdict(_Device)
        self.cpu: list[tuple[float, float]] = []
        self.loader: list[tuple[float, float]] = []
        self.gloo_ops = 0
        self.python_stacks = False

    def add(self, event: dict[str, Any]) -> None:
        """Take one event; those without a known category or times are passed over."""
        kind = _CATEGORIES.get(str(event.get("cat")).lower())
        start, duration = _number(event.get("ts")), _number(event.get("dur"))
        if kind is None or event.get("ph") != "X" or start is None or duration is None:
            return
        name, span = str(event.get("name")), (start, start + duration)
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        if kind in ("kernel", "copy", "set"):
            self._add_on_device(kind, name, span, args)
        elif name.startswith("ProfilerStep#"):
            self.steps.append(span)
        else:
            self._add_on_cpu(kind, name, span)

    def _add_on_device(self, kind: str, name: str, span: tuple[float, float], args: Mapping[str, Any]) -> None:
        device = self.devices[_whole(args.get("device")) or 0]
        if kind != "kernel":
            device.others.append(span)
            if "DtoH" in name:
                device.to_host.append((span[0], _whole(args.get("bytes")) or 0))
            return
        if is_nccl_kernel(name):
            device.nccl.append(_Kernel(*span, name=name, args=args))
            return
        grid = args.get("grid")
        sides = [_whole(side) or 1 for side in grid[:3]] if isinstance(grid, list) else []
        device.kernels.append(_Kernel(*span, blocks=prod(sides) if sides else 0))

    def _add_on_cpu(self, kind: str, name: str, span: tuple[float, float]) -> None:
        self.python_stacks |= kind == "python"
        self.gloo_ops += name.startswith("gloo:")
        if "ata" in name and _LOADER.search(name[:400]):
            self.loader.append(span)
        elif kind == "cpu":
            self.cpu.append(span)
            if len(self.cpu) >= _MOST_SPANS:
                self.cpu = union(self.cpu)

    def device(self) -> _Device:
        """The GPU with the most kernels: a rank drives one."""
        return max(self.devices.values(), key=lambda d: len(d.kernels) + len(d.nccl), default=_Device())


# ----------------------------------------------------------------------------------------------- from a record to facts


def _clip(spans: Intervals, start: float, end: float) -> Intervals:
    """The part of a set between two moments."""
    first = max(0, bisect_right(spans, (start, float("inf"))) - 1)
    last = bisect_left(spans, (end, float("-inf")))
    return common(spans[first:last], [(start, end)])


def _ratio(part: float, whole: float) -> float | None:
    return round(part / whole, 4) if whole > 0 else None


def _message_bytes(name: str, args: Mapping[str, Any]) -> int | None:
    """Size in the meaning of nccl-tests: what a rank ends up with or starts from, whichever is the larger."""
    elements = [_whole(args.get(key)) for key in ("In msg nelems", "Out msg nelems")]
    width = _BYTES.get(str(args.get("dtype")))
    taken = elements[1:] if name == "all_gather" else elements[:1] if name != "sendrecv" else elements
    known = [count for count in taken if count]
    return max(known) * width if known and width else None


def _collectives(kernels: list[_Kernel], steps: Intervals) -> Iterator[Collective]:
    starts = [start for start, _ in steps]
    for kernel in kernels:
        printed = str(kernel.args.get("Collective name", ""))
        name = _COLLECTIVES.get(printed) or family(kernel.name) or "other"
        group = f"{kernel.args.get('Process Group Name', '')} {kernel.args.get('Process Group Ranks', '')}".strip()
        yield Collective(
            group=group[:200], name=name, step=max(0, bisect_right(starts, kernel.start) - 1),
            start_us=round(kernel.start - steps[0][0], 1), duration_us=round(kernel.end - kernel.start, 1),
            size_bytes=_message_bytes(name, kernel.args), group_size=_whole(kernel.args.get("Group size")),
        )  # fmt: skip


def _windows(recorder: _Recorder, device: _Device) -> Intervals:
    """The profiled steps, or, where none are marked, the time from the first kernel to the last."""
    if recorder.steps:
        return sorted(recorder.steps)
    kernels = [*device.kernels, *device.nccl]
    if not kernels:
        return []
    return [(min(k.start for k in kernels), max(k.end for k in kernels))]


def _gaps(fact: TrainingTrace, recorder: _Recorder, idle: Intervals, windows: Intervals) -> None:
    """What the CPU did while the GPU had nothing to do, in the median step."""
    if not recorder.cpu and not recorder.loader:
        return
    loader = union(recorder.loader)
    cpu = without(union(recorder.cpu), loader)
    shares: list[list[float]] = []
    for start, end in windows:
        here = _clip(idle, start, end)
        waiting, running = common(here, loader), common(here, cpu)
        quiet = without(without(here, loader), cpu)
        at_start = [gap for gap in here if gap[0] <= start]
        first = common(at_start, quiet)
        shares.append([length(part) / (end - start) for part in (waiting, running, quiet, first)])
    columns = list(zip(*shares, strict=True))
    fact.loader_gap_share, fact.busy_gap_share, fact.quiet_gap_share = (round(median(c), 4) for c in columns[:3])
    fact.start_gap_share = round(min(columns[3]), 4) if recorder.steps else None


def _shares(fact: TrainingTrace, device: _Device, first: float, last: float) -> Intervals:
    """Fill in the shares of the time between two moments; gives the idle time."""
    whole = last - first
    computing = common(union((k.start, k.end) for k in device.kernels), [(first, last)])
    talking = common(union((k.start, k.end) for k in device.nccl), [(first, last)])
    copying = common(union(device.others), [(first, last)])
    exposed = without(talking, computing)
    working = union([*computing, *talking])
    idle = without([(first, last)], union([*working, *copying]))
    fact.computation_share = _ratio(length(computing), whole)
    fact.communication_share = _ratio(length(talking), whole)
    fact.exposed_share = _ratio(length(exposed), whole)
    fact.hidden_share = _ratio(length(talking) - length(exposed), length(talking))
    fact.copy_share = _ratio(length(without(copying, working)), whole)
    fact.idle_share = _ratio(length(idle), whole)
    return idle


def _measure(fact: TrainingTrace, recorder: _Recorder) -> None:
    """Everything that needs the whole trace."""
    device = recorder.device()
    windows = [window for window in _windows(recorder, device) if window[1] > window[0]]
    if not windows or not (device.kernels or device.nccl):
        return
    first, last = windows[0][0], max(end for _, end in windows)
    kernels = [k for k in device.kernels if first <= k.start < last]
    nccl = sorted((k for k in device.nccl if first <= k.start < last), key=lambda k: k.start)
    count = len(windows)
    fact.steps = len(recorder.steps)
    fact.step_us = round((last - first) / count, 1) if recorder.steps else None
    fact.nccl_kernels, fact.compute_kernels = len(nccl), len(kernels)
    fact.nccl_per_step = round(len(nccl) / count, 1)
    times = [k.end - k.start for k in kernels]
    fact.kernel_us = round(median(times), 2) if times else None
    fact.kernel_time_us = round(sum(times) / count, 1)
    fact.grid_blocks = sum(k.blocks for k in kernels) or None
    fact.copy_to_host_bytes = sum(size for at, size in device.to_host if first <= at < last) // count
    fact.collectives = tuple(_collectives(nccl[:_MOST_COLLECTIVES], windows))
    _messages(fact)
    _gaps(fact, recorder, _shares(fact, device, first, last), windows)


def _messages(fact: TrainingTrace) -> None:
    """Typical duration and size of the collectives."""
    if not fact.collectives:
        return
    fact.nccl_us = round(median(c.duration_us for c in fact.collectives), 1)
    sized = [(c.size_bytes, c.duration_us) for c in fact.collectives if c.size_bytes is not None]
    if sized:
        fact.message_bytes = int(median(size for size, _ in sized))
        fact.small_time_share = _ratio(sum(t for size, t in sized if size <= _SMALL_BYTES), sum(t for _, t in sized))


def _origin(segment: Segment) -> Origin:
    """The line that says which rank it is, else the first; the whole text is understood."""
    segment.skip(0, len(segment.lines) - 1)
    at = next((i for i, line in enumerate(segment.lines) if '"distributedInfo"' in line), 0)
    line = segment.lines[at]
    start = max(0, line.find('"distributedInfo"'))
    return segment.origin(at, at, line[start : start + 120].strip())


def _identify(fact: TrainingTrace, head: Mapping[str, Any], file: str) -> None:
    """Rank, world and what else stands beside the events."""
    info = head.get("distributedInfo")
    info = info if isinstance(info, dict) else {}
    named = _RANK_OF_NAME.search(file)
    fact.rank = _whole(info.get("rank"))
    if fact.rank is None and named:
        fact.rank = int(named[1])
    fact.world = _whole(info.get("world_size"))
    fact.backend = str(info["backend"])[:40] if "backend" in info else None
    fact.nccl_version = str(info["nccl_version"])[:40] if "nccl_version" in info else None
    devices = head.get("deviceProperties")
    if isinstance(devices, list) and devices and isinstance(devices[0], dict) and "name" in devices[0]:
        fact.gpu = str(devices[0]["name"])[:80]


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact a trace."""
    recorder = _Recorder()
    text = segment.text
    complete = True
    try:
        _read(text, recorder)
    except _CutError as cut:
        complete = False
        line = segment.numbers[min(text.count("\n", 0, cut.offset), len(segment.lines) - 1)]
        yield Problem(line, "the trace breaks off here; its shares of time cannot be told")
    fact = TrainingTrace(trace=segment.at(0), origins=(_origin(segment),), complete=complete)
    _identify(fact, recorder.head, segment.file)
    if complete:
        fact.gloo_ops, fact.python_stacks = recorder.gloo_ops, recorder.python_stacks
        _measure(fact, recorder)
    yield fact


SOURCE = Source(
    id="kineto-trace",
    title="PyTorch profiler trace",
    facts=(TrainingTrace,),
    needles=('"traceEvents"',),
    signature=_SIGNATURE,
    parse=parse,
    versions="torch 2.11; fields of 1.8 on",
)
