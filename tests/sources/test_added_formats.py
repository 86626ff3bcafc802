"""What capture pairs of the younger sources cannot show: prefixes of every capture, hostile text, XML's dangers."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.grammar.xml import documents
from advisor.sources import load
from advisor.sources.base import Segment
from tests.capture_tools import CAPTURES, segment_of

SOURCES = (
    "dcgmi-diag", "deepspeed-comms", "fi-info", "kernel-command-line", "launch-command", "lspci-tree", "mpstat",
    "nccl-topo-xml", "nvidia-smi-p2p", "nvidia-smi-xml",
)  # fmt: skip
TEXTS = sorted(path for name in SOURCES for path in (CAPTURES / name).glob("*") if path.suffix != ".json")


def _items(source: str, lines: list[str]) -> int:
    return len(list(load(source).parse(Segment("x", lines, range(1, len(lines) + 1)))))


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: f"{p.parent.name}-{p.name}")
def test_no_prefix_of_a_capture_raises(path: Path) -> None:
    text = "\n".join(segment_of(path).lines)[:6000]
    for end in range(0, len(text), max(1, len(text) // 40)):
        _items(path.parent.name, text[:end].split("\n"))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("text", ["", " " * 100_000, "{" * 50_000, "GPU0 " * 20_000, "<a>" * 9000, "srun -n " * 9000])
def test_hostile_lines_are_quickly_done_with(source: str, text: str) -> None:
    needle = load(source).needles[0]
    for line in (text, needle + text, text + needle):
        _items(source, [line, needle, line])


def test_xml_and_text_of_one_machine_say_the_same() -> None:
    def facts(source: str, name: str) -> list[dict[str, object]]:
        skipped = {"reading", "power_w", "origins", "said_at"}  # two runs of the command
        items = load(source).parse(segment_of(CAPTURES / source / name))
        return [{k: getattr(f, k) for k in f.__slots__ if k not in skipped} for f in items]

    assert facts("nvidia-smi-xml", "h200x2.xml") == facts("nvidia-smi-q", "h200x2-580.txt")


@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE a [<!ENTITY x "y">]>\n<a><b>&x;</b></a>',
        '<a><!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><b>&x;</b></a>',
        "<a>" * 1000,
    ],
)
def test_entities_and_depth_are_refused(text: str) -> None:
    [document] = documents(text.split("\n"), "a")
    assert document.wrong
    assert not any(document.root.each("b")) or not any(b.text for b in document.root.each("b"))


def test_documents_stand_between_other_text_and_a_cut_one_ends_at_the_next() -> None:
    lines = ["noise", "x <a><b>1</b></a> y", '<a v="2"><b>cut', '<?xml version="1.0"?>', "<a/>"]
    found = [(d.root.first, d.last, d.wrong is None) for d in documents(lines, "a")]
    assert found == [(1, 1, True), (2, 3, False), (4, 4, True)]
