"""Where the bandwidth went: expected, measured, explained, unexplained."""

from __future__ import annotations

from collections.abc import Sequence

from advisor.facts import Assessment
from advisor.findings import Accounting
from advisor.judge.confidence import Judged


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


def loss_shares(causes: Sequence[Judged], assessment: Assessment | None) -> dict[str, float]:
    """Loss of each cause, as far as it can be told from one measurement.

    A run with exactly one proved root cause was measured with that cause alone: the whole gap is its loss. With two
    or more the shares cannot be told apart without the ceilings they impose.
    """
    missing = gap(assessment)
    if assessment is None or not missing or assessment.standing != "low":
        return {}
    acting = [c for c in causes if c.confidence == "confirmed" and not c.caused_by and _in_run(c, assessment)]
    return {acting[0].id: round(missing, 3)} if len(acting) == 1 else {}


def _in_run(cause: Judged, assessment: Assessment) -> bool:
    """Whether the cause was shown to act in the run that was measured."""
    return assessment.run in cause.runs or any(assessment in proof.bindings.values() for proof in cause.supports)


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
