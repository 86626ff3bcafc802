"""The networks of interfaces, which of a host share one, and which of these carry what is sent there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from ipaddress import IPv4Interface, IPv6Interface, ip_interface

from advisor.facts import NcclGraph, NcclProcess, NcclRank, NetInterface, NicRate, SharedSubnet
from advisor.facts.store import FactStore

_STACKED = {"bond", "bridge", "team", "macvlan", "ipvlan", "vlan", "veth", "dummy", "ipoib"}


def _networks(interface: NetInterface) -> Iterator[str]:
    """Networks of its addresses, without link-local ones and those of a single address."""
    for text in interface.addresses or ():
        try:
            address: IPv4Interface | IPv6Interface = ip_interface(text)
        except ValueError:
            continue
        if not address.is_link_local and address.network.num_addresses > 1:
            yield str(address.network)


def with_networks(interfaces: Iterable[NetInterface]) -> Iterator[NetInterface]:
    """The interfaces whose addresses are known, with their networks."""
    for interface in interfaces:
        if interface.addresses is not None:
            yield replace(interface, networks=tuple(sorted(set(_networks(interface)))))


def _carries_a_network(interface: NetInterface) -> bool:
    """A port that is up; what is built on other ports shares a subnet on purpose."""
    stacked = interface.device_kind in _STACKED or interface.name.startswith(("bond", "team", "br-"))
    up = interface.admin_up is not False and interface.carrier is not False
    return interface.kind == "ether" and up and not interface.virtual and not interface.master and not stacked


def _planned_nics(store: FactStore, host: str | None) -> int | None:
    """NICs that stand in the channels of the host's processes, in the plan or in the connections."""
    plans = [set(g.nics_planned) for g in store.of(NcclGraph) if g.host == host and g.nics_planned is not None]
    ranks = [r for r in store.of(NcclRank) if r.host == host]
    plans += [{edge.nic for edge in r.edges if edge.transport.startswith("NET/")} for r in ranks if r.edges]
    return len(set().union(*plans)) if plans else None


def _with_use(found: SharedSubnet, store: FactStore) -> SharedSubnet:
    """Add what NCCL plans and what a monitor saw on these interfaces."""
    lists = [p.socket_interfaces for p in store.of(NcclProcess) if p.host == found.host and p.socket_interfaces]
    if not lists:
        return found
    planned = {name for names in lists for name in names} & set(found.interfaces)
    sent: dict[str, float] = {}
    for rate in store.of(NicRate):
        if rate.host == found.host and rate.interface in planned and rate.tx_gbit_s is not None:
            sent[rate.interface] = max(rate.tx_gbit_s, sent.get(rate.interface, 0.0))
    found.planned, found.planned_nics = len(planned), _planned_nics(store, found.host)
    found.measured, found.sent_gbit_s = len(sent), round(sum(sent.values()), 3)
    if found.sent_gbit_s:
        found.busiest = max(sent, key=lambda name: sent[name])
        found.busiest_share = round(sent[found.busiest] / sum(sent.values()), 4)
    return found


def shared_subnets(store: FactStore) -> Iterator[SharedSubnet]:
    """One fact for each subnet with several interfaces of one known host."""
    members: dict[tuple[str, str], list[NetInterface]] = defaultdict(list)
    for interface in store.of(NetInterface):
        if interface.host is not None and _carries_a_network(interface):
            for subnet in set(_networks(interface)):
                members[interface.host, subnet].append(interface)
    for (host, subnet), those in members.items():
        names = sorted({interface.name for interface in those})
        if len(names) > 1:
            origins = tuple(sorted(origin for interface in those for origin in interface.origins))
            found = SharedSubnet(
                host=host, origins=origins, subnet=subnet, first=names[0], second=names[1], interfaces=tuple(names)
            )
            yield _with_use(found, store)
