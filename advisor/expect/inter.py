"""The band of several nodes over RDMA: NIC sum x algorithm, capped by what one node can do."""

from __future__ import annotations

import math
from dataclasses import replace

from advisor.data import phrase, table
from advisor.expect.collectives import (
    COLLNET,
    NVLS_TREE,
    RING,
    TREE,
    busbw_factor,
    network_factor,
)
from advisor.expect.intra import nvls_possible, upper_bound
from advisor.expect.latency import ring_latency_us, share_at_size, tree_latency_us
from advisor.expect.products import product
from advisor.expect.raw_link import roce_row
from advisor.expect.shape import Band, Ceiling, ClusterShape, Nics, Range

NEAR = ("PIX", "PXB")


def rate_sum(nics: Nics) -> float:
    """Sum of the lines of a node, GB/s."""
    return sum(count * gbit_s for count, gbit_s in nics) / 8


def possible_algorithms(shape: ClusterShape, collective: str, algorithm: str | None) -> tuple[str, ...]:
    """The algorithms NCCL may have taken for a large message, Ring first."""
    if collective != "all_reduce":
        return (RING,)
    if algorithm is not None:
        return (algorithm,)
    if shape.ranks <= shape.nodes:
        return (RING, TREE)
    card = product(shape.gpu)
    nvls = card is None or nvls_possible(shape, card, shape.gpus_per_node, collective)
    return (RING, TREE, NVLS_TREE) if nvls else (RING, TREE)


def needed_size(shape: ClusterShape, collective: str) -> int:
    """The message size (a power of two, bytes) from which start-up time no longer hides the bandwidth."""
    row = table("bands")["size"]
    factor = busbw_factor(collective, shape.ranks) or 1.0
    line = shape.tcp_line_gbit_s / 8 if shape.tcp_line_gbit_s else rate_sum(shape.nics)
    size = 2 ** math.ceil(math.log2(max(1.0, row["ring_us"] * 1e3 * line / factor)))
    return int(min(max(size, row["least_bytes"]), row["most_bytes"]))


class _Sum:
    """A band in the making: the sum in words, and what it takes for granted."""

    def __init__(self) -> None:
        self.why: list[str] = []
        self.assumed: list[str] = []

    def say(self, name: str, **values: object) -> None:
        """Add a line to the sum."""
        self.why.append(phrase(f"expect-{name}", **values))

    def assume(self, name: str, **values: object) -> None:
        """Add what was not known."""
        self.assumed.append(phrase(f"expect-assumed-{name}", **values))


def _lines(shape: ClusterShape, told: _Sum) -> Range:
    """Sum of the lines of one node, GB/s, as far as slots let them."""
    fewest, most = shape.nics, shape.nics_most or shape.nics
    low, high = rate_sum(fewest), rate_sum(most)
    told.say("nics", nics=" + ".join(f"{count} x {gbit_s:g}" for count, gbit_s in fewest), total=f"{low:.4g}")
    if high > low:
        told.assume("nics-most", nics=" + ".join(f"{count} x {gbit_s:g}" for count, gbit_s in most))
    if shape.nics_inferred:
        told.assume("nics-listed")
    count = sum(count for count, _ in fewest)
    if shape.nic_slot_gbyte_s:
        cap = shape.nic_slot_gbyte_s
        low, high = (sum(c * min(r / 8, cap) for c, r in nics) for nics in (fewest, most))
        told.say("slot", cap=f"{cap:g}")
    elif shape.nic_cards and shape.nic_cards < count:
        low *= shape.nic_cards / count
        told.assume("shared-slot")
    return Range(low, max(low, high))


def _wire(shape: ClusterShape, told: _Sum) -> tuple[Range, bool]:
    """Share of the line that reaches the payload; whether these are EFA NICs of the first generations."""
    rows = table("rdma")["wire"]
    slow_efa = shape.fabric == "efa" and max(gbit_s for _, gbit_s in shape.nics) <= 100
    name = "efa-100" if slow_efa else shape.fabric or "ib"
    if shape.fabric == "roce" and shape.roce_mtu_bytes:
        name = roce_row(shape.roce_mtu_bytes)
    elif shape.fabric == "roce":
        told.assume("roce-mtu")
    return Range.of(rows[name]), slow_efa


def _kept(shape: ClusterShape, slow_efa: bool, told: _Sum) -> Range:
    """Share of the wire's payload that NCCL keeps, by the way between GPU and NIC."""
    rows = table("rdma")
    if slow_efa:
        return Range.of(rows["nccl"]["efa-100"])
    near = shape.gpu_nic_path in NEAR
    if near or (shape.gdr and shape.gpu_nic_path is None):
        return Range.of(rows["nccl"]["gdr"])
    if shape.gpu_nic_path in rows["path"]:
        kept = Range.of(rows["path"][shape.gpu_nic_path])
        told.say("far-path", path=shape.gpu_nic_path, share=f"{kept.low:.0%}-{kept.high:.0%}")
        return Range(kept.low, rows["nccl"]["gdr"]["high"]) if shape.gdr else kept
    told.assume("gdr")
    return Range.of(rows["nccl"]["unknown"])


