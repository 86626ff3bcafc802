"""Sources of hangs and of step lines: damaged, hostile and misleading text."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from advisor.facts import CollectiveTimeout, RankFailure, StepTimes
from advisor.sources import load
from advisor.sources.base import Segment
from tests.capture_tools import CAPTURES, segment_of

IDS = ("torch-watchdog", "nccl-ras", "flight-recorder", "nccl-inspector", "step-log")
TEXTS = sorted(path for name in IDS for path in (CAPTURES / name).glob("*.txt"))


def segment(text: str, name: str = "job.log") -> Segment:
    lines = text.split("\n")
    return Segment(name, lines, range(1, len(lines) + 1))


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_cut_anywhere(path: Path) -> None:
    whole, source = segment_of(path), load(path.parent.name)
    for end in range(0, len(whole.text), max(1, len(whole.text) // 120)):
        part = segment(whole.text[:end], whole.file)
        list(source.parse(part))


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize(
    "text",
    ["", "{", '{"entries": 3, "pg_config": []}', '{"communicators": [3, {"ranks": 5}], "communicators_count": "x"}',
     "[" * 5000, '{"inspector_output_format_version": 1}', "NCCL version 2.24.3 compiled with CUDA 12.6",
     '{"entries": [{"collective_seq_id": true, "input_sizes": {"a": 1}, "frames": [3]}], "pg_config": 7}'],
)  # fmt: skip
def test_odd_text(name: str, text: str) -> None:
    source = load(name)
    source.recognises(segment(text))
    list(source.parse(segment(text)))


@pytest.mark.parametrize("name", IDS)
def test_hostile_lines_take_no_time(name: str) -> None:
    source = load(name)
    for unit in ("step 1 ", "Epoch ", "1,", "time ", " ", "[Rank 1] ", "last enqueued work: ", "Rank 1 ", '{"', "9"):
        hostile = segment(unit * (400_000 // len(unit)))
        begin = time.perf_counter()
        source.recognises(hostile)
        list(source.parse(hostile))
        assert time.perf_counter() - begin < 3


def steps(*lines: str, name: str = "job.log") -> list[StepTimes]:
    return [fact for fact in load("step-log").parse(segment("\n".join(lines), name)) if isinstance(fact, StepTimes)]


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("step {n} loss 2.31 0.412 s", 0.412),
        ("step {n} | loss: 6.5 | norm: 1.2 | dt: 412.00ms | tok/sec: 12,714.2", 0.412),
        ("iter {n}: loss 3.1, time 412.00ms, mfu 31.2%", 0.412),
        ("[rank3]: global_step={n} step_time: 0.412 sec", 0.412),
        ("step {n} eta 0:10:00 time: 0.412 data_time: 0.010 memory: 100", 0.412),
        ("step {n} took 412 ms, elapsed 99 s", 0.412),
    ],
)
def test_forms_of_step_lines(line: str, seconds: float) -> None:
    (found,) = steps(*(line.format(n=n) for n in range(4)))
    assert found.median_s == pytest.approx(seconds)


@pytest.mark.parametrize(
    "line",
    ["step {n} loss 2.31", "step {n} step_time 412", "step {n} elapsed 12.5 s", "after {n} s", "iteration {n} of 5"],
)
def test_lines_that_say_no_time(line: str) -> None:
    assert steps(*(line.format(n=n) for n in range(4))) == []


def test_a_restarted_loop_is_another() -> None:
    assert [f.steps for f in steps(*(f"step {n} 0.5 s" for n in (0, 1, 2, 3, 4, 5, 0, 1, 2)))] == [6, 3]


def test_repeated_lines_of_a_timeout_are_one_fact() -> None:
    line = "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, Timeout(ms)=6)"
    found = list(load("torch-watchdog").parse(segment("\n".join([line] * 64))))
    assert [(f.rank, f.seq) for f in found if isinstance(f, CollectiveTimeout)] == [(1, 5)]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("Saving model checkpoint to out/1", "checkpoint"),
        ("INFO starting evaluation", "evaluation"),
        ("Checkpoint saved", None),
        ("Saving model checkpoint\nstep 11 loss 2.0", None),
        ("loading checkpoint shards", None),
    ],
)
def test_what_stood_before_a_timeout(before: str, expected: str | None) -> None:
    line = "[Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, Timeout(ms)=6)"
    (fact,) = load("torch-watchdog").parse(segment(f"{before}\n{line}"))
    assert isinstance(fact, CollectiveTimeout)
    assert fact.before == expected


def test_errors_of_others_are_shadows() -> None:
    text = "Traceback (most recent call last):\n  File x\nRuntimeError: Connection closed by peer [10.0.0.2]:29500"
    (fact,) = load("torch-watchdog").parse(segment(text))
    assert isinstance(fact, RankFailure)
    assert fact.shadow
