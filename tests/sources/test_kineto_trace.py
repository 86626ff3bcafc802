"""PyTorch traces: shares measured on real runs, damaged and hostile text."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from advisor.diagnosis import facts_of
from advisor.facts import TrainingTrace
from advisor.read.unpack import documents
from advisor.sources.base import Problem, Segment
from advisor.sources.kineto_trace import SOURCE, parse
from tests.capture_tools import CAPTURES

CASES = Path(__file__).parent.parent / "cases"
# Share of the step in %: communication, computation, communication that no computation hides, idle; two H200 nodes.
MEASURED = {
    ("network-bound", 0): (99, 0, 99, 1),
    ("network-bound", 1): (99, 0, 99, 1),
    ("compute-bound", 0): (33, 91, 8, 1),
    ("compute-bound", 1): (33, 91, 8, 1),
    ("input-bound", 0): (10, 0, 10, 90),
    ("input-bound", 1): (10, 0, 10, 90),
    ("load-imbalance", 0): (84, 30, 70, 0),
    ("load-imbalance", 1): (27, 93, 7, 0),
}


def read(text: str, name: str = "trace.json") -> tuple[TrainingTrace, list[Problem]]:
    items = list(parse(Segment(name, text.split("\n"), range(1, 1_000_000))))
    fact = next(item for item in items if isinstance(item, TrainingTrace))
    return fact, [item for item in items if isinstance(item, Problem)]


def trace(*events: dict[str, Any], **head: object) -> str:
    return json.dumps({**head, "traceEvents": list(events)})


def event(cat: str, name: str, ts: object, dur: object, **args: object) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": dur, "args": args}


@pytest.mark.parametrize(("case", "rank"), MEASURED)
def test_shares_of_real_runs(case: str, rank: int) -> None:
    paths = [str(path) for path in (CASES / f"train-{case}").glob(f"*rank{rank}.json.gz")]
    store, _ = facts_of(documents(paths))
    fact = store.of(TrainingTrace)[0]
    found = (fact.communication_share, fact.computation_share, fact.exposed_share, fact.idle_share)
    assert fact.rank == rank
    for share, percent in zip(found, MEASURED[case, rank], strict=True):
        assert share is not None
        assert abs(share * 100 - percent) <= 2


def test_every_prefix_gives_a_fact_and_never_a_share() -> None:
    text = (CAPTURES / "kineto-trace" / "fsdp_with_loader.txt").read_text().rstrip()
    for end in range(0, len(text), 97):
        fact, problems = read(text[:end])
        assert not fact.complete
        assert problems
        assert fact.exposed_share is None


def test_the_whole_real_trace_is_understood() -> None:
    path = next((CASES / "train-network-bound").glob("*rank0.json.gz"))
    lines = gzip.decompress(path.read_bytes()).decode().split("\n")
    segment = Segment("t.json", lines, range(1, len(lines) + 1), source=SOURCE.id)
    assert SOURCE.recognises(segment)
    list(SOURCE.parse(segment))
    assert len(segment.understood) == len(lines)


@pytest.mark.parametrize(
    "text",
    [
        "",
        '"traceEvents": [',
        '{"traceEvents": [' + "[" * 100_000,
        '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": 7, "ts": "late", "dur": null}]}',
        '{"traceEvents": [null, 3, "x", [], {"ph": "X", "cat": {}, "ts": 1, "dur": 1}]}',
        '{"traceEvents": {"ph": "X"}, "distributedInfo": [1], "deviceProperties": {"name": 1}}',
        '{"distributedInfo": {"rank": -1, "world_size": true, "backend": null}, "traceEvents": []}',
        '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "nccl", "ts": 1e300, "dur": NaN}]}',
        '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": -5, "args": {"grid": [null]}}]}',
        '{"traceEvents": [{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 5, "dur": 0}]}',
    ],
)
def test_hostile_text(text: str) -> None:
    fact, _ = read(text)
    assert fact.exposed_share is None
    assert fact.world is None


def test_a_trace_without_cpu_activity_says_nothing_about_gaps() -> None:
    step = event("user_annotation", "ProfilerStep#1", 0, 100)
    fact, _ = read(trace(step, event("kernel", "gemm", 80, 10, device=0)))
    assert fact.idle_share == 0.9
    assert (fact.loader_gap_share, fact.busy_gap_share, fact.quiet_gap_share) == (None, None, None)


def test_one_long_gap_is_not_that_of_every_step() -> None:
    """A save in one of three steps: the idle share is large, the gap of the median step is not."""
    spans = [(0, 100), (100, 800), (900, 100)]
    steps = [event("user_annotation", f"ProfilerStep#{i}", start, long) for i, (start, long) in enumerate(spans)]
    work = [event("kernel", "gemm", t, 95, device=0) for t in (2, 102, 902)]
    fact, _ = read(trace(*steps, *work, event("cpu_op", "aten::mm", 0, 2)))
    assert fact.idle_share == 0.715
    assert fact.quiet_gap_share == 0.05


def test_rank_of_the_file_name_where_the_trace_does_not_say() -> None:
    assert read(trace(), "run/trace_rank12.json")[0].rank == 12
    assert read(trace(distributedInfo={"rank": 3}), "trace_rank12.json")[0].rank == 3
    assert read(trace(), "trace.json")[0].rank is None


def test_the_busiest_device_counts() -> None:
    step = event("user_annotation", "ProfilerStep#1", 0, 100)
    kernels = [event("kernel", "gemm", t, 10, device=5) for t in (0, 50)]
    fact, _ = read(trace(step, *kernels, event("kernel", "gemm", 20, 60, device=0)))
    assert fact.computation_share == 0.2
