"""Point-to-point tests and running ports against their line."""

from __future__ import annotations

import pytest

from advisor.expect.port_use import port_uses
from advisor.expect.raw_link import raw_links
from advisor.facts import EthernetLink, FactStore, NicRate, RdmaCounters, RdmaPort, RdmaTest, TcpPath


def rdma(gbit_s: float, **more: object) -> RdmaTest:
    known: dict[str, object] = {
        "host": "a", "test": "t:1", "tool": "ib_write_bw", "kind": "bandwidth", "device": "mlx5_0",
        "size_bytes": 65536, "average_gbit_s": gbit_s, "link_type": "IB", "mtu_bytes": 4096,
    }  # fmt: skip
    return RdmaTest(**(known | more))  # type: ignore[arg-type]


def port(rate: float = 100.0, layer: str = "InfiniBand", host: str = "a") -> RdmaPort:
    return RdmaPort(host=host, device="mlx5_0", port=1, rate_gbit_s=rate, link_layer=layer)


@pytest.mark.parametrize(
    ("test", "layer", "standing"),
    [
        (rdma(97.0), "InfiniBand", "in-band"),
        (rdma(87.0), "InfiniBand", "inconclusive"),
        (rdma(52.0), "InfiniBand", "low"),
        # RoCE at RDMA MTU 1024 cannot pass 92.6 % of its line.
        (rdma(89.0, link_type="Ethernet", mtu_bytes=1024), "Ethernet", "in-band"),
        (rdma(89.0, link_type="Ethernet", mtu_bytes=4096), "Ethernet", "inconclusive"),
        # Through the CPU, GPU memory gets less by design.
        (rdma(65.0, gpu_memory=True), "InfiniBand", "inconclusive"),
        (rdma(186.0, bidirectional=True), "InfiniBand", "inconclusive"),
        (rdma(194.0, bidirectional=True), "InfiniBand", "in-band"),
    ],
)
def test_rdma_against_the_line(test: RdmaTest, layer: str, standing: str) -> None:
    (found,) = raw_links(FactStore([test, port(layer=layer)]), [])
    assert found.standing == standing


@pytest.mark.parametrize(
    "test",
    [
        rdma(52.0, error="peer-gone"), rdma(52.0, size_bytes=4096), rdma(52.0, average_gbit_s=None),
        rdma(52.0, kind="latency"), rdma(52.0, device="mlx5_9"), rdma(52.0, host="elsewhere"),
    ],
)  # fmt: skip
def test_what_cannot_be_judged_is_not(test: RdmaTest) -> None:
    assert list(raw_links(FactStore([test, port()]), [])) == []


def test_hosts_whose_ports_differ_leave_an_anonymous_test_open() -> None:
    store = FactStore([rdma(52.0, host=None), port(100.0), port(200.0, host="b")])
    assert list(raw_links(store, [])) == []


@pytest.mark.parametrize(
    ("line", "streams", "version", "one", "many", "standing"),
    [
        (10.0, None, "3.9", 9.4, None, "in-band"),
        (10.0, None, "3.9", 6.0, None, "low"),  # one thread fills such a line
        (100.0, 8, "3.9", 30.0, 38.0, "inconclusive"),  # all streams on one thread
        (100.0, 8, "3.17", 30.0, 38.0, "low"),
        (100.0, None, "3.17", 30.0, None, "inconclusive"),  # one stream
    ],
)
def test_tcp_against_the_line(
    line: float, streams: int | None, version: str, one: float, many: float | None, standing: str
) -> None:
    path = TcpPath(
        tool="iperf3", peer="10.0.0.2", line_gbit_s=line, tool_version=version, one_stream_gbit_s=one,
        many_streams_gbit_s=many, streams=streams,
    )  # fmt: skip
    (found,) = raw_links(FactStore([]), [path])
    assert found.standing == standing


def counters(**more: object) -> RdmaCounters:
    known: dict[str, object] = {
        "host": "a", "device": "mlx5_0", "port": 1, "reading": "c:1", "readings": 2, "interval_s": 10.0,
        "xmit_bytes_delta": 115_000_000_000, "rcv_bytes_delta": 1_000,
    }  # fmt: skip
    return RdmaCounters(**(known | more))  # type: ignore[arg-type]


def test_a_port_is_as_full_as_its_busier_direction() -> None:
    (use,) = port_uses(FactStore([counters(), port()]))
    assert (use.gbit_s, use.share, use.rdma) == (92.0, 0.92, True)


@pytest.mark.parametrize("missing", ["interval_s", "xmit_bytes_delta"])
def test_one_reading_or_no_time_says_nothing(missing: str) -> None:
    fact = counters(**{missing: None, "rcv_bytes_delta": None})
    assert list(port_uses(FactStore([fact, port()]))) == []


def test_an_interface_against_its_link() -> None:
    rate = NicRate(host="a", interface="eth1", sample="s:1", busy_gbit_s=9.0, rx_gbit_s=4.0)
    (use,) = port_uses(FactStore([rate, EthernetLink(host="a", interface="eth1", speed_gbit_s=10.0)]))
    assert (use.share, use.rdma) == (0.9, False)
    assert list(port_uses(FactStore([rate]))) == []
