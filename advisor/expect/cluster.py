"""The shape of the cluster behind one measurement, from the facts of its run and its hosts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from advisor.data import table
from advisor.expect.inter import NEAR, rate_sum
from advisor.expect.shape import ClusterShape, Nics
from advisor.facts import (
    CollectiveTest,
    EnvVar,
    Fact,
    Given,
    Gpu,
    GpuTopology,
    NcclChoice,
    NcclGraph,
    NcclProcess,
    NcclRank,
    NetInterface,
    RdmaPort,
    TcpTest,
)
from advisor.facts.store import FactStore

_NEAR_TO_FAR = ("PIX", "PXB", "PHB", "NODE", "SYS")
_DEVICE = re.compile(r"^(?:\[\d+\])?([\w.-]+?):(\d+)(?:/(\w+))?$")
_ADDRESS = re.compile(r"\d+\.\d+\.\d+\.\d+")
# Bandwidth NCCL plans with where it cannot read a NIC's speed (10 Gb/s): no evidence of a rate.
_PLACEHOLDER_GBYTE_S = 1.3


@dataclass(slots=True)
class Setting:
    """Facts that belong to one measurement: its run's, its hosts'."""

    test: CollectiveTest
    hosts: frozenset[str]
    ranks: Sequence[NcclRank]
    processes: Sequence[NcclProcess]
    graphs: Sequence[NcclGraph]
    choices: Sequence[NcclChoice]
    variables: Sequence[EnvVar]
    gpus: Sequence[Gpu]
    topologies: Sequence[GpuTopology]
    ports: Sequence[RdmaPort]
    interfaces: Sequence[NetInterface]
    streams: Sequence[TcpTest]
    given: Given = field(default_factory=Given)


def setting(store: FactStore, test: CollectiveTest, ranks: Iterable[NcclRank]) -> Setting:
    """Collect what belongs to a measurement; `ranks` are the placed ones. Facts without a host belong to all."""
    given = next(iter(store.of(Given)), Given())
    if test.nranks is None and given.nodes and given.gpus_per_node:
        test = replace(test, nranks=given.nodes * given.gpus_per_node)
    own = [rank for rank in ranks if test.run is not None and rank.run == test.run]

    def in_run(fact: Fact) -> bool:
        return test.run is not None and fact.run == test.run

    processes = [fact for fact in store.of(NcclProcess) if in_run(fact)]
    hosts = frozenset(h for h in (*test.hosts, test.host, *(f.host for f in (*own, *processes))) if h)

    def on_hosts(fact: Fact) -> bool:
        return fact.host is None or not hosts or fact.host in hosts

    return Setting(
        test, hosts, own, processes,
        [fact for fact in store.of(NcclGraph) if in_run(fact)],
        [fact for fact in store.of(NcclChoice) if in_run(fact)],
        [fact for fact in store.of(EnvVar) if in_run(fact) or (fact.run is None and fact.in_ranks)],
        [fact for fact in store.of(Gpu) if on_hosts(fact)],
        [fact for fact in store.of(GpuTopology) if on_hosts(fact)],
        [fact for fact in store.of(RdmaPort) if on_hosts(fact)],
        [fact for fact in store.of(NetInterface) if on_hosts(fact)],
        store.of(TcpTest), given,
    )  # fmt: skip


def node_count(known: Setting) -> int | None:
    """Nodes of the measurement: what NCCL counted, else what the test's header lists, else the hosts of all ranks.

    Without P2P and SHM, NCCL counts every rank of a host as a node of its own: hosts that are all known come first.
    """
    homes = {rank.rank: rank.host for rank in known.ranks if rank.host and rank.rank is not None}
    if known.test.nranks and len(homes) == known.test.nranks:
        return len(set(homes.values()))
    if len(known.test.hosts) == 1 and known.test.nnodes == 1:
        return 1
    counted = [rank.nnodes for rank in known.ranks if rank.nnodes]
    return max(counted) if counted else known.test.nnodes or known.given.nodes


def gpus_per_node(known: Setting, nodes: int) -> int | None:
    """Ranks on the fullest host, None where not known."""
    local = [rank.local_ranks for rank in known.ranks if rank.local_ranks]
    total = known.test.nranks
    if nodes == 1:
        return total
    if known.test.gpus_per_host or local:
        return known.test.gpus_per_host or max(local)
    if known.given.gpus_per_node:
        return known.given.gpus_per_node
    return total // nodes if total and total % nodes == 0 else None


def forced(known: Setting, name: str) -> str | None:
    """The value a variable had in the ranks, None where it was not set or differed."""
    values = {v.value.strip() for v in known.variables if v.name == name}
    return next(iter(values)) if len(values) == 1 else None


def algorithm(known: Setting) -> str | None:
    """The algorithm of the large all-reduces: forced by NCCL_ALGO, else the one NCCL said it chose; None where open."""
    names = {"ring": "Ring", "tree": "Tree", "nvlstree": "NVLSTree"}
    asked = forced(known, "NCCL_ALGO")
    if asked is not None and asked.lower() in names:
        return names[asked.lower()]
    size = known.test.size_bytes or 0
    taken = {c.algorithm.lower().replace("_", "") for c in known.choices if c.max_bytes >= size > 0}
    return names.get(next(iter(taken))) if len(taken) == 1 else None


def _fabric(known: Setting) -> str | None:
    """What the job's data should take: what the user says, else the network NCCL used, but InfiniBand before TCP."""
    if known.given.fabric:
        return known.given.fabric
    taken = {p.network for p in known.processes if p.network}
    taken |= {t.removeprefix("NET/") for rank in known.ranks for t in rank.inter_transports or () if "NET/" in t}
    words = " ".join(sorted(taken)).lower()
    provider = {p.provider for p in known.processes if p.provider}
    if "efa" in provider or any(port.device.startswith(("rdmap", "efa_")) for port in known.ports):
        return "efa"
    layers = {m[3] for p in known.processes for d in p.ib_devices or () if (m := _DEVICE.match(d)) and m[3]}
    layers |= {port.link_layer for port in active(known.ports) if port.link_layer}
    infiniband = bool(layers & {"IB", "InfiniBand"})
    if "socket" in words and not infiniband:
        return "tcp"
    if infiniband:
        return "ib"
    return "roce" if layers & {"RoCE", "Ethernet"} or re.search(r"\bib\b", words) else None


