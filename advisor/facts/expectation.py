"""Facts derived from facts: what a measurement should have been, and whether it may be judged at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from advisor.facts.base import Fact


@dataclass(slots=True, kw_only=True)
class Stage(Fact):
    """The ceiling of one stage of the data path, on one host or for a whole run.

    test: that of the CollectiveTest it was worked out for; name: `nvlink`, `nic-sum`, `intra-node`, `tcp`;
    ceiling_gbyte_s: what the stage can carry one way for one node (`nvlink`: for one GPU), GB/s; why: the sum behind
    it, in words; assumed: terms that were not in the facts.
    """

    KEY: ClassVar[tuple[str, ...]] = ("test", "name")

    test: str
    name: str
    ceiling_gbyte_s: float
    why: str
    assumed: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Assessment(Fact):
    """One collective measurement against what this hardware should give.

    test: that of the CollectiveTest; tool, collective, nranks, nnodes, size_bytes: copied from it; scope: `intra`
    (one host) or `inter`, None where unknown; measured_gbyte_s: busbw at the largest size, recomputed from algbw
    where the printed factor is not that of nccl-tests; expected_low_gbyte_s: nothing healthy reads less, whatever is
    not known; expected_fine_gbyte_s: from here it is healthy, whatever is not known; expected_high_gbyte_s: upper
    bound; typical_gbyte_s: what a healthy run usually reads, from which a loss is counted; share: measured /
    expected_low, at most 1 where it is in band; stage: the binding stage (`nic-sum`, `gpu-nic-path`, `nvlink`,
    `pcie`, `tcp`); algorithms: those the band allows for; sound: may its bandwidth be judged; unsound: why not
    (`no-mpi`, `one-rank`, `wrong-values`, `failed`, `split-groups`, `no-busbw`, `factor-unknown`,
    `nodes-unknown`, and, where it reads less than `expected_fine_gbyte_s`, `no-size`, `too-small`, `still-rising`);
    standing: `in-band` (fine or more), `above` (more than high), `low` (less than low), `inconclusive` (between low
    and fine), or None where there is no expectation or the test is unsound; why: the sum behind the band, a line
    each; assumed: terms that were not in the facts.
    """

    KEY: ClassVar[tuple[str, ...]] = ("test",)

    test: str
    tool: str | None = None
    collective: str | None = None
    nranks: int | None = None
    nnodes: int | None = None
    size_bytes: int | None = None
    scope: str | None = None
    measured_gbyte_s: float | None = None
    expected_low_gbyte_s: float | None = None
    expected_fine_gbyte_s: float | None = None
    expected_high_gbyte_s: float | None = None
    typical_gbyte_s: float | None = None
    share: float | None = None
    stage: str | None = None
    algorithms: tuple[str, ...] = ()
    sound: bool | None = None
    unsound: tuple[str, ...] = ()
    standing: str | None = None
    why: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Given(Fact):
    """What the user says of the cluster beside the files (`--given nodes=2,gpus_per_node=8,nics=8x200`).

    nodes, gpus_per_node; nics, nic_gbit_s: NICs a node for the job and the rate of each; gpu: product; fabric: `ib`,
    `roce`, `tcp`, `efa`.
    """

    nodes: int | None = None
    gpus_per_node: int | None = None
    nics: int | None = None
    nic_gbit_s: float | None = None
    gpu: str | None = None
    fabric: str | None = None


@dataclass(slots=True, kw_only=True)
class NicCard(Fact):
    """A card with two RDMA devices or more, which share its slot.

    first, second: its first two devices in order of name; devices: all; known_by: `address` (functions of one PCI
    device), `system-guid`, `node-guid` (two that follow each other); active: devices with an ACTIVE port; sum_gbit_s,
    best_gbit_s: of the rates of the ACTIVE ports, None where one is unknown; slot_gbit_s: the most that large
    transfers get over the slot, from the link where it is known, else from the widest link of the card's model;
    slot_from: `link`, `model`; link_below: the link is below what the card can do.
    """

    KEY: ClassVar[tuple[str, ...]] = ("first",)

    first: str
    second: str
    devices: tuple[str, ...] = ()
    known_by: str | None = None
    active: int | None = None
    sum_gbit_s: float | None = None
    best_gbit_s: float | None = None
    slot_gbit_s: float | None = None
    slot_from: str | None = None
    link_below: bool | None = None


@dataclass(slots=True, kw_only=True)
class GpuNicUse(Fact):
    """A rank whose channels use a NIC, with the way between its GPU and that NIC (NCCL log and `topo -m` together).

    pid, rank: of the process; gpu: index on the host; nic: device; path: between the two; nearest: the nearest path
    of this GPU to any NIC; near_nic: a NIC at that path; nearer: some NIC is nearer than the one used; near_used: the
    rank's channels use near_nic too; gdr: every channel of the rank over this NIC has GPUDirect RDMA, False where none
    has; relayed: the rank sends over NICs that other ranks drive (PXN), so that far NICs may be reached through a near
    GPU; senders: GPUs of the host that send over this NIC; listed_nics: NICs that NCCL lists for the rank, None with
    merged ones; idle_nics: those of them that no channel of the host names; local_ranks: of the largest communicator;
    senders and idle_nics are None where the channels of some of these ranks are not known.
    """

    KEY: ClassVar[tuple[str, ...]] = ("pid", "rank", "nic")

    pid: int | None = None
    rank: int | None = None
    gpu: int | None = None
    nic: str
    path: str | None = None
    nearest: str | None = None
    near_nic: str | None = None
    nearer: bool | None = None
    near_used: bool | None = None
    gdr: bool | None = None
    relayed: bool | None = None
    senders: int | None = None
    listed_nics: int | None = None
    idle_nics: tuple[str, ...] | None = None
    local_ranks: int | None = None


@dataclass(slots=True, kw_only=True)
class TcpPath(Fact):
    """What TCP tests of one pair of addresses in one direction show together, with its interface, pings and sockets.

    tool: tests of one tool only; local, peer: addresses; reverse: data came from the peer; interface, mtu_bytes: that
    of `local`; line_gbit_s: its link speed, or that of the peer's where that is less; tool_version;
    one_stream_gbit_s: the best run with one stream; many_streams_gbit_s, streams: the best run with the most streams;
    ratio: many over one; each_share: one of the many streams over the one alone, 1 where streams do not disturb each
    other; line_share: the best run over the line; retransmit_share, many_retransmit_share: of the two runs; cpu_share,
    many_cpu_share: of the busier end in the two runs, 1 = one core; congestion; mss_bytes; rtt_us: the shortest known
    (mean of the test, least of ping and of the sockets); window_bytes: the largest window that the receiver granted;
    window_gbit_s: the most that windows of this size carry at rtt_us; window_share: the rate over that, near 1 where
    the window limits; needed_bytes: line (without it the best run) x rtt_us; buffer_bytes, buffer_name: the least of
    the kernel's limits on the way, `net.ipv4.tcp_wmem` of the sender and `net.ipv4.tcp_rmem` of the receiver.
    """

    KEY: ClassVar[tuple[str, ...]] = ("tool", "local", "peer", "reverse")

    tool: str
    local: str | None = None
    peer: str
    reverse: bool | None = None
    interface: str | None = None
    mtu_bytes: int | None = None
    line_gbit_s: float | None = None
    tool_version: str | None = None
    one_stream_gbit_s: float | None = None
    many_streams_gbit_s: float | None = None
    streams: int | None = None
    ratio: float | None = None
    each_share: float | None = None
    line_share: float | None = None
    retransmit_share: float | None = None
    many_retransmit_share: float | None = None
    cpu_share: float | None = None
    many_cpu_share: float | None = None
    congestion: str | None = None
    mss_bytes: int | None = None
    rtt_us: float | None = None
    window_bytes: int | None = None
    window_gbit_s: float | None = None
    window_share: float | None = None
    loss_limit_share: float | None = None
    needed_bytes: int | None = None
    buffer_bytes: int | None = None
    buffer_name: str | None = None


@dataclass(slots=True, kw_only=True)
class LinkDelivery(Fact):
    """What a point-to-point test got out of a network link, against the line.

    test: that of the RdmaTest, or the first of the TcpTests of the path; tool; device: RDMA device or interface; peer;
    gpu_memory: buffers on a GPU; measured_gbit_s: one way; line_gbit_s: of the slower end that is known;
    payload_gbit_s: the most of the line that the payload can have, 10^9 bit/s; share: measured / payload; standing:
    `in-band`, `low`, or `inconclusive` between them; why: the sum behind it; alone: nothing of NCCL, of a collective or
    of training was read beside such tests.
    """

    KEY: ClassVar[tuple[str, ...]] = ("test",)

    test: str
    tool: str
    device: str | None = None
    peer: str | None = None
    gpu_memory: bool | None = None
    measured_gbit_s: float
    line_gbit_s: float
    payload_gbit_s: float
    share: float
    standing: str
    why: str
    alone: bool


@dataclass(slots=True, kw_only=True)
class PortUse(Fact):
    """How full a network port was over a stretch of time (RDMA counters read twice, or `sar -n DEV`). Derived.

    device: RDMA device with its port, `mlx5_0/1`, or interface; rdma: read from RDMA counters, so that kernel bypass is
    seen; sample: names the readings; seconds: how long, None where the text does not say; gbit_s: the busier direction,
    mean over the time (`sar`: median of its busy readings); line_gbit_s; share: gbit_s / line.
    """

    KEY: ClassVar[tuple[str, ...]] = ("device", "sample")

    device: str
    sample: str
    rdma: bool
    seconds: float | None = None
    gbit_s: float
    line_gbit_s: float
    share: float


@dataclass(slots=True, kw_only=True)
class SharedSubnet(Fact):
    """A subnet in which two interfaces of one host, or more, have an address. Derived.

    Interfaces that are up and carry a network by themselves: without virtual ones, bonds, bridges and the like.
    subnet: `10.0.0.0/24`; first, second: its first two interfaces in order of name; interfaces: all; planned: how
    many of these NCCL uses over sockets, None without its list; planned_nics: NICs in NCCL's channels on this host, of
    all subnets, None where not printed; measured: how many of the planned have a monitor's reading (`sar -n DEV`);
    sent_gbit_s: by those, mean; busiest: the one that sends most; busiest_share: of sent_gbit_s, 0 to 1, None where
    nothing was sent.
    """

    KEY: ClassVar[tuple[str, ...]] = ("subnet",)

    subnet: str
    first: str
    second: str
    interfaces: tuple[str, ...] = ()
    planned: int | None = None
    planned_nics: int | None = None
    measured: int | None = None
    sent_gbit_s: float | None = None
    busiest: str | None = None
    busiest_share: float | None = None
