"""What the traces of a job's ranks say together, and the load of its GPUs: waiting apart from transfer, who is late."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from advisor.data import threshold
from advisor.expect.collectives import busbw_factor
from advisor.facts import Collective, GpuLoad, GpuState, LoadSummary, Origin, TrainingSummary, TrainingTrace
from advisor.facts.store import FactStore

# Of the others nobody is sure to wait for the last: send and receive are unequal, a broadcast has one sender.
_EQUAL = ("all_reduce", "all_gather", "reduce_scatter")
Ranks = Mapping[int, TrainingTrace]


# -------------------------------------------------------------------------------------------------- across the ranks


@dataclass(slots=True, frozen=True)
class _Match:
    """One collective as each of its ranks saw it: by rank, in us."""

    durations: Mapping[int, Collective]

    @property
    def shortest(self) -> float:
        """The transfer: the last rank to arrive waits for nobody."""
        return min(c.duration_us for c in self.durations.values())

    @property
    def late(self) -> int:
        """The rank that arrived last."""
        return min(self.durations, key=lambda rank: (self.durations[rank].duration_us, rank))

    @property
    def waiting(self) -> float:
        """Time that all ranks together waited for the last."""
        return sum(c.duration_us for c in self.durations.values()) - self.shortest * len(self.durations)


def _grouped(trace: TrainingTrace) -> dict[tuple[str, str], list[Collective]]:
    """Collectives in which all ranks do the same, by group and kind, in their order."""
    groups: dict[tuple[str, str], list[Collective]] = defaultdict(list)
    for collective in trace.collectives:
        if collective.name in _EQUAL:
            groups[collective.group, collective.name].append(collective)
    return groups


def _matches(ranks: Ranks) -> list[_Match]:
    """Collectives of one group and kind, matched by their order.

    That of the whole trace where every rank has as many of them, else within a step, where a trace began or ended in
    the middle of one.
    """
    found: list[_Match] = []
    grouped = {rank: _grouped(trace) for rank, trace in ranks.items()}
    for key in sorted({key for groups in grouped.values() for key in groups}):
        members = {rank: groups[key] for rank, groups in grouped.items() if key in groups}
        if len(members) < 2:
            continue
        if _equally_many(members):
            found += _in_order(members)
            continue
        for step in sorted({c.step for collectives in members.values() for c in collectives}):
            within = {rank: [c for c in collectives if c.step == step] for rank, collectives in members.items()}
            if _equally_many(within):
                found += _in_order(within)
    return found


def _equally_many(members: Mapping[int, Sequence[Collective]]) -> bool:
    return len({len(collectives) for collectives in members.values()}) == 1


def _in_order(members: Mapping[int, Sequence[Collective]]) -> list[_Match]:
    rows = zip(*members.values(), strict=True)
    return [_Match(dict(zip(members, row, strict=True))) for row in rows]


def _transfer_busbw(matches: Iterable[_Match]) -> float | None:
    """Busbw from the shortest durations of collectives whose size is known, GB/s."""
    carried = time = 0.0
    for match in matches:
        one = next(iter(match.durations.values()))
        factor = busbw_factor(one.name, one.group_size) if one.group_size else None
        if one.size_bytes and factor:
            carried += one.size_bytes * factor
            time += match.shortest
    return round(carried / time / 1000, 3) if time else None


def _describe_waiting(summary: TrainingSummary, matches: Sequence[_Match], ranks: Ranks) -> None:
    """How much of the collectives is waiting, and for whom."""
    total = sum(c.duration_us for match in matches for c in match.durations.values())
    waiting = sum(match.waiting for match in matches)
    if total <= 0:
        return
    summary.waiting_share = round(waiting / total, 4)
    summary.min_over_mean = round(1 - waiting / total, 4)
    blame: Counter[int] = Counter()
    by_step: dict[int, Counter[int]] = defaultdict(Counter)
    for match in matches:
        blame[match.late] += round(match.waiting)
        by_step[match.durations[match.late].step][match.late] += round(match.waiting)
    late, time = blame.most_common(1)[0]
    if time <= 0:
        return
    steps = [counts.most_common(1)[0][0] for counts in by_step.values()]
    summary.late_rank, summary.late_share = late, round(time / max(1.0, waiting), 4)
    summary.late_steps_share = round(steps.count(late) / len(steps), 4)
    summary.late_host = ranks[late].host
    summary.late_why = _why_late(ranks[late], [trace for rank, trace in ranks.items() if rank != late])


def _above(own: float | None, others: Sequence[float | None]) -> float | None:
    """A figure of the late rank over the median of the others', None where unknown."""
    known = [value for value in others if value]
    return own / median(known) if own is not None and known else None


def _why_late(late: TrainingTrace, others: Sequence[TrainingTrace]) -> str | None:
    """What sets the late rank apart: `more-work`, `slower`, `gaps`, None where it cannot be told."""
    more, longer = 1 + threshold("rank-more-work"), 1 + threshold("rank-slower")
    kernels = _above(late.compute_kernels, [t.compute_kernels for t in others])
    blocks = _above(late.grid_blocks, [t.grid_blocks for t in others])
    if kernels is None or late.step_us is None:
        return None
    if kernels >= more or (blocks is not None and blocks >= more):
        return "more-work"
    if kernels <= 2 - more or blocks is None or blocks <= 2 - more:
        return None  # other work, not the same
    time = _above(late.kernel_time_us, [t.kernel_time_us for t in others])
    if time is not None and time >= longer:
        return "slower"
    idle = [t.idle_share for t in others if t.idle_share is not None]
    if late.idle_share is not None and idle and late.idle_share - median(idle) >= threshold("rank-more-idle"):
        return "gaps"
    return None


