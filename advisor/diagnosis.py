"""The whole flow, one way: read, facts, expect, infer, judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from advisor.data import catalogue
from advisor.expect import derive
from advisor.facts import Fact, FactStore
from advisor.findings import Diagnosis, InventoryRow
from advisor.infer.engine import CompiledRule, Inference, compile_rule, infer
from advisor.judge import diagnose as judge
from advisor.read import Reading, Understood, read
from advisor.read.unpack import Document

_SHOWN = 5  # line numbers of lines not understood


@dataclass(slots=True)
class Outcome:
    """A diagnosis with what it was made from, for those who ask why."""

    diagnosis: Diagnosis
    store: FactStore
    inference: Inference
    usable: bool


def compiled_rules(data: Mapping[str, Any]) -> list[CompiledRule]:
    """All rules of a catalogue, ready to run."""
    figures = {name: row["value"] for name, row in data["thresholds"].items()}
    return [compile_rule(rule, figures) for _, rule in sorted(data["rules"].items())]


def _rows(report: Understood) -> list[InventoryRow]:
    """One row for each source that read the document, or one that says that none did."""
    sources: list[tuple[str | None, int]] = [*sorted(report.sources.items())]
    return [
        InventoryRow(
            file=report.file, source=source, host=next(iter(report.hosts)) if len(report.hosts) == 1 else None,
            facts=count, lines=report.lines, not_understood=len(report.not_understood),
            first_not_understood=report.not_understood[:_SHOWN], problems=report.problems,
        )
        for source, count in sources or [(None, 0)]
    ]  # fmt: skip


def facts_of(inputs: Sequence[Document], given: Sequence[Fact] = ()) -> tuple[FactStore, Reading]:
    """Facts of the inputs with what follows from them."""
    reading = read(inputs)
    store = FactStore([*reading.facts, *given])
    store.add(derive(store))
    return store, reading


def diagnose(
    inputs: Sequence[Document], given: Sequence[Fact] = (), data: Mapping[str, Any] | None = None
) -> Outcome:
    """The diagnosis of some inputs; `given` are facts that the user adds, `data` another catalogue."""
    data = data or catalogue()
    store, reading = facts_of(inputs, given)
    inference = infer(store, compiled_rules(data))
    diagnosis = judge(store, inference, data)
    diagnosis.inventory = [row for report in reading.documents for row in _rows(report)]
    return Outcome(diagnosis, store, inference, reading.usable or bool(given))
