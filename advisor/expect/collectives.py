"""What busbw means: its factor to algbw, and how it relates to the traffic of a node's NICs."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.data import table
from advisor.expect.shape import Range

RING, TREE, NVLS_TREE, COLLNET = "Ring", "Tree", "NVLSTree", "CollNet"


def collectives() -> Sequence[str]:
    """All collectives of nccl-tests."""
    return tuple(table("algorithms")["collectives"])


def busbw_factor(collective: str | None, ranks: int) -> float | None:
    """Busbw / algbw for that many ranks; None for an unknown collective.

    >>> busbw_factor("all_reduce", 16)
    1.875
    """
    row = table("algorithms")["collectives"].get(collective)
    if row is None or ranks < 1:
        return None
    share = (ranks - 1) / ranks
    return {"both-ways": 2 * share, "share": share, "one": 1.0}[row["factor"]]


def all_reduce_factor(algorithm: str, nodes: int, gpus: int) -> Range:
    """All-reduce busbw as a multiple of the sum of a node's NICs, for the busiest node.

    gpus: per node. Ring sends every byte through the NICs once; Tree's busiest node sends S at two nodes, 1.5 S at
    three, 2 S from four; a switch that reduces (CollNet) lets a node send S and receive S.
    """
    ranks = nodes * gpus
    if algorithm == RING:
        return Range(1, 1)
    if algorithm == COLLNET or nodes == 2:
        return Range(2 * (ranks - 1) / ranks, 2 * (ranks - 1) / ranks)
    tree = 4 * (ranks - 1) / (3 * ranks) if nodes == 3 else (ranks - 1) / ranks
    if algorithm == NVLS_TREE and gpus > 1:
        return Range(tree, max(tree, min(table("bands")["nvlstree"]["value"], (ranks - 1) / (ranks - gpus))))
    return Range(tree, tree)


def network_factor(collective: str, algorithms: Sequence[str], nodes: int, gpus: int) -> Range | None:
    """Busbw as a multiple of the sum of a node's NICs; None where there is no such relation.

    Where several algorithms are possible the lowest bound is Ring's: NCCL takes the faster one.
    """
    kind = table("algorithms")["collectives"][collective]["network"]
    ranks = nodes * gpus
    if kind == "all-reduce":
        factors = [all_reduce_factor(a, nodes, gpus) for a in algorithms]
        lowest = 1.0 if RING in algorithms else min(f.low for f in factors)
        return Range(lowest, max(f.high for f in factors))
    if kind == "ring":
        return Range(1, 1)
    if kind == "per-gpu":
        share = (ranks - 1) / (ranks - gpus) / gpus
        return Range(share, share)
    return None