def _jobs(traces: Sequence[TrainingTrace]) -> Ranks | None:
    """The traces by rank; None where two are of one rank or of worlds of different sizes: those are several jobs."""
    worlds = {trace.world for trace in traces if trace.world is not None}
    ranks = [trace.rank for trace in traces]
    if len(worlds) > 1 or None in ranks or len(set(ranks)) < len(ranks):
        return None
    return {trace.rank: trace for trace in sorted(traces, key=lambda t: t.rank or 0) if trace.rank is not None}


def summarise_traces(traces: Sequence[TrainingTrace]) -> TrainingSummary | None:
    """The summary of one job's traces; None without any, or where they are of more than one job."""
    usable = [trace for trace in traces if trace.complete and trace.exposed_share is not None]
    ranks = _jobs(usable)
    if not ranks:
        return None
    world = next((trace.world for trace in ranks.values() if trace.world is not None), None)
    found = TrainingSummary(
        ranks_seen=len(ranks), world=world, several=True if len(ranks) > 1 else False if world == 1 else None,
        all_ranks=True if len(ranks) == world else None,
        min_exposed_share=_extreme(min, [t.exposed_share for t in ranks.values()]),
        max_exposed_share=_extreme(max, [t.exposed_share for t in ranks.values()]),
        min_computation_share=_extreme(min, [t.computation_share for t in ranks.values()]),
        min_idle_share=_extreme(min, [t.idle_share for t in ranks.values()]),
        max_idle_share=_extreme(max, [t.idle_share for t in ranks.values()]),
        origins=_origins(ranks.values()),
    )  # fmt: skip
    if len(ranks) > 1:
        times = [t.kernel_time_us for t in ranks.values() if t.kernel_time_us]
        counts = [t.compute_kernels for t in ranks.values() if t.compute_kernels]
        found.computation_max_over_median = round(max(times) / median(times), 3) if times else None
        found.kernels_max_over_min = round(max(counts) / min(counts), 3) if counts else None
        matches = _matches(ranks)
        found.matched = len(matches)
        found.transfer_busbw_gbyte_s = _transfer_busbw(matches)
        _describe_waiting(found, matches, ranks)
    return found


def _extreme(choose: Callable[[list[float]], float], values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return choose(known) if known else None


def _origins(facts: Iterable[TrainingTrace | GpuLoad]) -> tuple[Origin, ...]:
    return tuple(sorted({origin for fact in facts for origin in fact.origins}))


# -------------------------------------------------------------------------------------------------- across the GPUs


def summarise_load(loads: Sequence[GpuLoad], states: Sequence[GpuState]) -> LoadSummary | None:
    """The summary of the monitored GPUs; None without readings of power and utilisation in any."""
    loads = [load for load in loads if load.sm_share is not None and load.readings >= threshold("load-readings")]
    if not loads:
        return None
    limits = [_limit(load, states) for load in loads]
    shares = [
        load.busy_power_w / limit for load, limit in zip(loads, limits, strict=True) if limit and load.busy_power_w
    ]
    known = len(shares) == len(loads)
    return LoadSummary(
        gpus=len(loads),
        low_power=_all_low(loads, shares if known else None),
        uneven_power=_uneven(loads),
        never_busy=_never_busy(loads),
        busy_power_share=round(min(shares), 4) if known else None,
        busy_sm_share=_extreme(min, [load.busy_sm_share for load in loads]),
        origins=_origins(loads),
    )


def _limit(load: GpuLoad, states: Sequence[GpuState]) -> float | None:
    """The power limit of a GPU, where nvidia-smi was read on its host; W."""
    found = {s.power_limit_w for s in states if s.host == load.host and s.index == load.index and s.power_limit_w}
    return found.pop() if len(found) == 1 else None


def _all_low(loads: Sequence[GpuLoad], shares: Sequence[float] | None) -> bool | None:
    """Whether no GPU draws in its busy readings what computation would draw; None where one was never busy."""
    if any(load.busy_power_w is None for load in loads):
        return None
    if shares is not None:
        return max(shares) <= threshold("power-low-share")
    pairs = [(load.busy_power_w, load.quiet_power_w) for load in loads]
    ratios = [busy / quiet for busy, quiet in pairs if busy is not None and quiet]
    return max(ratios) <= threshold("power-over-quiet") if len(ratios) == len(loads) else None


def _uneven(loads: Sequence[GpuLoad]) -> bool | None:
    powers = [load.busy_power_w for load in loads if load.busy_power_w]
    if len(loads) < 2 or len(powers) < len(loads):
        return None
    return max(powers) / min(powers) >= threshold("power-uneven")


def _never_busy(loads: Sequence[GpuLoad]) -> bool | None:
    """Whether kernels ran on every GPU, but on none for half of any reading, at the power of an idle GPU."""
    if any(load.quiet_power_w is None or load.power_max_w is None for load in loads):
        return None
    some = threshold("load-some-share")
    flat = all((load.power_max_w or 0) <= threshold("power-over-quiet") * (load.quiet_power_w or 0) for load in loads)
    return flat and all(load.busy_share == 0 and (load.sm_max_share or 0) >= some for load in loads)


def derive_training(store: FactStore) -> list[TrainingSummary | LoadSummary]:
    """What follows from the traces and the GPU load of a store."""
    found = [
        summarise_traces(store.of(TrainingTrace)),
        summarise_load(store.of(GpuLoad), store.of(GpuState)),
    ]
    return [fact for fact in found if fact is not None]
