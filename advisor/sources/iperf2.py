"""`iperf` 2: TCP and UDP streams. One `TcpTest` for each run, tool `iperf2`.

Seen: 2.0.x and 2.1.x. Known from iperf3 by its words (`Client connecting to`, `connected with`, rows without
`sender`) and by its rows. Rows of a second are passed over where a row of the whole run follows; with several streams
the `[SUM]` row counts, or the sum of the streams where none was printed. Unlike old iperf3 each stream is a thread.

    >>> SAMPLE = '''------------------------------------------------------------
    ... Client connecting to 10.8.0.2, TCP port 5001
    ... TCP window size:  325 KByte (default)
    ... ------------------------------------------------------------
    ... [  4] local 10.8.0.1 port 50114 connected with 10.8.0.2 port 5001
    ... [  3] local 10.8.0.1 port 50112 connected with 10.8.0.2 port 5001
    ... [ ID] Interval       Transfer     Bandwidth
    ... [  4]  0.0-10.0 sec  10.9 GBytes  9.36 Gbits/sec
    ... [  3]  0.0-10.0 sec  10.7 GBytes  9.19 Gbits/sec
    ... [SUM]  0.0-10.0 sec  21.6 GBytes  18.6 Gbits/sec
    ... '''
    >>> segment = Segment("iperf.txt", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.peer, f.streams, f.duration_s, f.sent_gbit_s, f.received_gbit_s) for f in parse(segment)]
    [('10.8.0.2', 2, 10.0, 18.6, None)]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from advisor.facts import Fact, TcpTest
from advisor.sources.base import Command, Problem, Segment, Source

_LONGEST_LINE = 500
_RATES = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}

# Client connecting to 10.8.0.2, TCP port 5001 with pid 311 (1 flows)      Server listening on TCP port 5001
_CLIENT = re.compile(r"Client connecting to (?P<peer>\S{1,255}), (?P<protocol>TCP|UDP) port \d{1,5}\b")
_SERVER = re.compile(r"Server listening on (?P<protocol>TCP|UDP) port \d{1,5}\b")
# [  3] local 10.8.0.1 port 50112 connected with 10.8.0.2 port 5001 (icwnd/mss/irtt=87/8948/142) (ct=0.4 ms)
_CONNECTED = re.compile(
    r"\[ {0,3}(?P<id>\*?\d{1,4})\] local (?P<local>\S{1,100}) port \d{1,5}"
    r" connected with (?P<peer>\S{1,100}) port \d{1,5}"
)
_MSS = re.compile(r"icwnd/mss/irtt=\d{1,9}/(\d{1,6})/")
# [  3]  0.0-10.0 sec  10.9 GBytes  9.36 Gbits/sec     [SUM] 0.0000-10.0121 sec  21.6 GBytes  18.6 Gbits/sec
_ROW = re.compile(
    r"\[ {0,3}(?P<id>\*?\d{1,4}|SUM(?:-\w{1,8})?)\]"
    r" {1,3}(?P<start>\d{1,7}\.\d{1,4})- {0,2}(?P<end>\d{1,7}\.\d{1,4}) sec"
    r" {1,4}\d{1,9}(?:\.\d{1,4})? {1,2}[KMGT]?(?:Bytes|bits)"
    r" {1,4}(?P<rate>\d{1,9}(?:\.\d{1,4})?(?:e[-+]\d{2})?) {1,2}(?P<prefix>[KMGT]?)(?P<unit>bits|Bytes)/sec"
    r"(?P<rest>.{0,200})"
)
# UDP server row:   0.012 ms 41410/2087706 (2%)      enhanced TCP client row:   105/0   7   1024K/142 us
_LOST = re.compile(r"\d{1,9}\.\d{1,4} ms {1,4}(?P<lost>\d{1,12})/ {0,9}(?P<all>\d{1,12}) \(")
_RETRIED = re.compile(
    r" {1,9}\d{1,9}/\d{1,9} {1,12}(?P<retries>\d{1,9}) {1,12}(?P<window>\d{1,9})K(?:\(\d{1,9}\))?/(?P<rtt>\d{1,9})"
)
_ERROR = re.compile(
    r"(?P<text>(?:tcp )?connect failed: .{1,120}|(?:write|read|bind) failed: .{1,120}"
    r"|WARNING: did not receive ack .{0,120})"
)
_MARKS = re.compile(
    r"-{40,}$|TCP window size|UDP buffer size|Write buffer size|Sending \d{1,6} byte datagrams|\[ ?ID\] Interval"
    r"|Read buffer size|Binding to local address|\[ {0,3}\d{1,4}\] (?:Sent \d|Server Report|WARNING)|TOS set"
    r"|\[ {0,3}\d{1,4}\] \d{1,12} datagrams received out-of-order|Multicast ttl|Setting multicast|Waiting for server"
)
_IPERF3 = re.compile(
    r"Connecting to host |Server listening on \d|\[ {0,3}\d{1,4}\] local \S{1,100} port \d{1,5} connected to "
)

_SIGNATURE = re.compile(
    r"^(?:Client connecting to \S{1,255}, (?:TCP|UDP) port \d|Server listening on (?:TCP|UDP) port \d"
    r"|\[ {0,3}\*?\d{1,4}\] local \S{1,100} port \d{1,5} connected with "
    # rows alone have one or four decimals; iperf3 has two
    r"|\[ {0,3}(?:\d{1,4}|SUM)\] {1,3}\d{1,7}\.(?:\d|\d{4})- {0,2}\d{1,7}\.(?:\d|\d{4}) sec"
    r" {1,4}[\d.]{1,12} {1,2}\w?Bytes {1,4}[\d.]{1,12} {1,2}\w?bits/sec[ \t]{0,20}$)",
    re.MULTILINE,
)


@dataclass(slots=True, frozen=True)
class _Row:
    """A row of one stream or of their sum: seconds, 10^9 bit/s."""

    stream: str
    start: float
    end: float
    gbit_s: float
    lost: float | None = None
    retries: int | None = None
    window_bytes: int | None = None
    rtt_us: float | None = None
    reported: bool = False


@dataclass(slots=True)
class _Run:
    """One run under way; `first` and `last` are indexes of its own lines."""

    first: int
    last: int
    server: bool | None = None
    protocol: str | None = None
    local: str | None = None
    peer: str | None = None
    mss: int | None = None
    streams: set[str] = field(default_factory=set)
    rows: list[_Row] = field(default_factory=list)
    error: str | None = None
    report: bool = False


def _row(m: re.Match[str], *, reported: bool) -> _Row:
    rate = float(m["rate"]) * _RATES[m["prefix"]] * (8 if m["unit"] == "Bytes" else 1)
    if m["unit"] == "Bytes" and m["prefix"]:  # -f K, M, G: bytes by powers of 1024
        power = "KMGT".index(m["prefix"]) + 1
        rate = float(m["rate"]) * 1024.0**power * 8
    lost, retried = _LOST.search(m["rest"]), _RETRIED.match(m["rest"])
    return _Row(
        m["id"], float(m["start"]), float(m["end"]), round(rate / 1e9, 6),
        int(lost["lost"]) / int(lost["all"]) if lost and int(lost["all"]) else None,
        int(retried["retries"]) if retried else None, int(retried["window"]) * 1024 if retried else None,
        float(retried["rtt"]) if retried else None, reported,
    )  # fmt: skip


def _final(rows: list[_Row]) -> list[_Row]:
    """Rows of the whole run: of each stream the longest one, the later of two."""
    best: dict[str, _Row] = {}
    for row in rows:
        known = best.get(row.stream)
        if known is None or row.end - row.start >= known.end - known.start:
            best[row.stream] = row
    longest = max((row.end - row.start for row in best.values()), default=0.0)
    return [row for row in best.values() if row.end - row.start >= 0.5 * longest]


def _sum(rows: list[_Row]) -> float | None:
    """Rate of all streams: the sum row, else the streams added."""
    sums = [row.gbit_s for row in rows if row.stream.startswith("SUM")]
    if sums:
        return sums[-1]
    return round(sum(row.gbit_s for row in rows), 6) if rows else None


def _fact(run: _Run, segment: Segment) -> TcpTest:
    own, reported = _final([r for r in run.rows if not r.reported]), _final([r for r in run.rows if r.reported])
    streams = {row.stream for row in own if not row.stream.startswith("SUM")} | run.streams
    received = _sum(own) if run.server else _sum(reported)  # rows without a head: taken for the client's
    lost = [row.lost for row in (reported or own) if row.lost is not None]
    retries = [row.retries for row in own if row.retries is not None]
    sums = [row.retries for row in own if row.retries is not None and row.stream.startswith("SUM")]
    windows = [row.window_bytes for row in own if row.window_bytes is not None]
    rtts = [row.rtt_us for row in own if row.rtt_us is not None]
    return TcpTest(
        test=segment.at(run.first), tool="iperf2", local=run.local, peer=run.peer, protocol=run.protocol,
        streams=len(streams) or None, duration_s=round(max(r.end - r.start for r in own), 1) if own else None,
        received_gbit_s=received, sent_gbit_s=None if run.server else _sum(own),
        retransmits=sums[-1] if sums else sum(retries) if retries else None, mss_bytes=run.mss,
        mean_rtt_us=round(sum(rtts) / len(rtts), 1) if rtts else None, max_window_bytes=max(windows, default=None),
        lost_share=max(lost, default=None), error=run.error,
        origins=(replace(segment.origin(run.first), end=segment.numbers[run.last]),),
    )  # fmt: skip


class _Reader:
    """Reads lines into runs."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.runs: list[_Run] = []
        self.open = False  # inside the output of iperf 2, not of iperf3

    def read(self, index: int, line: str) -> None:
        text = line.strip()
        if not text or len(text) > _LONGEST_LINE:
            return
        for pattern, method in (
            (_CLIENT, self._opening), (_SERVER, self._opening), (_CONNECTED, self._connected), (_ROW, self._row),
            (_ERROR, self._error),
        ):  # fmt: skip
            m = pattern.match(text)
            if m:
                method(index, m)
                return
        if _IPERF3.match(text):
            self.open = False
        elif _MARKS.match(text) and (self.open or text[0] != "["):
            self.segment.skip(index)
            if "Server Report" in text and self.runs:
                self.runs[-1].report = True

    def _run(self, index: int, *, fresh: bool = False) -> _Run:
        if fresh or not self.runs:
            self.runs.append(_Run(index, index))
        self.open = True
        run = self.runs[-1]
        run.last = index
        self.segment.skip(index)
        return run

    def _opening(self, index: int, m: re.Match[str]) -> None:
        run = self._run(index, fresh=True)
        run.protocol = m["protocol"]
        run.server = m.re is _SERVER
        run.peer = None if run.server else m["peer"]

    def _connected(self, index: int, m: re.Match[str]) -> None:
        last = self.runs[-1] if self.runs else None
        # a server serves one client after another; its next client comes when rows of the last are there
        fresh = last is not None and bool(last.rows) and last.server is True and m["id"] not in last.streams
        run = self._run(index, fresh=fresh and last is not None and len(_final(last.rows)) >= len(last.streams))
        if fresh and last is not None:
            run.server, run.protocol = last.server, last.protocol
        run.streams.add(m["id"])
        run.local, run.peer = m["local"].partition("%")[0], m["peer"].partition("%")[0]
        mss = _MSS.search(m.string)
        run.mss = int(mss[1]) if mss else run.mss

    def _row(self, index: int, m: re.Match[str]) -> None:
        two_decimals = len(m["end"].partition(".")[2]) == 2
        if "sender" in m["rest"] or "receiver" in m["rest"] or (two_decimals and not self.open):
            return  # iperf3
        run = self._run(index, fresh=not self.open)
        run.rows.append(_row(m, reported=run.report))

    def _error(self, index: int, m: re.Match[str]) -> None:
        if self.runs:
            run = self._run(index)
            run.error = run.error or m["text"]


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One `TcpTest` for each run, also for one that never got its connection."""
    reader = _Reader(segment)
    for index, line in enumerate(segment.lines):
        reader.read(index, line)
    for run in reader.runs:
        if run.server and not run.rows and not run.streams:
            continue  # a server that nobody called says nothing
        yield _fact(run, segment)


SOURCE = Source(
    id="iperf2",
    title="iperf 2",
    facts=(TcpTest,),
    needles=("Client connecting to", "Server listening on", "connected with", "bits/sec"),
    signature=_SIGNATURE,
    parse=parse,
    commands=(
        Command(("iperf", "-c", "{peer}", "-P", "8", "-t", "10"), seconds=11, timeout=30, traffic=True, disturbs=True,
                stderr=True),
    ),
    versions="2.0, 2.1",
)  # fmt: skip
