"""From conclusions to a diagnosis: causes, chains, the account, the order, the verdict, the next checks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from advisor.data import phrase
from advisor.facts import Assessment, Conflict, FactStore, LinkDelivery, Origin
from advisor.findings import CauseReport, Diagnosis, Evidence, Finding, Normal, RuledOut
from advisor.infer.engine import Inference, Proof
from advisor.judge.accounting import account, ceilings_of, decisive, gap, loss_shares
from advisor.judge.confidence import Judged, judge
from advisor.judge.fixes import cards
from advisor.judge.fold import fold as fold_causes
from advisor.judge.hosts import fold
from advisor.judge.next_checks import next_checks
from advisor.judge.rank import terms
from advisor.judge.verdict import is_sure, verdict

NORMAL = "not-a-problem"
_LINES = 4  # of evidence for one finding
_ALIKE = 3  # findings of one rule
_COUNTED = ("measured", "documented", "computed")  # an experience value demotes nothing


def _evidence(origins: Sequence[Origin], supports: bool) -> list[Evidence]:
    kept = [Evidence(text=o.text, file=o.file, line=o.line, supports=supports) for o in origins[:_LINES]]
    return list({(e.file, e.line): e for e in kept}.values())


def _findings(proofs: Sequence[Proof], explained: Mapping[str, str]) -> list[Finding]:
    """Findings with their hosts folded: one for each rule and text, at most _ALIKE of a rule, the last for the rest."""
    by_rule: dict[str, dict[str, list[Proof]]] = defaultdict(lambda: defaultdict(list))
    for proof in sorted(proofs, key=lambda p: (p.rule.id, p.subject.origins)):
        by_rule[proof.rule.id][proof.text()].append(proof)
    found = []
    for texts in by_rule.values():
        groups = list(texts.items())
        shown = groups if len(groups) <= _ALIKE else groups[: _ALIKE - 1]
        found += [_finding(text, members, explained) for text, members in shown]
        rest = groups[len(shown) :]
        if rest:
            text = phrase("finding-more", text=rest[0][0], count=len(rest) - 1)
            found.append(_finding(text, [proof for _, members in rest for proof in members], explained))
    return found


def _finding(text: str, members: Sequence[Proof], explained: Mapping[str, str]) -> Finding:
    data = members[0].rule.data
    origins = [origin for proof in members for origin in proof.origins()]
    return Finding(
        id=members[0].rule.id,
        title=data["title"],
        text=text,
        evidence_kind="note" if members[0].effect is False else data["evidence"],
        hosts=fold(host for proof in members for host in proof.hosts),
        evidence=_evidence(origins, data["evidence"] != "refutes"),
        explained_by=explained.get(data["cause"]),
    )


def _without_explained(proofs: Sequence[Proof]) -> list[Proof]:
    """Without what another rule's finding on the same host, or on hosts not known, already makes plain (`explains`)."""
    plain: dict[str, set[str]] = defaultdict(set)
    for proof in proofs:
        for rule in proof.rule.data["explains"] if proof.effect else ():
            plain[rule] |= set(proof.hosts)
    return [p for p in proofs if p.rule.id not in plain or not set(p.hosts) <= plain[p.rule.id]]


def _also_present(cause: Judged, page: Mapping[str, Any], missing: float | None) -> bool:
    largest = page["largest_loss"]
    known = largest is not None and largest["tag"] in _COUNTED
    return bool(missing and known and largest["share"] < missing / 2 and not cause.caused_by)


def _report(
    cause: Judged, page: Mapping[str, Any], loss: float | None, also: bool, order: Sequence[tuple[str, Any]]
) -> CauseReport:
    return CauseReport(
        id=cause.id,
        kind=page["kind"],
        confidence=cause.confidence,
        role="also-present" if also else "root",
        title=page["title"],
        hosts=fold(cause.hosts),
        loss_share=loss,
        caused_by=sorted(cause.caused_by),
        findings=sorted({proof.rule.id for proof in cause.supports}),
        fixes=cards(page, cause.supports),
        why_sure=phrase(f"why-{cause.reason}"),
        rank=[f"{name}: {value}" for name, value in order],
    )


def _normal(proofs: Sequence[Proof]) -> list[Normal]:
    """Each normal reading once, with the first lines that show it."""
    first: dict[str, Proof] = {}
    for proof in sorted(proofs, key=lambda p: (p.rule.id, p.subject.origins)):
        first.setdefault(proof.rule.id, proof)
    return [Normal(id=i, why=p.text(), evidence=_evidence(p.origins()[:2], True)) for i, p in first.items()]


def _ruled_out(causes: Sequence[Judged]) -> list[RuledOut]:
    first = [(cause.id, cause.refutes[0]) for cause in causes]
    return [RuledOut(id=i, why=p.text(), evidence=_evidence(p.origins()[:2], False)) for i, p in first]


