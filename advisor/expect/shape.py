"""What the expectation is about and what it gives: the shape of a cluster, a range, a band."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Nics = tuple[tuple[int, float], ...]


@dataclass(slots=True, frozen=True)
class Range:
    """A value that is known to lie between two bounds; equal bounds where it is known."""

    low: float
    high: float

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Range:
        """The range of a row of a reference table."""
        return cls(float(row["low"]), float(row["high"]))

    def __mul__(self, other: Range | float) -> Range:
        if isinstance(other, Range):
            return Range(self.low * other.low, self.high * other.high)
        return Range(self.low * other, self.high * other)

    def capped(self, other: Range) -> Range:
        """The smaller of two uncertain values."""
        return Range(min(self.low, other.low), min(self.high, other.high))

    def __str__(self) -> str:
        low, high = f"{self.low:.4g}", f"{self.high:.4g}"
        return low if low == high else f"{low}-{high}"


@dataclass(slots=True, frozen=True, kw_only=True)
class ClusterShape:
    """A cluster as far as it matters for bandwidth; None is unknown and widens or drops the band.

    nodes, gpus_per_node: ranks of the measurement, not of the machine; gpu: product name; gpus_in_box: all GPUs of
    the machine; nvlinks: links between the worst pair of GPUs, 0 for PCIe; nvswitch: one joins them; nvls: NVLink
    SHARP in use.
    fabric: `ib`, `roce`, `efa`, `tcp`; nics: (count, Gb/s each) of one node, those that surely carry the job;
    nics_most: the same, at most, where more may; nics_inferred: taken from active ports,
    nobody named them; nic_cards: cards behind `nics` where ports share a slot;
    nic_slot_gbyte_s: cap of the slot of one NIC; gdr: GPUDirect RDMA possible and in use; gpu_nic_path: worst of the
    GPUs' best paths to a NIC (`PIX`, `PXB`, `PHB`, `NODE`, `SYS`); roce_mtu_bytes: RDMA path MTU;
    frame_bytes: MTU of the interface; sockets: TCP sockets of a connection;
    tcp_line_gbit_s: what the path carries, measured by iperf3, in place of `nics`;
    intra_gbyte_s: busbw of the same collective measured on one node.
    """

    nodes: int
    gpus_per_node: int
    gpu: str | None = None
    gpus_in_box: int | None = None
    nvlinks: int | None = None
    nvswitch: bool | None = None
    nvls: bool | None = None
    fabric: str | None = None
    nics: Nics = ()
    nics_most: Nics = ()
    nics_inferred: bool = False
    nic_cards: int | None = None
    nic_slot_gbyte_s: float | None = None
    gdr: bool | None = None
    gpu_nic_path: str | None = None
    roce_mtu_bytes: int | None = None
    frame_bytes: int | None = None
    sockets: int | None = None
    tcp_line_gbit_s: float | None = None
    intra_gbyte_s: float | None = None

    @property
    def ranks(self) -> int:
        """GPUs in all."""
        return self.nodes * self.gpus_per_node


@dataclass(slots=True, frozen=True, kw_only=True)
class Ceiling:
    """What one stage can carry, as busbw of the collective asked for."""

    name: str
    gbyte_s: float
    why: str


@dataclass(slots=True, frozen=True, kw_only=True)
class Band:
    """The busbw of a healthy cluster of a shape, GB/s.

    low: nothing healthy reads less, whatever is not known; typical: what the least favourable of the open
    possibilities usually reads, from which a loss is counted; fine: from here it is healthy whatever is not known;
    between low and fine the measurement decides nothing; high: upper bound.
    stage: the name of the binding stage; size_bytes: message size from which the band holds; algorithms: those it
    allows for; why: the sum, a line each; assumed: what was not known.
    """

    low: float
    typical: float
    fine: float
    high: float
    stage: str
    size_bytes: int
    algorithms: tuple[str, ...] = ()
    ceilings: tuple[Ceiling, ...] = ()
    why: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()

    def standing(self, busbw_gbyte_s: float, tolerance: float) -> str:
        """`low`, `inconclusive`, `in-band` or `above`; tolerance: factor on `high` that is still no surprise."""
        if busbw_gbyte_s < self.low:
            return "low"
        if busbw_gbyte_s > self.high * tolerance:
            return "above"
        return "in-band" if busbw_gbyte_s >= self.fine else "inconclusive"
