"""Folded names and host files; nothing that another program would take for an option."""

from __future__ import annotations

import pytest

from advisor.collect.hosts import expand, from_file
from advisor.errors import UsageError


def test_folded_names() -> None:
    assert expand("node[08-10,12],login") == ["node08", "node09", "node10", "node12", "login"]
    assert expand("r[1-2]n[1-2] r1n1") == ["r1n1", "r1n2", "r2n1", "r2n2"]
    assert expand("admin@node1,10.0.0.7,fd00::7") == ["admin@node1", "10.0.0.7", "fd00::7"]


@pytest.mark.parametrize(
    "text",
    ["-oProxyCommand=x", "node;reboot", "$(id)", "a b|c", "node[3-1]", "node[1-999999999]", "../x", "n[", "a@-b"],
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        expand(text)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node01\n\nnode02 # spare\n", ["node01", "node02"]),
        ("node01 slots=8\nnode02 slots=8 max_slots=8\n", ["node01", "node02"]),
        ("node01:8\nnode02:8\n", ["node01", "node02"]),
        ("node[01-02]\n# all\nnode04\n", ["node01", "node02", "node04"]),
        ("fd00::7\n", ["fd00::7"]),
    ],
)
def test_host_files(text: str, names: list[str]) -> None:
    assert from_file(text) == names


def test_a_host_file_of_something_else_is_refused() -> None:
    with pytest.raises(UsageError):
        from_file("#!/bin/sh\n$HOME/bin/start\n")
