"""Facts of NCCL logs: processes, ranks of communicators, messages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from advisor.facts.base import Fact


@dataclass(slots=True, kw_only=True)
class NcclProcess(Fact):
    """One process that NCCL logged, (host, pid); pid None for lines pasted without their prefix.

    nccl_version: `2.21.5`; build_cuda: `12.4`; cuda_driver: `12.4`; subsystems: those whose lines were seen, sorted
    (`ENV`, `GRAPH`, `INIT`, `NET`, `TUNING`, …); bootstrap_interface, bootstrap_address: of the line `Bootstrap :
    Using`; network: the data network NCCL chose (`IB`, `Socket`, a plugin's name), from `Using network` or, in 2.4
    and 2.5, from the channel lines; ib_devices: `mlx5_0:1/IB`, … of `NET/IB : Using`, empty where it said that there
    is none, None where it said nothing; ib_unopened: devices it could not open; socket_interfaces,
    socket_addresses: of `NET/Socket : Using`; socket_threads, sockets_per_thread: None where no such line was
    printed (the default: no helper thread); net_plugin: external network plugin loaded; relaxed_ordering: `[RO]`;
    gdr_disabled: devices that NCCL said have no GPUDirect RDMA; dmabuf: `DMA-BUF is available`;
    provider: of libfabric (`efa`, `tcp`), provider_nics: how many it found;
    stage: how far it came, `started`, `bootstrapped`, `network`, `init-started`, `init-complete`, `connected`,
    `destroyed`; failed: it printed a WARN that ends a run or a NCCL error.
    """

    KEY: ClassVar[tuple[str, ...]] = ("pid",)

    pid: int | None = None
    nccl_version: str | None = None
    build_cuda: str | None = None
    cuda_driver: str | None = None
    subsystems: tuple[str, ...] = ()
    bootstrap_interface: str | None = None
    bootstrap_address: str | None = None
    network: str | None = None
    ib_devices: tuple[str, ...] | None = None
    ib_unopened: tuple[str, ...] | None = None
    socket_interfaces: tuple[str, ...] | None = None
    socket_addresses: tuple[str, ...] | None = None
    socket_threads: int | None = None
    sockets_per_thread: int | None = None
    net_plugin: str | None = None
    relaxed_ordering: bool | None = None
    gdr_disabled: tuple[str, ...] | None = None
    dmabuf: bool | None = None
    provider: str | None = None
    provider_nics: int | None = None
    stage: str | None = None
    failed: bool | None = None


@dataclass(slots=True, frozen=True, order=True)
class Edge:
    """Channels from this rank to or from one peer over one transport, counted.

    peer: rank; transport: `P2P/IPC`, `SHM`, `NET/IB`, `NET/Socket`, `COLLNET/SHARP`, …; nic: number or name behind
    the network's name; gdr: `/GDRDMA` was printed; direction: `send`, `receive`, or `both` for P2P and SHM lines.
    """

    peer: int
    transport: str
    nic: str = ""
    gdr: bool = False
    direction: str = "both"
    channels: int = 1


@dataclass(slots=True, kw_only=True)
class NcclRank(Fact):
    """One rank of one communicator: one aggregate, not a fact a line.

    comm_id: the hash all its ranks share (2.16+); comm: the process-local pointer; nnodes, local_ranks: as printed
    (2.20+); bus_id: of the GPU; init_started, init_complete; coll_channels, nvls_channels: of the channel summary;
    rings: of `Channel 00/NN`; direct_p2p: `isAllDirectP2p`; mnnvl: multi-node NVLink in use; edges: channel lines,
    counted by peer; the next are placed when all files are known: intra_transports and inter_transports: distinct
    transports to ranks of the same host and of other hosts, unplaced_transports: where the peer's host is unknown;
    nics_used: distinct NICs on channels; net_channels, gdr_channels: channels over NET in all and with GDRDMA.
    """

    KEY: ClassVar[tuple[str, ...]] = ("pid", "comm_id", "comm", "rank")

    pid: int | None = None
    comm_id: str | None = None
    comm: str | None = None
    rank: int | None = None
    nranks: int | None = None
    nnodes: int | None = None
    local_ranks: int | None = None
    local_rank: int | None = None
    bus_id: str | None = None
    mnnvl: bool | None = None
    init_started: bool | None = None
    init_complete: bool | None = None
    coll_channels: int | None = None
    nvls_channels: int | None = None
    rings: int | None = None
    direct_p2p: bool | None = None
    edges: tuple[Edge, ...] = ()
    intra_transports: tuple[str, ...] | None = None
    inter_transports: tuple[str, ...] | None = None
    unplaced_transports: tuple[str, ...] | None = None
    nics_used: tuple[str, ...] | None = None
    net_channels: int | None = None
    gdr_channels: int | None = None


@dataclass(slots=True, kw_only=True)
class NcclMessage(Fact):
    """A line with a known meaning: a warning, an error, a refusal. Known meanings: `knowledge/messages/`.

    kind: id of the message's page; pid; text: of the first such line; count: how often; the rest as far as the
    message names it: peer, address: the other end; interface; device; path; code: errno or completion status;
    value: what else it names (version, size, variable).
    """

    KEY: ClassVar[tuple[str, ...]] = ("kind", "pid", "address", "device", "interface", "path", "code", "value")

    kind: str
    pid: int | None = None
    text: str = ""
    count: int = 1
    address: str | None = None
    interface: str | None = None
    device: str | None = None
    path: str | None = None
    code: str | None = None
    value: str | None = None
