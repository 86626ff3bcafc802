"""Who is missing in a hang, and how a scaling test comes out."""

from __future__ import annotations

from typing import Any

import pytest

from advisor.expect.hangs import hangs
from advisor.expect.scaling import scaling
from advisor.facts import (
    CollectiveTimeout,
    Fact,
    FactStore,
    FlightEntry,
    FlightRecord,
    HangSummary,
    Origin,
    RankFailure,
    ScalingPair,
    StepTimes,
    Throughput,
)


def hang(*facts: Fact) -> HangSummary:
    for number, fact in enumerate(facts):
        fact.origins = fact.origins or (Origin(f"rank{number}.log", 1),)
    found = hangs(FactStore(facts))
    assert len(found) == 1
    assert isinstance(found[0], HangSummary)
    return found[0]


def waits(rank: int, seq: int = 9, **more: Any) -> CollectiveTimeout:
    return CollectiveTimeout(rank=rank, group="default_pg", reported=True, seq=seq, op="ALLREDUCE", **more)


def heard(rank: int, enqueued: int) -> CollectiveTimeout:
    return CollectiveTimeout(rank=rank, group="default_pg", reported=False, last_enqueued=enqueued, first_rank=0)


def record(rank: int, *entries: tuple[int, str, int, str], size: int = 3) -> FlightRecord:
    made = tuple(FlightEntry(seq, op, ((count,),), ("Float",), state) for seq, op, count, state in entries)
    return FlightRecord(rank=rank, group="default_pg", group_ranks=tuple(range(size)), entries=made)


def test_the_rank_that_enqueued_less_is_behind() -> None:
    found = hang(waits(0), waits(2), heard(1, 8))
    assert (found.behind, found.behind_enqueued, found.all_entered) == ((1,), 8, False)


def test_a_rank_that_enqueued_as_much_is_not() -> None:
    assert hang(waits(0), waits(2), heard(1, 11)).behind == ()


def test_the_only_report_tells_nothing_of_others() -> None:
    found = hang(waits(0))
    assert (found.behind, found.silent, found.all_entered) == (None, None, None)


def test_all_but_one() -> None:
    found = hang(waits(1), waits(2), waits(3))
    assert (found.silent, found.same_seq) == ((0,), True)


def test_reports_at_different_numbers_name_no_silent_rank() -> None:
    found = hang(waits(1), waits(2, 10))
    assert (found.seq, found.same_seq, found.silent) == (9, False, None)


@pytest.mark.parametrize(
    ("entry", "kind"),
    [((7, "_all_gather_base", 64, "scheduled"), "op"), ((7, "all_reduce", 65, "scheduled"), "size"),
     ((6, "all_reduce", 64, "completed"), "missing")],
)  # fmt: skip
def test_records_differ(entry: tuple[int, str, int, str], kind: str) -> None:
    usual = ((6, "all_reduce", 64, "completed"), (7, "all_reduce", 64, "scheduled"))
    found = hang(record(0, *usual), record(1, (6, "all_reduce", 64, "completed"), entry), record(2, *usual))
    assert (found.divergence, found.differing, found.seq) == (kind, (1,), 7)


def test_running_ahead_is_no_difference() -> None:
    stuck = (7, "all_reduce", 64, "scheduled")
    found = hang(record(0, stuck, (8, "all_reduce", 64, "scheduled"), size=2), record(1, stuck, size=2))
    assert (found.divergence, found.behind, found.all_entered) == (None, (), True)


def test_sizes_of_all_to_all_may_differ() -> None:
    found = hang(*(record(rank, (7, "all_to_all", 64 + rank, "scheduled"), size=2) for rank in (0, 1)))
    assert (found.divergence, found.all_entered) == (None, True)


def test_records_that_wrapped_are_compared_where_both_have_entries() -> None:
    old = (5, "broadcast", 1, "completed")
    now = (7, "all_reduce", 64, "started")
    found = hang(record(0, old, (6, "all_reduce", 64, "completed"), now, size=2), record(1, now, size=2))
    assert found.divergence is None


def test_records_without_an_open_collective_are_no_hang() -> None:
    assert hangs(FactStore([record(0, (7, "all_reduce", 64, "completed"))])) == []


def test_what_ended_before_and_what_ended_after() -> None:
    report = waits(0, clock="0114 09:12:44.1")
    before = RankFailure(rank=1, kind="exception", clock="0114 09:02:40.0")
    after = RankFailure(rank=1, kind="exception", clock="0114 09:12:50.0")
    assert hang(report, before).ended == "exception"
    assert hang(report, after).ended is None


def test_a_victim_or_a_shadow_has_not_ended() -> None:
    failures = (RankFailure(rank=0, kind="exception"), RankFailure(rank=1, kind="signal", code="6", shadow=True))
    assert hang(waits(0), *failures).ended is None


def pair(*facts: Fact) -> ScalingPair:
    found = scaling(FactStore(facts))
    assert len(found) == 1
    assert isinstance(found[0], ScalingPair)
    return found[0]


def test_efficiency_of_lines() -> None:
    found = pair(Throughput(gpus=8, rate=1000.0, unit="samples/s"), Throughput(gpus=16, rate=1200.0, unit="samples/s"))
    assert (found.efficiency, found.same_batch) == (0.6, None)


def test_efficiency_of_rates_for_each_gpu() -> None:
    logs = (
        StepTimes(log=f"{n}:1", framework="megatron", nranks=n, throughput=rate, unit="TFLOP/s", per_gpu=True,
                  global_batch=n * 4)
        for n, rate in ((8, 400.0), (64, 300.0))
    )  # fmt: skip
    found = pair(*logs)
    assert (found.small, found.large, found.efficiency, found.same_batch) == (8, 64, 0.75, True)


def test_one_run_is_no_pair() -> None:
    assert scaling(FactStore([Throughput(gpus=8, rate=1000.0, unit="samples/s")])) == []
