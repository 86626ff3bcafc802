"""The four verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from advisor.facts import Assessment, LinkDelivery
from advisor.findings import Verdict
from advisor.judge.confidence import Judged


def is_sure(cause: Judged) -> bool:
    """Likely or confirmed."""
    return cause.confidence != "possible"


def verdict(
    causes: Sequence[Judged],
    pages: Mapping[str, Mapping[str, Any]],
    assessments: Sequence[Assessment],
    links: Sequence[LinkDelivery],
    normal: bool,
) -> Verdict:
    """`normal`: a reading was recognised that answers the question by itself.

    A cause that only names a limit (compute-bound, a slot two ports share) is no fault; `fine` needs a sound
    measurement in its band or such a reading, and no sound measurement, of a collective or of a link, below its
    band. A reading does not outweigh the suspicion of a fault, as a measurement does.
    """
    repairable = [cause for cause in causes if not pages[cause.id]["only_a_limit"]]
    if any(is_sure(cause) for cause in repairable):
        return "fault"
    sound = [a for a in assessments if a.sound]
    low = "low" in [*(a.standing for a in sound), *(link.standing for link in links)]
    limits = any(is_sure(cause) for cause in causes)
    if not low and (limits or any(a.standing == "in-band" for a in sound) or (normal and not repairable)):
        return "fine"
    return "suspect" if causes else "cannot-tell"
