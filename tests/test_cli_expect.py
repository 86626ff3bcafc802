"""`advisor expect`: the band in all formats, and what it refuses."""

from __future__ import annotations

import json

import pytest

from advisor.cli import main

PAIR = ["expect", "--nodes", "2", "--gpus-per-node", "8", "--gpu", "h100", "--nics", "8x400"]


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PAIR, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["low"] <= found["fine"] <= found["high"]
    assert {stage["name"] for stage in found["stages"]} == {"nic-sum", "intra-node"}
    assert found["commands"][0].startswith("mpirun -np 16 -N 8 ./build/all_reduce_perf")
    assert "advisor bench allreduce" in found["commands"][1]
    assert "NCCL_ALGO=Ring" in found["unsound"][-1]


@pytest.mark.parametrize("style", ["terminal", "markdown"])
def test_text(style: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PAIR, "--format", style]) == 0
    out = capsys.readouterr().out
    for part in ("nic-sum", "8 x 400 Gb/s = 400 GB/s", "all_reduce_perf", "-np 16"):
        assert part in out


@pytest.mark.parametrize("fabric", ["ib", "roce", "tcp", "efa"])
def test_every_fabric_is_answered(fabric: str) -> None:
    assert main([*PAIR, "--fabric", fabric]) == 0


def test_one_node() -> None:
    assert main(["expect", "--gpu", "h200", "--size", "16G", "--json"]) == 0


def test_too_little_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["expect", "--nodes", "2"]) == 3
    assert "--nics" in capsys.readouterr().err


def test_unknown_collective(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*PAIR, "--collective", "all_redcue"]) == 2
    assert "all_reduce" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--nics", "8x"], ["--nics", "0x400"], ["--nodes", "0"], ["--size", "-1G"]])
def test_wrong_words(words: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*PAIR, *words])
    assert ended.value.code == 2
