"""What TCP tests between two addresses say together: one stream against many, the rate against window and round trip.

The arithmetic is that of RFC 7323: a sender has at most one window on its way in a round trip.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from advisor.facts import (
    EthernetLink,
    Fact,
    NetInterface,
    Origin,
    PingTest,
    Sysctl,
    TcpPath,
    TcpSocket,
    TcpTest,
)
from advisor.facts.store import FactStore


@dataclass(slots=True)
class _Surroundings:
    """The facts beside the tests."""

    interfaces: Sequence[NetInterface]
    links: Sequence[EthernetLink]
    pings: Sequence[PingTest]
    sockets: Sequence[TcpSocket]
    settings: Sequence[Sysctl]


def _rate(test: TcpTest) -> float:
    return (test.received_gbit_s if test.received_gbit_s is not None else test.sent_gbit_s) or 0.0


def _judged(test: TcpTest) -> bool:
    """Whether the test ran as fast as it could, over TCP, one way, to a known peer."""
    whole = test.protocol in ("TCP", None) and test.error is None and test.peer is not None
    return whole and not test.bidirectional and test.target_gbit_s is None and _rate(test) > 0


def _busier(test: TcpTest) -> float | None:
    return max((cpu for cpu in (test.cpu_local_share, test.cpu_remote_share) if cpu is not None), default=None)


def _share(part: float | None, whole: float | None) -> float | None:
    return round(part / whole, 3) if part is not None and whole else None


def _owner(address: str | None, interfaces: Iterable[NetInterface]) -> NetInterface | None:
    """The interface with an address, where exactly one host has it."""
    own = [i for i in interfaces if any(a.partition("/")[0] == address for a in i.addresses or ())]
    return own[0] if address and len({i.host for i in own}) == 1 else None


def _speed(interface: NetInterface, links: Iterable[EthernetLink]) -> float | None:
    said = [k.speed_gbit_s for k in links if k.host == interface.host and k.interface == interface.name]
    return next((speed for speed in (*said, interface.speed_gbit_s) if speed), None)


def _line(path: TcpPath, known: _Surroundings) -> None:
    """Interface, MTU and the slower of the two ends' links."""
    ends = [_owner(address, known.interfaces) for address in (path.local, path.peer)]
    speeds = [(s, i) for i in ends if i is not None and (s := _speed(i, known.links)) is not None]
    if own := ends[0]:
        path.interface, path.mtu_bytes = own.name, own.mtu_bytes
    if speeds:
        path.line_gbit_s, slower = min(speeds, key=lambda pair: pair[0])
        _say(path, ("line_gbit_s", "line_share"), slower)


def _say(path: TcpPath, names: Iterable[str], fact: Fact) -> None:
    if fact.origins:
        path.said_at |= dict.fromkeys(names, fact.origins[0])


def _same_host(a: Fact, b: Fact) -> bool:
    return a.host is None or b.host is None or a.host == b.host


def _round_trip(path: TcpPath, test: TcpTest, known: _Surroundings) -> None:
    """The shortest round trip: queues of the test's own making lengthen the mean of a loaded path."""
    times: list[tuple[float, Fact]] = [(test.mean_rtt_us, test)] if test.mean_rtt_us else []
    times += [
        (ping.rtt_min_us, ping) for ping in known.pings
        if ping.peer == path.peer and ping.rtt_min_us and _same_host(ping, path)
    ]  # fmt: skip
    ends = {path.local, path.peer}
    times += [
        (socket.min_rtt_us, socket) for socket in known.sockets
        if {socket.local, socket.peer} == ends and socket.min_rtt_us and _same_host(socket, path)
    ]  # fmt: skip
    if times:
        path.rtt_us, fact = min(times, key=lambda pair: pair[0])
        _say(path, ("rtt_us",), fact)


def _window(path: TcpPath, test: TcpTest) -> None:
    if path.rtt_us and test.max_window_bytes and test.window_granted:
        path.window_bytes = test.max_window_bytes
        # bytes x 8 / us are Mb/s; every stream has a window of its own
        path.window_gbit_s = round(test.max_window_bytes * 8 / path.rtt_us / 1000 * (test.streams or 1), 6)
        path.window_share = _share(_rate(test), path.window_gbit_s)
    fastest = path.line_gbit_s or max(path.one_stream_gbit_s or 0.0, path.many_streams_gbit_s or 0.0)
    if path.rtt_us and fastest:
        path.needed_bytes = int(fastest * path.rtt_us * 1000 / 8)


