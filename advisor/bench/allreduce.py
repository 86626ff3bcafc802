#!/usr/bin/env python3
"""Bandwidth of all_reduce between the ranks of a job, measured with PyTorch alone.

One file, for machines where nothing may be installed: it needs Python 3.8 and torch, and nothing of the advisor.

    torchrun --nnodes 2 --nproc-per-node 8 --node-rank R --master-addr node01 allreduce.py
    srun -N 2 --ntasks-per-node 8 --gpus-per-node 8 python allreduce.py
    mpirun -np 16 -x MASTER_ADDR=node01 python allreduce.py
    python allreduce.py --nproc 8

How it measures: every size is reduced a few times unmeasured (the first call builds the connections), the ranks line
up, and a window of many calls is timed as a whole, on GPUs with CUDA events on the stream that waits for each call. A
rank's time is the mean of its window. `time_us` is the median of the ranks' times, `min_us` and `max_us` are the
fastest and the slowest rank. algbw = bytes / time, busbw = algbw * 2 (n - 1) / n, in GB/s of 10^9 bytes: busbw is the
figure to compare with the rate of a link. Below a few MiB the time holds PyTorch's cost of issuing a call (tens of
microseconds on GPUs), so small sizes say nothing about the latency of the network.

Exit codes: 0 measured, 1 the run failed or values were wrong, 2 wrong use. It adds load to the network and the GPUs:
do not run it beside a job that matters.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import signal
import socket
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import IO, Any, Iterator, Mapping, NoReturn, Sequence  # noqa: UP035  (Python 3.8)

VERSION = "1"  # of the layout of the table and the JSON

_DEFAULT_PORT = 29500
_GPU_SHARE = 0.8  # of the free GPU memory: NCCL adds buffers later
_CPU_SHARE = 0.4  # of the free memory: gloo works on a copy, and so may the operating system
_PATIENCE = 5.0  # a window may take so many times what the last warm-up call promises
_WAKE_S = 0.5  # idle clocks and first touches of memory made the first row up to twice too slow
_FAREWELL_S = 5.0
_CHECK_PART = 1 << 20  # elements that are filled or compared at once
_LAUNCHERS = (  # rank, world size, local rank; mpirun before srun, since it runs inside Slurm's allocations
    ("RANK", ("WORLD_SIZE",), "LOCAL_RANK"),
    ("OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_SIZE",), "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", ("PMI_SIZE",), "MPI_LOCALRANKID"),
    ("SLURM_PROCID", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"), "SLURM_LOCALID"),
)
_HOW_TO_START = "start it with torchrun, srun or mpirun, or add --nproc N for N processes on this machine"


class BenchError(Exception):
    """Something the user can see to, in one line."""

    code = 1


class UsageError(BenchError):
    """Started in a way that cannot work; the same on every rank, so that rank 0 alone says it."""

    code = 2


class RunError(BenchError):
    """One rank failed: it says so itself."""


# Arguments


def size_of(text: str) -> int:
    """Bytes of a size as typed: `512`, `8K`, `1M`, `1G`, binary as in nccl-tests; at least 4."""
    m = re.fullmatch(r"(\d+)([KMG]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    size = int(m[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[m[2].upper()] if m else 0
    if size < 4:
        raise argparse.ArgumentTypeError(f"{text!r} is no size from 4 bytes up: write 65536, 64K, 1M or 1G")
    return size


def sizes(begin: int, end: int, factor: int) -> list[int]:
    """`begin` and its multiples by `factor` up to `end`, each rounded down to 4 bytes, a whole number of elements."""
    found = []
    while begin <= end:
        found.append(begin // 4 * 4)
        begin *= factor
    return found


def _at_least(least: int) -> Any:
    def number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} up")
        return int(text)

    return number


def _seconds(text: str) -> float:
    with suppress(ValueError):
        if 0 < float(text) < 1e6:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; the letters are those of nccl-tests."""
    add = parser.add_argument
    add("-b", "--begin", type=size_of, default="1M", metavar="SIZE", help="smallest size per rank (1M; K, M, G binary)")
    add("-e", "--end", type=size_of, default="1G", metavar="SIZE", help="largest size (1G), if it fits")
    add("-f", "--factor", type=_at_least(2), default=2, metavar="N", help="from one size to the next (2)")
    add("-n", "--iterations", type=_at_least(1), default=20, metavar="N", help="measured calls for each size (20)")
    add("-w", "--warmup", type=_at_least(1), default=5, metavar="N", help="calls before them, not measured (5)")
    add("--dtype", choices=("float32", "bf16"), default="float32", help="type of an element")
    add("--backend", choices=("nccl", "gloo"), help="default: nccl if every rank has a GPU, gloo if none has")
    add("--check", action="store_true", help="also check that the sums are right, outside the measured window")
    add("--json", metavar="FILE", help="write the result as JSON; - for stdout, the table then goes to stderr")
    add("--seconds", type=_seconds, metavar="S", help="start no size that is expected to end later than that")
    add("--timeout", type=_seconds, default=120.0, metavar="S", help="limit on the start and on one call (120)")
    add("--nproc", type=_at_least(1), metavar="N", help="start N processes on this machine, without a launcher")
    add("--print", action="store_true", help="print this script, to be copied to where nothing may be installed")


