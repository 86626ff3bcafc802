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
    (`no-mpi`, `one-rank`, `wrong-values`, `failed`, `split-groups`, `no-busbw`, `no-size`, `factor-unknown`,
    `nodes-unknown`, and, where it reads less than `expected_fine_gbyte_s`, `too-small`, `still-rising`);
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
    GPU.
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
