"""One measurement against its band."""

from __future__ import annotations

from dataclasses import replace

from advisor.data import phrase, table
from advisor.expect.cluster import Setting, algorithm, node_count, shape_of
from advisor.expect.inter import rdma_band, with_collnet
from advisor.expect.intra import intra_band
from advisor.expect.shape import Band, ClusterShape
from advisor.expect.soundness import low_at, true_busbw, unripe, void
from advisor.expect.tcp import tcp_band
from advisor.facts import Assessment, Fact, Stage


def expected_busbw(
    cluster: ClusterShape, collective: str = "all_reduce", algorithm: str | None = None, size_bytes: int | None = None
) -> Band | None:
    """The busbw a healthy cluster of this shape shows in a collective of nccl-tests, GB/s.

    algorithm: `Ring`, `Tree`, `NVLSTree` or `CollNet` where it is known to run, None where NCCL chooses; size_bytes:
    message size in the meaning of nccl-tests, None for the plateau. None where the shape does not suffice: one node
    needs the GPU product and NVLink, several need NICs with their rates and a fabric. Raises KeyError for a
    collective that nccl-tests does not have.
    """
    if cluster.nodes == 1:
        return intra_band(cluster, collective, algorithm, size_bytes)
    if cluster.fabric == "tcp":
        return tcp_band(cluster, collective, algorithm)
    return rdma_band(cluster, collective, algorithm, size_bytes)


def _band(known: Setting, shape: ClusterShape | None) -> Band | None:
    test = known.test
    if shape is None or test.collective is None:
        return None
    band = expected_busbw(shape, test.collective, algorithm(known), test.size_bytes)
    if shape.nodes > 1 and any("COLLNET" in t for r in known.ranks for t in r.inter_transports or ()):
        return with_collnet(band, shape, test.collective, test.size_bytes)
    return band


def assess(known: Setting, alone_gbyte_s: float | None) -> list[Fact]:
    """The assessment of a measurement, and the ceilings of the stages its band was made of.

    alone_gbyte_s: busbw of the same collective on one of these nodes alone, where it was measured.
    """
    test, nodes = known.test, node_count(known)
    shape = shape_of(known)
    if shape is not None and shape.nodes > 1:
        shape = replace(shape, intra_gbyte_s=alone_gbyte_s)
    unsound = void(test)
    measured, fixed = true_busbw(test)
    band = None if unsound else _band(known, shape)
    found = Assessment(
        host=test.host, run=test.run, origins=test.origins, test=test.test, tool=test.tool, collective=test.collective,
        nranks=test.nranks, nnodes=nodes, size_bytes=test.size_bytes, measured_gbyte_s=measured,
        scope=None if nodes is None else "intra" if nodes == 1 else "inter",
    )  # fmt: skip
    if not unsound and nodes is None:
        unsound = ("nodes-unknown",)
    if fixed:
        found.why = (phrase("expect-factor-fixed", factor=f"{(measured or 0) / (test.algbw_gbyte_s or 1):.4g}"),)
    if band is None or measured is None:
        found.sound, found.unsound = not unsound, unsound
        return [found]
    return _judge(known, found, band, measured)


def repaired(known: Setting, assessment: Assessment, shape: ClusterShape) -> Assessment:
    """The same measurement against the band of another shape: the cluster as it is without what ails it.

    The assessment as it was where that shape gives no band.
    """
    band, measured = _band(known, shape), assessment.measured_gbyte_s
    if band is None or measured is None:
        return assessment
    again = replace(assessment, why=assessment.why[: int(true_busbw(known.test)[1])])
    _judge(known, again, band, measured)
    return again


def _judge(known: Setting, found: Assessment, band: Band, measured: float) -> list[Fact]:
    low = low_at(known.test, band)
    if measured < band.fine:
        found.unsound = unripe(known.test, band)
    found.sound = not found.unsound
    if found.sound:
        found.standing = replace(band, low=low).standing(measured, table("bands")["above"]["value"])
    healthy = found.standing in ("in-band", "above")
    found.expected_low_gbyte_s = round(low, 2)
    found.expected_fine_gbyte_s = round(band.fine, 2)
    found.expected_high_gbyte_s = round(band.high, 2)
    found.typical_gbyte_s = round(band.typical, 2)
    found.share = round(min(1.0, measured / low) if healthy else measured / low, 3)
    found.stage, found.algorithms = band.stage, band.algorithms
    found.why, found.assumed = (*found.why, *band.why), band.assumed
    return [found, *(_stage(found, c.name, c.gbyte_s, c.why, band.assumed) for c in band.ceilings)]


def _stage(of: Assessment, name: str, gbyte_s: float, why: str, assumed: tuple[str, ...]) -> Stage:
    return Stage(
        host=of.host, run=of.run, origins=of.origins, test=of.test, name=name, ceiling_gbyte_s=round(gbyte_s, 2),
        why=why, assumed=assumed,
    )  # fmt: skip
