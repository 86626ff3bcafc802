r"""`tracepath`: the hops to a host and the largest packet that gets through to it.

iputils, with and without -n and -b. It begins with the MTU of this host's own interface, so that a trace that does not
arrive says nothing of the path's. A path to an address of this host has no `[LOCALHOST]` line.

>>> from advisor.sources.base import Segment
>>> SAMPLE = '''\
...  1?: [LOCALHOST]                      pmtu 9000
...  1:  10.8.0.254                                            0.512ms
...  1:  10.8.0.254                                            0.498ms pmtu 4200
...  2:  10.8.1.9                                              0.733ms reached
...      Resume: pmtu 4200 hops 2 back 2
... '''
>>> [trace] = parse(Segment("path.txt", SAMPLE.splitlines(), range(1, 99), command="tracepath -n node09"))
>>> trace.peer, trace.peer_name, trace.reached, trace.hops, trace.back
('10.8.1.9', 'node09', True, 2, 2)
>>> trace.local_mtu_bytes, trace.path_mtu_bytes, trace.narrow_hop
(9000, 4200, '10.8.0.254')
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from advisor.facts import Fact, PathTrace
from advisor.sources.base import Problem, Segment, Source

_LONGEST = 400
_LOCAL = re.compile(r"\s{0,4}\d{1,3}\?: \[LOCALHOST\]\s+(?:\S{1,20}\s+)?pmtu (\d{1,6})\s*")
_HOP = re.compile(
    r"\s{0,4}(?P<hop>\d{1,3})\??:\s{1,3}(?P<name>[^\s()]{1,255})(?: \((?P<address>[^\s()]{1,64})\))?\s+"
    r"(?:\([^()]{1,40}\)\s+)?(?P<ms>\d{1,7}\.\d{1,3}) ?ms(?P<flags>\s.*|)"
)
_NO_ANSWER = re.compile(r"\s{0,4}\d{1,3}\??:\s{1,3}(?:no reply|send failed)\s*")
_SUMMARY = re.compile(
    r"\s{2,8}(?P<word>[^\s:\d][^:\d]{0,40}): pmtu (?P<mtu>\d{1,6})(?P<rest>(?:\s\D{1,30}\d{1,3}){0,2})\s*"
)
_LOWERED = re.compile(r"\bpmtu (\d{1,6})\b")
_REFUSED = re.compile(r"\s![A-Z]\b")
_TOO_FAR = "Too many hops"
_CALL = re.compile(r"\btracepath6?\s([^;|&<>]{1,300})")
_VALUE_OPTIONS = {"-l", "-m", "-p"}


@dataclass(slots=True)
class _Run:
    """One trace while its lines come in."""

    first: int
    last: int
    fact: PathTrace
    arrived: str | None = None
    arrived_name: str | None = None


def _target(command: str | None) -> str | None:
    """Host that the one call in a command asks for."""
    calls = _CALL.findall(command or "")
    if len(calls) != 1:
        return None
    words, before = [word.strip("'\"") for word in calls[0].split()], ""
    names = []
    for word in words:
        if not word.startswith("-") and before not in _VALUE_OPTIONS:
            names.append(word)
        before = word
    return names[0].partition("/")[0] if names and "$" not in names[0] else None


def _hop(segment: Segment, run: _Run, i: int, row: re.Match[str]) -> None:
    """Take over what one hop answered."""
    fact, who, flags = run.fact, row["address"] or row["name"], row["flags"]
    if lowered := _LOWERED.search(flags):
        fact.path_mtu_bytes, fact.narrow_hop = int(lowered[1]), who
        fact.said_at["path_mtu_bytes"] = fact.said_at["narrow_hop"] = segment.origin(i)
    if _REFUSED.search(flags):
        fact.refused_by = who
        fact.said_at["refused_by"] = segment.origin(i)
    if re.search(r"\breached\b", flags):
        fact.reached = True
        rtt = round(float(row["ms"]) * 1000, 3)
        fact.rtt_us = rtt if fact.rtt_us is None else min(fact.rtt_us, rtt)
        run.arrived, run.arrived_name = who, row["name"]


def _end(segment: Segment, run: _Run, i: int, summary: re.Match[str]) -> None:
    """Take over the closing line; without a number of hops the target did not answer."""
    fact, numbers = run.fact, [int(number) for number in re.findall(r"\d+", summary["rest"])]
    fact.reached = bool(numbers)
    fact.said_at["reached"] = segment.origin(i)
    if numbers:
        fact.hops, fact.back = numbers[0], numbers[1] if len(numbers) > 1 else None
        fact.path_mtu_bytes = int(summary["mtu"])
        fact.said_at.setdefault("path_mtu_bytes", segment.origin(i))


def _fact(segment: Segment, run: _Run, target: str | None) -> PathTrace:
    fact = run.fact
    fact.peer = run.arrived or target
    names = [name for name in (target, run.arrived_name) if name and name != fact.peer]
    fact.peer_name = names[0] if names else None
    fact.origins = (replace(segment.origin(run.first), end=segment.numbers[run.last]),)
    return fact


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """A fact for each trace."""
    run: _Run | None = None
    runs: list[tuple[_Run, bool]] = []
    for i, line in enumerate(segment.lines):
        if len(line) > _LONGEST:
            continue
        local, silent = _LOCAL.fullmatch(line), _NO_ANSWER.fullmatch(line)
        hop = None if local else _HOP.fullmatch(line)
        summary = _SUMMARY.fullmatch(line)
        if run and local:
            runs.append((run, False))
            run = None
        if run is None and (local or hop or silent):
            run = _Run(i, i, PathTrace(test=segment.at(i), local_mtu_bytes=int(local[1]) if local else None))
        if run is None or not (local or hop or silent or summary):
            continue
        segment.skip(i)
        run.last = i
        if hop:
            _hop(segment, run, i, hop)
        elif summary and summary["word"] != _TOO_FAR:
            _end(segment, run, i, summary)
            runs.append((run, True))
            run = None
    if run:
        runs.append((run, False))
    target = _target(segment.command) if len(runs) == 1 else None
    for each, whole in runs:
        yield _fact(segment, each, target)
        if not whole:
            yield Problem(segment.numbers[each.last], "a trace of tracepath is cut off")


SOURCE = Source(
    id="tracepath",
    title="tracepath",
    facts=(PathTrace,),
    needles=("[LOCALHOST]", ": pmtu "),
    signature=re.compile(r"^[ \t]{0,4}\d{1,3}\?: \[LOCALHOST\]|^[ \t]{2,8}[^\s:\d][^:\d\n]{0,40}: pmtu \d", re.M),
    parse=parse,
    versions="iputils s2012 to 2026",
)
