"""Facts about a training job: what a profiler saw of a rank, and what the ranks together say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from advisor.facts.base import Fact


@dataclass(slots=True, frozen=True)
class Collective:
    """One NCCL kernel of one rank.

    group: process group with its ranks as printed, empty where not printed; name: `allreduce`, `_allgather_base`,
    else the family from the kernel's name; step: index of the profiled step it began in; start_us: on the rank's own
    clock, from the first profiled step; duration_us: with the time it waited for its peers; size_bytes: message size
    in the meaning of nccl-tests, group_size: ranks, None where not printed.
    """

    group: str
    name: str
    step: int
    start_us: float
    duration_us: float
    size_bytes: int | None = None
    group_size: int | None = None


@dataclass(slots=True, kw_only=True)
class KernelTimes(Fact):
    """GPU time by kernel, summed over a profile (`nsys stats`): totals, so that overlap is not seen.

    table: `FILE:LINE` of its header; kernels, nccl_kernels: launches; nccl_share: of the summed kernel time, 0 to 1;
    nccl_median_us: of the NCCL kernel with the largest total; nccl_max_us: the longest of all; longest: the kernel with
    the largest total.
    """

    KEY: ClassVar[tuple[str, ...]] = ("table",)

    table: str
    kernels: int | None = None
    nccl_kernels: int | None = None
    nccl_share: float | None = None
    nccl_median_us: float | None = None
    nccl_max_us: float | None = None
    longest: str | None = None


@dataclass(slots=True, kw_only=True)
class TrainingTrace(Fact):
    """What a profiler recorded of one rank (PyTorch profiler, chrome trace).

    trace: `FILE:LINE` where it begins; rank, world; backend: of torch.distributed; nccl_version; gpu: product;
    complete: the file was read to its end: else the shares are None; steps: profiled, 0 where none are marked;
    step_us: mean duration. Shares of the steps' time, 0 to 1, on the busiest device: communication_share: any NCCL
    kernel ran; computation_share: any other kernel; exposed_share: a NCCL kernel and no other; hidden_share: of the
    communication, the part under computation, None without communication; copy_share: only copies and memory sets;
    idle_share: nothing. Of the idle time, in the median step, None where the trace has no activity of the CPU:
    loader_gap_share: the main thread waits for the data loader; busy_gap_share: operators or CUDA calls run;
    quiet_gap_share: neither; start_gap_share: quiet and before the step's first work, the least of all steps.
    nccl_kernels, compute_kernels: counts in the steps; nccl_per_step; kernel_us: median of computation kernels;
    kernel_time_us: their sum a step; grid_blocks: thread blocks of all computation kernels together; nccl_us: median
    of NCCL kernels; message_bytes: median; small_time_share: of the NCCL time, that in messages up to 1 MiB;
    gloo_ops; copy_to_host_bytes: a step; python_stacks: Python calls were recorded, which slows the CPU; collectives:
    in order of start, at most 20000.
    """

    KEY: ClassVar[tuple[str, ...]] = ("rank", "trace")

    trace: str
    rank: int | None = None
    world: int | None = None
    backend: str | None = None
    nccl_version: str | None = None
    gpu: str | None = None
    complete: bool = True
    steps: int = 0
    step_us: float | None = None
    computation_share: float | None = None
    communication_share: float | None = None
    exposed_share: float | None = None
    hidden_share: float | None = None
    copy_share: float | None = None
    idle_share: float | None = None
    loader_gap_share: float | None = None
    busy_gap_share: float | None = None
    quiet_gap_share: float | None = None
    start_gap_share: float | None = None
    nccl_kernels: int | None = None
    compute_kernels: int | None = None
    nccl_per_step: float | None = None
    kernel_us: float | None = None
    kernel_time_us: float | None = None
    grid_blocks: int | None = None
    nccl_us: float | None = None
    message_bytes: int | None = None
    small_time_share: float | None = None
    gloo_ops: int | None = None
    copy_to_host_bytes: int | None = None
    python_stacks: bool | None = None
    collectives: tuple[Collective, ...] = ()


@dataclass(slots=True, kw_only=True)
class TrainingSummary(Fact):
    """What the traces of one job's ranks say together. Derived, one an input.

    ranks_seen, world; several: two ranks or more were traced, False in a job of one, None where only one of more was;
    all_ranks: every rank of the job was traced, None where some are missing, since nobody knows what those did; the
    min_ and max_ fields: least and greatest of TrainingTrace's shares over the ranks. Over collectives that could be
    matched across ranks, all-reduce, all-gather and reduce-scatter only: matched: how many; min_over_mean: shortest
    duration over the mean, weighted by time (1: all ranks transfer at once; near 0: most of it is waiting);
    waiting_share: 1 less that; transfer_busbw_gbyte_s: busbw from the shortest durations; late_rank: for which the
    others waited longest, late_share: of the waiting time, late_steps_share: of the steps, late_host: where known;
    late_why: `more-work` (more kernels or thread blocks than the others), `slower` (the same kernels and grids take
    longer), `gaps` (the same work, with longer idle gaps), None where none of these can be told;
    computation_max_over_median, kernels_max_over_min: of the ranks' computation kernels.
    """

    ranks_seen: int
    world: int | None = None
    several: bool | None = None
    all_ranks: bool | None = None
    min_exposed_share: float | None = None
    max_exposed_share: float | None = None
    min_computation_share: float | None = None
    max_idle_share: float | None = None
    min_idle_share: float | None = None
    matched: int = 0
    min_over_mean: float | None = None
    waiting_share: float | None = None
    transfer_busbw_gbyte_s: float | None = None
    late_rank: int | None = None
    late_share: float | None = None
    late_steps_share: float | None = None
    late_host: str | None = None
    late_why: str | None = None
    computation_max_over_median: float | None = None
    kernels_max_over_min: float | None = None


@dataclass(slots=True, kw_only=True)
class LoadSummary(Fact):
    """What the monitored GPUs of the input say together (`nvidia-smi dmon`). Derived, one an input.

    gpus; low_power: in all GPUs, the readings with kernels in them draw little: 55 % of the power limit or less where
    it is known, else no more than a quarter above the same GPU's readings without any; uneven_power: all ran kernels,
    and one drew 1.8 times the power of another or more; busy_power_share: least power of busy readings over the
    limit, None where no limit is known; min_sm_share: of busy readings; never_busy: some kernels ran and in no reading
    of any GPU for half of the time, at an unchanged power.
    """

    gpus: int
    low_power: bool | None = None
    uneven_power: bool | None = None
    never_busy: bool | None = None
    busy_power_share: float | None = None
    busy_sm_share: float | None = None


@dataclass(slots=True, kw_only=True)
class StepTimes(Fact):
    """The step lines of one log of a training loop.

    log: `FILE:LINE` of the first; rank: as far as the lines or the file's name say; framework: `megatron`,
    `deepspeed`, `tqdm` (HF Trainer, Lightning), `loop`; steps: lines read; warm_up: first ones left out of what
    follows; median_s, p95_s, max_s: seconds a step; slow_steps: numbers of steps above one and a half times the median,
    slow_share: of the time, what they took beyond the median; slow_period: steps from one to the next where that is
    always the same (three or more); data_time_s: median wait for data, data_share: of the step; throughput: median, in
    `unit` (`samples/s`, `tokens/s`, `TFLOP/s`), per_gpu: it is that of one GPU, None where not said; global_batch:
    samples a step of the whole job; nranks: world size where the log says it.
    """

    KEY: ClassVar[tuple[str, ...]] = ("log", "framework")

    log: str
    framework: str
    rank: int | None = None
    steps: int = 0
    warm_up: int = 0
    median_s: float | None = None
    p95_s: float | None = None
    max_s: float | None = None
    slow_steps: tuple[int, ...] = ()
    slow_share: float | None = None
    slow_period: int | None = None
    data_time_s: float | None = None
    data_share: float | None = None
    throughput: float | None = None
    unit: str | None = None
    per_gpu: bool | None = None
    global_batch: int | None = None
    nranks: int | None = None


@dataclass(slots=True, kw_only=True)
class Throughput(Fact):
    """One line of a scaling test: so many GPUs gave so much.

    gpus, nodes: None where not said; rate in `unit` (`samples/s`, …), of the whole job, or of one GPU with per_gpu;
    batch_per_gpu: where the line says it.
    """

    KEY: ClassVar[tuple[str, ...]] = ("gpus", "nodes", "unit", "batch_per_gpu")

    gpus: int | None = None
    nodes: int | None = None
    rate: float
    unit: str
    per_gpu: bool = False
    batch_per_gpu: float | None = None


@dataclass(slots=True, kw_only=True)
class ScalingPair(Fact):
    """The smallest and the largest run of a scaling test. Derived.

    counted: `gpus` or `nodes`; small, large: how many; efficiency: throughput of the large one over that of the small
    one times large / small; same_batch: as much work for each GPU in both, None where not said; unit; small_rate,
    large_rate: of the whole job.
    """

    KEY: ClassVar[tuple[str, ...]] = ("counted", "unit")

    counted: str
    small: int
    large: int
    efficiency: float
    same_batch: bool | None = None
    unit: str
    small_rate: float
    large_rate: float


@dataclass(slots=True, kw_only=True)
class InspectorCollective(Fact):
    """Calls of one collective at one size by one rank, from NCCL's Inspector plugin.

    comm: hash; rank, nranks, nnodes: in the communicator; collective: `AllReduce`, …; size_bytes; calls: counted,
    left_out: the first five of a communicator (connections are still being set up) and those not timed on the GPU;
    median_us, min_us, max_us: execution time, which includes waiting for peers; busbw_gbyte_s: median, max_busbw:
    best, GB/s.
    """

    KEY: ClassVar[tuple[str, ...]] = ("comm", "rank", "collective", "size_bytes")

    comm: str
    rank: int
    nranks: int | None = None
    nnodes: int | None = None
    collective: str
    size_bytes: int
    calls: int = 0
    left_out: int = 0
    median_us: float | None = None
    min_us: float | None = None
    max_us: float | None = None
    busbw_gbyte_s: float | None = None
    max_busbw_gbyte_s: float | None = None


@dataclass(slots=True, kw_only=True)
class LoggedCollective(Fact):
    """Calls of one collective at one size as a framework timed them on the host (DeepSpeed's comms logger).

    log: `FILE:LINE` of the first; summary: it is a row of the table at the end, False where it was put together from
    a line for each call; collective: `all_reduce`, `all_gather_into_tensor`, …; size_bytes: of the printed label, two
    decimals; calls; mean_us: of the table a trimmed mean, with the time spent waiting for peers; total_us;
    straggler_us: of that, waiting for the slowest rank, total, where asked for; algbw_gbyte_s: size over mean time, as
    nccl-tests has it and not as printed (which is twice that), None for collectives whose size has another meaning.
    """

    KEY: ClassVar[tuple[str, ...]] = ("log", "collective", "size_bytes")

    log: str
    summary: bool
    collective: str
    size_bytes: int
    calls: int
    mean_us: float | None = None
    total_us: float | None = None
    straggler_us: float | None = None
    algbw_gbyte_s: float | None = None
