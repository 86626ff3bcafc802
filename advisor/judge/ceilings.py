"""What a cause leaves of the expected bandwidth, from the facts that its rules bound.

busbw = NICs x rate of the slowest NIC x share on the wire x share that NCCL keeps. A cause lowers one of these factors;
which one and how is data (`loss.yaml`). A cause that is not there, or whose facts do not suffice, has no ceiling.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from advisor.data import table
from advisor.expect import ClusterShape, Range, Setting
from advisor.expect.raw_link import roce_row
from advisor.expect.shape import Nics
from advisor.facts import EthernetLink, Fact, NetInterface, PciLink, RdmaPort
from advisor.facts.store import FactStore
from advisor.judge.confidence import Judged

_BEST_ROCE_MTU = 4096
Repair = Callable[[ClusterShape], ClusterShape]


@dataclass(slots=True, frozen=True)
class Case:
    """What a ceiling is counted from: all facts, those of the measurement, and the shape behind it."""

    store: FactStore
    known: Setting
    shape: ClusterShape

    def of_job(self, fact: Fact) -> bool:
        """Whether a fact is of a host that was measured; one without a host belongs to all."""
        return fact.host is None or not self.known.hosts or fact.host in self.known.hosts


@dataclass(slots=True, frozen=True)
class Ceiling:
    """What a cause leaves.

    factor: the factor of the busbw that it lowers; left: share of it that is left; repair: gives the shape without the
    cause, since a measurement's own band takes NICs and rates as they are.
    """

    factor: str
    left: Range
    repair: Repair


def ceiling(cause: Judged, case: Case) -> Ceiling | None:
    """The lowest ceiling that the facts bound by a cause's rules impose; None where none can be counted."""
    row = table("loss").get(cause.id)
    if row is None:
        return None
    if "by" not in row:
        return Ceiling(row["factor"], Range.of(row), _REPAIRS[row["factor"]])
    bound = [fact for proof in cause.supports for fact in proof.bindings.values() if case.of_job(fact)]
    found = [(left, repair) for left, repair in _WAYS[row["by"]](bound, case) if 0 < left < 1]
    if not found:
        return None
    left, repair = min(found, key=lambda pair: pair[0])
    return Ceiling(row["factor"], Range(left, left), repair)


def losses(ceilings: Mapping[str, Ceiling], missing: float) -> dict[str, float]:
    """The share of the expected busbw that each cause takes, at most `missing` together.

    Of several causes that lower one factor only the lowest counts. Factors multiply, so each cause takes part in the
    common loss as the logarithm of its factor does in that of the product. Ranges are read as the measurement has it.
    """
    lowest = _lowest(ceilings)
    least = {name: -math.log(ceilings[name].left.high) for name in lowest}
    most = {name: -math.log(ceilings[name].left.low) for name in lowest}
    sought = -math.log(1 - missing) if missing < 1 else math.inf
    room = sum(most.values()) - sum(least.values())
    more = min(1.0, max(0.0, sought - sum(least.values())) / room) if room else 0.0
    depth = {name: least[name] + more * (most[name] - least[name]) for name in least}
    whole = sum(depth.values())
    taken = min(missing, 1 - math.exp(-whole))
    return {name: round(taken * depth[name] / whole, 3) for name in depth} if whole else {}


def left_at_most(ceilings: Mapping[str, Ceiling]) -> float:
    """The share that all causes together leave of the busbw, at the mildest reading of ranges."""
    return math.prod(ceilings[name].left.high for name in _lowest(ceilings))


def _lowest(ceilings: Mapping[str, Ceiling]) -> list[str]:
    """The cause with the lowest ceiling of each factor, the first by name among equals."""
    lowest: dict[str, str] = {}
    for name, found in sorted(ceilings.items()):
        if found.factor not in lowest or found.left.low < ceilings[lowest[found.factor]].left.low:
            lowest[found.factor] = name
    return list(lowest.values())


def _link_rate(bound: Iterable[Fact], case: Case) -> Iterable[tuple[float, Repair]]:
    """Rate over expected rate of the slow links that carry the job."""
    carrying = {rate for _, rate in (*case.shape.nics, *(case.shape.nics_most or ()))}
    for fact in bound:
        rate, better = _rate(fact), _expected_rate(fact, case)
        # Where nobody names the NICs of the job, they are taken from the fastest ports: then the slow one is not in.
        if rate and better and (rate in carrying or (case.shape.nics_inferred and better in carrying)):
            yield rate / better, partial(_raised, to_gbit_s=better)


