"""The collector's script under several shells, and the reader of what it prints."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from advisor.collect import script as module
from advisor.collect.script import Step, script
from advisor.read.collection import Entry, collections, problem
from advisor.read.unpack import unpack
from advisor.sources.base import Command

SHELLS = [words for words in (["dash"], ["bash", "--posix"], ["busybox", "sh"], ["sh"]) if shutil.which(words[0])]


def entries(text: str) -> list[Entry]:
    return [entry for found in collections(text) for entry in found.entries]


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest) -> list[Entry]:
    """What a script of a few commands prints under a shell."""
    listed = [
        Command(("printf", "%s", "it's out")),
        Command(("sh", "-c", "echo out; echo err >&2; exit 3")),
        Command(("no-such-tool", "-x")),
        Command(("sh", "-c", "while :; do :; done"), timeout=1),
        Command(("cat",)),  # would eat a script on stdin
        Command(("echo", "last")),
    ]
    monkeypatch.setattr(module, "steps", lambda: [Step(f"s{i}", command) for i, command in enumerate(listed)])
    run = subprocess.run(
        [*request.param, "-s"], input=script(), capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert run.stderr == ""
    assert not list(tmp_path.iterdir())
    return entries(run.stdout)


@pytest.mark.parametrize("collected", SHELLS, indirect=True, ids="-".join)
def test_output_status_and_error_output_are_kept_apart(collected: list[Entry]) -> None:
    quoted, failed, missing, hung, fed, last = collected
    assert (quoted.output, quoted.command) == ("it's out", "printf %s 'it'\"'\"'s out'")
    assert (failed.output, failed.stderr, failed.exit) == ("out\n", "err", 3)
    assert (missing.refused, missing.command) == ("missing", "no-such-tool -x")
    assert hung.exit in (124, 137, 143)
    assert "ended" in str(problem(hung))
    assert (fed.output, fed.exit) == ("", 0)
    assert last.output == "last\n"


def test_a_script_that_arrives_in_part_does_nothing() -> None:
    part = script().rsplit("collect\n", 1)[0]
    run = subprocess.run(["sh", "-s"], input=part, capture_output=True, text=True, check=True)
    assert run.stdout == ""


def test_only_what_disturbs_nobody_is_run_and_counters_twice() -> None:
    steps = list(module.steps())
    assert not any(step.command.traffic or step.command.disturbs for step in steps)
    twice = {step.source for step in steps if step.reading == 2}
    assert {"nstat", "rdma-counters"} <= twice <= set(module.COUNTERS)


FRAMED = """Welcome to node01!
@advisor.1.2 open 1 node01.cluster 1700000000
@advisor.1.2 run df 1 1700000000 'df' '-h' '/dev/shm'
Filesystem      Size  Used Avail Use% Mounted on
tmpfs            64M     0   64M   0% /dev/shm

@advisor.1.2 stderr

@advisor.1.2 exit 0 1700000001
@advisor.1.2 not lspci root 'lspci'
@advisor.1.2 not ibstat missing 'ibstat'
"""


def test_the_output_becomes_one_document_a_command() -> None:
    documents = unpack("out.txt", f"{FRAMED}@advisor.1.2 close 1700000002\n".encode())
    assert [doc.name for doc in documents] == [f"out.txt/node01/{name}.txt" for name in ("df", "lspci", "ibstat")]
    assert documents[0].text.startswith("$ df -h /dev/shm\nFilesystem")
    assert {doc.host for doc in documents} == {"node01"}
    assert ["root" in str(doc.problem) for doc in documents] == [False, True, False]


def test_two_hosts_in_one_file_and_one_that_broke_off() -> None:
    other = FRAMED.replace("node01", "node02").replace("@advisor.1.2", "@advisor.7.9")
    first, second = collections(f"{FRAMED}@advisor.1.2 close 1700000002\n{other}")
    assert (first.host, first.complete) == ("node01", True)
    assert (second.host, second.complete) == ("node02", False)


@pytest.mark.parametrize("cut", range(20, len(FRAMED), 7))
def test_any_cut_is_read(cut: int) -> None:
    unpack("out.txt", FRAMED[:cut].encode())