def active(ports: Iterable[RdmaPort]) -> list[RdmaPort]:
    """Ports that can carry data, with a known rate."""
    return [port for port in ports if port.state == "ACTIVE" and port.rate_gbit_s]


def _counted(rates: Iterable[float]) -> Nics:
    return tuple(sorted(((count, rate) for rate, count in Counter(rates).items()), key=lambda nic: -nic[1]))


def _same(a: str | None, b: str | None) -> bool:
    """Whether two hosts may be one: facts without a host belong to all."""
    return a is None or b is None or a == b


def _of_fabric(ports: Iterable[RdmaPort], fabric: str | None) -> list[RdmaPort]:
    """Active ports of the fabric's link layer; EFA prints a layer of its own choice."""
    layer = {"ib": "InfiniBand", "roce": "Ethernet"}.get(fabric or "")
    return [port for port in active(ports) if layer is None or port.link_layer in (layer, None)]


def _host_nics(
    known: Setting, all_ports: Sequence[RdmaPort], host: str | None, gpus: int
) -> tuple[Nics, Nics] | None:
    """NICs of one host that surely carry the job, and at most; None where a rate is missing.

    NCCL's own list comes first; without it the active ports with the highest rate, one a GPU, since slower ones and
    those beyond the GPUs usually serve storage or management. Active ports of that rate which NCCL does not list may
    belong to the job too.
    """
    ports = {(p.device, p.port): p for p in all_ports if _same(p.host, host)}
    best = [p.rate_gbit_s or 0 for p in ports.values()]
    fastest = [rate for rate in best if rate == max(best)]
    listed = {
        (m[1], int(m[2]))
        for p in known.processes if _same(p.host, host)
        for d in p.ib_devices or () if (m := _DEVICE.match(d))
    }  # fmt: skip
    if not listed:
        most = _counted(fastest[: max(1, gpus)])
        return (most, most) if most else None
    if not all(key in ports for key in listed):
        return _planned_nics(known, host, len(listed), gpus)
    rates = sorted((ports[key].rate_gbit_s or 0 for key in listed), reverse=True)
    sure, most_rates = rates[: max(gpus, _used(known, host))], rates
    extra = min(len(fastest), gpus) - len(rates)
    if extra > 0:
        most_rates = rates + fastest[:extra]
    return _counted(sure), _counted(most_rates)


