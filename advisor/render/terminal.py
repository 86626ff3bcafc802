"""The diagnosis on a terminal: the answer in ten lines, then what it rests on, in the order in which one asks.

Colour only repeats what a word says. Nothing captured is ever read as markup; commands are never broken, so that they
can be copied; everything else keeps to the width.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from advisor.data import phrase
from advisor.findings import CauseReport, Diagnosis, Evidence, Finding, FixCard, InventoryRow, NextCheck
from advisor.render.text import (
    ASCII_BARS,
    BLOCKS,
    band,
    clean,
    command_lines,
    consequences,
    cut,
    figure,
    findings_against,
    findings_for,
    host_list,
    place,
    seconds,
    settings_without_effect,
    share,
    waterfall,
)

_COLOUR = {"fault": "bold red", "suspect": "bold magenta", "fine": "bold green", "cannot-tell": "bold"}
_READABLE = 110  # columns; longer lines of prose tire the eye
_BAR = 40
_HEAD_LINES = 4  # of the summary: thousands of hosts must not push the first command out of sight
_FEW = 3  # items of a kind before the rest is folded


class _Page:
    """Prints lines that fit the width, and what the encoding cannot show as an escape."""

    def __init__(self, console: Console, verbose: bool) -> None:
        self.console = console
        self.verbose = verbose
        self.utf8 = console.encoding.lower().startswith("utf")
        self.dots = "…" if self.utf8 else "..."
        self.width = console.width
        self.prose = min(self.width, _READABLE)

    def line(self, text: Text | str = "") -> None:
        """One line as it is: never wrapped, never cropped."""
        text = Text(text) if isinstance(text, str) else text
        if not self.utf8:
            shown = text.plain.encode(self.console.encoding, "backslashreplace").decode(self.console.encoding)
            text = text if shown == text.plain else Text(shown, style=text.style)
        self.console.print(text, soft_wrap=True, highlight=False)

    def heading(self, key: str) -> None:
        self.line()
        self.line(Text(phrase(key), style="bold"))

    def para(self, text: str, indent: int = 0, *, label: str = "", column: int = 0, most: int = 0) -> None:
        """Wrapped prose. A label stands before the first line, the text begins `column` cells after the indent.

        most: with that many lines or more, the middle of the text goes.
        """
        left = indent + column
        width = max(self.prose - left, 20)
        text = clean(text)
        wrapped = Text(text).wrap(self.console, width)
        if most and len(wrapped) > most and not self.verbose:
            # Lines break before they are full; the margin keeps the shortened text within its lines.
            wrapped = Text(cut(text, width * most - 12 * most, self.dots)).wrap(self.console, width)
        for number, part in enumerate(wrapped):
            part.rstrip()
            before = Text(" " * indent)
            before.append((label if number == 0 else "").ljust(column), style="bold" if label else "")
            self.line(before + part)

    def field(self, key: str, text: str, indent: int = 0, column: int = 9, *, most: int = 0) -> None:
        """A labelled paragraph; nothing where there is no text."""
        if text.strip():
            self.para(text, indent, label=phrase(key), column=column, most=most)

    def commands(self, commands: Sequence[str], indent: int) -> None:
        """Each line of each command on a line of its own."""
        for command in commands:
            for line in command_lines(command):
                self.line(Text(" " * indent + line, style="cyan" if line else ""))

    def printed(self, evidence: Evidence, indent: int, *, label: str = "", column: int = 0) -> None:
        """Where a line stands and what it says; on one line if both fit."""
        at, said = place(evidence), clean(evidence.text)
        before = Text(" " * indent)
        before.append(label.ljust(column), style="bold")
        room = self.width - indent - column
        if len(at) + 2 + len(said) <= room:
            self.line(before + Text(at, style="dim") + Text(f"  {said}"))
            return
        self.line(before + Text(cut(at, room, self.dots), style="dim"))
        self.line(Text(" " * (indent + column) + cut(said, room, self.dots)))

    def few(self, count: int) -> int:
        """How many of so many items to show."""
        return count if self.verbose or count <= _FEW + 1 else _FEW

    def hosts(self, hosts: list[str]) -> str:
        return host_list(hosts, 100_000 if self.verbose else 60, self.dots)


def _first(items: Sequence[Finding]) -> Evidence | None:
    """The line to show where there is room for one."""
    return next((line for finding in items for line in finding.evidence), None)


def _cost(check: NextCheck) -> str:
    return phrase(
        "report-cost",
        seconds=seconds(check.seconds),
        root=phrase("report-root-yes" if check.root else "report-root-no"),
        traffic=phrase("report-traffic-yes" if check.traffic else "report-traffic-no"),
    )


def _head(page: _Page, diagnosis: Diagnosis) -> None:
    """The answer: verdict, cause and how sure, the line that shows it, the first command."""
    verdict = phrase(f"report-verdict-{diagnosis.verdict}")
    text = Text(clean(diagnosis.summary))
    _verdict(page, verdict, text, _COLOUR[diagnosis.verdict])
    cause = next(iter(diagnosis.causes), None)
    if cause is not None:
        known = f"{clean(cause.id)}, {phrase(f'report-confidence-{cause.confidence}')}: {cause.why_sure}"
        page.field("report-label-limit" if diagnosis.verdict == "fine" else "report-label-cause", known, most=2)
        seen = _first(findings_for(diagnosis, cause))
        against = _first(findings_against(diagnosis, cause))
    else:
        seen = next((line for item in diagnosis.normal for line in item.evidence), None)
        against = None
    for key, evidence in (("report-label-seen", seen), ("report-label-against", against)):
        if evidence is not None:
            page.printed(evidence, 0, label=phrase(key), column=9)
    _do_first(page, diagnosis, cause)
