"""`ping`: round trips, and whether a packet of a given size gets through.

Seen: iputils s20121221 to 20240905 (IPv4 and IPv6, translated summaries, standard error mixed in), busybox, BSD and
macOS. Error lines go to standard error, so they may stand before the `PING` line or after the summary.

    >>> SAMPLE = '''PING node07 (10.9.0.7) 8972(9000) bytes of data.
    ... From 10.9.0.254 icmp_seq=1 Frag needed and DF set (mtu = 1500)
    ... ping: local error: message too long, mtu=1500
    ...
    ... --- node07 ping statistics ---
    ... 2 packets transmitted, 0 received, +2 errors, 100% packet loss, time 1009ms
    ... '''
    >>> segment = Segment("ping.txt", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.peer, f.payload_bytes, f.outcome, f.hop, f.hop_mtu_bytes) for f in parse(segment)]
    [('10.9.0.7', 8972, 'frag-needed', '10.9.0.254', 1500)]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from advisor.facts import Fact, PingTest
from advisor.sources.base import Command, Problem, Segment, Source

_V4_HEADERS, _V6_HEADERS = 28, 48  # IP and ICMP
_ICMP_HEADER = 8

# PING node02 (10.0.0.2) from 10.0.0.1 eth0: 56(84) bytes of data.   PING node02(node02 (fd00::2)) 56 data bytes
_HEADER = re.compile(
    r"^PING (?P<name>[^\s(]{1,255}) ?\((?:[^\s()]{1,255} \()?(?P<address>[^\s()]{1,100})\){1,2}:?"
    r"(?: from (?P<source>[^\s:]\S{0,100}) [^\s:]{0,40}:)? (?P<payload>\d{1,6})(?:\((?P<packet>\d{1,6})\))? ?\D"
)
# 64 bytes from node02 (10.0.0.2): icmp_seq=1 ttl=64 time=0.081 ms      busybox: 64 bytes from 10.0.0.2: seq=0 ttl=64
_REPLY = re.compile(
    r"^(?:\[\d+\.\d+\] )?(?P<bytes>\d{1,6}) \S{1,20} (?:\S{1,20} )?(?P<from>[^\s:(]\S{0,255}?)"
    r"(?: \((?P<address>[^\s()]{1,100})\))? ?: (?:icmp_)?seq=\d+ (?:ttl|hlim)=\d+"
    r"(?: [^\s=<]{1,20}[=<](?P<time>[\d.,]{1,12}))?"
)
# From gw (10.0.0.254) icmp_seq=1 Frag needed and DF set (mtu = 1500)    older IPv6 form: From fd00::1: icmp_seq=1 ...
_ANSWER = re.compile(
    r"^(?:\[\d+\.\d+\] )?[^\W\d]{1,10} (?P<from>\S{1,255}?)(?: \((?P<address>[^\s()]{1,100})\))?"
    r":? icmp_seq=\d+ (?P<text>.{0,300})"
)
_MTU = re.compile(r"mtu ?[=:] ?(\d{1,6})")
_REFUSED = re.compile(r"nreachable|[Ff]iltered|[Pp]rohibited|inaccessible|nicht erreichbar|inalcanzable")
_WAITING = re.compile(r"^(?:\[\d+\.\d+\] )?(?:no answer yet for icmp_seq=|Request timeout for icmp_seq )\d+")
_ERROR = re.compile(r"^(?:ping[46]?|connect): (?P<text>.{1,300})")
_NO_NAME = re.compile(
    r"^(?:unknown host (\S{1,255})|bad address '([^']{1,255})'|(?:cannot resolve )?(\S{1,255}): "
    r"(?:Name or service not known|Temporary failure in name resolution|No address associated with hostname"
    r"|[Uu]nknown host))$"
)
_RULER = re.compile(r"^-{3} (?P<text>\S.{0,300}) -{3}$")
_COUNTS = re.compile(r"^\D{0,60}(?P<sent>\d{1,9})\D{1,60}?(?P<received>\d{1,9})\D(?P<rest>.{0,200}?)[\d.,]{1,9} ?%")
_EXTRA = re.compile(r"\+(\d{1,9}) ([^\s,]{1,30})")
_NUMBER = r"([\d.,]{1,12}?)"
_RTT = re.compile(rf"^\D{{1,60}}= {_NUMBER}/{_NUMBER}/{_NUMBER}(?:/{_NUMBER})?(?=[^\d.,/]|$)")
_PIPE = re.compile(r"^pipe \d+$|^\.+$")
_PING_IN_COMMAND = re.compile(r"(?:^|[\s/;|&('\"])ping[46]? ([^;|&]{0,1000})")
_DONT_FRAGMENT = re.compile(r"(?:^|\s)-[a-zA-Z]{0,8}M\s*(?:do|probe)\b")


@dataclass(slots=True)
class _Run:
    """One run while its lines come in. times: of the replies seen, in microseconds."""

    first: int
    last: int
    fact: PingTest
    source: str | None = None
    replies: int = 0
    times: list[float] = field(default_factory=list)
    answers: int = 0
    counted: bool = False

    @property
    def unexplained(self) -> bool:
        """The summary speaks of more errors than lines so far name."""
        return self.counted and (self.fact.errors or 0) > self.answers


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ".").rstrip("."))
    except ValueError:
        return None


def _us(text: str | None) -> float | None:
    milliseconds = _number(text) if text else None
    return None if milliseconds is None else round(milliseconds * 1000, 3)


def _start(segment: Segment, index: int, m: re.Match[str]) -> _Run:
    """A run from its `PING` line."""
    address, payload = m["address"], int(m["payload"])
    packet = int(m["packet"]) if m["packet"] else payload + (_V6_HEADERS if ":" in address else _V4_HEADERS)
    name = m["name"] if m["name"] != address else None
    fact = PingTest(
        test=segment.at(index), peer=address, peer_name=name, payload_bytes=payload, packet_bytes=packet,
        origins=(segment.origin(index),), said_at={"packet_bytes": segment.origin(index)},
    )  # fmt: skip
    return _Run(index, index, fact, m["source"])


def _headless(segment: Segment, index: int, peer: str) -> _Run:
    """A run whose `PING` line was cut off."""
    return _Run(index, index, PingTest(test=segment.at(index), peer=peer, origins=(segment.origin(index),)))


def _answer(run: _Run, m: re.Match[str]) -> None:
    """Somebody on the way, or this host itself, says why the packet did not arrive."""
    fact, text, hop = run.fact, m["text"], m["address"] or m["from"].rstrip(":")
    mtu = _MTU.search(text)
    if "Redirect" in text:
        return
    run.answers += 1
    if mtu:
        fact.dont_fragment = True
        if hop == run.source:  # old releases report this host's own limit in the same words
            fact.local_mtu_bytes = int(mtu[1])
        else:
            fact.hop, fact.hop_mtu_bytes = hop, int(mtu[1])
    elif _REFUSED.search(text):
        fact.unreachable = True
        fact.hop = fact.hop or hop
        fact.message = fact.message or text.strip()
    else:
        fact.message = fact.message or text.strip()


def _error(run: _Run, text: str) -> None:
    """An error line of ping itself."""
    fact = run.fact
    run.answers += 1
    if "essage too long" in text:
        mtu = _MTU.search(text)
        fact.dont_fragment = True
        fact.local_mtu_bytes = int(mtu[1]) if mtu else fact.local_mtu_bytes
    elif _REFUSED.search(text):
        fact.unreachable = True
    fact.message = fact.message or text.strip()


def _counts(run: _Run, m: re.Match[str]) -> None:
    """The line `3 packets transmitted, 3 received, 0% packet loss`, in any language."""
    fact, sent, received = run.fact, int(m["sent"]), int(m["received"])
    fact.sent, fact.received = sent, received
    fact.loss_share = round(max(0, sent - received) / sent, 6) if sent else None
    fact.errors = 0
    for count, word in _EXTRA.findall(m["rest"]):
        # Translated words are unknown: duplicates need a reply, so without one it can only be errors.
        if word.startswith(("err", "Fehl")) or not received:
            fact.errors = int(count)
    run.counted = True


def _rtt(run: _Run, m: re.Match[str]) -> None:
    fact = run.fact
    fact.rtt_min_us, fact.rtt_avg_us, fact.rtt_max_us, fact.rtt_mdev_us = (_us(text) for text in m.groups())


def _outcome(run: _Run) -> str | None:
    """What came back, as `PingTest.outcome` words it; None where the text ends too early to say."""
    fact = run.fact
    if run.replies or fact.received:
        return "answered"
    if fact.hop_mtu_bytes is not None:
        return "frag-needed"
    if fact.local_mtu_bytes is not None or "essage too long" in (fact.message or ""):
        return "too-long"
    if fact.unreachable:
        return "unreachable"
    if fact.errors or run.answers or fact.message:
        return "error"
    return "silent" if run.counted and fact.sent else None


def _finish(segment: Segment, run: _Run, dont_fragment: bool | None) -> Iterator[Fact | Problem]:
    fact = run.fact
    if dont_fragment:
        fact.dont_fragment = True
    if not run.counted and run.replies:
        fact.received = run.replies
    if fact.rtt_avg_us is None and run.times:
        fact.rtt_min_us, fact.rtt_max_us = min(run.times), max(run.times)
        fact.rtt_avg_us = round(sum(run.times) / len(run.times), 3)
    if fact.local_mtu_bytes == fact.hop_mtu_bytes:
        fact.local_mtu_bytes = None  # the kernel had learnt it from the hop: not the interface's own MTU
    fact.outcome = _outcome(run)
    end = segment.numbers[run.last]
    fact.origins = (replace(segment.origin(run.first), end=end),)
    yield fact
    if not run.counted and fact.packet_bytes is not None and not fact.message:
        yield Problem(end, "ping output ends before its summary")


def _flags(command: str | None, runs: int) -> Sequence[bool | None]:
    """For each run, True where its command forbids fragments; None where the command is not known."""
    calls = [bool(_DONT_FRAGMENT.search(m[1])) or None for m in _PING_IN_COMMAND.finditer(command or "")]
    if len(calls) == 1:
        return calls * runs  # one command in a loop
    return calls if len(calls) == runs else [None] * runs


def _target(command: str | None) -> str | None:
    """The host that the command of a ping without output would have reached: its last word."""
    calls = [m[1].split() for m in _PING_IN_COMMAND.finditer(command or "")]
    return calls[0][-1] if len(calls) == 1 and calls[0] else None


class _Reader:
    """Reads a segment line by line; lines of other tools between are passed over."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.runs: list[_Run] = []
        self.open: _Run | None = None
        self.after: _Run | None = None  # its summary was read, its round trips may follow
        self.waiting: list[tuple[int, str]] = []  # error lines that stand before their run, or after it
        self.problems: list[Problem] = []

    def read(self) -> None:
        """Reads all lines."""
        for index, line in enumerate(self.segment.lines):
            if len(line) < 2000 and line.strip():
                self._line(index, line.rstrip())
        self._settle(None)

    def _line(self, index: int, line: str) -> None:
        if line.startswith("PING ") and (m := _HEADER.match(line)):
            run = _start(self.segment, index, m)
            self._settle(run)
            self._add(run)
        elif m := _REPLY.match(line):
            self._reply(index, m)
        elif line.startswith("---") and (m := _RULER.match(line)):
            self._ruler(index, m)
        elif m := _ERROR.match(line):
            self._error(index, m["text"])
        elif self.open is not None:
            self._inside(index, line)
        elif self.after is not None and (m := _RTT.match(line)):
            _rtt(self.after, m)
            self._take(self.after, index)
        elif self.after is not None and _PIPE.match(line):
            self._take(self.after, index)

    def _inside(self, index: int, line: str) -> None:
        run = self.open
        if run is None:
            return
        if m := _ANSWER.match(line):
            _answer(run, m)
            run.fact.said_at.setdefault("outcome", self.segment.origin(index))
        elif "%" in line and (m := _COUNTS.match(line)):
            _counts(run, m)
            run.fact.said_at.setdefault("outcome", self.segment.origin(index))
            self.open, self.after = None, run
        elif not _WAITING.match(line) and not _PIPE.match(line):
            return
        self._take(run, index)

    def _add(self, run: _Run) -> None:
        self.runs.append(run)
        self.open, self.after = run, None

    def _take(self, run: _Run, index: int) -> None:
        run.last = max(run.last, index)
        self.segment.skip(index)

    def _reply(self, index: int, m: re.Match[str]) -> None:
        if self.open is None:
            self._add(_headless(self.segment, index, m["address"] or m["from"]))
            self.runs[-1].fact.payload_bytes = max(0, int(m["bytes"]) - _ICMP_HEADER)
        run = self.open
        if run is None:
            return
        self._take(run, index)
        if not m.string.rstrip().endswith("(DUP!)"):
            run.replies += 1
            if (time := _us(m["time"])) is not None:
                run.times.append(time)

    def _ruler(self, index: int, m: re.Match[str]) -> None:
        words = m["text"].split()
        if not any(word.startswith("ping") for word in words):
            return
        if self.open is None:
            peer = words[0] if not words[0].startswith(("ping", "stat")) else words[-1]
            self._add(_headless(self.segment, index, peer))
        if self.open is not None:
            self._take(self.open, index)

    def _error(self, index: int, text: str) -> None:
        self.segment.skip(index)
        if text.startswith("Warning"):
            return
        if self.open is not None:
            _error(self.open, text)
            self._take(self.open, index)
        elif self.after is not None and self.after.unexplained:
            _error(self.after, text)
        else:
            self.waiting.append((index, text))

    def _settle(self, run: _Run | None) -> None:
        """Give waiting error lines to the run that now begins, or make runs of those that never began."""
        for index, text in self.waiting:
            name = _NO_NAME.match(text)
            named = next(filter(None, name.groups())) if name else None
            peer = named or (None if run is not None else _target(self.segment.command))
            if run is not None and named is None:
                _error(run, text)
            elif peer:
                failed = _headless(self.segment, index, peer)
                _error(failed, text)
                self.runs.append(failed)
            else:
                self.problems.append(Problem(self.segment.numbers[index], f"ping failed, to whom is not shown: {text}"))
        self.waiting.clear()


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact a run, with what came back (iputils ping; units: ms printed, microseconds kept)."""
    reader = _Reader(segment)
    reader.read()
    for run, flag in zip(reader.runs, _flags(segment.command, len(reader.runs)), strict=True):
        yield from _finish(segment, run, flag)
    yield from reader.problems


SOURCE = Source(
    id="ping",
    title="ping",
    facts=(PingTest,),
    needles=("PING ", " ttl=", "ping", "connect: "),
    signature=re.compile(
        r"^PING \S.{0,400} \d{1,6}(?:\(\d{1,6}\)| data bytes)|^--- .{1,300}\bping|^ping[46]?: "
        r"|^connect: Network is unreachable"
        r"|^(?:\[\d+\.\d+\] )?\d{1,6} \S{1,20} .{1,300}: (?:icmp_)?seq=\d+ (?:ttl|hlim)=\d",
        re.MULTILINE,
    ),
    parse=parse,
    commands=(
        Command(("ping", "-c", "5", "-i", "0.2", "{peer}"), seconds=1, stderr=True),
        Command(("ping", "-M", "do", "-c", "3", "-i", "0.2", "-s", "8972", "{peer}"), seconds=3, stderr=True),
    ),
    versions="iputils s20121221 to 20240905, busybox, BSD",
)
