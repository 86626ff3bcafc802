"""Facts derived from facts: what a measurement should have been, and whether it may be judged at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from advisor.facts.base import Fact


@dataclass(slots=True, kw_only=True)
class Stage(Fact):
    """The ceiling of one stage of the data path, on one host or for a whole run.

    name: `nvlink`, `nic-sum`, `gpu-nic-path`, `pcie`, `tcp`, …; ceiling_gbyte_s: what the stage can carry in the
    measure of busbw; why: the sum behind it, in words; assumed: terms that were not in the facts.
    """

    KEY: ClassVar[tuple[str, ...]] = ("name",)

    name: str
    ceiling_gbyte_s: float
    why: str
    assumed: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Assessment(Fact):
    """One collective measurement against what this hardware should give.

    test: that of the CollectiveTest; tool, collective, nranks, nnodes, size_bytes: copied from it; scope: `intra`
    (one host) or `inter`, None where unknown; measured_gbyte_s: busbw at the largest size; expected_low_gbyte_s,
    expected_high_gbyte_s: the healthy band; share: measured / expected_low, at most 1 where it is in band; stage:
    the binding stage; algorithms: those the band allows for; sound: may its bandwidth be judged; unsound: why not
    (`no-mpi`, `wrong-values`, `too-small`, `one-rank`, `failed`, `no-large-size`, `algorithm-unknown`, …);
    standing: `in-band`, `above`, `low`, `inconclusive`, or None where there is no expectation or the test is
    unsound; why: the sum behind the band, a line each; assumed: terms that were not in the facts.
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
    expected_high_gbyte_s: float | None = None
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
