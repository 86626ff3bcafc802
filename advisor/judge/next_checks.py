"""What to run next: the commands whose answers would separate most of what is open, for the least trouble."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from advisor.findings import NextCheck
from advisor.infer.engine import Open
from advisor.judge.confidence import Judged
from advisor.judge.fixes import bindings, fill

MOST = 4
# What a check is worth: of a cause that is suspected, its first check more than its second; of a fact type that the
# verdict cannot do without; of any other, one for each cause it would decide.
_SUSPECTED, _WANTED = 60.0, 40.0
# Seconds that a command's other costs are worth: root rights must be asked for, traffic needs idle nodes.
_ROOT, _TRAFFIC = 5.0, 20.0


def _cost(check: Mapping[str, Any]) -> float:
    return float(check["seconds"]) + _ROOT * bool(check["root"]) + _TRAFFIC * bool(check["traffic"]) + 1


def _open_by_fact(open_rules: Iterable[Open], settled: set[str]) -> dict[str, set[str]]:
    """Causes that a fact type would decide, for rules that wait for it."""
    waiting: dict[str, set[str]] = defaultdict(set)
    for item in open_rules:
        cause = item.rule.data["cause"]
        if cause not in settled:
            for name in item.missing:
                waiting[name.removeprefix("peers of ").partition(".")[0]].add(cause)
    return waiting


def next_checks(
    causes: Sequence[Judged],
    ruled_out: Sequence[Judged],
    open_rules: Sequence[Open],
    pages: Mapping[str, Mapping[str, Any]],
    table: Mapping[str, Mapping[str, Any]],
    wanted: Iterable[str],
) -> list[NextCheck]:
    """At most MOST checks, best first.

    Taken from the pages of causes that are not yet confirmed, from the table of commands by the fact type they give
    for rules that wait for facts, and from `wanted`, fact types that this verdict cannot do without.
    """
    settled = {c.id for c in ruled_out} | {c.id for c in causes if c.confidence == "confirmed"} | {"not-a-problem"}
    scored: dict[str, tuple[float, NextCheck]] = {}

    def offer(check: Mapping[str, Any], separates: set[str], weight: float, values: Mapping[str, str]) -> None:
        command = fill(check["command"], values)
        score = weight / _cost(check)
        known = scored.get(command)
        if known:
            separates = separates | set(known[1].separates)
            score += known[0]
        scored[command] = (
            score,
            NextCheck(
                command=command, why=fill(check["why"], values), separates=sorted(separates), seconds=check["seconds"],
                root=check["root"], traffic=check["traffic"],
            ),
        )  # fmt: skip

    for cause in causes:
        if cause.id not in settled:
            for place, check in enumerate(pages[cause.id]["checks"]):
                offer(check, {cause.id}, _SUSPECTED / (1 + place), bindings(cause.supports))
    for name, decided in sorted(_open_by_fact(open_rules, settled).items()):
        if name in table:
            offer(table[name], decided, float(len(decided)), {})
    for name in wanted:
        offer(table[name], set(), _WANTED, {})
    best = sorted(scored.values(), key=lambda item: (-item[0], item[1].command))
    return [check for _, check in best[:MOST]]
