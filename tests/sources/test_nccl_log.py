"""What pairs of text and facts cannot show of NCCL logs: damage, hostile input, size."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from advisor.facts import NcclMessage, NcclProcess, NcclRank
from advisor.read.clean import clean_lines
from advisor.sources.base import Segment
from advisor.sources.nccl_log import SOURCE, parse
from tests.capture_tools import CAPTURES, segment_of

TEXTS = sorted((CAPTURES / "nccl-log").glob("*.txt"))
P = "node01:40:41 [0] NCCL INFO "


def _segment(text: str) -> Segment:
    lines, numbers = clean_lines(text.split("\n"))
    return Segment("job.log", lines, numbers, source=SOURCE.id)


def _cuts(text: str) -> Iterator[str]:
    for part in range(1, 24):
        yield text[: len(text) * part // 24]


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: p.stem)
def test_cut_anywhere(path: Path) -> None:
    whole = {fact.identity for fact in parse(segment_of(path)) if isinstance(fact, NcclProcess)}
    for text in _cuts(path.read_text()):
        found = {fact.identity for fact in parse(_segment(text)) if isinstance(fact, NcclProcess)}
        assert len(found) <= len(whole) + 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "NCCL INFO",
        "NCCL INFO ",
        "NCCL WARN ",
        "NCCL " * 100_000,
        P + "x" * 3_000_000,
        P + "Channel 00/0 : " + "9" * 200_000,
        P + "comm " * 100_000,
        P + "Trees " + "[0] 1/-1/-1->0->-1 " * 50_000,
        P + "NET/IB : Using " + "[0]mlx5_0:1/IB " * 50_000,
        ":" * 100_000 + " NCCL INFO Channel",
        "a:1:2 [0] " * 50_000 + "NCCL WARN Call to " + "x " * 100_000,
        P + "GPU/0 :" + "NET/0 (1/1/" * 50_000,
        P + "Pattern 4, crossNic",
        P + " 0 : ",
        P + "AllReduce: 99999999999999999999999999 Bytes -> Algo",
        P + "NCCL_X set by environment to ",
        "\x00\x01NCCL INFO \ud800",
    ],
    ids=range(18),
)
def test_hostile_text_is_read_quickly(text: str) -> None:
    start = time.perf_counter()
    list(parse(_segment(text)))
    assert time.perf_counter() - start < 2


def test_many_lines_and_bounded_messages() -> None:
    way = "[send] via NET/IB"
    lines = [f"{P}Channel {i % 32:02d}/0 : 0[0] -> {i % 500}[0] {way}/{i % 8}/GDRDMA" for i in range(60_000)]
    warning = "[2026-01-01 10:00:00] n:1:2 [0] x.cc:1 NCCL WARN new thing"
    lines += [f"{warning} {chr(97 + i % 26) * (i % 90)}" for i in range(9000)]
    segment = _segment("\n".join(lines))
    start = time.perf_counter()
    facts = list(parse(segment))
    assert time.perf_counter() - start < 2
    messages = [fact for fact in facts if isinstance(fact, NcclMessage)]
    assert len(messages) == 65  # the 65th counts all others
    assert sum(fact.count for fact in messages) == 9000
    assert len(segment.understood) == len(lines)


def test_the_same_log_twice_counts_once() -> None:
    text = (CAPTURES / "nccl-log" / "2.8-ib-gdr.txt").read_text()
    once = [fact for fact in parse(_segment(text)) if isinstance(fact, NcclRank)]
    twice = [fact for fact in parse(_segment(text + text)) if isinstance(fact, NcclRank)]
    assert [fact.edges for fact in once] == [fact.edges for fact in twice]


def test_decisive_lines_of_fields() -> None:
    facts = list(parse(segment_of(CAPTURES / "nccl-log" / "2.4-ib-far-gpu.txt")))
    process = next(fact for fact in facts if isinstance(fact, NcclProcess))
    rank = next(fact for fact in facts if isinstance(fact, NcclRank))
    assert "via NET/IB" in process.said_at["network"].text
    assert process.said_at["ib_devices"].line == 4
    assert "via P2P/IPC" in rank.said_at["P2P/IPC"].text


def test_ras_report_is_no_log() -> None:
    assert not SOURCE.recognises(_segment("NCCL version 2.28.9 compiled with CUDA 13.0\nJob summary"))