# Who and where this process is


@dataclass(frozen=True)
class Place:
    """Rank and number of ranks, rank on this host (None: the launcher does not say it), where rank 0 listens."""

    rank: int
    world: int
    local_rank: int | None
    address: str
    port: int


def first_host(nodelist: str) -> str:
    """First host of a Slurm node list: `node[03-16,20],login1` -> `node03`."""
    return re.sub(r"\[(\w+)[^\]]*\]", r"\1", nodelist).split(",")[0]


def _number(environ: Mapping[str, str], *names: str) -> int | None:
    """The first of the variables that is set, as a whole number."""
    for name in names:
        text = environ.get(name, "")
        if text and not text.isdecimal():
            raise UsageError(f"{name} is {text!r}, not a whole number: {_HOW_TO_START}")
        if text:
            return int(text)
    return None


def place_of(environ: Mapping[str, str]) -> Place:
    """Place of this process by the variables of its launcher. Raises UsageError, which names the remedy."""
    for rank_name, world_names, local_name in _LAUNCHERS:
        rank, world = _number(environ, rank_name), _number(environ, *world_names)
        if rank is None:
            continue
        if world is None:
            raise UsageError(f"{rank_name} is set but {world_names[0]} is not: {_HOW_TO_START}")
        if world < 2:
            break
        if rank >= world:
            raise UsageError(f"{rank_name} is {rank}, but {world_names[0]} says {world} ranks: ranks count from 0")
        return Place(rank, world, _number(environ, local_name), _address(environ, world), _port(environ))
    raise UsageError(f"only one rank, and all_reduce needs two or more: {_HOW_TO_START}")


def _address(environ: Mapping[str, str], world: int) -> str:
    """Host of rank 0: as said, else the first of Slurm's list, else this machine if all ranks are here."""
    nodes = environ.get("SLURM_STEP_NODELIST") or environ.get("SLURM_JOB_NODELIST") or environ.get("SLURM_NODELIST")
    if environ.get("MASTER_ADDR"):
        return environ["MASTER_ADDR"]
    if nodes:
        return first_host(nodes)
    if _number(environ, "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS") == world:
        return "127.0.0.1"
    option = "-genv MASTER_ADDR HOST" if environ.get("PMI_RANK") else "-x MASTER_ADDR=HOST"
    remedy = "set it" if environ.get("RANK") else f"add {option} to mpirun"
    raise UsageError(f"MASTER_ADDR is missing, so that the ranks cannot meet: {remedy}, HOST being the host of rank 0")


def _port(environ: Mapping[str, str]) -> int:
    """Port of rank 0; inside Slurm one that follows from the job, so that two jobs on a host do not meet."""
    job = _number(environ, "SLURM_JOB_ID")
    return _number(environ, "MASTER_PORT") or (23000 + job % 8000 if job else _DEFAULT_PORT)


# What is reported