def _loss(path: TcpPath) -> None:
    """Mathis et al. 1997: with losses of share p a stream carries about MSS / RTT x sqrt(3/2 / p).

    The round trip is the shortest one, so a queue that overflows (a rate limit) leaves the rate far below this.
    """
    if path.mss_bytes and path.rtt_us and path.retransmit_share:
        limit = path.mss_bytes * 8 / path.rtt_us / 1000 * math.sqrt(1.5 / path.retransmit_share)
        path.loss_limit_share = _share(path.one_stream_gbit_s, limit)


def _buffers(path: TcpPath, test: TcpTest, known: _Surroundings) -> None:
    """The least kernel limit on the way, of the ends whose settings are known."""
    far = _owner(path.peer, known.interfaces)
    remote = far.host if far is not None else test.peer_name
    names = ("net.ipv4.tcp_wmem", "net.ipv4.tcp_rmem")
    near_name, far_name = reversed(names) if path.reverse else names
    limits = [
        (s.max_bytes, s) for s in known.settings
        if s.max_bytes is not None and not s.configured
        and ((s.host == path.host and s.name == near_name) or (s.host and s.host == remote and s.name == far_name))
    ]  # fmt: skip
    if limits:
        path.buffer_bytes, setting = min(limits, key=lambda pair: pair[0])
        path.buffer_name = setting.name
        _say(path, ("buffer_bytes", "buffer_name"), setting)


def _origins(*tests: TcpTest | None) -> tuple[Origin, ...]:
    return tuple(dict.fromkeys(test.origins[0] for test in tests if test is not None and test.origins))


def _path(tests: Sequence[TcpTest], known: _Surroundings) -> TcpPath:
    single = [test for test in tests if test.streams == 1]
    several = [test for test in tests if (test.streams or 0) > 1]
    one = max(single, key=_rate, default=None)
    many = max(several, key=lambda test: (test.streams or 0, _rate(test)), default=None)
    first = one or many or max(tests, key=_rate)
    path = TcpPath(
        host=first.host, tool=first.tool, local=first.local, peer=first.peer or "", reverse=first.reverse,
        tool_version=first.tool_version, congestion=first.congestion, mss_bytes=first.mss_bytes,
        origins=_origins(one, many) or _origins(first),
    )  # fmt: skip
    if one is not None:
        path.one_stream_gbit_s, path.cpu_share = _rate(one), _busier(one)
        path.retransmit_share = one.retransmit_share
        _say(path, ("one_stream_gbit_s", "cpu_share", "retransmit_share", "window_bytes", "window_share"), one)
    if many is not None:
        path.many_streams_gbit_s, path.streams, path.many_cpu_share = _rate(many), many.streams, _busier(many)
        path.many_retransmit_share = many.retransmit_share
        _say(path, ("many_streams_gbit_s", "ratio", "each_share", "many_cpu_share", "many_retransmit_share"), many)
    path.ratio = _share(path.many_streams_gbit_s, path.one_stream_gbit_s)
    path.each_share = _share(path.ratio, path.streams)
    _line(path, known)
    path.line_share = _share(max(_rate(test) for test in tests), path.line_gbit_s)
    _round_trip(path, first, known)
    _window(path, first)
    _loss(path)
    _buffers(path, first, known)
    return path


def tcp_paths(store: FactStore) -> Iterator[TcpPath]:
    """One fact for each tool, pair of addresses and direction that a TCP test was run over."""
    known = _Surroundings(
        store.of(NetInterface), store.of(EthernetLink), store.of(PingTest), store.of(TcpSocket), store.of(Sysctl)
    )
    groups: dict[tuple[object, ...], list[TcpTest]] = defaultdict(list)
    for test in store.of(TcpTest):
        if _judged(test):
            groups[test.host, test.tool, test.local, test.peer, test.reverse].append(test)
    for tests in groups.values():
        yield _path(tests, known)
