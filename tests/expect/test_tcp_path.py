"""What TCP tests of one path say together."""

from __future__ import annotations

import pytest

from advisor.expect.tcp_path import tcp_paths
from advisor.facts import EthernetLink, Fact, NetInterface, PingTest, Sysctl, TcpPath, TcpSocket, TcpTest
from advisor.facts.store import FactStore

A, B = "10.4.0.1", "10.4.0.2"


def _test(name: str, gbit_s: float, streams: object = 1, **values: object) -> TcpTest:
    fixed = {
        "host": "a", "tool": "iperf3", "local": A, "peer": B, "protocol": "TCP", "reverse": False,
        "received_gbit_s": gbit_s, "streams": streams,
    }  # fmt: skip
    return TcpTest(test=name, **{**fixed, **values})  # type: ignore[arg-type]


def _ends(near: float = 100, far: float = 100) -> list[Fact]:
    facts: list[Fact] = []
    for host, address, speed in (("a", A, near), ("b", B, far)):
        facts.append(NetInterface(host=host, name="eth2", mtu_bytes=9000, addresses=(f"{address}/24",)))
        facts.append(EthernetLink(host=host, interface="eth2", speed_gbit_s=speed))
    return facts


def _paths(*facts: Fact) -> list[TcpPath]:
    store = FactStore()
    store.add(facts)
    return list(tcp_paths(store))


def _path(*facts: Fact) -> TcpPath:
    (path,) = _paths(*facts)
    return path


def test_one_stream_against_many() -> None:
    path = _path(_test("1", 5), _test("8", 38, 8), *_ends())
    assert (path.one_stream_gbit_s, path.many_streams_gbit_s, path.streams) == (5, 38, 8)
    assert (path.ratio, path.each_share) == (7.6, 0.95)
    assert (path.interface, path.mtu_bytes, path.line_gbit_s, path.line_share) == ("eth2", 9000, 100, 0.38)


def test_the_slower_end_is_the_line() -> None:
    assert _path(_test("1", 9), *_ends(far=10)).line_gbit_s == 10


def test_line_is_unknown_where_two_hosts_have_the_address() -> None:
    twin = NetInterface(host="c", name="eth2", addresses=(f"{A}/24",), speed_gbit_s=1)
    other = NetInterface(host="d", name="eth2", addresses=(f"{A}/24",), speed_gbit_s=10)
    assert _path(_test("1", 9), twin, other).line_gbit_s is None


def test_directions_and_tools_are_paths_of_their_own() -> None:
    assert len(_paths(_test("1", 9), _test("2", 9, reverse=True), _test("3", 9, tool="iperf2"))) == 3


@pytest.mark.parametrize(
    "values",
    [{"protocol": "UDP"}, {"error": "busy"}, {"bidirectional": True}, {"target_gbit_s": 1.0}, {"peer": None}],
    ids=lambda values: next(iter(values)),
)
def test_what_cannot_be_judged_is_left_out(values: dict[str, object]) -> None:
    assert _paths(_test("1", 9, **values)) == []


def test_window_over_the_shortest_round_trip() -> None:
    ping = PingTest(host="a", test="p", peer=B, rtt_min_us=2000)
    path = _path(_test("1", 0.25, max_window_bytes=65536, window_granted=True, mean_rtt_us=2500), ping, *_ends())
    assert path.rtt_us == 2000
    assert path.window_gbit_s == pytest.approx(65536 * 8 / 2e-3 / 1e9)
    assert path.window_share == pytest.approx(0.954, abs=0.001)
    assert path.needed_bytes == 25_000_000  # 100 Gb/s x 2 ms


def test_congestion_window_is_no_granted_window() -> None:
    assert _path(_test("1", 1, max_window_bytes=65536, window_granted=False, mean_rtt_us=500)).window_share is None


def test_round_trip_from_sockets_of_the_same_pair() -> None:
    same = TcpSocket(host="a", sample="s", local=B, peer=A, min_rtt_us=80)
    other = TcpSocket(host="a", sample="t", local=A, peer="10.4.0.9", min_rtt_us=5)
    assert _path(_test("1", 9, mean_rtt_us=700), same, other).rtt_us == 80


def test_losses_that_set_the_rate() -> None:
    # 8948 bytes / 10 ms x sqrt(1.5 / 0.01) = 0.0877 Gb/s
    path = _path(_test("1", 0.1, mss_bytes=8948, mean_rtt_us=10_000, retransmit_share=0.01))
    assert path.loss_limit_share == pytest.approx(0.1 / 0.08767, rel=0.001)


def test_losses_without_effect_and_none_at_all() -> None:
    short = _path(_test("1", 1, mss_bytes=8948, mean_rtt_us=50, retransmit_share=0.01))
    assert short.loss_limit_share is not None
    assert short.loss_limit_share < 0.1
    assert _path(_test("1", 1, mss_bytes=8948, mean_rtt_us=50, retransmit_share=0.0)).loss_limit_share is None


def test_buffers_of_the_sender_and_of_the_receiver() -> None:
    settings = [
        Sysctl(host="a", name="net.ipv4.tcp_wmem", value="", max_bytes=4_000_000),
        Sysctl(host="a", name="net.ipv4.tcp_rmem", value="", max_bytes=1),  # of the other direction
        Sysctl(host="b", name="net.ipv4.tcp_rmem", value="", max_bytes=65536),
        Sysctl(host="b", name="net.ipv4.tcp_rmem", value="", max_bytes=2, configured=True),  # not in force
    ]
    path = _path(_test("1", 1), *settings, *_ends())
    assert (path.buffer_bytes, path.buffer_name) == (65536, "net.ipv4.tcp_rmem")
    back = _path(_test("1", 1, reverse=True), *settings[:2], *_ends())
    assert (back.buffer_bytes, back.buffer_name) == (1, "net.ipv4.tcp_rmem")
