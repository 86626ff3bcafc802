"""`lscpu`, text and JSON (-J): processors, sockets, NUMA nodes, hypervisor.

    >>> SAMPLE = '''Architecture:             x86_64
    ... CPU(s):                   192
    ... Vendor ID:                AuthenticAMD
    ...   Model name:             AMD EPYC 9654 96-Core Processor
    ...     Socket(s):            1
    ... Hypervisor vendor:        KVM
    ... NUMA node0 CPU(s):        0-191
    ... '''
    >>> segment = Segment("lscpu.txt", SAMPLE.splitlines(), range(1, 99))
    >>> info, node = parse(segment)
    >>> info.model, info.sockets, info.hypervisor, info.virtual
    ('AMD EPYC 9654 96-Core Processor', 1, 'KVM', True)
    >>> node.node, node.cpus, node.cpu_count
    (0, '0-191', 192)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from advisor.facts import CpuInfo, Fact, NumaNode
from advisor.sources.base import Command, Problem, Segment, Source
from advisor.sources.numactl import ranges

_ROW = re.compile(r"^ {0,12}([A-Z][\w ()./-]{2,60}?): *(\S.{0,4500})?$")
_JSON_ROW = re.compile(r'"field": ?"([^"]{1,60}?):?"(?:,\s?|\s)"data": ?"([^"]{0,4000})"')
_NODE = re.compile(r"^NUMA node(\d{1,4}) CPU\(s\)$")
_WORDS = {
    "Architecture": "architecture", "Vendor ID": "vendor", "Model name": "model", "Hypervisor vendor": "hypervisor",
}
_NUMBERS = {
    "CPU(s)": "cpus", "Socket(s)": "sockets", "CPU socket(s)": "sockets", "Core(s) per socket": "cores_per_socket",
    "Core(s) per cluster": "cores_per_socket", "Thread(s) per core": "threads_per_core", "NUMA node(s)": "numa_nodes",
}
_CLOCKS = {"CPU MHz": "mhz", "CPU max MHz": "max_mhz"}
# Rows without a fact, enough of them to tell a row of lscpu from other text of the same shape.
_OTHERS = re.compile(
    r"CPU op-mode\(s\)|Address sizes|Byte Order|On-line CPU\(s\) list|Off-line CPU\(s\) list|CPU family|Model|Stepping"
    r"|BogoMIPS|Virtualization(?: type| features)?|L\d[id]? cache|L\d[id]?|Flags|Vulnerability .*|Frequency boost"
    r"|CPU\(s\) scaling MHz|CPU min MHz|BIOS (?:Vendor ID|Model name|CPU family)|NUMA|Caches \(sum of all\)"
    r"|Virtualization features|Vulnerabilities|Cluster\(s\)|Machine type|Book\(s\) per drawer|Physical .*"
)


def _cpus(text: str) -> list[int] | None:
    """The processors that `0-31,64-95` names."""
    found: list[int] = []
    for part in text.split(","):
        m = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part.strip())
        if not m:
            return None
        found += range(int(m[1]), int(m[2] or m[1]) + 1)
    return found


def _fields(value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """All pairs of field and data of `lscpu -J`, children included."""
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict) and isinstance(item.get("field"), str):
            yield item["field"].rstrip(":"), str(item.get("data") or "")
            if depth < 8:
                yield from _fields(item.get("children"), depth + 1)


def _json_rows(segment: Segment) -> tuple[list[tuple[str, str, int]], bool]:
    """Rows of the JSON form, and whether it was whole."""
    text = segment.text
    place = text.find('"lscpu"')
    start = text.rfind("{", 0, place)
    first = text.count("\n", 0, max(0, start))
    try:
        data, end = json.JSONDecoder().raw_decode(text, max(0, start))
    except (ValueError, RecursionError):
        rows = [(m[1], m[2], text.count("\n", 0, m.start())) for m in _JSON_ROW.finditer(text[:1_000_000])]
        for _, _, index in rows:
            segment.skip(index)
        return rows, False
    segment.skip(first, text.count("\n", 0, end))
    found = data.get("lscpu") if isinstance(data, dict) else None
    return [(name, value, first) for name, value in _fields(found)], True


def _text_rows(segment: Segment) -> Iterator[tuple[str, str, int]]:
    for index, line in enumerate(segment.lines):
        m = _ROW.match(line) if len(line) < 5000 else None
        if m:
            known = m[1] in _WORDS or m[1] in _NUMBERS or m[1] in _CLOCKS or _NODE.match(m[1])
            if known or _OTHERS.fullmatch(m[1]):
                segment.skip(index)
            if known:
                yield m[1], m[2] or "", index


def _float(text: str) -> float | None:
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return None


def _node(segment: Segment, index: int, number: int, text: str) -> NumaNode:
    cpus = _cpus(text)
    return NumaNode(
        node=number, cpus=None if cpus is None else ranges(cpus), cpu_count=None if cpus is None else len(cpus),
        origins=(segment.origin(index),),
    )


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact for the processors and one a NUMA node (MHz as printed)."""
    whole = False
    if '"lscpu"' in segment.text:
        rows, whole = _json_rows(segment)
        if not whole:
            yield Problem(segment.numbers[-1], "lscpu JSON ends before its end")
    else:
        rows = list(_text_rows(segment))
    info = CpuInfo()
    nodes: list[Fact] = []
    for name, printed, index in rows:
        value = printed.strip()
        if not value or value == "-":
            continue
        if name in _WORDS and getattr(info, _WORDS[name]) is None:
            setattr(info, _WORDS[name], value[:200])
        elif name in _NUMBERS and value.isdecimal():
            setattr(info, _NUMBERS[name], int(value[:9]))
        elif name in _CLOCKS:
            setattr(info, _CLOCKS[name], _float(value))
        elif m := _NODE.match(name):
            nodes.append(_node(segment, index, int(m[1]), value))
        if not info.origins:
            info.origins = (segment.origin(index),)
    # A listing that goes on to the NUMA nodes has passed the place where it names a hypervisor.
    complete = whole or (info.architecture is not None and info.numa_nodes is not None)
    info.virtual = True if info.hypervisor else False if complete else None
    if info.origins:
        yield info
    yield from nodes


SOURCE = Source(
    id="lscpu",
    title="lscpu (processors)",
    facts=(CpuInfo, NumaNode),
    needles=("Architecture:", "Model name:", '"lscpu"', "Socket(s):"),
    signature=re.compile(
        r'^Architecture: +\w|^ {0,12}Model name: +\S|^ {0,12}Socket\(s\): +\d|"lscpu"\s{0,5}:', re.MULTILINE
    ),
    parse=parse,
    commands=(Command(("lscpu",)),),
    versions="util-linux 2.23 to 2.41",
)
