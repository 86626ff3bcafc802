"""`ss -ti`: what limits TCP connections, by pair of addresses.

Seen: iproute2 4.18 to 6.15, with -m and -O. Rates are printed in bit/s, round trips in ms. A header alone says that
there was no connection at that moment, so it gives no fact.

    >>> SAMPLE = '''State Recv-Q Send-Q Local Address:Port Peer Address:Port
    ... ESTAB 0      998244     10.9.0.1:40100  10.9.0.2:5201
    ... 	 cubic rtt:0.412/0.020 mss:8948 pmtu:9000 cwnd:40 bytes_sent:8000000 bytes_retrans:80000 retrans:0/9 delivery_rate 9000000000bps busy:2000ms rwnd_limited:1500ms(75.0%)
    ... '''
    >>> segment = Segment("ss.txt", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.peer, f.rwnd_limited_share, f.retransmit_share, f.delivery_gbit_s) for f in parse(segment)]
    [('10.9.0.2', 0.75, 0.01, 9.0)]
"""  # noqa: E501

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from advisor.facts import Fact, TcpSocket
from advisor.sources.base import Command, Problem, Segment, Source

_STATES = (
    "ESTAB|SYN-SENT|SYN-RECV|FIN-WAIT-1|FIN-WAIT-2|TIME-WAIT|UNCONN|CLOSE-WAIT|LAST-ACK|LISTEN|CLOSING|CLOSED|NEW-SYN-RECV"
)
_END = r"\[?([0-9a-fA-F:.]{2,60}|\*|[a-zA-Z][\w.-]{0,250})\]?(?:%[\w.@-]{1,20})?:(?:\d{1,5}|[\w-]{1,40}|\*)"
_SOCKET = re.compile(rf"^(?:tcp +|mptcp +)?({_STATES}) +\d{{1,12}} +(\d{{1,12}}) +{_END} +{_END}(?= |$)")
_HEADER = re.compile(r"^(?:Netid +)?State +Recv-Q +Send-Q ")
_TOKEN = re.compile(r"(?<![\w:])([a-z][a-z_]{1,20}):([0-9][0-9.,/]{0,40})")
_LIMITED = re.compile(r"(?<![\w:])(busy|rwnd_limited|sndbuf_limited):(\d{1,12})ms")
_RATE = re.compile(r"(?<!\w)(send|delivery_rate) ([\d.]{1,24})([KMG]?)bps")
_CONGESTION = re.compile(
    r"(?<![\w:])(cubic|bbr\d?|dctcp|reno|htcp|hybla|vegas|westwood|bic|illinois|scalable|yeah|nv|cdg|lp)(?![\w:])"
)
_SCALE = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9}
_DATA_BYTES = 100_000  # a connection that sent less only controls, and its numbers say nothing of the path


@dataclass(slots=True)
class _Socket:
    """One connection: numbers by the names that ss gives them."""

    index: int
    last: int
    state: str
    queued: int
    local: str
    peer: str
    values: dict[str, str] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)
    rates: dict[str, float] = field(default_factory=dict)
    congestion: str | None = None
    app_limited: bool = False

    def number(self, name: str, part: int = 0) -> float | None:
        """The value of `name`, or the part of it behind a slash."""
        parts = self.values.get(name, "").split("/")
        try:
            return float(parts[part])
        except (ValueError, IndexError):
            return None

    @property
    def carries_data(self) -> bool:
        """It sent data, or would if it could."""
        if self.state == "SYN-SENT":  # what waits is the request itself
            return False
        return (self.number("bytes_sent") or self.number("bytes_acked") or 0) >= _DATA_BYTES or self.queued > 0


def _read(socket: _Socket, text: str) -> None:
    """Take the tokens of an info line, by name and never by place."""
    text = text[:4000]
    for m in _TOKEN.finditer(text):
        socket.values.setdefault(m[1], m[2])
    for m in _LIMITED.finditer(text):
        socket.times[m[1]] = int(m[2])
    for m in _RATE.finditer(text):
        try:
            socket.rates[m[1]] = float(m[2]) * _SCALE[m[3]]
        except ValueError:
            continue
    if named := _CONGESTION.search(text):
        socket.congestion = named[1]
    socket.app_limited = socket.app_limited or " app_limited" in text


