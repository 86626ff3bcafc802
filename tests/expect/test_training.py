"""What traces of several ranks say together: waiting apart from transfer, who is late and why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from advisor.expect.training import summarise_load, summarise_traces
from advisor.facts import Collective, GpuLoad, GpuState, TrainingTrace


def rank(
    number: int, *durations: float, world: int | None = 2, name: str = "all_reduce", **fields: Any
) -> TrainingTrace:
    """A trace with one collective of 8 MB a step, of these durations."""
    collectives = tuple(
        Collective("0", name, step, 1000.0 * step, duration, 8_000_000, 2) for step, duration in enumerate(durations)
    )
    known: dict[str, Any] = {
        "step_us": 1000.0, "steps": len(durations), "exposed_share": 0.5, "computation_share": 0.3, "idle_share": 0.0,
        "compute_kernels": 100, "grid_blocks": 1000, "kernel_time_us": 300.0,
    }  # fmt: skip
    return TrainingTrace(trace=f"{number}", rank=number, world=world, collectives=collectives, **{**known, **fields})


def test_transfer_is_the_shortest_duration() -> None:
    found = summarise_traces([rank(0, 900, 900), rank(1, 100, 100)])
    assert found is not None
    assert (found.matched, found.min_over_mean, found.waiting_share) == (2, 0.2, 0.8)
    assert (found.late_rank, found.late_share, found.late_steps_share) == (1, 1.0, 1.0)
    assert found.transfer_busbw_gbyte_s == 80.0


@pytest.mark.parametrize(
    ("late", "why"),
    [
        ({"compute_kernels": 140}, "more-work"),
        ({"grid_blocks": 3000}, "more-work"),
        ({"kernel_time_us": 400.0}, "slower"),
        ({"idle_share": 0.2}, "gaps"),
        ({}, None),
        ({"grid_blocks": None, "kernel_time_us": 400.0}, None),
        ({"compute_kernels": 60, "kernel_time_us": 400.0}, None),
    ],
)
def test_why_a_rank_is_late(late: dict[str, Any], why: str | None) -> None:
    found = summarise_traces([rank(0, 900, 900), rank(1, 100, 100, **late)])
    assert found is not None
    assert found.late_why == why


def test_a_late_rank_that_changes() -> None:
    found = summarise_traces([rank(0, 100, 900, 900), rank(1, 900, 100, 900), rank(2, 900, 900, 100)])
    assert found is not None
    assert found.late_steps_share == pytest.approx(1 / 3, abs=0.001)


def test_one_rank_of_several_leaves_the_others_unknown() -> None:
    found = summarise_traces([rank(0, 900)])
    assert found is not None
    assert (found.several, found.all_ranks, found.min_over_mean) == (None, None, None)
    alone = summarise_traces([rank(0, 900, world=1)])
    assert alone is not None
    assert (alone.several, alone.all_ranks) == (False, True)


def test_unequal_counts_match_within_steps() -> None:
    """A trace that lacks the last step's collective is matched in the others."""
    found = summarise_traces([rank(0, 900, 900, 900), rank(1, 100, 100)])
    assert found is not None
    assert found.matched == 2


def test_send_and_receive_are_not_compared() -> None:
    found = summarise_traces([rank(0, 900, name="sendrecv"), rank(1, 100, name="sendrecv")])
    assert found is not None
    assert (found.matched, found.waiting_share) == (0, None)


def test_traces_of_two_jobs_have_no_summary() -> None:
    assert summarise_traces([rank(0, 900), rank(0, 100)]) is None
    assert summarise_traces([rank(0, 900), rank(1, 100, world=4)]) is None
    assert summarise_traces([]) is None


def test_traces_that_broke_off_do_not_count() -> None:
    assert summarise_traces([replace(rank(0, 900), complete=False)]) is None


def load(index: int, busy: float | None, quiet: float | None) -> GpuLoad:
    return GpuLoad(index=index, sample="d:1", readings=20, sm_share=0.9, busy_power_w=busy, quiet_power_w=quiet)


def test_power_against_the_limit_or_else_against_idle() -> None:
    limits = [GpuState(reading=f"q:{i}", index=i, power_limit_w=700.0) for i in (0, 1)]
    low = summarise_load([load(0, 300, None), load(1, 310, None)], limits)
    assert low is not None
    assert (low.low_power, low.busy_power_share) == (True, 0.4286)
    unknown = summarise_load([load(0, 300, None), load(1, 310, None)], [])
    assert unknown is not None
    assert (unknown.low_power, unknown.busy_power_share) == (None, None)
    spinning = summarise_load([load(0, 125, 123), load(1, 128, 126)], [])
    assert spinning is not None
    assert spinning.low_power is True
    uneven = summarise_load([load(0, 300, 120), load(1, 650, 120)], [])
    assert uneven is not None
    assert (uneven.low_power, uneven.uneven_power) == (False, True)


def test_few_readings_describe_no_job() -> None:
    assert summarise_load([replace(load(0, 300, 120), readings=3)], []) is None
