"""`--why` and `--why-not`: the proof of a cause down to file and line, or what it lacks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from advisor.cli import main

GID = "Infiniband device 'mlx5_0' port 1 status:\n"


def ibstatus(rate: str) -> str:
    return f"{GID}\tstate:\t\t 4: ACTIVE\n\trate:\t\t {rate}\n\tlink_layer:\t InfiniBand\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for host, rate in (
        ("node01", "200 Gb/sec (4X HDR)"),
        ("node02", "200 Gb/sec (4X HDR)"),
        ("node03", "50 Gb/sec (1X HDR)"),
    ):
        (tmp_path / f"{host}.ibstatus.txt").write_text(ibstatus(rate))
    return tmp_path


def test_why_shows_the_rule_the_value_and_the_place(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["diagnose", str(folder), "--why", "ib-link-downgrade"])
    out = capsys.readouterr().out
    assert "FIRED  ib-port-lanes-lost (suggests)" in out
    assert "node03.ibstatus.txt:" in out
    assert "yes port.width below 4 (ib-normal-lanes)  (1)" in out
    assert out.startswith("ib-link-downgrade: ")


def test_why_not_shows_the_condition_that_fails(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["diagnose", str(folder), "--why-not", "ib-port-inactive"])
    out = capsys.readouterr().out
    assert out.startswith("ib-port-inactive was not named")
    assert "no  port.state" in out


def test_why_not_names_the_facts_that_are_missing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["diagnose", str(folder), "--why-not", "mtu-mismatch"])
    assert "would decide it: " in capsys.readouterr().out


def test_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["diagnose", str(folder), "--why", "ib-link-downgrade", "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert answer["reasons"][0]["state"] == "fired"
    assert answer["reasons"][0]["conditions"][0]["holds"] is True


def test_an_unknown_cause_is_wrong_use(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", str(folder), "--why", "ib-link-downgrad"]) == 2
    assert "did you mean ib-link-downgrade" in capsys.readouterr().err
