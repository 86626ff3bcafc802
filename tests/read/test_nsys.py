"""Nsight Systems exports: shares of the time from kernels, and nothing that a hostile database could do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from advisor.read import nsys
from advisor.read.nsys import NsysError, trace_text
from advisor.read.unpack import unpack
from advisor.sources.base import Segment
from advisor.sources.kineto_trace import parse

NAMES = {1: "gemm_kernel", 2: "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(...)", 3: "cudaLaunchKernel", 4: "step 12"}


def export(tmp_path: Path, extra: str = "") -> bytes:
    """One step of 100 us: computation 10-50, NCCL 40-80 (30 exposed), step marked by NVTX from 0 to 100."""
    path = tmp_path / "t.sqlite"
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as base:
        base.executescript(
            "PRAGMA synchronous=OFF; CREATE TABLE StringIds (id INTEGER, value TEXT);"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL"
            " (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, demangledName INTEGER);"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, nameId INTEGER);"
            "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, text TEXT, textId INTEGER);"
            "CREATE TABLE TARGET_INFO_GPU (name TEXT);"
            "INSERT INTO TARGET_INFO_GPU VALUES ('NVIDIA H200');"
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (10000, 50000, 0, 7, 1), (40000, 80000, 0, 16, 2);"
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (5000, 6000, 3);"
            "INSERT INTO NVTX_EVENTS VALUES (0, 100000, NULL, 4), (0, 500000, 'all of it', NULL);"
        )
        base.executemany("INSERT INTO StringIds VALUES (?, ?)", NAMES.items())
        base.executescript(extra)
    base.close()
    return path.read_bytes()


def test_shares_of_a_step(tmp_path: Path) -> None:
    text = trace_text(export(tmp_path))
    (fact,) = parse(Segment("t.sqlite", text.splitlines(), range(1, 99)))
    assert (fact.steps, fact.step_us, fact.gpu) == (1, 100.0, "NVIDIA H200")  # type: ignore[union-attr]
    assert (fact.computation_share, fact.exposed_share) == (0.4, 0.3)  # type: ignore[union-attr]


def test_a_database_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE t (a)")
    base.close()
    (only,) = unpack("x.db", path.read_bytes())
    assert only.problem
    assert "Nsight" in only.problem


@pytest.mark.parametrize("keep", [16, 100, 4096, 6000])
def test_a_damaged_one(tmp_path: Path, keep: int) -> None:
    (only,) = unpack("t.sqlite", export(tmp_path)[:keep])
    assert only.problem


def test_a_view_in_place_of_a_table_is_not_run(tmp_path: Path) -> None:
    endless = (
        "CREATE VIEW CUPTI_ACTIVITY_KIND_MEMSET AS WITH RECURSIVE c(start, end, deviceId) AS"
        " (SELECT 1, 2, 0 UNION ALL SELECT start + 1, end + 1, 0 FROM c) SELECT * FROM c;"
    )
    assert '"gpu_memset"' not in trace_text(export(tmp_path, endless))


def test_a_query_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nsys, "_STEPS", 0)
    monkeypatch.setattr(nsys, "_CHECK_EVERY", 1)
    with pytest.raises(NsysError, match="too-slow"):
        trace_text(export(tmp_path))


def test_odd_values_are_passed_over(tmp_path: Path) -> None:
    odd = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ('x', NULL, 0, 7, 1), (9, 3, 0, 7, 99);"
    (fact,) = parse(Segment("t", trace_text(export(tmp_path, odd)).splitlines(), range(1, 99)))
    assert fact.compute_kernels == 1  # type: ignore[union-attr]