def _measured(assessment: Assessment | None, link: LinkDelivery | None) -> str:
    """The figure that the verdict rests on, as a sentence: a collective before a link."""
    if assessment is not None and assessment.standing is not None:
        return phrase(
            f"summary-measured-{assessment.standing}",
            measured=f"{assessment.measured_gbyte_s:.3g}",
            low=f"{assessment.expected_low_gbyte_s:.3g}",
            high=f"{assessment.expected_high_gbyte_s:.3g}",
            collective=assessment.collective or phrase("collective-unknown"),
        )
    if link is not None:
        return phrase(
            f"summary-link-{link.standing}",
            tool=link.tool,
            measured=f"{link.measured_gbit_s:.3g}",
            line=f"{link.line_gbit_s:g}",
            share=f"{link.measured_gbit_s / link.line_gbit_s:.0%}",
        )
    return ""


def _summary(
    kind: str, reports: Sequence[CauseReport], assessment: Assessment | None, link: LinkDelivery | None
) -> str:
    """One or two sentences: the answer first, then the measurement."""
    first = reports[0] if reports else None
    where = ", ".join(first.hosts) if first and first.hosts else ""
    name = f"summary-{kind}" if first or kind != "fine" else "summary-fine-measured"
    if first is None and kind == "fine" and (assessment is None or assessment.standing is None):
        name = "summary-fine-reading"
    text = phrase(
        name,
        cause=first.title if first else "",
        where=phrase("summary-where", hosts=where) if where else "",
        confidence=first.confidence if first else "",
        more=phrase("summary-more", count=len(reports) - 1) if len(reports) > 1 else "",
    )
    return f"{text} {_measured(assessment, link)}".strip()


def diagnose(store: FactStore, inference: Inference, catalogue: Mapping[str, Any]) -> Diagnosis:
    """Everything but the inventory, which the reader knows."""
    pages = catalogue["causes"]
    proofs = _without_explained(inference.proofs)
    about_normal = [p for p in proofs if p.rule.data["cause"] == NORMAL and p.effect is not False]
    about_causes = [p for p in proofs if p.rule.data["cause"] != NORMAL]
    causes, ruled_out = judge(about_causes, pages)
    fold_causes(causes, pages)
    assessments = store.of(Assessment)
    imposed = ceilings_of(causes, decisive(assessments), store)
    measured = imposed.assessment
    losses = loss_shares(causes, imposed)
    missing = gap(measured)
    also = {c.id: _also_present(c, pages[c.id], missing) for c in causes}
    order = {c.id: terms(c, pages[c.id], also[c.id], losses.get(c.id)) for c in causes}
    causes.sort(key=lambda c: tuple(value for _, value in order[c.id]))
    reports = [_report(c, pages[c.id], losses.get(c.id), also[c.id], order[c.id]) for c in causes]
    answered = any(p.rule.data["evidence"] == "proves" for p in about_normal)
    links = store.of(LinkDelivery)
    kind = verdict(causes, pages, assessments, links, answered)
    shown = [r for r in reports if kind != "fine" or is_sure(next(c for c in causes if c.id == r.id))]
    roots = {c.id: c.caused_by[0] for c in causes if c.caused_by}
    slowest = min(links, key=lambda link: (link.share, link.test), default=None)
    wanted = _wanted(kind, store, measured, slowest)
    open_checks = next_checks(causes, ruled_out, inference.open, pages, catalogue["tables"]["checks"], wanted)
    return Diagnosis(
        verdict=kind,
        summary=_summary(kind, shown, measured, slowest),
        causes=reports,
        findings=_findings(about_causes, {**{c.id: c.id for c in causes}, **roots}),
        normal=_normal(about_normal),
        ruled_out=_ruled_out(ruled_out),
        next_checks=open_checks if kind in ("cannot-tell", "suspect") or _still_open(causes) else [],
        accounting=account(measured, losses),
        inventory=[],
        conflicts=[f"{c.about} {c.field}: {' / '.join(c.values)}".strip() for c in store.of(Conflict)],
    )


def _still_open(causes: Sequence[Judged]) -> bool:
    """Whether running something more would change what to do: nothing confirmed yet."""
    return bool(causes) and all(cause.confidence != "confirmed" for cause in causes)


def _wanted(kind: str, store: FactStore, measured: Assessment | None, link: LinkDelivery | None) -> list[str]:
    """Fact types whose absence by itself keeps the verdict open."""
    if kind not in ("cannot-tell", "suspect"):
        return []
    present = {type(fact).__name__ for fact in store}
    if not measured and present & {"TrainingTrace", "GpuLoad", "StepTimes"}:
        return ["training-summary"]
    if not measured and link is not None and link.standing == "low":
        return ["pci-link", "ethernet-link" if link.tool.startswith("iperf") else "rdma-port"]
    wanted = [] if measured else ["collective-test"]
    return wanted + ([] if "NcclProcess" in present else ["nccl-process"])
