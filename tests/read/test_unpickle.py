"""Flight recorder pickles become JSON; whatever could run code is refused and does not run."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from advisor.diagnosis import diagnose
from advisor.read.unpack import document
from advisor.read.unpickle import UnsafePickleError, flight_record_text, loads

RECORD: dict[str, Any] = {
    "version": "2.10",
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
    "entries": [
        {"process_group": ("0", "default_pg"), "collective_seq_id": 3, "profiling_name": "nccl:all_reduce",
         "input_sizes": [[2**40]], "state": "scheduled", "time_created_ns": 1768382000000000000, "retired": False,
         "time_discovered_started_ns": None, "duration_ms": 0.25, "caller": "träin"},
    ],
}  # fmt: skip


class Runs:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_containers(protocol: int) -> None:
    data = pickle.dumps(RECORD, protocol)
    assert loads(data) == RECORD
    assert json.loads(flight_record_text(data)) == json.loads(json.dumps(RECORD))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_code_is_refused_and_does_not_run(protocol: int, tmp_path: Path) -> None:
    made = tmp_path / "made"
    data = pickle.dumps({**RECORD, "extra": Runs(made)}, protocol)
    read = document("nccl_trace_rank_0", data)
    assert read.problem
    assert "not opened" in read.problem
    assert "run" in read.problem
    assert not read.text
    assert not made.exists()
    pickle.loads(data)
    assert made.exists()


def test_the_refusal_stands_in_the_inventory(tmp_path: Path) -> None:
    data = pickle.dumps({**RECORD, "extra": Runs(tmp_path / "made")}, 2)
    outcome = diagnose([document("nccl_trace_rank_0", data)])
    assert any("not opened" in problem for row in outcome.diagnosis.inventory for problem in row.problems)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "body",
    [
        b"c__builtin__\neval\n.",  # GLOBAL
        b"\x8c\x08builtins\x8c\x04eval\x93.",  # STACK_GLOBAL
        b"i__builtin__\neval\n.",  # INST
        b"(K\x01o.",  # OBJ
        b"}(K\x01K\x02ub.",  # BUILD
        b")\x81.",  # NEWOBJ
        b"\x82\x01.",  # EXT1
        b"Pname\n.", b"K\x01Q.",  # persistent ids
        b"K\x01)R.",  # REDUCE
    ],
)  # fmt: skip
def test_opcodes_that_can_run_something(body: bytes) -> None:
    with pytest.raises(UnsafePickleError):
        loads(b"\x80\x04" + body)


def test_every_cut_is_damage_and_never_a_crash() -> None:
    data = pickle.dumps(RECORD, 2)
    for end in range(2, len(data) - 1):
        with pytest.raises(UnsafePickleError):
            loads(data[:end])


@pytest.mark.parametrize(
    "body", [b".", b"a.", b"K\x01a.", b"(.", b"]K\x01", b"h\x07.", b"u.", b"}(K\x01u.", b"}]K\x01s."]
)
def test_nonsense(body: bytes) -> None:
    with pytest.raises(UnsafePickleError):
        loads(b"\x80\x02" + body)


def test_depth_cycles_and_repetition_are_limited() -> None:
    deep = b"\x80\x02" + b"]" * 5000 + b"a" * 4999 + b"."
    cycle = b"\x80\x02]q\x00h\x00a."
    nested: list[Any] = ["x" * 1000]
    for _ in range(25):
        nested = [nested, nested]
    for data in (deep, cycle, pickle.dumps(nested, 2)):
        with pytest.raises(UnsafePickleError):
            loads(data)


def test_half_a_surrogate_pair_is_replaced() -> None:
    assert loads(b"\x80\x02X\x03\x00\x00\x00\xed\xa0\x80.") == "?"


def test_a_number_of_absurd_length() -> None:
    with pytest.raises(UnsafePickleError):
        loads(pickle.dumps(2**1000, 2))