def _planned_nics(known: Setting, host: str | None, listed: int, gpus: int) -> tuple[Nics, Nics] | None:
    """NICs by the rate NCCL planned with, where no tool printed the ports."""
    planned = {g.nic_gbyte_s for g in known.graphs if _same(g.host, host) and g.nic_gbyte_s}
    if len(planned) != 1:
        return None
    (rates,) = planned
    if len(rates) != 1 or rates[0] <= _PLACEHOLDER_GBYTE_S:
        return None
    sure = min(listed, max(gpus, _used(known, host)))
    return ((sure, rates[0] * 8),), ((listed, rates[0] * 8),)


def _used(known: Setting, host: str | None) -> int:
    """NICs seen on channels of a host's ranks."""
    return len({nic for rank in known.ranks if _same(rank.host, host) for nic in rank.nics_used or ()})


def _rdma(known: Setting, shape: ClusterShape) -> ClusterShape | None:
    """Add the NICs: of the host with the least, at most those of the host with the most."""
    if stated := _stated(known):
        shape = replace(shape, nics=stated)
        return replace(shape, gdr=_gdr(known), gpu_nic_path=_nic_path(known, shape))
    ports = _of_fabric(known.ports, shape.fabric)
    hosts = {p.host for p in ports} or {p.host for p in known.processes}
    found = [nics for host in hosts if (nics := _host_nics(known, ports, host, shape.gpus_per_node))]
    if not found:
        return None
    fewest = min((sure for sure, _ in found), key=rate_sum)
    most = max((most for _, most in found), key=rate_sum)
    inferred = not any(p.ib_devices for p in known.processes)
    shape = replace(shape, nics=fewest, nics_most=most, nics_inferred=inferred)
    cards = min((len({p.system_guid for p in ports if p.host == host}) for host in hosts), default=0)
    known_cards = cards if ports and all(p.system_guid for p in ports) else None
    return replace(shape, nic_cards=known_cards, gdr=_gdr(known), gpu_nic_path=_nic_path(known, shape))


def _stated(known: Setting) -> Nics:
    """NICs of a node as the user says."""
    count, rate = known.given.nics, known.given.nic_gbit_s
    return ((count, rate),) if count and rate else ()


def _gdr(known: Setting) -> bool | None:
    """GPUDirect RDMA on all network channels, None where the log does not show it."""
    total = sum(rank.net_channels or 0 for rank in known.ranks)
    direct = sum(rank.gdr_channels or 0 for rank in known.ranks)
    return None if not total else direct == total


def _nic_path(known: Setting, shape: ClusterShape) -> str | None:
    """The worst of the GPUs' best paths to a NIC; with NVLink one near GPU a NIC is enough (PXN)."""
    tables = [*(t.best_nic_paths for t in known.topologies), *(g.gpu_nic_paths or () for g in known.graphs)]
    paths = {path for row in tables for path in row if path in _NEAR_TO_FAR}
    if not paths:
        return None
    pick = min if shape.nvlinks and paths & set(NEAR) else max
    return pick(paths, key=_NEAR_TO_FAR.index)


def _version(text: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text or "")[:2])


def iperf3_line(tests: Iterable[TcpTest], addresses: Iterable[str]) -> float | None:
    """The line rate of the path between these addresses by iperf3, Gb/s; None where it does not show the line.

    It shows it with a thread for each of many streams (3.16 and later), or where one stream and several agree at a
    rate that one core easily moves. One old iperf3 on a fast path measures a core.
    """
    rows, own = table("tcp"), set(addresses)
    on_path = [
        t for t in tests
        if t.protocol in ("TCP", None) and not t.error and t.received_gbit_s and {t.local, t.peer} & own
    ]  # fmt: skip
    threads = rows["iperf3_threads"]
    many = [
        t.received_gbit_s or 0.0 for t in on_path
        if (t.streams or 1) >= threads["streams"] and _version(t.tool_version) >= tuple(threads["version"])
    ]  # fmt: skip
    if many:
        return max(many)
    one = [t.received_gbit_s or 0.0 for t in on_path if (t.streams or 1) == 1]
    several = [t.received_gbit_s or 0.0 for t in on_path if (t.streams or 1) > 1]
    if not one or not several:
        return None
    low, high = sorted((max(one), max(several)))
    agree = high <= rows["iperf3_line"]["gbit_s"] and low >= high * (1 - rows["iperf3_line"]["agree"])
    return high if agree else None


