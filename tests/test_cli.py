"""The commands as users run them: output, exit codes, and that nothing ends in a traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from advisor.cli import COMMANDS, main, parser
from advisor.render.json import schema

ROOT = Path(__file__).parent.parent
SLOW = str(ROOT / "examples" / "slow-nvlink-pair")
HEALTHY = str(ROOT / "examples" / "healthy-nvlink-pair")
TCP = str(ROOT / "examples" / "tcp-pair")

EDR = """Infiniband device 'mlx5_0' port 1 status:
\tstate:\t\t 4: ACTIVE
\tphys state:\t 5: LinkUp
\trate:\t\t 100 Gb/sec (4X EDR)
\tlink_layer:\t InfiniBand
"""


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    code = main(["diagnose", "--json", *arguments])
    out = json.loads(capsys.readouterr().out)
    jsonschema.validate(out, schema())
    return code, out


def test_a_fault_exits_with_1_and_a_healthy_run_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = as_json(capsys, SLOW)
    assert (code, out["verdict"], out["causes"][0]["id"]) == (1, "fault", "nccl-debug-env-left-on")
    code, out = as_json(capsys, HEALTHY)
    assert (code, out["verdict"]) == (0, "fine")
    assert out["accounting"]["expected"][0] < out["accounting"]["measured"]


def test_fail_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "--json", "--fail-on", "never", SLOW]) == 0
    capsys.readouterr()


def test_the_fix_names_the_users_own_variable(capsys: pytest.CaptureFixture[str]) -> None:
    _, out = as_json(capsys, SLOW)
    commands = [line for fix in out["causes"][0]["fixes"] for line in fix["commands"]]
    assert any("NCCL_P2P_DISABLE" in line for line in commands)


def test_a_rate_alone_gives_no_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ibstatus.txt").write_text(EDR)
    code, out = as_json(capsys, str(tmp_path))
    assert (code, out["verdict"], out["causes"]) == (0, "cannot-tell", [])
    assert out["next_checks"]
    assert [reading["id"] for reading in out["normal"]] == ["lanes-4x"]


def test_tcp_without_rdma_hardware_is_no_fallback(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = as_json(capsys, TCP)
    assert code == 0
    assert "nccl-tcp-fallback" not in [cause["id"] for cause in out["causes"]]


def test_order_and_repetition_give_the_same_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    files = sorted(str(path) for path in Path(SLOW).iterdir())
    outputs = set()
    for arguments in (files, files[::-1], [*files, *files]):
        main(["diagnose", "--json", *arguments])
        outputs.add(capsys.readouterr().out)
    assert len(outputs) == 1


NASTY: dict[str, bytes] = {
    "empty": b"",
    "binary": bytes(range(256)) * 20,
    "unknown tool": b"frobnicate 3.1\nstatus: all well\n",
    "truncated table": b"#       size         count      type   redop    root     time   algbw\n  1048576   2621",
    "crlf": EDR.replace("\n", "\r\n").encode(),
    "colour": b"\x1b[1;31m" + EDR.encode() + b"\x1b[0m",
    "half a json": b'{"start": {"connected": [',
    "long line": b"NCCL INFO " + b"x" * 3_000_000,
    "escapes": b"node01:1:1 [0] NCCL WARN \x1b]0;title\x07<script>alert(1)</script> `rm -rf` [bold]x[/bold]\n",
    "two hosts": b"----- node01 -----\n" + EDR.encode() + b"----- node02 -----\n" + EDR.encode(),
}


@pytest.mark.parametrize("name", NASTY)
@pytest.mark.parametrize("output", ["terminal", "markdown", "json"])
def test_nothing_ends_in_a_traceback(
    name: str, output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "input.txt").write_bytes(NASTY[name])
    code = main(["diagnose", "--format", output, str(tmp_path)])
    captured = capsys.readouterr()
    assert code in (0, 1, 3)
    assert "Traceback" not in captured.err
    assert "\x1b]" not in captured.out


def test_cr_lf_colour_and_two_hosts_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("crlf", "colour", "two hosts"):
        (tmp_path / "input.txt").write_bytes(NASTY[name])
        _, out = as_json(capsys, str(tmp_path))
        assert [row["source"] for row in out["inventory"]] == ["ibstatus"], name
        assert out["inventory"][0]["facts"] == (2 if name == "two hosts" else 1)


def test_nothing_usable_exits_with_3_and_still_prints_the_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("it is slow\n")
    code, out = as_json(capsys, str(tmp_path))
    assert (code, out["verdict"]) == (3, "cannot-tell")
    assert out["inventory"][0]["source"] is None
    empty = tmp_path / "empty"
    empty.mkdir()
    assert as_json(capsys, str(empty))[0] == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_a_problem_of_that_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text(EDR)
    (tmp_path / "b.txt").write_text(EDR)
    (tmp_path / "b.txt").chmod(0)
    code, out = as_json(capsys, str(tmp_path))
    assert code == 0
    assert "cannot be read" in str(out["inventory"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["diagnose", "/no/such/file"], "no such file"),
        (["diagnose"], "nothing to read"),
        (["diagnose", SLOW, "--given", "nodse=2"], "nodse"),
        (["facts", SLOW, "--type", "nccl-rnak"], "did you mean nccl-rank"),
        (["rules", "show", "no-such-rule"], "no rule"),
    ],
)
def test_wrong_use_is_one_message_and_exit_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_an_own_rule_is_added_and_a_wrong_one_is_located(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rule = (ROOT / "rules" / "normal" / "lanes-4x.yaml").read_text().replace("lanes-4x", "my-own-rule")
    pack = tmp_path / "pack"
    pack.mkdir()
    (pack / "my-own-rule.yaml").write_text(rule)
    (tmp_path / "ibstatus.txt").write_text(EDR)
    _, out = as_json(capsys, str(tmp_path / "ibstatus.txt"), "--rules", str(pack))
    assert "my-own-rule" in [reading["id"] for reading in out["normal"]]
    (pack / "my-own-rule.yaml").write_text(rule.replace("port.state", "port.sate", 1))
    assert main(["diagnose", SLOW, "--rules", str(pack)]) == 2
    message = capsys.readouterr().err
    assert "my-own-rule.yaml:" in message
    assert "did you mean state" in message


def test_output_goes_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for output in ("terminal", "markdown", "json"):
        target = tmp_path / f"report.{output}"
        main(["diagnose", SLOW, "--format", output, "-o", str(target)])
        assert "NCCL_P2P_DISABLE" in target.read_text()
        assert capsys.readouterr().out == ""


def test_facts_are_shown_with_their_places(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["facts", SLOW, "--type", "env-var"]) == 0
    assert "name=NCCL_P2P_DISABLE" in capsys.readouterr().out


def test_collect_looks_at_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = as_json(capsys, "--collect")
    assert code in (0, 1, 3)
    assert out["inventory"]


def test_every_command_has_help_and_an_example() -> None:
    text = parser().format_help()
    for name in COMMANDS:
        assert name in text
        command = [sys.executable, "-m", "advisor", name, "--help"]
        shown = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "examples:" in shown.stdout


@pytest.mark.parametrize("place", ["/nonexistent/report.md", str(ROOT)])
@pytest.mark.parametrize("form", ["terminal", "markdown", "json"])
def test_a_report_that_cannot_be_written_is_wrong_use(
    place: str, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", HEALTHY, "--format", form, "-o", place]) == 2
    assert place in capsys.readouterr().err


@pytest.mark.parametrize(("case", "code"), [(HEALTHY, 0), (SLOW, 1)])
@pytest.mark.parametrize("form", ["terminal", "markdown"])
def test_a_reader_that_goes_does_not_change_the_exit_code(case: str, code: int, form: str) -> None:
    command = [sys.executable, "-m", "advisor", "diagnose", case, "-v", "--format", form]
    shell = subprocess.run(
        ["bash", "-c", '"$@" | head -c 1 >/dev/null; exit "${PIPESTATUS[0]}"', "bash", *command],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (shell.returncode, shell.stderr) == (code, "")
