"""Where the bandwidth went: expected, measured, explained, unexplained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from advisor.expect import behind, repaired
from advisor.facts import Assessment
from advisor.facts.store import FactStore
from advisor.findings import Accounting
from advisor.judge.ceilings import Case, Ceiling, ceiling, left_at_most, losses
from advisor.judge.confidence import Judged


@dataclass(slots=True, frozen=True)
class Imposed:
    """A measurement against the cluster without what ails it, and the ceilings by the cause that imposes them."""

    assessment: Assessment | None
    ceilings: Mapping[str, Ceiling]


def decisive(assessments: Sequence[Assessment]) -> Assessment | None:
    """The measurement the account is about: a sound one with a band, low before fine, between hosts before within."""
    judged = [a for a in assessments if a.sound and a.standing is not None and a.measured_gbyte_s is not None]
    if not judged:
        return None
    order = {"low": 0, "inconclusive": 1, "in-band": 2, "above": 3}
    return min(judged, key=lambda a: (order[a.standing or ""], a.scope != "inter", a.share or 1.0, a.test))


def gap(assessment: Assessment | None) -> float | None:
    """Share of the expected bandwidth that is missing, 0 to 1; None without a measurement and its band.

    Counted from what such hardware typically reaches; the band's lower end has the tolerance taken off already.
    """
    if assessment is None or not assessment.expected_low_gbyte_s or assessment.measured_gbyte_s is None:
        return None
    typical = assessment.typical_gbyte_s or assessment.expected_low_gbyte_s
    return max(0.0, 1 - assessment.measured_gbyte_s / typical)


def ceilings_of(causes: Sequence[Judged], assessment: Assessment | None, store: FactStore) -> Imposed:
    """The ceilings of the root causes of one measurement, and the measurement against the cluster without them.

    A cause that is only possible counts where the measurement is low whatever that cause does.
    """
    found = behind(store, assessment) if assessment is not None and assessment.standing is not None else None
    if assessment is None or found is None or assessment.scope != "inter":
        return Imposed(assessment, {})
    case = Case(store, *found)
    roots = [c for c in causes if not c.caused_by and not c.contradicted]
    counted = [c for c in roots if c.confidence != "possible" or assessment.standing == "low"]
    ceilings = {c.id: limit for c in counted if (limit := ceiling(c, case)) is not None}
    if not ceilings:
        return Imposed(assessment, {})
    shape = case.shape
    for limit in ceilings.values():
        shape = limit.repair(shape)
    whole = assessment if shape == case.shape else repaired(case.known, assessment, shape)
    return Imposed(_lifted(whole, left_at_most(ceilings)), ceilings)


def _lifted(assessment: Assessment, left: float) -> Assessment:
    """The assessment with its typical value at what the measurement itself shows to be possible.

    A run that fills what the causes left of a stage would fill the whole stage; above `fine` nothing is taken for sure.
    """
    if not assessment.measured_gbyte_s or not assessment.expected_fine_gbyte_s or not assessment.typical_gbyte_s:
        return assessment
    shown = min(assessment.expected_fine_gbyte_s, assessment.measured_gbyte_s / left)
    return replace(assessment, typical_gbyte_s=max(assessment.typical_gbyte_s, round(shown, 2)))


def loss_shares(causes: Sequence[Judged], imposed: Imposed) -> dict[str, float]:
    """Loss of each cause, as far as it can be told from one measurement; together at most the gap.

    By their ceilings where these are known. A run with exactly one proved root cause and no ceiling for it was measured
    with that cause: what no ceiling explains of the gap is its loss.
    """
    assessment, missing = imposed.assessment, gap(imposed.assessment)
    if assessment is None or not missing:
        return {}
    shares = losses(imposed.ceilings, missing)
    acting = [c for c in causes if c.confidence == "confirmed" and not c.caused_by and _in_run(c, assessment)]
    rest = round(missing - sum(shares.values()), 3)
    if assessment.standing == "low" and len(acting) == 1 and acting[0].id not in imposed.ceilings and rest > 0:
        shares[acting[0].id] = rest
    return shares


def _in_run(cause: Judged, assessment: Assessment) -> bool:
    """Whether the cause was shown to act in the run that was measured."""
    bound = (fact for proof in cause.supports for fact in proof.bindings.values() if isinstance(fact, Assessment))
    return assessment.run in cause.runs or any(
        fact.test == assessment.test and fact.host == assessment.host for fact in bound
    )


def account(assessment: Assessment | None, losses: dict[str, float]) -> Accounting | None:
    """The account of one measurement."""
    missing = gap(assessment)
    if assessment is None or missing is None or assessment.measured_gbyte_s is None:
        return None
    return Accounting(
        quantity="busbw",
        unit="GB/s",
        expected=(round(assessment.expected_low_gbyte_s or 0, 2), round(assessment.expected_high_gbyte_s or 0, 2)),
        measured=assessment.measured_gbyte_s,
        explained=losses,
        unexplained=round(max(0.0, missing - sum(losses.values())), 3),
        why=list(assessment.why),
    )
