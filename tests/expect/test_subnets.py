"""Interfaces of one host in one subnet, what NCCL plans over them and what they send."""

from __future__ import annotations

from advisor.expect.subnets import shared_subnets
from advisor.facts import Edge, Fact, NcclProcess, NcclRank, NetInterface, NicRate
from advisor.facts.store import FactStore


def port(name: str, address: str, *, master: str | None = None, device_kind: str | None = None) -> NetInterface:
    return NetInterface(
        host="n1", name=name, kind="ether", admin_up=True, carrier=True, virtual=False, master=master,
        device_kind=device_kind, addresses=(address, "fe80::1/64"),
    )  # fmt: skip


def store(*facts: Fact) -> FactStore:
    made = FactStore()
    made.add(facts)
    return made


def test_addresses_of_one_network_meet_and_link_local_ones_do_not() -> None:
    ports = port("ens2", "10.7.1.11/16"), port("ens1", "10.7.0.11/16"), port("ens3", "10.8.0.1/16")
    [found] = shared_subnets(store(*ports))
    assert (found.subnet, found.first, found.second) == ("10.7.0.0/16", "ens1", "ens2")
    assert found.interfaces == ("ens1", "ens2")
    assert found.planned is None


def test_single_addresses_share_nothing() -> None:
    assert not list(shared_subnets(store(port("ens1", "10.7.0.11/32"), port("ens2", "10.7.0.11/32"))))


def test_what_is_built_on_a_port_shares_its_subnet_on_purpose() -> None:
    stacked = [port("bond0", "10.7.0.1/16"), port("mv0", "10.7.0.2/16", device_kind="macvlan")]
    assert not list(shared_subnets(store(port("ens1", "10.7.0.11/16"), *stacked)))


def test_the_busiest_of_those_that_nccl_plans() -> None:
    edges = (Edge(1, "NET/Socket", "0"), Edge(1, "NET/Socket", "1"), Edge(2, "SHM"))
    [found] = shared_subnets(
        store(
            port("ens1", "10.7.0.11/16"),
            port("ens2", "10.7.1.11/16"),
            port("ens3", "10.7.2.11/16"),
            NcclProcess(host="n1", pid=7, network="Socket", socket_interfaces=("ens1", "ens2")),
            NcclRank(host="n1", pid=7, rank=0, edges=edges),
            NicRate(host="n1", interface="ens1", sample="s:1", tx_gbit_s=9.0),
            NicRate(host="n1", interface="ens2", sample="s:1", tx_gbit_s=1.0),
            NicRate(host="n1", interface="ens3", sample="s:1", tx_gbit_s=50.0),
        )
    )
    assert (found.planned, found.planned_nics, found.measured, found.sent_gbit_s) == (2, 2, 2, 10.0)
    assert (found.busiest, found.busiest_share) == ("ens1", 0.9)
