"""The all_reduce benchmark as far as it goes without torch: options, launchers, messages, table, JSON, `--print`.

What it measured with torch stands in `captures/torch-allreduce/bench-*`.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from advisor.bench import allreduce
from advisor.bench.allreduce import Printer, Report, UsageError, place_of, row_of
from advisor.cli import bench
from advisor.facts import CollectiveTest
from advisor.sources import torch_allreduce
from advisor.sources.base import Segment

SCRIPT = Path(allreduce.__file__)
LAUNCHER_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
TORCHRUN = {"RANK": "3", "WORLD_SIZE": "16", "LOCAL_RANK": "3", "MASTER_ADDR": "node01", "MASTER_PORT": "29400"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "9", "OMPI_COMM_WORLD_SIZE": "16", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}
SRUN = {
    "SLURM_PROCID": "9", "SLURM_NTASKS": "64", "SLURM_STEP_NUM_TASKS": "16", "SLURM_LOCALID": "1",
    "SLURM_NODELIST": "node[01-08]", "SLURM_STEP_NODELIST": "node[03-04]", "SLURM_JOB_ID": "81234",
}  # fmt: skip


@pytest.fixture(autouse=True)
def no_torch_and_no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the tests run, no launcher has started them and torch is absent."""
    for name in LAUNCHER_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)


def arguments(*words: str) -> argparse.Namespace:
    """As `advisor bench allreduce WORDS` gives them."""
    top = argparse.ArgumentParser()
    bench.register(top)
    return top.parse_args(["allreduce", *words])


def report(checked: bool = False) -> Report:
    """Sixteen ranks on two hosts."""
    hosts: list[dict[str, Any]] = [{"name": f"node0{n}", "ranks": 8, "gpu": "NVIDIA H200"} for n in (1, 2)]
    made = Report("2.11.0+cu130", "nccl", "2.28.9", 16, "float32", 20, 5, hosts)
    wrong = 0 if checked else None
    made.rows = [row_of(1 << 20, [120.0] * 8 + [122.0] * 8, wrong), row_of(1 << 28, [6120.4] * 16, wrong)]
    return made


def fact_of(text: str) -> CollectiveTest:
    """The one fact that the source reads from the text; every line of it is understood."""
    lines = text.splitlines()
    segment = Segment("bench.txt", lines, range(1, len(lines) + 1))
    assert torch_allreduce.SOURCE.recognises(segment)
    (fact,) = torch_allreduce.parse(segment)
    assert isinstance(fact, CollectiveTest)
    assert segment.understood == set(range(len(lines)))
    return fact


@pytest.mark.parametrize(
    ("text", "size"),
    [("4", 4), ("65536", 65536), ("64K", 65536), ("1m", 1 << 20), ("1G", 1 << 30), ("8MiB", 8 << 20), ("2GB", 2 << 30)],
)
def test_sizes_are_binary(text: str, size: int) -> None:
    assert allreduce.size_of(text) == size


