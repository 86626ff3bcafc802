"""From a heap of inputs to facts: unpack, decode, clean, split, recognise, identify; and an inventory of it all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from advisor.facts import Fact
from advisor.read.identify import name_hosts, name_runs
from advisor.read.manifest import apply_manifests
from advisor.read.split import split
from advisor.read.unpack import Document
from advisor.sources import candidates
from advisor.sources.base import Problem, Segment


@dataclass(slots=True)
class Understood:
    """What was understood of one document.

    sources: facts by source id, those that recognised something; lines: non-empty ones; not_understood: line numbers
    that no source recognised; hosts: named by the content or the file's name.
    """

    file: str
    lines: int = 0
    sources: dict[str, int] = field(default_factory=dict)
    not_understood: list[int] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    hosts: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Reading:
    """Facts with host and run, and what was understood of each document."""

    facts: list[Fact]
    documents: list[Understood]

    @property
    def usable(self) -> bool:
        """Whether anything gave a fact."""
        return bool(self.facts)


def _read_segment(segment: Segment, report: Understood) -> list[Fact]:
    """Facts of every source that recognises something in the segment; a source that crashes costs only itself."""
    facts: list[Fact] = []
    for source in candidates(segment):
        segment.source = source.id
        try:
            if not source.recognises(segment):
                continue
            items = list(source.parse(segment))
        except Exception as error:
            report.problems.append(f"{source.id}: {type(error).__name__}: {error}")
            continue
        found = [item for item in items if isinstance(item, Fact)]
        report.problems += [f"{segment.file}:{item.line}: {item.text}" for item in items if isinstance(item, Problem)]
        report.sources[source.id] = report.sources.get(source.id, 0) + len(found)
        facts += found
    said = {fact.host for fact in facts if fact.host is not None}
    host = segment.host or (next(iter(said)) if len(said) == 1 else None)
    for fact in facts:
        if fact.host is None and len(getattr(fact, "hosts", ())) < 2:
            fact.host = host
    return facts


def _read_document(document: Document) -> tuple[list[Fact], Understood]:
    report = Understood(document.name)
    facts: list[Fact] = []
    if document.problem:
        report.problems.append(document.problem)
        return facts, report
    if document.manifest:
        return facts, report
    for segment in split(document.name, document.text, document.host, document.command):
        facts += _read_segment(segment, report)
        filled = [i for i, line in enumerate(segment.lines) if line.strip()]
        report.lines += len(filled)
        report.not_understood += [segment.numbers[i] for i in filled if i not in segment.understood]
    return facts, report


def read(inputs: Sequence[Document]) -> Reading:
    """Everything the inputs say, with hosts and runs; what was not understood is listed."""
    facts: list[Fact] = []
    reports: list[Understood] = []
    apply_manifests(inputs)
    for document in inputs:
        found, report = _read_document(document)
        facts += found
        reports.append(report)
    name_hosts(facts)
    name_runs(facts)
    for fact in facts:
        for report in reports:
            if fact.host and fact.origins and fact.origins[0].file == report.file:
                report.hosts.add(fact.host)
    return Reading(facts, reports)