@dataclass(frozen=True)
class Row:
    """One size: times per call in microseconds, median, least and most over the ranks; wrong: elements, if checked."""

    size: int
    time_us: float
    min_us: float
    max_us: float
    wrong: int | None = None


@dataclass
class Report:
    """All that is printed. failed, left_out: (size in bytes, text); hosts: those of `hosts_of`."""

    torch: str
    backend: str
    nccl: str | None  # version that torch has loaded (RCCL's on AMD GPUs), None with gloo
    world: int
    dtype: str
    iterations: int
    warmup: int
    hosts: list[dict[str, Any]]
    rows: list[Row] = field(default_factory=list)
    left_out: tuple[int, str] | None = None
    failed: tuple[int | None, str] | None = None


def row_of(size: int, times_us: Sequence[float], wrong: int | None = None) -> Row:
    """The row of a size from the mean times of all ranks."""
    times = sorted(times_us)
    middle = (times[(len(times) - 1) // 2] + times[len(times) // 2]) / 2
    return Row(size, middle, times[0], times[-1], wrong)


def busbw_factor(world: int) -> float:
    """What algbw is multiplied with: every byte crosses the slowest link of a ring 2 (n - 1) / n times."""
    return 2 * (world - 1) / world


def algbw_gbyte_s(row: Row) -> float:
    """Bytes over time, in 10^9 byte/s."""
    return row.size / row.time_us / 1e3


def hosts_of(members: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Hosts in the order of their first ranks: name, ranks, gpu (product names, None without)."""
    hosts: dict[str, list[Any]] = {}
    for member in members:
        hosts.setdefault(member["host"], []).append(member["gpu"])
    return [
        {"name": name, "ranks": len(gpus), "gpu": ", ".join(sorted({gpu for gpu in gpus if gpu})) or None}
        for name, gpus in hosts.items()
    ]


def heading(report: Report, checked: bool = False) -> list[str]:
    """Lines above the rows."""
    lines = [f"# torch {report.torch} backend {report.backend} world {report.world}"]
    if report.nccl:
        lines.append(f"# nccl {report.nccl}")
    for host in report.hosts:
        gpu = f" gpu {host['gpu']}" if host["gpu"] else ""
        lines.append(f"# host {host['name']} ranks {host['ranks']}{gpu}")
    lines.append(f"# all_reduce dtype {report.dtype} iterations {report.iterations} warmup {report.warmup}")
    columns = "#        bytes      time_us  algbw_GBps  busbw_GBps       min_us       max_us"
    return [*lines, columns + ("     wrong" if checked else "")]


def _rate(gbyte_s: float) -> str:
    """Three decimals, six where three would show nothing but zeros."""
    return f"{gbyte_s:.3f}" if gbyte_s >= 0.1 else f"{gbyte_s:.6f}"


def table_line(row: Row, world: int) -> str:
    """One row of the table."""
    algbw = algbw_gbyte_s(row)
    text = f"{row.size:>14}{row.time_us:>13.1f}{_rate(algbw):>12}{_rate(algbw * busbw_factor(world)):>12}"
    text += f"{row.min_us:>13.1f}{row.max_us:>13.1f}"
    return text if row.wrong is None else f"{text}{row.wrong:>10}"


def closing(report: Report) -> list[str]:
    """Lines below the rows."""
    lines = []
    if report.left_out:
        lines.append(f"# left out {report.left_out[0]} bytes and more: {report.left_out[1]}")
    if report.failed:
        at = "before the first size" if report.failed[0] is None else f"at {report.failed[0]} bytes"
        return [*lines, f"# failed {at}: {report.failed[1]}"]
    return [*lines, "# done"]


def _result(row: Row, world: int) -> dict[str, Any]:
    algbw = algbw_gbyte_s(row)
    result: dict[str, Any] = {
        "bytes": row.size,
        "time_us": round(row.time_us, 3),
        "algbw_gbyte_s": round(algbw, 6),
        "busbw_gbyte_s": round(algbw * busbw_factor(world), 6),
        "min_us": round(row.min_us, 3),
        "max_us": round(row.max_us, 3),
    }
    return result if row.wrong is None else {**result, "wrong": row.wrong}


def _event(event: tuple[int | None, str] | None) -> dict[str, Any] | None:
    return {"bytes": event[0], "text": event[1]} if event else None


def as_json(report: Report) -> dict[str, Any]:
    """The report as one JSON object."""
    return {
        "tool": "torch-allreduce",
        "version": VERSION,
        "torch": report.torch,
        "backend": report.backend,
        "nccl": report.nccl,
        "world": report.world,
        "dtype": report.dtype,
        "iterations": report.iterations,
        "warmup": report.warmup,
        "hosts": report.hosts,
        "results": [_result(row, report.world) for row in report.rows],
        "left_out": _event(report.left_out),
        "failed": _event(report.failed),
    }


class Printer:
    """Writes a report while it grows. Only rank 0 has one. Raises UsageError if the JSON file cannot be written."""

    def __init__(self, report: Report, target: str | None, checked: bool) -> None:
        self.report = report
        self.target = target
        self.checked = checked
        self.stream: IO[str] = sys.stderr if target == "-" else sys.stdout
        if target not in (None, "-"):
            try:
                Path(str(target)).touch()
            except OSError as error:
                raise UsageError(f"{target} cannot be written: {error.strerror}") from None

    def start(self) -> None:
        """Print what stands above the rows: all that is known of a run that hangs in its first call."""
        self._lines(heading(self.report, self.checked))

    def row(self, row: Row) -> None:
        """Keep a row and print it."""
        self.report.rows.append(row)
        self._lines([table_line(row, self.report.world)])

    def finish(self) -> None:
        """Print what stands below the rows, and the JSON if it is wanted."""
        self._lines(closing(self.report))
        text = json.dumps(as_json(self.report), indent=1) + "\n"
        if self.target == "-":
            sys.stdout.write(text)
            sys.stdout.flush()
        elif self.target:
            Path(self.target).write_text(text)

    def _lines(self, lines: Sequence[str]) -> None:
        self.stream.write("".join(line + "\n" for line in lines))
        self.stream.flush()  # a reader follows a slow run, and a killed one keeps its rows


# How the ranks meet


def load_torch() -> Any:
    """The module torch. Raises UsageError if it is not there or cannot be loaded."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # it logs, with a stack trace, what it then raises
    try:
        torch: Any = importlib.import_module("torch")
        torch.distributed = importlib.import_module("torch.distributed")
    except ModuleNotFoundError as error:
        if error.name == "torch":
            raise UsageError(
                f"no torch in {sys.executable}: run it with the Python of the training environment"
            ) from None
        raise UsageError(f"torch cannot be loaded: {_one_line(error)}") from None
    except (ImportError, OSError) as error:
        raise UsageError(f"torch cannot be loaded: {_one_line(error)}") from None
    if not torch.distributed.is_available():
        raise UsageError("this torch was built without torch.distributed: take a build that has it")
    return torch


def _one_line(error: BaseException) -> str:
    """Its text without what gloo puts around it: a path of the machine that built it, advice about other workers."""
    text = " ".join(str(error).split()) or type(error).__name__
    return re.sub(r"^\[\S+:\d+\] |\.? This is typically caused by .*", "", text)[:500]


def folded(ranks: Sequence[int]) -> str:
    """Ranks in order, neighbours as a range: `1-15, 20`."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def choose_backend(members: Sequence[Mapping[str, Any]], wanted: str | None, nccl_built: bool) -> str:
    """`nccl` or `gloo` for these ranks (host, gpu, uuid each). Raises UsageError where neither can work."""
    without = [rank for rank, member in enumerate(members) if not member["gpu"]]
    if wanted == "gloo" or (wanted is None and len(without) == len(members)):
        return "gloo"
    if without:
        where = ", ".join(sorted({members[rank]["host"] for rank in without})[:8])
        raise UsageError(f"no GPU seen by ranks {folded(without)} on {where}: repair that, or add --backend gloo")
    if not nccl_built:
        raise UsageError("this torch was built without NCCL: take a build for GPUs, or add --backend gloo")
    owner: dict[str, int] = {}
    for rank, member in enumerate(members):
        if member["uuid"] and owner.setdefault(member["uuid"], rank) != rank:
            raise UsageError(
                f"ranks {owner[member['uuid']]} and {rank} on {member['host']} have the same GPU: "
                "start one rank for each GPU"
            )
    return "nccl"


class Meeting:
    """The store through which the ranks find each other; rank 0 serves it, or torchrun where it does so itself.

    Raises RunError if it cannot be reached within `seconds`.
    """

    def __init__(self, torch: Any, place: Place, seconds: float) -> None:
        self.place = place
        self.seconds = seconds
        self.host = socket.gethostname().split(".")[0]
        dist = torch.distributed
        served = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        try:
            store = dist.TCPStore(
                place.address,
                place.port,
                place.world,
                place.rank == 0 and not served,
                timeout=timedelta(seconds=seconds),
                wait_for_workers=False,
            )
        except RuntimeError as error:
            raise RunError(self._unreachable(_one_line(error))) from None
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self.store = dist.PrefixStore(f"allreduce/{attempt}", store)

    def _unreachable(self, error: str) -> str:
        where = f"{self.place.address}:{self.place.port}"
        if self.place.rank == 0:
            return f"rank 0 cannot listen on {where}: {error}: set MASTER_ADDR to this host, MASTER_PORT to a free port"
        try:
            socket.getaddrinfo(self.place.address, self.place.port)
            remedy = "does rank 0 run there, and is the port open?"
        except OSError:
            remedy = "this host does not know that name"
        own = f"rank {self.place.rank} on {self.host}"
        return f"{own} cannot reach rank 0 at {where} within {self.seconds:g} s: {remedy}"

    def number_on_host(self) -> int:
        """How many ranks of this host came before; to be called once a rank."""
        return int(self.store.add(f"host/{self.host}", 1)) - 1

    def ranks_on_host(self) -> int:
        """How many ranks of this host are here; right once rank 0 has given its order."""
        return int(self.store.add(f"host/{self.host}", 0))

    def introduce(self, gpu: str | None, uuid: str | None) -> None:
        """Tell rank 0 who this rank is."""
        self.store.set(f"rank/{self.place.rank}", json.dumps({"host": self.host, "gpu": gpu, "uuid": uuid}))

    def roll_call(self) -> list[dict[str, Any]]:
        """What every rank said of itself; rank 0 only. Raises RunError that names the ranks that are missing."""
        deadline = time.monotonic() + self.seconds
        missing = []
        for rank in range(self.place.world):
            try:
                remaining = max(deadline - time.monotonic(), 0.02)
                self.store.wait([f"rank/{rank}"], timedelta(seconds=remaining))
            except RuntimeError:
                missing.append(rank)
        if missing:
            came = f"{self.place.world - len(missing)} of {self.place.world} ranks came within {self.seconds:g} s"
            where = f"{self.place.address}:{self.place.port}"
            raise RunError(f"{came}, missing {folded(missing)}: were they started, and can they reach {where}?")
        return [json.loads(self.store.get(f"rank/{rank}")) for rank in range(self.place.world)]

    def order(self, backend: str | None) -> None:
        """Rank 0 says with what to start, or with None that nothing will be measured."""
        self.store.set("order", backend or "nothing")

    def await_order(self) -> str | None:
        """What rank 0 ordered. Raises RunError if it is silent for longer than its roll call may take."""
        try:
            self.store.wait(["order"], timedelta(seconds=self.seconds + 10 + 0.05 * self.place.world))
            backend = self.store.get("order").decode()
        except RuntimeError:
            raise RunError(f"rank {self.place.rank} on {self.host}: rank 0 has gone before the start") from None
        return None if backend == "nothing" else backend

    def part(self) -> None:
        """Rank 0, whose end would cut the others off, leaves last; who does not answer is not waited for long."""
        with suppress(RuntimeError):
            self.store.set(f"bye/{self.place.rank}", "")
            if self.place.rank == 0:
                names = [f"bye/{rank}" for rank in range(self.place.world)]
                self.store.wait(names, timedelta(seconds=_FAREWELL_S))


# Measurement


def free_memory() -> int:
    """Bytes of memory that this host has left, within the limit of the container if it has one."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    free = int(found[1]) * 1024 if found else 1 << 30
    with suppress(OSError, ValueError):  # no such files, or no limit: `max`
        limits = Path("/sys/fs/cgroup")
        free = min(free, int((limits / "memory.max").read_text()) - int((limits / "memory.current").read_text()))
    return max(free, 0)


class Bench:
    """The measurement on this rank. Raises RuntimeError where torch does."""

    def __init__(self, torch: Any, args: argparse.Namespace, meeting: Meeting, device: Any, printer: Printer | None):
        self.torch = torch
        self.dist = torch.distributed
        self.args = args
        self.meeting = meeting
        self.rank = meeting.place.rank
        self.world = meeting.place.world
        self.device = device
        self.printer = printer
        self.size: int | None = None  # under way, or done last

    def connect(self, backend: str) -> None:
        """Set up the process group and its connections."""
        with self.limit(self.args.timeout, "the ranks did not get connected"):
            self.dist.init_process_group(
                backend,
                store=self.meeting.store,
                rank=self.rank,
                world_size=self.world,
                timeout=timedelta(hours=1),  # a slow network is not a hung one: `limit` tells them apart
            )
            self.line_up()

    def run(self) -> bool:
        """Measure all sizes; whether every value that was checked is right."""
        plan = sizes(self.args.begin, self.args.end, self.args.factor)
        fits = self.memory()
        largest = max((size for size in plan if size <= fits), default=0)
        if not largest:
            raise RuntimeError(f"no size fits: free memory allows for {fits} bytes on the fullest rank")
        if largest < plan[-1]:
            self.leave_out(min(size for size in plan if size > largest), f"free memory allows for {fits} bytes")
        dtype = self.torch.bfloat16 if self.args.dtype == "bf16" else self.torch.float32
        element = 2 if self.args.dtype == "bf16" else 4
        buffer = self.torch.zeros(largest // element, dtype=dtype, device=self.device)
        self.wake(buffer[: plan[0] // element])
        began, last, right = time.monotonic(), 0.0, True
        for size in (size for size in plan if size <= largest):
            started = time.monotonic()
            if self.args.seconds and self.anyone(started + last * self.args.factor > began + self.args.seconds):
                self.leave_out(size, f"--seconds {self.args.seconds:g}")
                break
            row = self.measure(size, buffer[: size // element])
            last = time.monotonic() - started
            right = right and not row.wrong
            if self.printer:
                self.printer.row(row)
        self.line_up()
        return right

    def wake(self, data: Any) -> None:
        """Reduce for a moment, so that processors run at full clock and all connections are there."""
        began = time.monotonic()
        while not self.anyone(time.monotonic() - began > _WAKE_S):
            with self.limit(self.args.timeout, "all_reduce did not end"):
                self.dist.all_reduce(data)
                self.synchronise()

    def measure(self, size: int, data: Any) -> Row:
        """One size, with its check if one is wanted."""
        self.size = size
        took = 0.0
        for _ in range(self.args.warmup):
            with self.limit(self.args.timeout, "all_reduce did not end"):
                began = time.monotonic()
                self.dist.all_reduce(data)
                self.synchronise()
                took = time.monotonic() - began
        self.line_up()
        with self.limit(max(self.args.timeout, _PATIENCE * took * self.args.iterations), "the window did not end"):
            mean_us = self.window(data)
        times_us = self.gather(mean_us)
        return row_of(size, times_us, self.check(data) if self.args.check else None)

    def window(self, data: Any) -> float:
        """Mean time of a call in microseconds over one window of calls."""
        count: int = self.args.iterations
        if self.device.type == "cuda":
            start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(count):
                self.dist.all_reduce(data)
            end.record()
            end.synchronize()  # the events can be read only when both have passed
            elapsed_ms: float = start.elapsed_time(end)
            return elapsed_ms * 1e3 / count
        began = time.perf_counter()
        for _ in range(count):
            self.dist.all_reduce(data)
        return (time.perf_counter() - began) * 1e6 / count

    def check(self, data: Any) -> int:
        """Elements that are wrong after a sum, over all ranks.

        Element i is 1 + i mod 127 on rank i mod n and 0 on the others: the sum is exact in every type and order, and
        a lost, doubled or displaced contribution shows.
        """
        for index, part in self.parts(data):
            part.copy_((1 + index % 127) * (index % self.world == self.rank))
        with self.limit(self.args.timeout, "all_reduce did not end"):
            self.dist.all_reduce(data)
            self.synchronise()
        wrong = sum(int((part != (1 + index % 127)).sum()) for index, part in self.parts(data))
        data.zero_()
        return int(sum(self.gather(wrong)))

    def parts(self, data: Any) -> Iterator[tuple[Any, Any]]:
        """Pieces of the buffer with the indexes of their elements, so that a check needs little memory."""
        start = 0
        for part in data.split(_CHECK_PART):
            yield self.torch.arange(start, start + part.numel(), device=self.device), part
            start += part.numel()

    def memory(self) -> int:
        """Bytes that a buffer may have on every rank."""
        if self.device.type == "cuda":
            own = self.torch.cuda.mem_get_info()[0] * _GPU_SHARE
        else:
            own = free_memory() * _CPU_SHARE / self.meeting.ranks_on_host()
        return int(min(self.gather(own)))

    def gather(self, value: float) -> list[float]:
        """The values of all ranks."""
        own = self.torch.tensor([value], dtype=self.torch.float64, device=self.device)
        values = [self.torch.empty_like(own) for _ in range(self.world)]
        with self.limit(self.args.timeout, "the ranks did not exchange their results"):
            self.dist.all_gather(values, own)
            return [float(value) for value in values]

    def anyone(self, condition: bool) -> bool:
        """Whether it holds on any rank; the same answer on all."""
        return max(self.gather(float(condition))) > 0

    def line_up(self) -> None:
        """Return when all ranks have come here and their GPUs have nothing left to do."""
        self.gather(0.0)
        self.synchronise()

    def synchronise(self) -> None:
        """Return when this rank's GPU has nothing left to do."""
        if self.device.type == "cuda":
            self.torch.cuda.synchronize()

    def leave_out(self, size: int, why: str) -> None:
        """Note that this size and the larger ones are not measured; a later note is about smaller ones."""
        if self.printer:
            self.printer.report.left_out = (size, why)

    def fail(self, why: str) -> NoReturn:
        """Say what happened, keep on rank 0 what was measured until then, and end this process at once.

        Python's own way out waits for the process group, which may wait for a rank that has gone.
        """
        sys.stderr.write(f"allreduce: rank {self.rank} on {self.meeting.host}: {why}\n")
        sys.stderr.flush()
        if self.printer:
            self.printer.report.failed = (self.size, why)
            self.printer.finish()
        os._exit(1)

    @contextmanager
    def limit(self, seconds: float, what: str) -> Iterator[None]:
        """End this process if the block takes longer: a hung collective cannot be left in any other way."""
        delay = 0.0 if self.rank == 0 else _FAREWELL_S  # rank 0, which holds the results, speaks first
        timer = threading.Timer(seconds + delay, self.fail, (f"{what} within {seconds:.0f} s",))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _device(torch: Any, local_rank: int) -> tuple[Any, str | None, str | None]:
    """(device of this rank, product name, UUID); one visible GPU is this rank's own, whatever its local rank."""
    if not torch.cuda.is_available():
        return torch.device("cpu"), None, None
    index = local_rank % torch.cuda.device_count()
    torch.cuda.set_device(index)
    properties = torch.cuda.get_device_properties(index)
    uuid = getattr(properties, "uuid", None)  # since torch 2.4
    return torch.device("cuda", index), properties.name, str(uuid) if uuid else None


def _printer(torch: Any, args: argparse.Namespace, meeting: Meeting) -> Printer:
    """What rank 0 prints to, once all ranks are there and can work together."""
    members = meeting.roll_call()
    backend = choose_backend(members, args.backend, torch.distributed.is_nccl_available())
    nccl = ".".join(map(str, torch.cuda.nccl.version())) if backend == "nccl" else None
    if backend == "gloo":
        members = [{**member, "gpu": None} for member in members]  # they take no part
    report = Report(
        torch.__version__,
        backend,
        nccl,
        meeting.place.world,
        args.dtype,
        args.iterations,
        args.warmup,
        hosts_of(members),
    )
    return Printer(report, args.json, args.check)


def take_part(args: argparse.Namespace, place: Place) -> int:
    """Measure as one rank of the job; the exit code. Raises BenchError for all that goes wrong before the start."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's own would wait for the end of a hung collective
    torch = load_torch()
    meeting = Meeting(torch, place, args.timeout)
    came_as = meeting.number_on_host()
    device, gpu, uuid = _device(torch, came_as if place.local_rank is None else place.local_rank)
    meeting.introduce(gpu, uuid)
    printer = None
    if place.rank == 0:
        try:
            printer = _printer(torch, args, meeting)
        except BenchError:
            meeting.order(None)
            meeting.part()
            raise
        meeting.order(printer.report.backend)
        printer.start()
    backend = meeting.await_order()
    if backend is None:
        meeting.part()
        return 1
    bench = Bench(torch, args, meeting, device if backend == "nccl" else torch.device("cpu"), printer)
    try:
        bench.connect(backend)
        right = bench.run()
    except RuntimeError as error:
        bench.fail(_one_line(error))
    torch.distributed.destroy_process_group()
    if printer:
        printer.finish()
        if not right:
            sys.stderr.write("allreduce: sums were wrong: a GPU, its memory or the network changes data\n")
    meeting.part()
    return 0 if right else 1


# Start


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _child(args: argparse.Namespace, variables: dict[str, str]) -> None:
    os.environ.update(variables)
    sys.exit(run(args))


def spawn(args: argparse.Namespace) -> int:
    """Start the ranks on this machine and wait for them; when one fails the others are ended."""
    import multiprocessing  # noqa: PLC0415  (not needed under a launcher)

    if args.nproc < 2:
        raise UsageError("--nproc 1 is only one rank, and all_reduce needs two or more")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the ranks end too
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "WORLD_SIZE": str(args.nproc)}
    context = multiprocessing.get_context("spawn")
    ranks = [
        context.Process(target=_child, args=(args, {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}))
        for rank in range(args.nproc)
    ]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited: on Ctrl-C this process ends them, silently
    try:
        for process in ranks:
            process.start()
        signal.signal(signal.SIGINT, before)
        while any(process.is_alive() for process in ranks) and not any(process.exitcode for process in ranks):
            time.sleep(0.05)
        for rank, process in enumerate(ranks):
            process.join(2 * _FAREWELL_S if any(other.exitcode for other in ranks) else None)
            if (process.exitcode or 0) < 0:
                sys.stderr.write(f"allreduce: rank {rank} was ended by signal {-(process.exitcode or 0)}\n")
        codes = [process.exitcode for process in ranks if process.exitcode]
        return max((code if code > 0 else 1 for code in codes), default=0)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        for process in ranks:
            if process.is_alive():
                process.kill()
                process.join()


def run(args: argparse.Namespace) -> int:
    """Do what the options say; the exit code. Errors are one line on stderr."""
    try:
        if args.print:
            sys.stdout.buffer.write(Path(__file__).read_bytes())
            return 0
        if args.begin > args.end:
            raise UsageError(f"-b {args.begin} is more than -e {args.end}: no size lies between them")
        if args.nproc and not os.environ.get("RANK"):
            return spawn(args)
        return take_part(args, place_of(os.environ))
    except BenchError as error:
        ranks = (os.environ.get(name) for name, _, _ in _LAUNCHERS)
        if isinstance(error, RunError) or next((rank for rank in ranks if rank), "0") == "0":
            sys.stderr.write(f"allreduce: {error}\n")
        return error.code


def main(argv: Sequence[str] | None = None) -> int:
    """Run the script; the exit code."""
    parser = argparse.ArgumentParser(
        prog="allreduce", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser)
    return run(parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
