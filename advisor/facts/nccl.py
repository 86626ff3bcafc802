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
    provider: of libfabric (`efa`, `tcp`), provider_nics: how many it found; gid_index, ib_mtu_bytes: of the
    connection lines (NET on), the least MTU where they differ; proxy_cores: CPU cores its network threads started on;
    stage: how far it came, `started`, `bootstrapped`, `network`, `init-started`, `init-complete`, `connected`,
    `destroyed`, of all its communicators the furthest, as far as the text goes: a text that was cut short looks like
    a job that hangs; failed: it printed a WARN that ends a run or a NCCL error, False if it came to its end without.
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
    gid_index: int | None = None
    ib_mtu_bytes: int | None = None
    proxy_cores: tuple[int, ...] | None = None
    stage: str | None = None
    failed: bool | None = None


@dataclass(slots=True, frozen=True, order=True)
class Edge:
    """Channels from this rank to or from one peer over one transport, counted.

    peer: rank, -1 where the far end is the switch (COLLNET); transport: `P2P/IPC`, `SHM`, `NET/IB`, `NET/Socket`,
    `COLLNET/SHARP`, …; nic: number or name behind the network's name; gdr: `/GDRDMA` was printed; direction: `send`,
    `receive`, or `both` for P2P and SHM lines.
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
    (2.20+); bus_id: of the GPU; init_started: it has an `Init START` line (2.18.3+); init_complete: False where that
    line stands and `Init COMPLETE` does not; init_seconds: of `Init timings` (2.22+); coll_channels, nvls_channels:
    of the channel summary;
    rings: of `Channel 00/NN`; direct_p2p: `isAllDirectP2p`; mnnvl: multi-node NVLink in use; edges: channel lines,
    counted by peer; the next are placed when all files are known: intra_transports and inter_transports: distinct
    transports to ranks of the same host and of other hosts, unplaced_transports: where the peer's host is unknown;
    nics_used: distinct NICs on channels; net_channels, gdr_channels: channels over NET in all and with GDRDMA;
    pxn_channels: of those that send, how many over a NIC that another rank of the host drives (2.12+).
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
    init_seconds: float | None = None
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
    pxn_channels: int | None = None


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


@dataclass(slots=True, kw_only=True)
class NcclGraph(Fact):
    """The topology NCCL saw and the rings it planned, of one process (subsystem GRAPH); a model, not a measurement.

    gpus, cpus: nodes of the tree, None where its head was cut off; nics: NET nodes (`0`, `0-c`); nic_gbyte_s: their
    distinct bandwidths (12.5 is 100 Gb/s; 1.2 is also what NCCL assumes where it cannot read a speed), nic_chips:
    distinct network chips, less than NICs where two are ports of one card; nic_vendors: distinct PCI vendors of the
    NICs (`15b3`), gdr_vendors: those of NICs that may reach GPU memory, both only of topology files and, of one that
    was cut, as far as it goes; pci_gbyte_s: distinct bandwidths of PCIe
    links, the placeholder of virtual devices left out; bridges: distinct PCIe switches (16 hex digits: vendor,
    device, their subsystem); nvlink_gbyte_s: distinct bandwidths of a GPU's NVLinks; nvswitch: a NVS node stands in
    it; no_numa: the CPU has no NUMA number (virtual machine); max_gbyte_s, total_gbyte_s: of the `=== System` line;
    gpu_nic_paths: the distinct best paths of the GPUs to any NIC, near to far (`PIX`, `PXB`, `PHB`, `SYS`);
    pattern: 4 is a ring, taken where there is one; channels, intra_gbyte_s, inter_gbyte_s: of that pattern, GB/s
    for each channel; intra_path, nic_path: its worst path between GPUs and to a NIC (None where no NIC takes part);
    nics_planned: NICs that stand in the rows of channels.
    """

    KEY: ClassVar[tuple[str, ...]] = ("pid",)

    pid: int | None = None
    gpus: int | None = None
    cpus: int | None = None
    nics: tuple[str, ...] | None = None
    nic_gbyte_s: tuple[float, ...] | None = None
    nic_chips: int | None = None
    nic_vendors: tuple[str, ...] | None = None
    gdr_vendors: tuple[str, ...] | None = None
    pci_gbyte_s: tuple[float, ...] | None = None
    bridges: tuple[str, ...] | None = None
    nvlink_gbyte_s: tuple[float, ...] | None = None
    nvswitch: bool | None = None
    no_numa: bool | None = None
    max_gbyte_s: float | None = None
    total_gbyte_s: float | None = None
    gpu_nic_paths: tuple[str, ...] | None = None
    pattern: int | None = None
    channels: int | None = None
    intra_gbyte_s: float | None = None
    inter_gbyte_s: float | None = None
    intra_path: str | None = None
    nic_path: str | None = None
    nics_planned: tuple[str, ...] | None = None


@dataclass(slots=True, kw_only=True)
class NcclChoice(Fact):
    """Algorithm and protocol NCCL chose for calls of one process (subsystem TUNING, 2.6+), counted.

    collective: `AllReduce`, None before 2.23; algorithm: `Ring`, `Tree`, `NVLS`, …; protocol: `LL`, `LL128`,
    `Simple`; calls: how many; min_bytes, max_bytes: range of message sizes; channels: most channels (2.24+).
    """

    KEY: ClassVar[tuple[str, ...]] = ("pid", "collective", "algorithm", "protocol")

    pid: int | None = None
    collective: str | None = None
    algorithm: str
    protocol: str
    calls: int = 0
    min_bytes: int = 0
    max_bytes: int = 0
    channels: int | None = None