def _sockets(segment: Segment) -> Iterator[_Socket]:
    current: _Socket | None = None
    for index, line in enumerate(segment.lines):
        if m := _SOCKET.match(line[:600]):
            if current:
                yield current
            current = _Socket(index, index, m[1], int(m[2]), m[3].removeprefix("::ffff:"), m[4].removeprefix("::ffff:"))
            _read(current, line[m.end() :])
            segment.skip(index)
        elif _HEADER.match(line):
            segment.skip(index)
        elif current and line[:1].isspace() and line.strip():
            _read(current, line)
            current.last = index
            segment.skip(index)
    if current:
        yield current


def _least(sockets: Iterable[_Socket], name: str) -> int | None:
    values = [value for socket in sockets if (value := socket.number(name))]
    return int(min(values)) if values else None


def _most(sockets: Iterable[_Socket], name: str) -> int | None:
    values = [value for socket in sockets if (value := socket.number(name))]
    return int(max(values)) if values else None


def _total(sockets: Iterable[_Socket], name: str, part: int = 0) -> int | None:
    """The sum; ss leaves zeros out, so a socket without the value counts as zero where any value was printed."""
    found = [socket for socket in sockets if socket.values]
    return int(sum(socket.number(name, part) or 0 for socket in found)) if found else None


def _share(sockets: list[_Socket], name: str) -> float | None:
    """Share of the time in which they had data to send that they spent waiting for `name`."""
    busy = sum(socket.times.get("busy", 0) for socket in sockets)
    if not busy:
        return None
    return round(min(1.0, sum(socket.times.get(name, 0) for socket in sockets) / busy), 4)


def _numbers(fact: TcpSocket, sockets: list[_Socket]) -> None:
    """What the connections that carry data show."""
    fact.rwnd_limited_share = _share(sockets, "rwnd_limited")
    fact.sndbuf_limited_share = _share(sockets, "sndbuf_limited")
    fact.retrans, fact.lost = _total(sockets, "retrans", 1), _total(sockets, "lost")
    sent, again = _total(sockets, "bytes_sent"), _total(sockets, "bytes_retrans")
    fact.retransmit_share = round(again / sent, 6) if sent and again is not None else None
    fact.mss_bytes, fact.pmtu_bytes = _least(sockets, "mss"), _least(sockets, "pmtu")
    fact.cwnd, fact.window_bytes = _most(sockets, "cwnd"), _most(sockets, "snd_wnd")
    rtts = [value for socket in sockets if (value := socket.number("rtt")) is not None]
    fact.rtt_us = round(sum(rtts) / len(rtts) * 1000, 1) if rtts else None
    least = [value for socket in sockets if (value := socket.number("minrtt")) is not None]
    fact.min_rtt_us = round(min(least) * 1000, 1) if least else None
    names = {socket.congestion for socket in sockets if socket.congestion}
    fact.congestion = ",".join(sorted(names)) or None
    rates = [s.rates["delivery_rate"] for s in sockets if "delivery_rate" in s.rates and not s.app_limited]
    fact.delivery_gbit_s = round(sum(rates) / 1e9, 6) if rates else None
    fact.unsent_bytes = sum(socket.queued for socket in sockets)


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact a pair of addresses (ms, bit/s and bytes printed; us and Gbit/s kept)."""
    groups: dict[tuple[str, str], list[_Socket]] = {}
    for socket in _sockets(segment):
        if socket.state != "LISTEN" and socket.peer != "*":
            groups.setdefault((socket.local, socket.peer), []).append(socket)
    for (local, peer), sockets in groups.items():
        data = [socket for socket in sockets if socket.carries_data]
        fact = TcpSocket(
            sample=segment.at(sockets[0].index), local=local, peer=peer, connections=len(sockets),
            states=tuple(sorted({socket.state for socket in sockets})),
            unanswered=sum(socket.state == "SYN-SENT" for socket in sockets), data_connections=len(data),
            origins=tuple(segment.origin(s.index, s.last) for s in (data or sockets)[:8]),
        )
        connected = data or [socket for socket in sockets if socket.state != "SYN-SENT"]
        if connected:
            _numbers(fact, connected)
        yield fact


SOURCE = Source(
    id="ss",
    title="ss (TCP sockets)",
    facts=(TcpSocket,),
    needles=("Recv-Q", "ESTAB", "SYN-SENT", "FIN-WAIT", "LAST-ACK", "CLOSE-WAIT"),
    signature=re.compile(
        rf"^(?:Netid +)?State +Recv-Q +Send-Q |^(?:m?p?tcp +)?(?:{_STATES}) +\d+ +\d+ +\S{{1,300}}:\S{{1,40}} +\S",
        re.MULTILINE,
    ),
    parse=parse,
    commands=(Command(("ss", "-tinmO")),),
    versions="iproute2 4.18 to 6.15",
)
