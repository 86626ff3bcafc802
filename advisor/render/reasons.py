"""The answer to `--why` and `--why-not`, as plain lines: each rule, its conditions, the values found, the places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from advisor.data import phrase
from advisor.infer.conditions import Trace
from advisor.render.text import clean, cut
from advisor.why import Reason

_WIDTH = 110
_MARKS = {True: "yes", False: "no ", None: "?  "}
_FULL = {"why": ("fired", "note"), "why-not": ("open", "silent", "no-facts")}


def _condition(trace: Trace, depth: int) -> Iterator[str]:
    value = f"  ({clean(trace.value)})" if trace.value else ""
    yield cut(f"{'  ' * depth}{_MARKS[trace.truth]} {clean(trace.text)}{value}", _WIDTH)
    for part in trace.parts:
        yield from _condition(part, depth + 1)


def _reason(reason: Reason) -> Iterator[str]:
    yield phrase(f"why-state-{reason.state}", rule=reason.rule, title=reason.title, evidence=reason.evidence)
    if reason.text:
        yield f"  {clean(reason.text)}"
    for place in reason.places:
        yield cut(f"  {clean(place.file)}:{place.line}  {clean(place.text)}", _WIDTH)
    for trace in reason.conditions:
        yield from _condition(trace, 2)
    if reason.missing:
        yield f"  {phrase('why-missing', names=', '.join(reason.missing))}"
    yield ""


def lines(cause: str, confidence: str | None, asked: str, reasons: Sequence[Reason]) -> Iterator[str]:
    """The whole answer. confidence: of the cause, None where it was not named; asked: `why`, `why-not`.

    `why` shows in full what fired and names the rest; `why-not` the other way round, and what refutes first.
    """
    yield phrase("why-head" if confidence else "why-head-not", cause=cause, confidence=confidence or "")
    yield ""
    full = [r for r in reasons if r.state in _FULL[asked] or (asked == "why-not" and r.evidence == "refutes")]
    for reason in full:
        yield from _reason(reason)
    rest = [f"{r.rule} ({r.state})" for r in reasons if r not in full]
    if rest:
        yield phrase("why-rest", rules=", ".join(rest))