def _rate(fact: Fact) -> float | None:
    if isinstance(fact, RdmaPort):
        return fact.rate_gbit_s if fact.state == "ACTIVE" else None
    return fact.speed_gbit_s if isinstance(fact, (EthernetLink, NetInterface)) else None


def _expected_rate(fact: Fact, case: Case) -> float | None:
    """What both ends can do, else what most of the same links of other hosts run at, else of the other ports here."""
    if isinstance(fact, EthernetLink) and fact.max_supported_gbit_s and fact.max_partner_gbit_s:
        return min(fact.max_supported_gbit_s, fact.max_partner_gbit_s)
    alike = [other for other in case.store.of(type(fact)) if other is not fact and case.of_job(other)]
    peers = [other for other in alike if other.host != fact.host and _name(other) == _name(fact)]
    here = [other for other in alike if isinstance(other, RdmaPort) and other.host == fact.host]
    for group in (peers, here):
        seen = Counter(rate for other in group if (rate := _rate(other)))
        if seen:
            return max(seen, key=lambda rate: (seen[rate], rate))
    return None


def _name(fact: Fact) -> object:
    if isinstance(fact, RdmaPort):
        return fact.device, fact.port
    return fact.interface if isinstance(fact, EthernetLink) else getattr(fact, "name", None)


def _raised(shape: ClusterShape, to_gbit_s: float) -> ClusterShape:
    """The shape with no NIC below a rate."""

    def raised(nics: Nics) -> Nics:
        rates: Counter[float] = Counter()
        for count, rate in nics:
            rates[max(rate, to_gbit_s)] += count
        return tuple((count, rate) for rate, count in sorted(rates.items(), reverse=True))

    most = raised(shape.nics_most or shape.nics)
    return replace(shape, nics=most if shape.nics_inferred else raised(shape.nics), nics_most=most)


def _slot(bound: Iterable[Fact], case: Case) -> Iterable[tuple[float, Repair]]:
    """What the slot carries over the rate of the port in it. The band knows nothing of slots: no repair."""
    for link in bound:
        if not isinstance(link, PciLink) or not link.carries_high_gbit_s:
            continue
        inside = {*(link.names or ()), link.device}
        for port in case.known.ports:
            if port.host == link.host and port.device in inside and port.state == "ACTIVE" and port.rate_gbit_s:
                yield link.carries_high_gbit_s / port.rate_gbit_s, _as_is


def _as_is(shape: ClusterShape) -> ClusterShape:
    return shape


def _nics_used(_bound: Iterable[Fact], case: Case) -> Iterable[tuple[float, Repair]]:
    """NICs that carry the job over those that could."""
    used, there = (sum(count for count, _ in nics) for nics in (case.shape.nics, case.shape.nics_most or ()))
    if 0 < used < there:
        yield used / there, _all_nics


def _all_nics(shape: ClusterShape) -> ClusterShape:
    return replace(shape, nics=shape.nics_most or shape.nics)


def _roce_mtu(bound: Iterable[Fact], case: Case) -> Iterable[tuple[float, Repair]]:
    """Payload share of the path MTU over that of the best: of the ports, else what fits into the interface's frames."""
    if case.shape.fabric != "roce":
        return
    ports = [port.active_mtu_bytes for port in case.known.ports if port.active_mtu_bytes]
    frames = [fact.mtu_bytes for fact in bound if isinstance(fact, NetInterface) and fact.mtu_bytes]
    for mtu in ports or frames:
        yield _wire(mtu) / _wire(_BEST_ROCE_MTU), partial(replace, roce_mtu_bytes=_BEST_ROCE_MTU)


def _wire(mtu_bytes: int) -> float:
    share = Range.of(table("rdma")["wire"][roce_row(mtu_bytes)])
    return (share.low + share.high) / 2


_WAYS: Mapping[str, Callable[[Iterable[Fact], Case], Iterable[tuple[float, Repair]]]] = {
    "link-rate": _link_rate, "slot": _slot, "nics-used": _nics_used, "roce-mtu": _roce_mtu,
}  # fmt: skip
_REPAIRS: Mapping[str, Any] = {"kept": partial(replace, gdr=True)}