def _node_cap(shape: ClusterShape, collective: str, told: _Sum) -> Range | None:
    """What one node's GPUs can do among themselves; None where there is one GPU a node or nothing is known."""
    if shape.gpus_per_node < 2:
        return None
    if shape.intra_gbyte_s:
        told.say("intra-measured", value=f"{shape.intra_gbyte_s:.4g}")
        return Range(shape.intra_gbyte_s, shape.intra_gbyte_s)
    card = product(shape.gpu)
    high = upper_bound(shape, collective)
    if high is not None and card is not None:
        best = card.nvls_gbyte_s if nvls_possible(shape, card, shape.gpus_per_node, collective) else None
        typical = best or card.ring_gbyte_s or high
        return Range(min(card.ring_gbyte_s or 0.5 * high, high), min(typical, high))
    pcie = Range.of(table("bands")["pcie_box_gbyte_s"])
    if (card is not None and not card.links) or shape.nvlinks == 0:
        told.say("pcie-box", share=pcie)
        return pcie
    told.assume("gpu")
    return Range(pcie.low, math.inf)


def _at_size(shape: ClusterShape, collective: str, size: int, value: Range) -> tuple[float, float]:
    """Shares of the large-message busbw that this size reaches: at the slowest Ring, at the quickest algorithm."""
    factor = busbw_factor(collective, shape.ranks) or 1.0
    ring = ring_latency_us(shape.nodes, shape.gpus_per_node, collective == "all_reduce")
    quick = min(ring.low, tree_latency_us(shape.nodes, shape.gpus_per_node).low)
    return share_at_size(size, factor, value.low, ring.high), share_at_size(size, factor, value.high, quick)


def _neighbour(shape: ClusterShape) -> Range:
    """Share of the NIC sum that one GPU's NICs are: sendrecv with ranks in the order of the nodes."""
    count = sum(count for count, _ in shape.nics)
    return Range(1 / max(count, shape.gpus_per_node), 1 / min(count, shape.gpus_per_node))


def rdma_band(shape: ClusterShape, collective: str, algorithm: str | None, size_bytes: int | None) -> Band | None:
    """The band of a collective over several nodes with RDMA NICs; None without NICs or for a collective not modelled.

    algorithm: the one known to have run, None where NCCL chose. Large messages; size_bytes lets the start-up time
    weigh.
    """
    kind = table("algorithms")["collectives"][collective]["network"]
    if kind == "none" or not shape.nics or shape.nodes < 2:
        return None
    told = _Sum()
    algorithms = possible_algorithms(shape, collective, algorithm)
    lines = _lines(shape, told)
    wire, slow_efa = _wire(shape, told)
    kept = _kept(shape, slow_efa, told)
    factor = network_factor(collective, algorithms, shape.nodes, shape.gpus_per_node) or _neighbour(shape)
    told.say("share", wire=wire, kept=kept)
    if factor != Range(1, 1):
        told.say("factor", algorithms=" / ".join(algorithms), factor=factor)
    healthy = lines * wire * kept * factor
    stage = "nic-sum" if shape.gpu_nic_path in (None, *NEAR) else "gpu-nic-path"
    if kind == "neighbour":
        told.assume("rank-order")
    ceiling = lines.high * wire.high * factor.high
    # At three nodes and more the Ring figure is what a healthy cluster shows; two nodes may show Tree's, which is
    # higher: only from there on is it healthy whichever ran.
    surely = healthy.high if shape.nodes == 2 or RING not in algorithms else healthy.high / factor.high * factor.low
    if shape.nodes == 2 and factor.high > factor.low:
        told.assume("algorithm")
    cap = _node_cap(shape, collective, told)
    if cap is not None:
        if cap.high < surely:
            told.say("node-cap", value=cap)
            stage = "nvlink" if cap.low > table("bands")["pcie_box_gbyte_s"]["low"] else "pcie"
        healthy, surely = healthy.capped(cap), min(surely, cap.high)
        node_high = upper_bound(shape, collective) or cap.high
        ceiling = min(ceiling, max(node_high, shape.intra_gbyte_s or 0.0))
    shares = (1.0, 1.0)
    if size_bytes:
        shares = _at_size(shape, collective, max(size_bytes, needed_size(shape, collective)), healthy)
    rows = table("bands")
    fine = surely * rows["network"]["fine"] * shares[1]
    if sum(count for count, _ in (shape.nics_most or shape.nics)) == 1 and collective != "alltoall":
        fine = min(fine, lines.low * rows["one_nic_full"]["value"])
    low = min(healthy.low * rows["network"]["low"] * shares[0], fine)
    told.say("green", share=f"{rows['network']['low']:.0%}")
    return Band(
        low=low, typical=healthy.low * shares[0], fine=fine, high=max(ceiling, fine), stage=stage,
        size_bytes=needed_size(shape, collective), algorithms=algorithms, why=tuple(told.why),
        assumed=tuple(told.assumed), ceilings=_ceilings(lines, wire, cap, told),
    )  # fmt: skip


def _ceilings(lines: Range, wire: Range, cap: Range | None, told: _Sum) -> tuple[Ceiling, ...]:
    """The stages as facts: the NICs of a node, one way, and what its GPUs do among themselves."""
    found = [Ceiling(name="nic-sum", gbyte_s=round(lines.high * wire.high, 3), why=told.why[0])]
    if cap is not None and cap.high < math.inf:
        found.append(Ceiling(name="intra-node", gbyte_s=round(cap.high, 3), why=phrase("expect-node-cap", value=cap)))
    return tuple(found)


def with_collnet(band: Band | None, shape: ClusterShape, collective: str, size_bytes: int | None) -> Band | None:
    """The band with its upper bound lifted to what a reducing switch allows, where SHARP channels were seen."""
    lifted = rdma_band(shape, collective, COLLNET, size_bytes)
    return replace(band, high=max(band.high, lifted.high)) if band and lifted else band
