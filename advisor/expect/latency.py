"""Start-up time: what it takes of small and middle sizes, and what the smallest message should cost."""

from __future__ import annotations

import math

from advisor.data import table
from advisor.expect.shape import ClusterShape, Range


def ring_latency_us(nodes: int, gpus: int, both_ways: bool) -> Range:
    """Start-up time of a multi-node Ring over its steps (Simple protocol).

    both_ways: data goes round twice, as in all_reduce; once in the others.
    """
    rows = table("algorithms")["latency_us"]
    rounds = 2 if both_ways else 1
    hops, steps = rounds * nodes, rounds * (nodes * gpus - 1) - rounds * nodes
    total = [rows["base"][k] + hops * rows["hop"][k] + max(0, steps) * rows["step"][k] for k in ("low", "high")]
    return Range(*total)


def tree_latency_us(nodes: int, gpus: int) -> Range:
    """Start-up time of Tree: its steps grow with the logarithm of the nodes (Simple protocol)."""
    rows = table("algorithms")["latency_us"]
    hops, steps = 2 * math.log2(max(nodes, 2)), 2 * (gpus - 1)
    return Range(*(rows["base"][k] + hops * rows["hop"][k] + steps * rows["step"][k] for k in ("low", "high")))


def share_at_size(size_bytes: int, factor: float, gbyte_s: float, latency_us: float) -> float:
    """Share of the large-message busbw that a size reaches: t = latency + S x factor / B."""
    moving_us = size_bytes * factor / gbyte_s / 1e3
    return moving_us / (moving_us + latency_us)


def half_size_bytes(factor: float, gbyte_s: float, latency_us: float) -> float:
    """The message size that reaches half of the large-message busbw."""
    return latency_us * 1e3 * gbyte_s / factor


def smallest_message_us(shape: ClusterShape) -> Range | None:
    """The time nccl-tests shows for the smallest message on a healthy system, us; None for an unknown fabric.

    The bounds were seen on up to two nodes; from there on each doubling of the nodes adds two steps (Tree).
    """
    rows = table("algorithms")
    seen = rows["smallest_us"].get("intra" if shape.nodes == 1 else shape.fabric)
    if seen is None:
        return None
    added = 2 * math.log2(max(shape.nodes, 2) / 2)
    return Range(seen["low"], seen["high"] + added * rows["latency_us"]["hop"]["high"])
