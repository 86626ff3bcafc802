"""The band of one machine: GPUs over NVLink. PCIe machines have none, their paths differ too much."""

from __future__ import annotations

from advisor.data import phrase, table
from advisor.expect.collectives import NVLS_TREE, RING
from advisor.expect.products import Product, product
from advisor.expect.shape import Band, Ceiling, ClusterShape, Range


def nominal(shape: ClusterShape, gpus: int) -> Range | None:
    """One direction of the NVLinks that one of `gpus` GPUs can use for the others, GB/s; None where not computable.

    Behind NVSwitch every GPU reaches every other with all its links. Without it a pair has its own links only, and
    how more than two share them depends on who is joined to whom: no figure then. A full NVSwitch board is judged by
    what it was built with, though the topology table shows fewer links.
    """
    card = product(shape.gpu)
    if card is None or not card.links or gpus < 2:
        return None
    full = card.nvlink_gbyte_s
    in_box = max(shape.gpus_in_box or 0, gpus)
    if card.switch_gpus and (shape.nvswitch or in_box >= card.switch_gpus):
        return Range(1, 1) * max(full, (shape.nvlinks or 0) * card.link_gbyte_s)
    if shape.nvlinks == 0:
        return None
    if shape.nvlinks is None:
        return Range(full * table("bands")["mesh_share"]["value"], full) if card.switch_gpus else None
    if shape.nvlinks >= card.links or gpus == 2:
        return Range(1, 1) * (shape.nvlinks * card.link_gbyte_s)
    return None


def nvls_possible(shape: ClusterShape, card: Product, gpus: int, collective: str) -> bool:
    """Whether the switch may reduce: all-reduce of three or more GPUs of a product that can."""
    return collective == "all_reduce" and shape.nvls is not False and card.reduces_in_switch and gpus > 2


def upper_bound(shape: ClusterShape, collective: str) -> float | None:
    """What the GPUs of one node can show in this collective at most, GB/s; a multi-node run cannot beat it by much."""
    gpus, card = shape.gpus_per_node, product(shape.gpu)
    rate = nominal(shape, gpus)
    if rate is None or card is None:
        return None
    if nvls_possible(shape, card, gpus, collective):
        typical = card.nvls_gbyte_s or rate.high
        return max(rate.high, typical * float(table("bands")["full_board_high"]["value"]))
    return rate.high


def intra_band(shape: ClusterShape, collective: str, algorithm: str | None, size_bytes: int | None) -> Band | None:
    """The band of a collective over `shape.gpus_per_node` GPUs of one machine, None without product and paths.

    algorithm: `Ring` or `Tree` where it is known (then the switch does not reduce), None otherwise.
    """
    gpus, card = shape.gpus_per_node, product(shape.gpu)
    kind = table("algorithms")["collectives"][collective]["intra"]
    rate = nominal(shape, gpus)
    if card is None or rate is None or kind == "none":
        return None
    switch_reduces = algorithm in (None, NVLS_TREE) and nvls_possible(shape, card, gpus, collective)
    why = [phrase("expect-nvlink", links=shape.nvlinks or card.links, rate=f"{card.link_gbyte_s:g}", total=rate)]
    assumed = []
    if rate.low != rate.high:
        assumed.append(phrase("expect-assumed-nvlink-paths"))
    if switch_reduces and shape.nvls is None:
        assumed.append(phrase("expect-assumed-nvls"))
    full_board = collective == "all_reduce" and gpus == card.switch_gpus and card.ring_gbyte_s
    if full_board and card.ring_gbyte_s:
        shares = next(r for r in table("bands")["full_board"] if (size_bytes or 1 << 30) >= r["from_bytes"])
        best = card.nvls_gbyte_s if switch_reduces and card.nvls_gbyte_s else card.ring_gbyte_s
        least = best if shape.nvls else card.ring_gbyte_s
        low, fine, typical = least * shares["low"], best * shares["fine"], least
        why.append(phrase("expect-full-board", gpus=gpus, typical=Range(least, best), fine=f"{shares['fine']:.0%}"))
    else:
        shares = table("bands")["intra"][kind]
        smaller = table("bands")["intra_smaller"]
        less = smaller["value"] if size_bytes and size_bytes < smaller["below_bytes"] else 0.0
        low, fine = rate.low * (shares["low"] - less), rate.high * (shares["fine"] - less)
        typical = rate.low * (shares["typical"] - less)
        percent = {name: f"{shares[name] - less:.0%}" for name in ("fine", "low")}
        why.append(phrase("expect-nvlink-share", **percent))
    high = (upper_bound(shape, collective) if switch_reduces else None) or rate.high
    return Band(
        low=low, typical=typical, fine=fine, high=high, stage="nvlink", why=tuple(why), assumed=tuple(assumed),
        size_bytes=table("bands")["size"]["intra_bytes"], algorithms=(RING,) if not switch_reduces else (RING, "NVLS"),
        ceilings=(Ceiling(name="nvlink", gbyte_s=rate.high, why=why[0]),),
    )  # fmt: skip