@pytest.mark.parametrize("text", ["", "0", "3", "-1", "1.5G", "1T", "G", "1 M"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is no size"):
        allreduce.size_of(text)


def test_the_sizes_of_a_run() -> None:
    args = arguments()
    assert (args.begin, args.end, args.factor, args.iterations, args.warmup) == (1 << 20, 1 << 30, 2, 20, 5)
    assert allreduce.sizes(args.begin, args.end, args.factor) == [1 << power for power in range(20, 31)]
    assert allreduce.sizes(10, 100, 3) == [8, 28, 88]
    assert allreduce.sizes(8, 4, 2) == []


@pytest.mark.parametrize("words", [("-f", "1"), ("-n", "0"), ("-w", "0"), ("--seconds", "0"), ("--seconds", "nan")])
def test_impossible_numbers_are_wrong_use(words: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        arguments(*words)
    assert "is no" in capsys.readouterr().err


@pytest.mark.parametrize(("world", "factor"), [(2, 1.0), (4, 1.5), (8, 1.75), (16, 1.875)])
def test_busbw_factor(world: int, factor: float) -> None:
    assert allreduce.busbw_factor(world) == factor


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        (TORCHRUN, (3, 16, 3, "node01", 29400)),
        ({**TORCHRUN, **SRUN}, (3, 16, 3, "node01", 29400)),
        (SRUN, (9, 16, 1, "node03", 24234)),
        ({**SRUN, "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "5000"}, (9, 16, 1, "10.0.0.1", 5000)),
        ({**OPEN_MPI, "MASTER_ADDR": "node01"}, (9, 16, 1, "node01", 29500)),
        ({**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "16"}, (9, 16, 1, "127.0.0.1", 29500)),
        ({**OPEN_MPI, "SLURM_PROCID": "0", "SLURM_NTASKS": "16", "SLURM_NODELIST": "a7,b8"}, (9, 16, 1, "a7", 29500)),
        ({"PMI_RANK": "1", "PMI_SIZE": "4", "MASTER_ADDR": "node01"}, (1, 4, None, "node01", 29500)),
    ],
)
def test_every_launcher_says_the_place(environ: dict[str, str], place: tuple[int, int, int | None, str, int]) -> None:
    assert place_of(environ) == allreduce.Place(*place)


@pytest.mark.parametrize(
    ("nodes", "first"),
    [("node01", "node01"), ("a,b", "a"), ("node[03-16,20],login1", "node03"), ("r[1-2]n[07,09]", "r1n07")],
)
def test_first_host_of_a_node_list(nodes: str, first: str) -> None:
    assert allreduce.first_host(nodes) == first


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({}, "only one rank.*torchrun, srun or mpirun.*--nproc N"),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, "only one rank"),
        ({"RANK": "0", "MASTER_ADDR": "node01"}, "RANK is set but WORLD_SIZE is not"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "ranks count from 0"),
        ({"RANK": "0", "WORLD_SIZE": "two"}, "WORLD_SIZE is 'two', not a whole number"),
        ({"RANK": "0", "WORLD_SIZE": "2"}, "MASTER_ADDR is missing.*set it"),
        (OPEN_MPI, "MASTER_ADDR is missing.*-x MASTER_ADDR=HOST"),
        ({"PMI_RANK": "1", "PMI_SIZE": "4"}, "MASTER_ADDR is missing.*-genv MASTER_ADDR HOST"),
    ],
)
def test_a_wrong_start_names_its_remedy(environ: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        place_of(environ)


@pytest.mark.parametrize(
    ("words", "environ", "message"),
    [
        ((), {}, "only one rank"),
        (("--nproc", "1"), {}, "--nproc 1 is only one rank"),
        (("-b", "2G", "-e", "1G"), {}, "-b 2147483648 is more than -e 1073741824"),
        ((), {**TORCHRUN, "RANK": "0"}, "no torch in "),
    ],
)
def test_errors_are_one_line_and_exit_2(
    words: tuple[str, ...],
    environ: dict[str, str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    args = arguments(*words)
    assert args.run(args) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"allreduce: {message}")
    assert captured.err.count("\n") == 1


def test_what_all_ranks_see_only_rank_0_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    assert allreduce.run(arguments()) == 2
    assert capsys.readouterr().err == ""


def member(host: str, gpu: str | None = "NVIDIA H200", uuid: str | None = None) -> dict[str, Any]:
    return {"host": host, "gpu": gpu, "uuid": uuid}


def test_the_backend_follows_from_the_gpus() -> None:
    gpus = [member("node01", uuid="a"), member("node01", uuid="b")]
    assert allreduce.choose_backend(gpus, None, nccl_built=True) == "nccl"
    assert allreduce.choose_backend(gpus, "gloo", nccl_built=True) == "gloo"
    assert allreduce.choose_backend([member("node01", None)] * 2, None, nccl_built=False) == "gloo"
    without_uuids = [member("node01")] * 2  # torch before 2.4
    assert allreduce.choose_backend(without_uuids, None, nccl_built=True) == "nccl"


@pytest.mark.parametrize(
    ("members", "wanted", "message"),
    [
        ([member("node01"), member("node02", None)], None, "no GPU seen by ranks 1 on node02"),
        ([member("node01", None)] * 2, "nccl", "no GPU seen by ranks 0-1 on node01"),
        ([member("node01", uuid="a"), member("node01", uuid="a")], None, "ranks 0 and 1 on node01 have the same GPU"),
    ],
)
def test_ranks_that_cannot_work_together(members: list[dict[str, Any]], wanted: str | None, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        allreduce.choose_backend(members, wanted, nccl_built=True)


def test_nccl_is_missing_from_torch() -> None:
    with pytest.raises(UsageError, match="built without NCCL"):
        allreduce.choose_backend([member("node01")] * 2, None, nccl_built=False)


def test_ranks_and_hosts_are_folded() -> None:
    assert allreduce.folded([1, 2, 3, 7, 9, 10]) == "1-3, 7, 9-10"
    members = [member("node02"), member("node01", None), member("node02", "NVIDIA A100")]
    assert allreduce.hosts_of(members) == [
        {"name": "node02", "ranks": 2, "gpu": "NVIDIA A100, NVIDIA H200"},
        {"name": "node01", "ranks": 1, "gpu": None},
    ]


def test_a_row_is_the_median_with_its_spread() -> None:
    assert row_of(8, [3.0, 1.0, 2.0]) == allreduce.Row(8, 2.0, 1.0, 3.0)
    assert row_of(8, [4.0, 1.0, 2.0, 9.0]).time_us == 3.0


TABLE = """\
# torch 2.11.0+cu130 backend nccl world 16
# nccl 2.28.9
# host node01 ranks 8 gpu NVIDIA H200
# host node02 ranks 8 gpu NVIDIA H200
# all_reduce dtype float32 iterations 20 warmup 5
#        bytes      time_us  algbw_GBps  busbw_GBps       min_us       max_us
       1048576        121.0       8.666      16.249        120.0        122.0
     268435456       6120.4      43.859      82.236       6120.4       6120.4
# done
"""


def printed(report: Report, target: str | None = None, checked: bool = False) -> None:
    rows, report.rows = report.rows, []
    printer = Printer(report, target, checked)
    printer.start()
    for row in rows:
        printer.row(row)
    printer.finish()


def test_the_table_is_read_by_its_source(capsys: pytest.CaptureFixture[str]) -> None:
    printed(report())
    text = capsys.readouterr().out
    assert text == TABLE
    fact = fact_of(text)
    assert (fact.nranks, fact.nnodes, fact.hosts, fact.gpus_per_host) == (16, 2, ("node01", "node02"), 8)
    assert (fact.backend, fact.nccl_version, fact.gpu) == ("nccl", "2.28.9", "NVIDIA H200")
    assert (fact.size_bytes, fact.busbw_gbyte_s, fact.time_us) == (1 << 28, 82.236, 121.0)
    assert (fact.failed, fact.wrong) == (False, None)


def test_the_json_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    printed(report(checked=True), "-", checked=True)
    captured = capsys.readouterr()
    value = json.loads(captured.out)
    assert set(value) >= {"tool", "version", "torch", "backend", "nccl", "world", "hosts", "results"}
    assert value["hosts"][1] == {"name": "node02", "ranks": 8, "gpu": "NVIDIA H200"}
    assert value["results"][1] == {
        "bytes": 1 << 28, "time_us": 6120.4, "algbw_gbyte_s": 43.859136, "busbw_gbyte_s": 82.23588,
        "min_us": 6120.4, "max_us": 6120.4, "wrong": 0,
    }  # fmt: skip
    from_json, from_table = fact_of(captured.out), fact_of(captured.err)
    for name in ("nranks", "hosts", "gpus_per_host", "gpu", "nccl_version", "tool_version", "failed", "wrong"):
        assert getattr(from_json, name) == getattr(from_table, name), name
    assert from_json.busbw_gbyte_s == pytest.approx(from_table.busbw_gbyte_s, abs=0.001)


def test_a_failed_run_keeps_its_rows_and_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failing = report()
    failing.left_out = (1 << 30, "free memory allows for 536870912 bytes")
    failing.failed = (1 << 29, "all_reduce did not end within 120 s")
    printed(failing, str(tmp_path / "out.json"))
    for text in (capsys.readouterr().out, (tmp_path / "out.json").read_text()):
        fact = fact_of(text)
        assert (fact.failed, fact.unfinished_size_bytes) == (True, 1 << 29)
        assert fact.error == "all_reduce did not end within 120 s"
        assert len(fact.points) == 2


def test_a_run_that_failed_before_its_first_row(capsys: pytest.CaptureFixture[str]) -> None:
    failing = report()
    failing.rows, failing.failed = [], (None, "the ranks did not get connected within 120 s")
    printed(failing)
    fact = fact_of(capsys.readouterr().out)
    assert (fact.failed, fact.size_bytes, fact.unfinished_size_bytes, fact.points) == (True, None, None, ())


def test_slow_networks_do_not_read_as_zero() -> None:
    line = allreduce.table_line(row_of(8, [250.0] * 2), 2)
    assert line.split()[2:4] == ["0.000032", "0.000032"]


def test_an_unwritable_file_is_told_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        Printer(report(), str(tmp_path / "no" / "folder.json"), False)


def test_errors_of_gloo_lose_their_wrapping() -> None:
    text = "[/src/pair.cc:537] Read error [10.0.0.1]:39300: Connection reset by peer. This is typically caused by x"
    assert allreduce._one_line(RuntimeError(text)) == "Read error [10.0.0.1]:39300: Connection reset by peer"
    assert allreduce._one_line(ValueError()) == "ValueError"


def test_print_gives_the_file_itself() -> None:
    for command in ([str(SCRIPT)], ["-m", "advisor.bench.allreduce"]):
        shown = subprocess.run([sys.executable, *command, "--print"], capture_output=True, check=True)
        assert shown.stdout == SCRIPT.read_bytes()


def test_print_through_the_command(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    args = arguments("--print")
    assert args.run(args) == 0
    sys.stdout.flush()
    assert capfdbinary.readouterr().out == SCRIPT.read_bytes()


def test_the_script_stands_alone() -> None:
    tree = ast.parse(SCRIPT.read_text(), feature_version=(3, 8))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names
