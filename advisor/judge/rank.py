"""The order of causes. Each term is one line; the first that differs decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from advisor.judge.confidence import LEVELS, Judged

TIERS = (
    "hard-fault", "lost-fast-path", "degraded-rate", "topology", "fabric-state", "tuning", "workload", "test",
)  # fmt: skip
RISKS = ("safe", "restart-job", "needs-drain", "needs-reboot", "fabric-admin", "provider", "physical")


def terms(
    cause: Judged, page: Mapping[str, Any], also_present: bool, loss: float | None
) -> tuple[tuple[str, Any], ...]:
    """Named terms of the ranking, smallest first.

    A cause that is only `possible` never stands before a likely one, however grave its kind: an accusation must be
    earned. An unsound test stands first where it is sure, since what it measured counts for nothing.
    """
    largest = page["largest_loss"]
    share = loss if loss is not None else (largest["share"] if largest else 0.5)
    risks = [RISKS.index(fix["risk"]) for fix in page["fixes"]] or [len(RISKS)]
    sure = LEVELS.index(cause.confidence) >= LEVELS.index("likely")
    return (
        ("also-present", also_present),
        ("only-possible", not sure),
        ("caused-by-another", bool(cause.caused_by)),
        ("symptom", page["kind"] == "symptom"),
        ("tier", -1 if page["kind"] == "test" and sure else TIERS.index(page["tier"])),
        ("loss", -round(share, 2)),
        ("confidence", -LEVELS.index(cause.confidence)),
        ("risk", min(risks)),
        ("id", cause.id),
    )
