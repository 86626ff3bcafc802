"""`nstat`, `netstat -s` and /proc/net/snmp: what the TCP/IP stack of a host counted.

nstat prints differences since the last call of its user, and absolute values with -a; netstat and /proc are absolute.
A counter that nstat leaves out (without -z) is zero only in a list of differences or of all counters.

    >>> SAMPLE = '''#kernel
    ... TcpOutSegs                      200000             0.0
    ... TcpRetransSegs                  900                0.0
    ... TcpExtTCPTimeouts               12                 0.0
    ... '''
    >>> segment = Segment("nstat.txt", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.is_delta, f.out_segs, f.retrans_segs, f.retransmit_share, f.timeouts) for f in parse(segment)]
    [(None, 200000, 900, 0.0045, 12)]
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from advisor.facts import Fact, TcpCounters
from advisor.sources.base import Command, Problem, Segment, Source

_FIELDS = {
    "TcpOutSegs": "out_segs", "TcpInSegs": "in_segs", "TcpRetransSegs": "retrans_segs",
    "TcpExtTCPTimeouts": "timeouts", "TcpExtTCPFastRetrans": "fast_retrans",
    "TcpExtTCPLostRetransmit": "lost_retransmits", "TcpExtTCPSynRetrans": "syn_retrans",
    "TcpExtTCPBacklogDrop": "backlog_drops", "TcpExtTCPRcvQDrop": "rcvq_drops", "TcpExtPruneCalled": "prunes",
    "TcpExtListenDrops": "listen_drops", "TcpExtTCPOFOQueue": "out_of_order", "IpReasmFails": "reasm_fails",
    "IpFragFails": "frag_fails", "UdpRcvbufErrors": "udp_buffer_errors",
}
_NSTAT = re.compile(r"^([A-Z][A-Za-z0-9]{3,60}) +(\d{1,20}) +\d{1,12}\.\d+ *$")
_KERNEL = re.compile(r"^#(?:kernel|\d{8,12}\.\d+|\S{1,60} sampling)")
# netstat -s, and what the counters are called where it writes sentences
_SENTENCES = (
    (re.compile(r"^(\d+) segments sen[dt] out$"), "TcpOutSegs"),
    (re.compile(r"^(\d+) segments received$"), "TcpInSegs"),
    (re.compile(r"^(\d+) segments retransmit{1,2}ed$"), "TcpRetransSegs"),
    (re.compile(r"^(\d+) (?:other TCP timeouts|timeouts in loss state)$"), "TcpExtTCPTimeouts"),
    (re.compile(r"^(\d+) fast retransmits$"), "TcpExtTCPFastRetrans"),
    (re.compile(r"^(\d+) packets pruned from receive queue because of socket buffer overrun$"), "TcpExtPruneCalled"),
    (re.compile(r"^(\d+) SYNs to LISTEN sockets dropped$"), "TcpExtListenDrops"),
    (re.compile(r"^(\d+) packet reassembles failed$"), "IpReasmFails"),
    (re.compile(r"^(\d+) fragments failed$"), "IpFragFails"),
)
_UDP_ERRORS = re.compile(r"^(\d+) receive buffer errors$")
_NAMED = re.compile(r"^(TCP[A-Za-z]{3,40}|[A-Z][A-Za-z]{3,40}): (\d{1,20})$")
_SECTION = re.compile(r"^(Ip|Icmp|IcmpMsg|Tcp|Udp|UdpLite|TcpExt|IpExt|MPTcpExt|Sctp|Ip6|Icmp6|Udp6):$")
_PROC = re.compile(r"^(Ip|Tcp|Udp|TcpExt): (?=[A-Z])")
_OPTIONS = re.compile(r"(?:^|[\s;|&/])nstat((?: +-{1,2}[\w-]+)*)")
_FEWEST = 1000  # segments below which a share of retransmissions says nothing


def _fact(segment: Segment, first: int, last: int, values: dict[str, int], *, delta: bool | None) -> Iterator[Fact]:
    """The counters that matter, if there is any."""
    known = {field: values[name] for name, field in _FIELDS.items() if name in values}
    if not known:
        return
    fact = TcpCounters(sample=segment.at(first), is_delta=delta, origins=(segment.origin(first, last),))
    for field, value in known.items():
        setattr(fact, field, value)
    if fact.out_segs is not None and fact.out_segs >= _FEWEST and fact.retrans_segs is not None:
        fact.retransmit_share = round(fact.retrans_segs / fact.out_segs, 6)
    yield fact


def _is_delta(command: str | None) -> bool | None:
    """Whether nstat printed differences, by its options."""
    m = _OPTIONS.search(command or "")
    if not m:
        return None
    short = "".join(word[1:] for word in m[1].split() if not word.startswith("--"))
    return "a" not in short and "--ignore" not in m[1]


def _nstat(segment: Segment) -> Iterator[Fact]:
    """Text of nstat; each `#kernel` begins a sample."""
    samples: list[tuple[int, int, dict[str, int]]] = []
    for index, line in enumerate(segment.lines):
        if line.startswith("#") and _KERNEL.match(line):
            samples.append((index, index, {}))
            segment.skip(index)
        elif len(line) < 150 and (m := _NSTAT.match(line)):
            first, _, values = samples.pop() if samples else (index, index, {})
            values[m[1]] = int(m[2])
            samples.append((first, index, values))
            segment.skip(index)
    for first, last, values in samples:
        yield from _fact(segment, first, last, values, delta=_is_delta(segment.command))


def _json(segment: Segment) -> Iterator[Fact | Problem]:
    """`nstat -j`: one line or object."""
    text, decoder = segment.text, json.JSONDecoder()
    for m in re.finditer(r'^\s{0,20}(?=\{\s{0,20}"kernel"\s{0,20}:)', text, re.MULTILINE):
        first = text.count("\n", 0, m.end())
        try:
            data, end = decoder.raw_decode(text, m.end())
        except (ValueError, RecursionError):
            yield Problem(segment.numbers[first], "nstat JSON ends before its end")
            pairs = re.findall(r'"(\w{3,60})":\s?(\d{1,20})(?=[,}])', text[m.end() :])
            values = {name: int(value) for name, value in pairs}
            last = len(segment.lines) - 1
        else:
            found = data.get("kernel") if isinstance(data, dict) else None
            values = {k: v for k, v in found.items() if isinstance(v, int)} if isinstance(found, dict) else {}
            last = text.count("\n", 0, end)
        yield from _fact(segment, first, last, values, delta=_is_delta(segment.command))
        if last == len(segment.lines) - 1:
            return


def _netstat(segment: Segment) -> Iterator[Fact]:
    """`netstat -s`: sections of sentences."""
    section, first, last = "", -1, -1
    values: dict[str, int] = {}
    for index, line in enumerate(segment.lines):
        if len(line) > 200:
            continue
        if m := _SECTION.match(line):
            section = m[1]
            first = index if first < 0 else first
        elif not section or not line[:1].isspace():
            continue
        else:
            _sentence(line.strip(), section, values)
        last = index
        segment.skip(index)
    if first >= 0:
        yield from _fact(segment, first, last, values, delta=False)


def _sentence(text: str, section: str, values: dict[str, int]) -> None:
    if (m := _NAMED.match(text)) and section == "TcpExt":
        values[f"TcpExt{m[1]}"] = int(m[2])
        return
    if section == "Udp" and (m := _UDP_ERRORS.match(text)):
        values["UdpRcvbufErrors"] = int(m[1])
        return
    for pattern, name in _SENTENCES:
        if m := pattern.match(text):
            if name.startswith("Ip") == (section == "Ip"):
                values.setdefault(name, int(m[1][:20]))
            return


def _proc(segment: Segment) -> Iterator[Fact]:
    """/proc/net/snmp and /proc/net/netstat: a line of names, then one of values."""
    values: dict[str, int] = {}
    places: list[int] = []
    lines = segment.lines
    for index in range(len(lines) - 1):
        m = _PROC.match(lines[index]) if len(lines[index]) < 20_000 else None
        if not m or not lines[index + 1].startswith(f"{m[1]}: ") or len(lines[index + 1]) > 20_000:
            continue
        names, numbers = lines[index].split()[1:], lines[index + 1].split()[1:]
        for name, number in zip(names, numbers, strict=False):
            if number.isdecimal() and len(number) <= 20:
                values[m[1] + name] = int(number)
        places += [index, index + 1]
        segment.skip(index, index + 1)
    if places:
        yield from _fact(segment, places[0], places[0] + 1, values, delta=False)


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact a sample (counts as printed)."""
    if '"kernel"' in segment.text:
        yield from _json(segment)
    yield from _nstat(segment)
    yield from _netstat(segment)
    yield from _proc(segment)


SOURCE = Source(
    id="nstat",
    title="nstat, netstat -s, /proc/net/snmp",
    facts=(TcpCounters,),
    needles=("#kernel", "TcpOutSegs", "TcpRetransSegs", "TcpExt", "Tcp:"),
    signature=re.compile(
        r'^#kernel|^(?:Tcp|TcpExt|Ip|Udp)[A-Z]\w{2,50} +\d+ +\d+\.\d|"kernel"\s{0,9}:|^Tcp(?:Ext)?:(?:$| [A-Z])',
        re.MULTILINE,
    ),
    parse=parse,
    commands=(Command(("nstat", "-az", "--noupdate")),),
    versions="iproute2 4.18 to 6.15, net-tools 1.60 to 2.10, Linux 4 to 6",
)
