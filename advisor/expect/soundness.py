"""Whether a measurement may be judged at all, and what it measured."""

from __future__ import annotations

from advisor.data import table
from advisor.expect.collectives import busbw_factor
from advisor.expect.shape import Band
from advisor.facts import CollectiveTest

_FACTOR_TOLERANCE = 0.05  # printed figures have two decimals; the factors that are confused differ far more


def void(test: CollectiveTest) -> tuple[str, ...]:
    """Why the test says nothing about bandwidth, whatever it shows; empty where it may."""
    reasons = []
    many_tables = (test.tables or 0) > 1 or (test.same_size_rows and test.nranks in (None, 1))
    if many_tables or (test.zero_busbw and test.nranks is None):
        reasons.append("no-mpi")
    elif test.nranks == 1 or test.zero_busbw:
        reasons.append("one-rank")
    if test.wrong:
        reasons.append("wrong-values")
    if test.failed:
        reasons.append("failed")
    if (test.groups or 1) > 1:
        reasons.append("split-groups")
    if test.busbw_gbyte_s is None and test.algbw_gbyte_s is None:
        reasons.append("no-busbw")
    elif test.nranks is None or busbw_factor(test.collective, test.nranks) is None:
        reasons.append("factor-unknown")
    return tuple(reasons)


def true_busbw(test: CollectiveTest) -> tuple[float | None, bool]:
    """Busbw at the largest size, GB/s, and whether it was recomputed from algbw because the printed factor is wrong."""
    factor = busbw_factor(test.collective, test.nranks) if test.nranks else None
    printed, algbw = test.busbw_gbyte_s, test.algbw_gbyte_s
    if factor is None or not algbw:
        return printed, False
    if printed is None or (algbw > 1 and abs(printed / algbw / factor - 1) > _FACTOR_TOLERANCE):
        return round(algbw * factor, 3), True
    return printed, False


def unripe(test: CollectiveTest, band: Band) -> tuple[str, ...]:
    """Why a reading under the healthy line may only be start-up time: messages too small, a curve that still rises.

    A flat curve is a plateau, at any size from a minimum on. An unknown size spoils a low figure and no other.
    """
    if test.size_bytes is None:
        return ("no-size",)
    size = test.size_bytes
    if test.still_rising:
        return ("too-small",) if size < band.size_bytes else ("still-rising",)
    flat = test.still_rising is False and size >= table("bands")["size"]["least_bytes"]
    return () if flat or size >= band.size_bytes else ("too-small",)


def low_at(test: CollectiveTest, band: Band) -> float:
    """The lower bound for this size: a curve that looks flat may still be some way from its plateau."""
    small = (test.size_bytes or 0) < band.size_bytes
    return band.low * table("bands")["flat_curve"]["value"] if small else band.low