def _tcp(known: Setting, shape: ClusterShape) -> ClusterShape | None:
    """Add the interfaces NCCL took and their rates, or what iperf3 moved where they have none."""
    names = {(p.host, name) for p in known.processes for name in p.socket_interfaces or ()}
    taken = [i for i in known.interfaces if any(_same(i.host, host) and i.name == name for host, name in names)]
    addresses = {a for p in known.processes for text in p.socket_addresses or () for a in _ADDRESS.findall(text)}
    threads, per = ({getattr(p, name) for p in known.processes} for name in ("socket_threads", "sockets_per_thread"))
    sockets = None
    if len(threads) == len(per) == 1 and None not in (*threads, *per):
        sockets = next(iter(threads)) * next(iter(per))
    by_host: dict[str | None, list[NetInterface]] = {}
    for interface in taken:
        by_host.setdefault(interface.host, []).append(interface)
    if stated := _stated(known):
        return replace(shape, nics=stated, sockets=sockets)
    rated = [group for group in by_host.values() if all(i.speed_gbit_s and not i.virtual for i in group)]
    if rated and len(rated) == len(by_host):
        group = min(rated, key=lambda g: sum(i.speed_gbit_s or 0 for i in g))
        frames = [i.mtu_bytes for i in taken]
        least = min((m for m in frames if m is not None), default=None) if None not in frames else None
        return replace(shape, nics=_counted(i.speed_gbit_s or 0 for i in group), frame_bytes=least, sockets=sockets)
    line = iperf3_line(known.streams, addresses)
    return replace(shape, tcp_line_gbit_s=line, sockets=sockets) if line else None


def shape_of(known: Setting) -> ClusterShape | None:
    """The shape behind a measurement; None where nodes, GPUs, or (between nodes) NICs and rates are not known."""
    nodes = node_count(known)
    gpus = gpus_per_node(known, nodes) if nodes else None
    if not nodes or not gpus or any(rank.mnnvl for rank in known.ranks):
        return None
    shape = ClusterShape(
        nodes=nodes, gpus_per_node=gpus, gpu=_gpu(known), gpus_in_box=_gpus_in_box(known), nvlinks=_nvlinks(known),
        nvswitch=any(g.nvswitch for g in known.graphs) or None, nvls=_nvls(known),
    )  # fmt: skip
    if nodes == 1:
        return shape
    # the widest of the RDMA fabrics where the user names NICs and nothing names their kind
    shape = replace(shape, fabric=_fabric(known) or ("roce" if _stated(known) else None))
    if shape.fabric is None:
        return None
    return _tcp(known, shape) if shape.fabric == "tcp" else _rdma(known, shape)


def _gpu(known: Setting) -> str | None:
    names = {known.test.gpu} if known.test.gpu else {gpu.name for gpu in known.gpus if gpu.name}
    return next(iter(names)) if len(names) == 1 else known.given.gpu


def _gpus_in_box(known: Setting) -> int | None:
    counts = [t.gpus for t in known.topologies]
    listed = Counter(gpu.host for gpu in known.gpus)
    return max([*counts, *listed.values()], default=None)


def _nvlinks(known: Setting) -> int | None:
    """NVLinks between the worst pair of GPUs, 0 where a pair has none, None without a topology table."""
    seen = [(t.min_nvlinks or 0) if t.all_nvlink else 0 for t in known.topologies if t.gpus > 1]
    return min(seen, default=None)


def _nvls(known: Setting) -> bool | None:
    """NVLink SHARP: off by variable, on where channels for it were made, else not known."""
    if forced(known, "NCCL_NVLS_ENABLE") == "0":
        return False
    channels = [rank.nvls_channels for rank in known.ranks if rank.nvls_channels is not None]
    return True if channels and min(channels) > 0 else None
