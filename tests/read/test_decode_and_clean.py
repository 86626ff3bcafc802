"""From bytes to clean lines."""

from __future__ import annotations

import pytest

from advisor.read.clean import clean_lines
from advisor.read.decode import decode, is_binary


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain\n", "plain\n"),
        (b"a\r\nb\rc", "a\nb\nc"),
        (b"\x1b[31mred\x1b[0m \x1b]0;title\x07x", "red x"),
        ("\ufeffmark".encode(), "mark"),
        ("wide".encode("utf-16"), "wide"),
        (b"bad \xff byte", "bad \ufffd byte"),
        ("a\u00a0b\u200bc".encode(), "a bc"),
        (b"\t[4mGPU0\tGPU1[0m", "\tGPU0\tGPU1"),
        (b"node01:1:1 [0] NCCL INFO [1] x", "node01:1:1 [0] NCCL INFO [1] x"),
        (b"A=1\0B=two words\0C=\0D=4\0", "A=1\nB=two words\nC=\nD=4\n"),
        (b"bell\x07 and \x00nul", "bell and nul"),
    ],
)
def test_decode(data: bytes, text: str) -> None:
    assert decode(data) == text


def test_binary_is_told_by_a_nul_that_no_mark_explains() -> None:
    assert is_binary(b"\x7fELF\x02\x01\0")
    assert not is_binary("wide".encode("utf-16"))
    assert not is_binary(b"A=1\0B=2\0C=3\0")
    assert not is_binary(b"text")


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        (["[1,0]<stdout>:a", "[1,1]<stderr>: b"], ["a", "b"]),
        (["[rank3]:a", "[rank12]: b"], ["a", "b"]),
        (["[pod/job-1/main] a", "[pod/job-2/main] b"], ["a", "b"]),
        (["2026-01-14T09:12:44.123456789Z stdout F a"], ["a"]),
        (["(TrainWorker pid=4021, ip=10.0.0.7) a"], ["a"]),
        (["  0: a", "  1: b", " 12: c"], ["a", "b", "c"]),
        (['{"log":"a\\n","stream":"stdout"}', '{"log":"b\\n"}'], ["a", "b"]),
        (["[0]  1  2[0]  3", "[0]  4  5[0]  6"], ["   1  2   3", "   4  5   6"]),
    ],
)
def test_prefixes_of_launchers_go(raw: list[str], clean: list[str]) -> None:
    assert clean_lines(raw)[0] == clean


@pytest.mark.parametrize(
    "raw",
    [
        ["1: lo: <LOOPBACK,UP> mtu 65536", "    link/loopback 00:00", "2: eth0: <UP> mtu 1500", "    link/ether 02:00"],
        [" 1?: [LOCALHOST]   pmtu 9000", " 1:  10.0.0.2   0.5ms reached", "     Resume: pmtu 9000 hops 1 back 1"],
        ["[1] one line of four", "text", "text", "text"],
        ["n1:7:7 [0] NCCL INFO a", "n1:7:7 [0] NCCL INFO b"],
    ],
)
def test_what_only_looks_like_a_prefix_stays(raw: list[str]) -> None:
    assert clean_lines(raw)[0] == raw


def test_glued_nccl_lines_are_parted_at_known_processes_only() -> None:
    raw = [
        "n1:70:71 [0] NCCL INFO first",
        "   8   2   float   sum   -1n1:70:71 [0] NCCL INFO second",
        "0n1:70:71 [0] NCCL INFO third",
        "0[2026-01-14 09:12:44] n1:70:71 [0] misc/socket.cc:1 NCCL WARN fourth",
    ]
    lines, numbers = clean_lines(raw)
    assert lines == [
        "n1:70:71 [0] NCCL INFO first",
        "   8   2   float   sum   -1",
        "n1:70:71 [0] NCCL INFO second",
        "0",
        "n1:70:71 [0] NCCL INFO third",
        "0",
        "[2026-01-14 09:12:44] n1:70:71 [0] misc/socket.cc:1 NCCL WARN fourth",
    ]
    assert list(numbers) == [1, 2, 2, 3, 3, 4, 4]
