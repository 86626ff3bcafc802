"""Scaling efficiency from the throughputs of a small and a large run."""

from __future__ import annotations

from collections import defaultdict

from advisor.facts import Fact, Origin, ScalingPair, StepTimes, Throughput
from advisor.facts.store import FactStore

_Run = tuple[int, float, float | None, tuple[Origin, ...]]  # how many, rate of the whole job, batch per GPU, where


def scaling(store: FactStore) -> list[Fact]:
    """A ScalingPair for each unit in which at least two sizes of a job were measured."""
    runs: dict[tuple[str, str], list[_Run]] = defaultdict(list)
    for line in store.of(Throughput):
        counted, many = ("gpus", line.gpus) if line.gpus is not None else ("nodes", line.nodes)
        if many and not (line.per_gpu and counted == "nodes"):
            rate = line.rate * many if line.per_gpu else line.rate
            runs[counted, line.unit].append((many, rate, line.batch_per_gpu, line.origins))
    for log in store.of(StepTimes):
        if log.nranks and log.throughput and log.unit and log.per_gpu is not None:
            rate = log.throughput * log.nranks if log.per_gpu else log.throughput
            batch = log.global_batch / log.nranks if log.global_batch else None
            if batch is None and not log.per_gpu and log.unit == "samples/s" and log.median_s:
                batch = round(rate * log.median_s / log.nranks, 1)
            runs["gpus", log.unit].append((log.nranks, rate, batch, log.origins))
    pairs = (_pair(counted, unit, found) for (counted, unit), found in sorted(runs.items()))
    return [pair for pair in pairs if pair is not None]


def _pair(counted: str, unit: str, runs: list[_Run]) -> ScalingPair | None:
    """The smallest against the largest run, of each the best rate."""
    small = max((run for run in runs if run[0] == min(r[0] for r in runs)), key=lambda run: run[1])
    large = max((run for run in runs if run[0] == max(r[0] for r in runs)), key=lambda run: run[1])
    if small[0] == large[0] or not small[1]:
        return None
    return ScalingPair(
        counted=counted, unit=unit, small=small[0], large=large[0], small_rate=small[1], large_rate=large[1],
        efficiency=round(large[1] / small[1] * small[0] / large[0], 3),
        same_batch=None if small[2] is None or large[2] is None else abs(small[2] - large[2]) <= 0.05 * small[2],
        origins=tuple(sorted({*small[3], *large[3]})),
    )  # fmt: skip
