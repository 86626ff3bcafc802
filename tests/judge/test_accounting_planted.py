"""One ceiling planted in a healthy cluster, or two: the account finds what was taken, by whom, and no more."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from advisor.diagnosis import diagnose
from advisor.expect import derive
from advisor.facts import (
    Assessment,
    CollectiveTest,
    EnvVar,
    EthernetLink,
    Fact,
    GpuTopology,
    NcclProcess,
    NcclRank,
    NetInterface,
    PciLink,
    RdmaPort,
    fact_name,
)
from advisor.facts.store import FactStore
from advisor.findings import Accounting, Confidence
from advisor.infer.engine import Proof, compile_rule
from advisor.judge.accounting import account, ceilings_of, decisive, gap, loss_shares
from advisor.judge.confidence import Judged
from advisor.read.unpack import document
from advisor.render.text import waterfall

GIB = 1 << 30
HEALTHY = {"InfiniBand": 0.91 * 8 * 25, "Ethernet": 0.9 * 8 * 25, "tcp": 0.88 * 25 / 8}  # busbw, GB/s, GPUs in plenty
NODES = ("node0", "node1", "node2", "node3")


def cluster(busbw: float, layer: str = "InfiniBand", listed: int = 8, gdr: int = 16) -> list[Fact]:
    """Four nodes of eight A100 with eight 200G cards each, and one all-reduce."""
    facts: list[Fact] = [
        CollectiveTest(
            test="t:1", tool="nccl-tests", run="r", collective="all_reduce", nranks=32, nnodes=4, hosts=NODES,
            gpus_per_host=8, gpu="NVIDIA A100-SXM4-80GB", size_bytes=4 * GIB, busbw_gbyte_s=busbw, still_rising=False,
        )
    ]  # fmt: skip
    short = "IB" if layer == "InfiniBand" else "RoCE"
    for i, name in enumerate(NODES):
        facts += [
            *(
                RdmaPort(host=name, device=f"mlx5_{n}", port=1, state="ACTIVE", rate_gbit_s=200.0, link_layer=layer)
                for n in range(8)
            ),
            NcclProcess(
                host=name, run="r", pid=1, network="IB", ib_devices=tuple(f"mlx5_{n}:1/{short}" for n in range(listed))
            ),
            NcclRank(host=name, run="r", pid=1, rank=8 * i, net_channels=16, gdr_channels=gdr),
            GpuTopology(
                host=name, gpus=8, nics=8, best_nic_paths=("PXB",), all_nvlink=True, min_nvlinks=12, gpu_paths=("NV12",)
            ),
        ]
    return facts


def tcp_cluster(busbw: float, slow_gbit_s: float = 25.0, mtu: int = 9000) -> list[Fact]:
    """Four nodes of one GPU over one 25G interface; that of node2 may be slower."""
    facts: list[Fact] = [
        CollectiveTest(
            test="t:1", tool="nccl-tests", run="r", collective="all_reduce", nranks=4, nnodes=4, hosts=NODES,
            gpus_per_host=1, gpu="NVIDIA A10", size_bytes=GIB, busbw_gbyte_s=busbw, still_rising=False,
        )
    ]  # fmt: skip
    for name in NODES:
        speed = slow_gbit_s if name == "node2" else 25.0
        facts += [
            NcclProcess(host=name, run="r", pid=1, network="Socket", socket_interfaces=("eth0",)),
            NetInterface(host=name, name="eth0", speed_gbit_s=speed, mtu_bytes=mtu, virtual=False),
            EthernetLink(host=name, interface="eth0", speed_gbit_s=speed),
        ]
    return facts


def ports(facts: list[Fact], host: str, device: str, **changed: Any) -> list[Fact]:
    """The cluster with one port changed."""
    return [
        replace(fact, **changed) if isinstance(fact, RdmaPort) and (fact.host, fact.device) == (host, device) else fact
        for fact in facts
    ]


def cause(name: str, *bound: Fact, confidence: Confidence = "likely", run: str | None = None) -> Judged:
    """A cause with a proof that bound these facts."""
    data = {
        "id": "r", "cause": name, "evidence": "proves", "unverified": False, "each": {"f0": fact_name(type(bound[0]))},
        "when": [{"f0.host": {"known": True}}], "effect": [], "message": "", "bind": {},
    }  # fmt: skip
    proof = Proof(compile_rule(data, {}), {f"f{i}": fact for i, fact in enumerate(bound)}, True)
    return Judged(name, confidence, "proved", supports=[proof], runs={run} if run else set())


def told(facts: list[Fact], *causes: Judged) -> Accounting:
    """The account of the measurement in these facts."""
    store = FactStore(facts)
    store.add(derive(store))
    imposed = ceilings_of(causes, decisive(store.of(Assessment)), store)
    found = account(imposed.assessment, loss_shares(causes, imposed))
    assert found is not None
    missing = gap(imposed.assessment)
    assert missing is not None
    assert sum(found.explained.values()) + found.unexplained == pytest.approx(missing, abs=0.003)
    return found


def port_of(facts: list[Fact], host: str, device: str) -> RdmaPort:
    return next(f for f in facts if isinstance(f, RdmaPort) and (f.host, f.device) == (host, device))


NAMED = EnvVar(host="node0", run="r", name="NCCL_IB_HCA", value="mlx5_0,mlx5_1,mlx5_2,mlx5_3", where="log")


def planted(name: str) -> tuple[list[Fact], Judged, float]:
    """Facts, the cause as judged and the share that was taken."""
    ib, roce = HEALTHY["InfiniBand"], HEALTHY["Ethernet"]
    if name == "half the NICs":
        return cluster(ib / 2, listed=4), cause("nic-underused", NAMED), 0.5
    if name == "one lane width down":
        facts = ports(cluster(ib / 2), "node2", "mlx5_4", rate_gbit_s=100.0)
        return facts, cause("ib-link-downgrade", port_of(facts, "node2", "mlx5_4"), confidence="possible"), 0.5
    if name == "x8 slot":
        facts = cluster(ib * 0.55)
        slot = PciLink(
            host="node1", bdf="0000:1b:00.0", names=("mlx5_3",), kind="nic", speed_gt_s=16.0, width=8,
            max_speed_gt_s=16.0, max_width=16, carries_low_gbit_s=100.0, carries_high_gbit_s=115.0,
        )  # fmt: skip
        return [*facts, slot], cause("pcie-link-downgrade", slot), 0.45
    if name == "no GDR":
        facts = cluster(ib * 0.4, gdr=0)
        rank = next(fact for fact in facts if isinstance(fact, NcclRank))
        return facts, cause("gdr-unavailable", rank), 0.6
    if name == "RoCE MTU 1024":
        facts = ports(cluster(roce * 0.94, "Ethernet"), "node2", "mlx5_0", active_mtu_bytes=1024)
        return facts, cause("mtu-mismatch", NetInterface(host="node2", name="eth0", mtu_bytes=1500)), 0.06
    if name == "10G instead of 25G":
        facts = tcp_cluster(HEALTHY["tcp"] * 0.4, 10.0)
        slow = next(f for f in facts if isinstance(f, EthernetLink) and f.host == "node2")
        return facts, cause("eth-link-downgrade", slow), 0.6
    facts = cluster(ib * 0.5)
    return facts, cause("slow-node", port_of(facts, "node3", "mlx5_0"), confidence="confirmed", run="r"), 0.5


ONE = (
    "half the NICs", "one lane width down", "x8 slot", "no GDR", "RoCE MTU 1024", "10G instead of 25G", "one slow host",
)  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_one_ceiling(name: str) -> None:
    facts, by, lost = planted(name)
    found = told(facts, by)
    assert set(found.explained) <= {by.id}
    assert found.explained.get(by.id, 0.0) == pytest.approx(lost, abs=0.1)
    assert found.unexplained <= 0.1


def test_the_healthy_cluster_loses_nothing() -> None:
    for facts in (cluster(HEALTHY["InfiniBand"]), cluster(HEALTHY["Ethernet"], "Ethernet"), tcp_cluster(2.75)):
        found = told(facts)
        assert not found.explained
        assert found.unexplained < 0.1


def test_two_ceilings_of_different_factors_are_both_named() -> None:
    facts = ports(cluster(HEALTHY["InfiniBand"] / 4, listed=4), "node2", "mlx5_1", rate_gbit_s=100.0)
    found = told(facts, cause("nic-underused", NAMED), cause("ib-link-downgrade", port_of(facts, "node2", "mlx5_1")))
    assert set(found.explained) == {"nic-underused", "ib-link-downgrade"}
    assert sum(found.explained.values()) == pytest.approx(0.75, abs=0.1)
    assert found.explained["nic-underused"] == pytest.approx(found.explained["ib-link-downgrade"], abs=0.01)


def test_a_range_takes_what_the_measurement_leaves_it() -> None:
    facts = cluster(HEALTHY["InfiniBand"] / 2 * 0.45, listed=4, gdr=0)
    rank = next(fact for fact in facts if isinstance(fact, NcclRank))
    found = told(facts, cause("nic-underused", NAMED), cause("gdr-unavailable", rank))
    assert set(found.explained) == {"nic-underused", "gdr-unavailable"}
    assert sum(found.explained.values()) == pytest.approx(1 - 0.45 / 2, abs=0.1)
    assert found.explained["gdr-unavailable"] > found.explained["nic-underused"]
    assert found.unexplained <= 0.1


def test_within_a_factor_the_lowest_counts() -> None:
    facts = ports(cluster(HEALTHY["InfiniBand"] / 4), "node2", "mlx5_4", rate_gbit_s=50.0)
    slot = PciLink(host="node1", bdf="0000:1b:00.0", names=("mlx5_3",), carries_high_gbit_s=115.0)
    found = told([*facts, slot], cause("ib-link-downgrade", port_of(facts, "node2", "mlx5_4")),
                 cause("pcie-link-downgrade", slot))  # fmt: skip
    assert found.explained == {"ib-link-downgrade": pytest.approx(0.75, abs=0.1)}


def test_what_a_ceiling_does_not_explain_stays_open() -> None:
    facts = ports(cluster(20.0), "node2", "mlx5_4", rate_gbit_s=100.0)
    found = told(facts, cause("ib-link-downgrade", port_of(facts, "node2", "mlx5_4"), confidence="confirmed"))
    assert found.explained["ib-link-downgrade"] == pytest.approx(0.5, abs=0.02)
    assert found.unexplained == pytest.approx(0.38, abs=0.1)


def test_a_ceiling_above_the_measurement_takes_no_more_than_the_gap() -> None:
    facts = ports(cluster(HEALTHY["InfiniBand"] * 0.75), "node2", "mlx5_4", rate_gbit_s=50.0)
    found = told(facts, cause("ib-link-downgrade", port_of(facts, "node2", "mlx5_4")))
    assert found.explained["ib-link-downgrade"] <= 0.3
    assert found.unexplained == 0


def test_one_confirmed_cause_without_a_ceiling_takes_the_rest() -> None:
    facts = ports(cluster(20.0), "node2", "mlx5_4", rate_gbit_s=100.0)
    link = port_of(facts, "node2", "mlx5_4")
    other = cause("network-congestion", link, confidence="confirmed", run="r")
    found = told(facts, cause("ib-link-downgrade", link), other)
    assert found.explained["network-congestion"] > 0.3
    assert found.unexplained == pytest.approx(0, abs=0.002)


def test_a_slow_port_that_carries_no_job_takes_nothing() -> None:
    facts = ports(cluster(HEALTHY["InfiniBand"] / 2, listed=4), "node2", "mlx5_7", rate_gbit_s=100.0)
    assert not told(facts, cause("ib-link-downgrade", port_of(facts, "node2", "mlx5_7"))).explained


def test_a_possible_cause_does_not_lift_the_expectation() -> None:
    facts = tcp_cluster(HEALTHY["tcp"] * 0.4, 10.0)
    slow = next(f for f in facts if isinstance(f, EthernetLink) and f.host == "node2")
    assert not told(facts, cause("eth-link-downgrade", slow, confidence="possible")).explained


@pytest.mark.parametrize("name", ONE)
def test_the_bars_step_down_to_the_measured_value(name: str) -> None:
    facts, by, _ = planted(name)
    found = told(facts, by)
    lost = sum(found.explained.values()) + found.unexplained
    low, high = found.expected
    assert low * 0.95 <= found.measured / (1 - lost) <= high * 1.05
    bars = [bar for _, bar, _ in waterfall(found, 400)]
    if len(bars) > 2:
        last = bars[-2]
        assert math.isclose(len(last) - len(last.lstrip()), len(bars[-1]), abs_tol=3)


ETHTOOL = """Settings for eth0:
    Supported link modes:   10000baseCR/Full
                            25000baseCR/Full
    Link partner advertised link modes:  10000baseCR/Full
                            25000baseCR/Full
    Speed: 10000Mb/s
    Duplex: Full
    Link detected: yes
"""


def test_a_slow_link_in_band_of_its_own_rate_is_counted_against_what_both_ends_can_do() -> None:
    facts = [fact for fact in tcp_cluster(1.1, 10.0) if not isinstance(fact, EthernetLink)]
    found = diagnose([document("node2.ethtool.txt", ETHTOOL.encode())], given=facts).diagnosis
    first = found.causes[0]
    assert (found.verdict, first.id) == ("fault", "eth-link-downgrade")
    assert first.loss_share == pytest.approx(0.6, abs=0.1)


def test_two_ceilings_through_all_rules() -> None:
    facts = ports(cluster(HEALTHY["InfiniBand"] / 4, listed=4), "node2", "mlx5_1", rate_gbit_s=100.0)
    found = diagnose([], given=[*facts, NAMED]).diagnosis
    shares = {c.id: c.loss_share for c in found.causes}
    assert {"nic-underused", "ib-link-downgrade"} <= set(shares)
    assert found.accounting is not None
    assert sum(found.accounting.explained.values()) == pytest.approx(0.75, abs=0.1)
    assert found.accounting.explained == {name: share for name, share in shares.items() if share is not None}
