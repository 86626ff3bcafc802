"""Collecting through stand-ins for ssh, srun and kubectl: each fault by its own words, and a bundle that is read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from advisor.cli import main
from advisor.collect.remote import classify

# What ssh does for each host; a good one runs the script it is sent, cut short so that the tests are quick.
SSH = r"""#!/bin/sh
for word in "$@"; do
  case $word in node*) host=$word ;; esac
done
case $host in
node01|node02) cat >/dev/null
  echo "@advisor.1.2 open 1 $host 1"
  echo "@advisor.1.2 run df 1 1 'df' '-h' '/dev/shm'"
  printf 'Filesystem      Size  Used Avail Use%% Mounted on\ntmpfs            64M     0   64M   0%% /dev/shm\n\n'
  printf '@advisor.1.2 stderr\n\n@advisor.1.2 exit 0 1\n@advisor.1.2 close 2\n' ;;
node03) echo "ssh: connect to host node03 port 22: Connection timed out" >&2; exit 255 ;;
node04) echo "ssh: connect to host node04 port 22: No route to host" >&2; exit 255 ;;
node05) echo "ssh: connect to host node05 port 22: Connection refused" >&2; exit 255 ;;
node06) echo "root@node06: Permission denied (publickey)." >&2; exit 255 ;;
node07) trap '' TERM; exec tail -f /dev/null ;;
node08) cat >/dev/null; echo "Only SFTP here." ;;
node09) cat >/dev/null; echo "@advisor.1.2 open 1 node09 1"; exit 255 ;;
node10) echo "sh: not found" >&2; exit 127 ;;
esac
"""
SRUN = r"""#!/bin/sh
[ "$1" = --jobid=77 ] || exit 1
for word in "$@"; do case $word in --nodelist=*) host=${word#*=} ;; esac; done
exec ssh "$host"
"""
KUBECTL = r"""#!/bin/sh
case "$*" in
"--namespace=ml get pods --selector=app=train --field-selector=status.phase=Running --output=name")
  printf 'pod/node01\npod/node02\n' ;;
"--namespace=ml exec --stdin node0"[12]" -- sh -s") exec ssh "$4" ;;
*) echo "Error from server (Forbidden): $*" >&2; exit 1 ;;
esac
"""


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    squeue = "#!/bin/sh\necho 'node[01-02]'\n"
    for name, text in {"ssh": SSH, "srun": SRUN, "kubectl": KUBECTL, "squeue": squeue}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("SLURM_JOB_NODELIST", raising=False)
    monkeypatch.chdir(tmp_path)


def states(folder: str) -> dict[str, str]:
    return {
        host: row["state"] for host, row in json.loads(Path(folder, "collection.json").read_text())["hosts"].items()
    }


def test_each_fault_is_told_apart_and_the_rest_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collect", "--hosts", "node[01-10]", "--limit", "1", "-o", "b"]) == 0
    assert states("b") == {
        "node01": "done", "node02": "done", "node03": "timeout", "node04": "no-route", "node05": "refused",
        "node06": "denied", "node07": "hangs", "node08": "garbage", "node09": "cut-short", "node10": "no-shell",
    }  # fmt: skip
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 9
    main(["diagnose", "--json", "b"])
    inventory = json.loads(capsys.readouterr().out)["inventory"]
    assert [row["host"] for row in inventory if row["source"] == "df"] == ["node01", "node02"]
    assert any("refused" in problem for row in inventory for problem in row["problems"])


def test_an_archive_is_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collect", "--hosts", "node01,node05", "-o", "b.tar.gz"]) == 0
    with tarfile.open("b.tar.gz") as archive:
        assert sorted(archive.getnames()) == ["b", "b/collection.json", "b/node01.txt"]
    assert not Path("b").exists()
    assert main(["collect", "--hosts", "node01", "-o", "b.tar.gz"]) == 2
    assert "exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    "way", [["--slurm", "77"], ["--kubectl", "app=train", "--namespace", "ml"], ["--hosts", "node[01-02]"]]
)
def test_every_way_reaches_the_hosts(way: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "--json", "--fail-on", "never", *way]) == 0
    inventory = json.loads(capsys.readouterr().out)["inventory"]
    assert [row["host"] for row in inventory if row["source"] == "df"] == ["node01", "node02"]


@pytest.mark.parametrize(
    "wrong",
    [
        ["--hosts", "-oProxyCommand=reboot"], ["--hosts", "node;reboot"], ["--slurm", "1;2"], ["--slurm"],
        ["--kubectl", "-x"], ["--kubectl", "app=none"], ["--hosts", "node01", "--slurm", "77"],
        ["--hosts", "node01", "--ssh-config", "missing"], ["--hosts", "node01", "--limit", "0"], ["--hosts", " "],
    ],
)  # fmt: skip
def test_wrong_use_is_one_message(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"{wrong[0]}={wrong[1]}", *wrong[2:]] if len(wrong) > 1 else wrong
    assert main(["collect", *words, "-o", "b"]) == 2
    assert capsys.readouterr().err.startswith("advisor: ")
    assert not Path("b").exists()


def test_no_host_at_all_exits_with_3() -> None:
    assert main(["collect", "--hosts", "node05", "-o", "b"]) == 3


def test_a_dry_run_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collect", "--dry-run", "--hosts", "node01", "-o", "b"]) == 0
    shown = capsys.readouterr().out
    assert "ssh -T -o BatchMode=yes" in shown
    assert "needs root: yes" in shown
    assert not Path("b").exists()
    assert main(["collect", "--print-script"]) == 0
    assert subprocess.run(["sh", "-n"], input=capsys.readouterr().out, text=True, check=True).returncode == 0


def test_ctrl_c_ends_everything_and_keeps_what_is_there(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "advisor", "collect", "--hosts", "node01,node07", "-o", "b"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not Path("b", "collection.json").exists():
        os.sched_yield()
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert "interrupted" in process.communicate(timeout=20)[1]
    assert process.returncode == 130
    assert "close" in Path("b", "node01.txt").read_text()


def test_words_of_schedulers_are_known() -> None:
    assert classify(1, False, False, b"", b"srun: error: Invalid job id specified\n")[0] == "not-found"
    assert classify(1, False, False, b"", b'Error from server (NotFound): pods "a" not found\n')[0] == "not-found"
    assert classify(255, False, False, b"", b"Host key verification failed.\r\n")[0] == "host-key"
    assert classify(255, True, False, b"", b"client_loop: send disconnect: Broken pipe\n")[0] == "cut-short"
