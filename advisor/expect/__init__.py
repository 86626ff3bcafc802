"""Expected speed from facts: where channels go, what each stage can carry, whether a measurement is sound and healthy.

Pure functions of facts; the only figures they read are the reference tables of `knowledge/`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from advisor.expect.assess import assess, expected_busbw, repaired
from advisor.expect.cluster import Setting, node_count, setting, shape_of
from advisor.expect.hangs import hangs
from advisor.expect.placement import place
from advisor.expect.port_use import port_uses
from advisor.expect.rails import uses
from advisor.expect.raw_link import raw_links
from advisor.expect.scaling import scaling
from advisor.expect.shape import Band, ClusterShape, Range
from advisor.expect.slots import cards, with_carried
from advisor.expect.soundness import true_busbw, void
from advisor.expect.subnets import shared_subnets, with_networks
from advisor.expect.tcp_path import tcp_paths
from advisor.expect.training import derive_training
from advisor.facts import (
    Assessment,
    CollectiveTest,
    Fact,
    Gpu,
    NcclProcess,
    NcclRank,
    NetInterface,
    PciLink,
    RdmaPort,
    TopoPath,
)
from advisor.facts.store import FactStore

__all__ = ["Band", "ClusterShape", "Range", "Setting", "behind", "derive", "expected_busbw", "repaired"]


def derive(store: FactStore) -> list[Fact]:
    """Facts that follow from those of the store.

    Placed NcclRanks, an Assessment of every CollectiveTest with its Stages, summaries of traces, of the GPUs'
    load and of hangs, the pairs of a scaling test, what PCIe links carry, cards with two ports, the NICs that ranks
    use, what TCP tests of one path show together, what point-to-point tests got out of their lines, how full the
    ports were, and which share a subnet.

    The placed ranks have the identity of the ranks they complete: adding them to the store merges them.
    """
    by_run: dict[str | None, list[NcclRank]] = defaultdict(list)
    for rank in store.of(NcclRank):
        by_run[rank.run].append(rank)
    ranks = [placed for group in by_run.values() for placed in place(group)]
    settings = [setting(store, test, ranks) for test in store.of(CollectiveTest)]
    facts: list[Fact] = list(ranks)
    for known in settings:
        facts += assess(known, _alone(known, settings))
    facts += [*with_carried(store.of(PciLink)), *cards(store.of(RdmaPort), store.of(PciLink))]
    facts += with_networks(store.of(NetInterface))
    facts += uses(ranks, store.of(NcclProcess), store.of(Gpu), store.of(TopoPath))
    paths = list(tcp_paths(store))
    facts += [*paths, *raw_links(store, paths), *port_uses(store), *shared_subnets(store)]
    return [*facts, *derive_training(store), *hangs(store), *scaling(store)]


def behind(store: FactStore, assessment: Assessment) -> tuple[Setting, ClusterShape] | None:
    """The setting and the shape that an assessment rests on, from a store with the derived facts; None without them."""
    settings = [setting(store, test, store.of(NcclRank)) for test in store.of(CollectiveTest)]
    known = next((s for s in settings if s.test.test == assessment.test and s.test.host == assessment.host), None)
    shape = shape_of(known) if known else None
    if known is None or shape is None:
        return None
    return known, replace(shape, intra_gbyte_s=_alone(known, settings)) if shape.nodes > 1 else shape


def _alone(of: Setting, settings: list[Setting]) -> float | None:
    """The best sound busbw of the same collective with as many GPUs on one of the same hosts alone, GB/s."""
    wanted = of.test.gpus_per_host
    found = [
        busbw
        for other in settings
        if other.test.collective == of.test.collective and wanted and other.test.nranks == wanted
        if other.hosts & of.hosts and node_count(other) == 1 and not void(other.test)
        if (busbw := true_busbw(other.test)[0]) is not None
    ]
    return max(found, default=None)
