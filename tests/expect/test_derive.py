"""From the facts of a run to its assessment."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from advisor.expect import derive
from advisor.facts import (
    Assessment,
    CollectiveTest,
    Edge,
    EnvVar,
    Fact,
    Given,
    GpuTopology,
    NcclProcess,
    NcclRank,
    NetInterface,
    RdmaPort,
    Stage,
    TcpTest,
)
from advisor.facts.store import FactStore

MIB, GIB = 1 << 20, 1 << 30
PAIR = GpuTopology(host="vm", gpus=2, nics=0, gpu_paths=("NV18",), all_nvlink=True, min_nvlinks=18)
NVLS_OFF = EnvVar(host="vm", run="run-1", name="NCCL_NVLS_ENABLE", value="0", where="log", in_ranks=True)


def pair(busbw: float, collective: str = "all_reduce", size: int = 512 * MIB, **more: Any) -> CollectiveTest:
    """A nccl-tests table of the two H200 of one machine (our captures)."""
    values: dict[str, Any] = {
        "test": "t:1", "tool": "nccl-tests", "host": "vm", "run": "run-1", "collective": collective, "nranks": 2,
        "nnodes": 1, "hosts": ("vm",), "gpus_per_host": 2, "gpu": "NVIDIA H200", "size_bytes": size,
        "busbw_gbyte_s": busbw, "still_rising": False, "failed": False,
    }  # fmt: skip
    return CollectiveTest(**{**values, **more})


def cluster(busbw: float, nodes: int = 4, gpus: int = 8, **more: Any) -> CollectiveTest:
    """A table of several nodes."""
    values: dict[str, Any] = {
        "test": "t:1", "tool": "nccl-tests", "run": "run-1", "collective": "all_reduce", "nranks": nodes * gpus,
        "nnodes": nodes, "hosts": tuple(f"node{i}" for i in range(nodes)), "gpus_per_host": gpus,
        "gpu": "NVIDIA A100-SXM4-80GB", "size_bytes": 4 * GIB, "busbw_gbyte_s": busbw, "still_rising": False,
    }  # fmt: skip
    return CollectiveTest(**{**values, **more})


def node(name: str, listed: int = 8, ports: int = 8, rate: float = 200, **rank: Any) -> list[Fact]:
    """A DGX-like node: its ports, what NCCL lists of them, its topology."""
    return [
        *(
            RdmaPort(host=name, device=f"mlx5_{i}", port=1, state="ACTIVE", rate_gbit_s=rate, link_layer="InfiniBand")
            for i in range(ports)
        ),
        NcclProcess(
            host=name, run="run-1", pid=1, network="IB",
            ib_devices=tuple(f"mlx5_{i}:1/IB" for i in range(listed)),
        ),
        NcclRank(host=name, run="run-1", pid=1, rank=0 if name == "node0" else 8, **{"net_channels": 16, **rank}),
        GpuTopology(
            host=name, gpus=8, nics=ports, best_nic_paths=("PXB",), all_nvlink=True, min_nvlinks=12,
            gpu_paths=("NV12",),
        ),
    ]  # fmt: skip


def assess(*facts: Fact) -> Assessment:
    store = FactStore(facts)
    store.add(derive(store))
    (found,) = store.of(Assessment)
    return found


HEALTHY_PAIR = [
    ("all_reduce", 316.25), ("all_gather", 272.8), ("reduce_scatter", 256.15), ("alltoall", 299.77),
    ("broadcast", 366.46), ("reduce", 367.34), ("sendrecv", 355.6),
]  # fmt: skip


@pytest.mark.parametrize(("collective", "busbw"), HEALTHY_PAIR)
def test_healthy_pair(collective: str, busbw: float) -> None:
    found = assess(pair(busbw, collective), PAIR, NVLS_OFF)
    assert (found.sound, found.standing, found.scope, found.stage) == (True, "in-band", "intra", "nvlink")
    assert found.why
    assert not found.assumed


@pytest.mark.parametrize(
    ("collective", "busbw"), [("all_reduce", 285.87), ("all_gather", 241.37), ("reduce_scatter", 228.56)]
)
def test_healthy_pair_at_a_smaller_size(collective: str, busbw: float) -> None:
    assert assess(pair(busbw, collective, 128 * MIB, still_rising=True), PAIR).standing == "in-band"


@pytest.mark.parametrize(("setting", "busbw"), [("P2P off", 27.5), ("one channel", 20.96), ("LL", 123.78)])
def test_slow_pair(setting: str, busbw: float) -> None:
    found = assess(pair(busbw), PAIR, NVLS_OFF)
    assert (found.sound, found.standing) == (True, "low")
    assert found.share is not None
    assert found.share < 0.6


def test_ranks_of_one_host_that_nccl_counts_as_nodes_are_one_host() -> None:
    ranks = [NcclRank(host="vm", run="run-1", pid=1, rank=i, nranks=2, nnodes=2) for i in (0, 1)]
    assert assess(pair(4.2), PAIR, *ranks).scope == "intra"


UNSOUND = [
    (pair(0.0, nranks=1, zero_busbw=True), "one-rank"),
    (pair(0.0, nranks=1, tables=16, zero_busbw=True), "no-mpi"),
    (pair(316, wrong=3), "wrong-values"),
    (pair(316, failed=True), "failed"),
    (pair(40, collective=""), "factor-unknown"),
    (replace(pair(40), busbw_gbyte_s=None), "no-busbw"),
    (replace(pair(40), size_bytes=None), "no-size"),
    (pair(40, size=4 * MIB), "too-small"),
    (pair(200, size=64 * MIB, still_rising=True), "too-small"),
    (pair(120, size=GIB, still_rising=True), "still-rising"),
    (pair(316, groups=2), "split-groups"),
]


@pytest.mark.parametrize(("test", "reason"), UNSOUND, ids=[f"{r}-{i}" for i, (_, r) in enumerate(UNSOUND)])
def test_unsound(test: CollectiveTest, reason: str) -> None:
    found = assess(test, PAIR)
    assert (found.sound, found.standing) == (False, None)
    assert reason in found.unsound


def test_wrong_factor_is_recomputed_from_algbw() -> None:
    """One branch of nccl-tests prints (n-1)/(n+1): 480 of 8 GPUs reads 213."""
    test = pair(213.3, nranks=8, gpus_per_host=8, algbw_gbyte_s=274.3, size=16 * GIB)
    found = assess(test, replace(PAIR, gpus=8))
    assert found.measured_gbyte_s == pytest.approx(480, abs=0.1)
    assert found.standing == "in-band"


def test_tool_without_busbw_gets_its_factor() -> None:
    test = replace(pair(0, nranks=8, gpus_per_host=8, algbw_gbyte_s=274.3, size=16 * GIB), busbw_gbyte_s=None)
    assert assess(test, replace(PAIR, gpus=8)).standing == "in-band"


def test_dgx_a100() -> None:
    nodes = [fact for i in range(4) for fact in node(f"node{i}", ports=10, gdr_channels=16)]
    found = assess(cluster(192), *nodes)
    assert (found.scope, found.standing, found.stage) == ("inter", "in-band", "nic-sum")
    assert not found.assumed
    store = FactStore([cluster(192), *nodes])
    assert {s.name for s in derive(store) if isinstance(s, Stage)} == {"nic-sum", "intra-node"}


@pytest.mark.parametrize("busbw", [93, 24, 2.5])
def test_slow_dgx_a100(busbw: float) -> None:
    assert assess(cluster(busbw), *(f for i in range(4) for f in node(f"node{i}", gdr_channels=16))).standing == "low"


def test_gdr_off_where_the_path_allows_it_is_low() -> None:
    assert assess(cluster(70), *(f for i in range(4) for f in node(f"node{i}", gdr_channels=0))).standing == "low"


def test_unused_ports_leave_it_open() -> None:
    """NCCL lists four of eight active ports: that those four are full does not make it healthy."""
    found = assess(cluster(92), *(f for i in range(4) for f in node(f"node{i}", listed=4, gdr_channels=16)))
    assert found.standing == "inconclusive"
    assert found.assumed


def test_tcp_beside_active_infiniband_is_low() -> None:
    facts = [f for i in range(4) for f in node(f"node{i}", listed=0)]
    for fact in facts:
        if isinstance(fact, NcclProcess):
            fact.network = "Socket"
    assert assess(cluster(3.5), *facts).standing == "low"


def test_forced_ring_on_two_nodes_is_decided() -> None:
    nodes = [fact for i in range(2) for fact in node(f"node{i}", gdr_channels=16)]
    ring = EnvVar(run="run-1", name="NCCL_ALGO", value="Ring", where="log", in_ranks=True)
    assert assess(cluster(180, nodes=2), *nodes).standing == "inconclusive"
    assert assess(cluster(180, nodes=2), *nodes, ring).standing == "in-band"


def test_multi_node_nvlink_has_no_nic_expectation() -> None:
    nodes = [fact for i in range(4) for fact in node(f"node{i}", mnnvl=True)]
    assert assess(cluster(800), *nodes).standing is None


def test_nothing_known_about_nics() -> None:
    found = assess(cluster(92))
    assert (found.sound, found.standing, found.expected_low_gbyte_s) == (True, None, None)


def test_nodes_unknown() -> None:
    found = assess(cluster(92, nnodes=None, hosts=(), gpus_per_host=None))
    assert (found.scope, found.unsound, found.standing) == (None, ("nodes-unknown",), None)


def test_what_the_user_says_fills_in() -> None:
    given = Given(nodes=4, gpus_per_node=8, nics=8, nic_gbit_s=200, fabric="ib")
    unknown: dict[str, Any] = {"nnodes": None, "hosts": (), "gpus_per_host": None, "run": None}
    assert assess(cluster(192, **unknown), given).standing == "in-band"
    assert assess(cluster(20, **unknown), given).standing == "low"


def test_intra_measurement_caps_the_nodes() -> None:
    alone = cluster(90, nodes=1, test="t:2", run="run-2")
    nodes = [fact for i in range(4) for fact in node(f"node{i}", gdr_channels=16)]
    store = FactStore([cluster(88), alone, *nodes])
    found = {a.test: a for a in derive(store) if isinstance(a, Assessment)}
    assert (found["t:1"].standing, found["t:1"].stage) == ("in-band", "nvlink")
    assert found["t:2"].standing == "low"


def tcp_run(busbw: float, **interface: Any) -> list[Fact]:
    """Two nodes of one GPU over sockets (our network captures)."""
    facts: list[Fact] = [cluster(busbw, nodes=2, gpus=1, gpu=None, tool="torch-allreduce", size_bytes=256 * MIB)]
    for i in range(2):
        name = f"node{i}"
        facts += [
            NcclProcess(
                host=name, run="run-1", pid=1, network="Socket", socket_interfaces=("eth1",), ib_devices=(),
                socket_addresses=(f"10.77.0.{i + 1}",),
            ),
            NcclRank(
                host=name, run="run-1", pid=1, comm_id="0x1", rank=i, nranks=2, nnodes=2,
                edges=(Edge(1 - i, "NET/Socket", "0", False, "send", 2),),
            ),
            NetInterface(host=name, name="eth1", kind="ether", mtu_bytes=9000, **interface),
        ]  # fmt: skip
    return facts


def iperf3(streams: int, gbit_s: float, version: str) -> TcpTest:
    return TcpTest(
        test=f"iperf3:{streams}", tool="iperf3", tool_version=version, local="10.77.0.1", peer="10.77.0.2",
        protocol="TCP", streams=streams, received_gbit_s=gbit_s,
    )  # fmt: skip


@pytest.mark.parametrize("busbw", [0.19, 0.37, 0.76, 2.5, 3.4, 7.1, 8.6])
def test_tcp_without_a_rate_has_no_expectation(busbw: float) -> None:
    assert assess(*tcp_run(busbw)).standing is None
    old = (iperf3(1, 33.6, "3.12"), iperf3(8, 42.4, "3.12"))
    assert assess(*tcp_run(busbw), *old).standing is None


def test_tcp_against_a_line_that_iperf3_shows() -> None:
    slow_line = (iperf3(1, 0.99, "3.12"), iperf3(8, 0.99, "3.12"))
    assert assess(*tcp_run(0.124), *slow_line).standing == "in-band"
    threads = iperf3(8, 94, "3.17")
    assert assess(*tcp_run(9.4), threads).standing == "in-band"
    assert assess(*tcp_run(6.0), threads).standing == "inconclusive"
    assert assess(*tcp_run(3.0), threads).standing == "low"


def test_tcp_on_a_rated_interface() -> None:
    assert assess(*tcp_run(1.1, speed_gbit_s=10)).standing == "in-band"
    assert assess(*tcp_run(0.3, speed_gbit_s=10)).standing == "low"
    assert assess(*tcp_run(3.2, speed_gbit_s=100)).standing != "low"
    assert assess(*tcp_run(0.3, speed_gbit_s=100, virtual=True)).standing is None


def test_placed_ranks_merge_into_the_store() -> None:
    store = FactStore(tcp_run(3.4))
    store.add(derive(store))
    ranks = store.of(NcclRank)
    assert [rank.inter_transports for rank in ranks] == [("NET/Socket",)] * 2


def test_order_of_facts_does_not_matter() -> None:
    facts = [cluster(92), *(f for i in range(4) for f in node(f"node{i}", listed=4, gdr_channels=16))]
    assert assess(*facts) == assess(*reversed(facts))


def test_a_figure_in_a_sentence_is_judged_with_what_the_user_adds() -> None:
    """Its size is not known: that would spoil a low figure, not a full one."""
    given = Given(nodes=2, gpus_per_node=8, nics=1, nic_gbit_s=100.0, fabric="ib")

    def standing(busbw: float) -> tuple[str | None, tuple[str, ...]]:
        test = CollectiveTest(test="t:1", tool="nccl-tests", collective="all_reduce", busbw_gbyte_s=busbw)
        (found,) = (f for f in derive(FactStore([test, given])) if isinstance(f, Assessment))
        return found.standing, found.unsound

    assert standing(12.1) == ("in-band", ())
    assert standing(5.0) == (None, ("no-size",))
