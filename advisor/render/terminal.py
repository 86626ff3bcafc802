"""The diagnosis on a terminal: the answer in ten lines, then what it rests on, in the order in which one asks.

Colour only repeats what a word says. Nothing captured is ever read as markup; commands are never broken, so that they
can be copied; everything else keeps to the width.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from io import StringIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from advisor.data import phrase
from advisor.findings import CauseReport, Diagnosis, Evidence, Finding, FixCard, InventoryRow, Normal, RuledOut
from advisor.render import text as shared
from advisor.render.text import cut, place, share

_COLOUR = {"fault": "bold red", "suspect": "bold magenta", "fine": "bold green", "cannot-tell": "bold"}
_READABLE = 110  # columns; longer lines of prose tire the eye
_LABEL = 10  # cells of the column that labels stand in
_BAR = 40  # cells of a bar at most
_LOG_PREFIX = re.compile(
    r"^(?:\[[\d :.-]{10,30}\] )?\S{1,250}:\d{1,10}:\d{1,10} \[-?\d{1,4}\] (?:\S{1,80} )?NCCL (?:INFO|WARN) "
)
_ROOMY = 80  # columns from which two commands fit into the first ten lines
_HEAD_LINES = 4  # of the summary: thousands of hosts must not push the first command out of sight
_FEW = 3  # items of a kind before the rest is folded
_NARROW = 80  # below that many columns the head is kept short
_BLANKS = re.compile(r" {3,}")
_FILE_WIDTH = 100
_HOSTS = 60  # cells of a folded host list


class _Page:
    """Prints lines that fit the width, and what the encoding cannot show as an escape."""

    def __init__(self, console: Console, verbose: bool) -> None:
        self.console = console
        self.verbose = verbose
        self.utf8 = console.encoding.lower().startswith("utf")
        self.dots = "…" if self.utf8 else "..."
        self.width = console.width
        self.prose = min(self.width, _READABLE)

    def safe(self, text: str) -> str:
        """Harmless, and within the encoding."""
        return self.encodable(shared.clean(text))

    def encodable(self, text: str) -> str:
        encoding = self.console.encoding
        return text if self.utf8 else text.encode(encoding, "backslashreplace").decode(encoding)

    def line(self, text: Text | None = None) -> None:
        """One line as it is: never wrapped, never cropped."""
        self.console.print(text or Text(), soft_wrap=True, highlight=False)

    def heading(self, key: str) -> None:
        self.line()
        self.line(Text(self.safe(phrase(key)), style="bold"))

    def para(
        self,
        text: str,
        indent: int = 0,
        *,
        label: str = "",
        style: str = "",
        text_style: str = "",
        column: int = 0,
        most: int = 0,
    ) -> None:
        """Wrapped prose, beginning `column` cells after the indent; the label stands before its first line.

        most: beyond that many lines, the middle of the text goes.
        """
        width = max(self.prose - indent - column, 20)
        text = self.safe(text)
        wrapped = Text(text).wrap(self.console, width)
        room = width * most
        while most and len(wrapped) > most and not self.verbose:  # again, since lines break before they are full
            wrapped = Text(cut(text, room, self.dots)).wrap(self.console, width)
            room -= width // 8
        for number, part in enumerate(wrapped):
            part.rstrip()
            part.stylize(text_style)
            before = Text(" " * indent)
            before.append((self.safe(label) if number == 0 else "").ljust(column), style=style)
            self.line(before + part)

    def field(self, key: str, text: str, indent: int = 0, *, column: int = _LABEL, most: int = 0) -> None:
        """A labelled paragraph; nothing where there is no text. Labels are bold in the head and before a danger."""
        if text.strip():
            style = "bold red" if key == "danger" else "" if indent else "bold"
            self.para(text, indent, label=phrase(f"report-label-{key}"), style=style, column=column, most=most)

    def title(self, text: str, indent: int, label: str) -> None:
        """What the indented lines below are about."""
        column = len(label) + 1
        self.para(text, indent, label=label, style="", column=column, text_style="bold")

    def command(self, command: str, indent: int) -> None:
        """Each line on a line of its own, however long."""
        for line in shared.command_lines(command):
            self.line(Text(" " * indent) + Text(self.encodable(line), style="bold"))

    def commands(self, key: str, commands: Sequence[str], indent: int) -> None:
        """A label with commands below it; nothing where there are none."""
        if commands:
            self.para(phrase(f"report-label-{key}"), indent)
        for command in commands:
            self.command(command, indent + 2)

    def printed(
        self, evidence: Evidence, indent: int, *, label: str = "", column: int = 0, one_line: bool = False
    ) -> None:
        """Where a line stands and what it says; on one line if both fit or must."""
        at, said = self.safe(place(evidence)), self.safe(evidence.text)
        before = Text(" " * indent)
        before.append(self.safe(label).ljust(column), style="bold")
        room = max(self.width - indent - column, 20)
        if cell_len(said) > room or one_line:
            said = _BLANKS.sub("  ", said)  # columns of a table stand closer before anything is lost
        if cell_len(said) > room - (cell_len(at) + 2) * one_line:
            said = _LOG_PREFIX.sub(self.dots, said)  # host, process and thread say less than what follows
        if one_line:
            at = cut(at, max(room // 2, room - 30), self.dots)
            said = shared.head(said, room - cell_len(at) - 2, self.dots)
        if cell_len(at) + 2 + cell_len(said) <= room:
            self.line(before + Text(at, style="dim") + Text(f"  {said}"))
            return
        self.line(before + Text(cut(at, room, self.dots), style="dim"))
        self.line(Text(" " * (indent + column) + cut(said, room, self.dots)))

    def few(self, count: int, few: int = _FEW) -> int:
        """How many of so many items to show; folding one alone would save nothing."""
        return count if self.verbose or count <= few + 1 else few

    def folded(self, hidden: int, indent: int) -> None:
        if hidden:
            self.para(phrase("report-more-items", count=hidden), indent)

    def hosts(self, hosts: list[str]) -> str:
        return cut(", ".join(map(shared.clean, hosts)), 1_000_000 if self.verbose else _HOSTS, self.dots)


def text(diagnosis: Diagnosis, *, to_file: bool, verbose: bool = False) -> str:
    """The report as standard output would show it, or as a file of 100 columns without colour."""
    console = Console(file=StringIO(), width=_FILE_WIDTH) if to_file else Console()
    with console.capture() as captured:
        render(diagnosis, console, verbose=verbose)
    return captured.get()


def render(diagnosis: Diagnosis, console: Console, *, verbose: bool = False) -> None:
    """Prints the report; `verbose` unfolds all of it."""
    page = _Page(console, verbose)
    _head(page, diagnosis)
    _speed(page, diagnosis)
    roots = [c for c in diagnosis.causes if c.role == "root"]
    also = [c for c in diagnosis.causes if c.role == "also-present"]
    if roots:
        page.heading("report-section-limits" if diagnosis.verdict == "fine" else "report-section-causes")
    for cause in roots:
        _cause(page, diagnosis, cause)
    if also:
        page.heading("report-section-also")
    for cause in also:
        _cause(page, diagnosis, cause)
    looking_first = shared.first_check(diagnosis) is not None
    for section in (_next_checks, _fixes) if looking_first else (_fixes, _next_checks):
        section(page, diagnosis)
    _readings(page, "report-section-ruled-out", diagnosis.ruled_out)
    _readings(page, "report-section-normal", diagnosis.normal)
    _without_effect(page, diagnosis)
    _conflicts(page, diagnosis)
    _inventory(page, diagnosis.inventory)
    page.line()
    first = diagnosis.causes[0].id if diagnosis.causes else ""
    page.para(phrase("report-footer", cause=first) if first else phrase("report-footer-plain"))


def _head(page: _Page, diagnosis: Diagnosis) -> None:
    """The answer: verdict, cause and how sure, the line that shows it, the first command.

    Where there is little room, or a danger or a line that speaks against it must be said too, the rest gets shorter.
    """
    verdict = phrase(f"report-verdict-{diagnosis.verdict}")
    column = max(_LABEL, len(verdict) + 2)
    style = _COLOUR[diagnosis.verdict]
    page.para(diagnosis.summary, label=verdict, style=style, column=column, most=_HEAD_LINES)
    seen = against = None
    tight = page.width < _NARROW
    if diagnosis.causes:
        cause = diagnosis.causes[0]
        seen = _first_line(shared.findings_for(diagnosis, cause))
        against = _first_line(shared.findings_against(diagnosis, cause))
        fix = shared.first_fix(diagnosis)
        tight = tight or against is not None or (fix is not None and bool(fix.danger))
        known = phrase("report-known", id=cause.id, confidence=_confidence(cause))
        said = known if tight else phrase("report-known-why", known=known, why=cause.why_sure)
        page.field("limit" if diagnosis.verdict == "fine" else "cause", said, column=column, most=2)
    else:
        seen = next((line for item in diagnosis.normal for line in item.evidence), None)
        page.field("open", ", ".join(shared.still_open(diagnosis)), column=column, most=2)
    for key, evidence in (("seen", seen), ("against", against)):
        if evidence is not None:
            page.printed(evidence, 0, label=phrase(f"report-label-{key}"), column=column, one_line=tight)
    _first(page, diagnosis, column)


def _first_line(findings: Iterable[Finding]) -> Evidence | None:
    return next((line for finding in findings for line in finding.evidence), None)


def _confidence(cause: CauseReport) -> str:
    return phrase(f"report-confidence-{cause.confidence}")


def _first(page: _Page, diagnosis: Diagnosis, column: int) -> None:
    """What to do or run now; a danger before the command it belongs to."""
    fix = shared.first_fix(diagnosis)
    check = shared.first_check(diagnosis)
    if fix:
        shown = 2 if len(fix.commands) == 2 and page.width >= _ROOMY else 1  # saving the old value, then the change
        key = "report-first-fix" if len(fix.commands) <= shown else "report-first-fix-of"
        room = 2 * (page.prose - column) - len(_risk(fix)) - 10  # the title is cut, never the risk
        title = cut(shared.clean(fix.title), max(room, 20), page.dots)
        page.field("do-first", phrase(key, title=title, risk=_risk(fix), count=len(fix.commands)), column=column)
        page.field("danger", fix.danger, column=column, most=2)
        for command in fix.commands[:shown]:
            page.command(command, column)
    elif check:
        said = phrase("report-first-check", why=check.why, cost=shared.cost(check))
        page.field("run-first", said, column=column, most=2)
        page.command(check.command, column)
    elif diagnosis.verdict != "fine" and diagnosis.causes:
        page.field("run-first", phrase("report-explain-first"), column=column)
        page.command(phrase("report-explain-command", cause=diagnosis.causes[0].id), column)
    else:
        page.field("do-first", phrase("report-nothing-first"), column=column)


def _risk(fix: FixCard) -> str:
    return phrase(f"report-risk-{fix.risk}")


def _speed(page: _Page, diagnosis: Diagnosis) -> None:
    account = diagnosis.accounting
    if account is None:
        return
    page.heading("report-section-speed")
    page.para(shared.speed(account), 2)
    bars = shared.BLOCKS if page.utf8 else shared.ASCII_BARS
    label = max(len(name) for name, _, _ in shared.waterfall(account, 0))
    value = max(len(said) for _, _, said in shared.waterfall(account, 0))
    width = max(min(page.width - label - value - 6, _BAR), 8)
    for name, bar, said in shared.waterfall(account, width, bars):
        page.line(Text(page.encodable(f"  {name:<{label}}  {bar:<{width}}  {said}")))
    shown = page.few(len(account.why), 6)
    for why in account.why[:shown]:
        page.para(why, 2, label="-", column=2, style="")
    page.folded(len(account.why) - shown, 4)


def _cause(page: _Page, diagnosis: Diagnosis, cause: CauseReport) -> None:
    """A cause, how sure it is, and what it rests on."""
    number = str(diagnosis.causes.index(cause) + 1)
    page.title(cause.title, 2, number)
    indent = 3 + len(number)
    page.para(_tags(page, cause), indent)
    if cause.caused_by:
        page.field("follows", phrase("report-follows", causes=", ".join(cause.caused_by)), indent)
    page.field("leads", ", ".join(shared.consequences(diagnosis, cause)), indent)
    page.field("sure", cause.why_sure, indent)
    found = shared.findings_for(diagnosis, cause)
    shown = page.few(len(found))
    for finding in found[:shown]:
        _finding(page, finding, finding.text, indent)
    page.folded(len(found) - shown, indent)
    for finding in shared.findings_against(diagnosis, cause):
        _finding(page, finding, phrase("report-against", text=finding.text), indent)
    if page.verbose:
        page.field("rank", "; ".join(cause.rank), indent)


def _tags(page: _Page, cause: CauseReport) -> str:
    tags = [cause.id, phrase(f"report-kind-{cause.kind}"), _confidence(cause)]
    tags += [phrase("report-on-hosts", hosts=page.hosts(cause.hosts))] if cause.hosts else []
    tags += [phrase("report-costs", share=share(cause.loss_share))] if cause.loss_share is not None else []
    return ", ".join(tags)


def _finding(page: _Page, finding: Finding, text: str, indent: int) -> None:
    said = phrase("report-finding-on", text=text, hosts=page.hosts(finding.hosts)) if finding.hosts else text
    page.para(said, indent, label="-", column=2)
    shown = page.few(len(finding.evidence), 1)
    for evidence in finding.evidence[:shown]:
        page.printed(evidence, indent + 4)
    page.folded(len(finding.evidence) - shown, indent + 4)


def _fixes(page: _Page, diagnosis: Diagnosis) -> None:
    """A full card for each cause to repair; what is unsure, small or follows from another only names its cards."""
    with_fixes = [cause for cause in diagnosis.causes if cause.fixes]
    if with_fixes:
        page.heading("report-section-fixes")
    for cause in with_fixes:
        number = str(diagnosis.causes.index(cause) + 1)
        indent = 3 + len(number)
        page.para(cause.id, 2, label=number, column=len(number) + 1)
        sure = cause.role == "root" and cause.confidence != "possible" and not cause.caused_by
        full = len(cause.fixes) if page.verbose else int(sure)
        for fix in cause.fixes[:full]:
            _card(page, fix, indent)
        for fix in cause.fixes[full:]:
            key = "report-fix-unsure" if cause.confidence == "possible" else "report-fix"
            said = phrase(key, title=fix.title, risk=_risk(fix), who=fix.who)
            page.para(said, indent, label="-", column=2)


def _card(page: _Page, fix: FixCard, indent: int) -> None:
    page.title(fix.title, indent, "-")
    indent += 2
    page.field("risk", _risk(fix), indent)
    page.field("who", fix.who, indent)
    page.field("danger", fix.danger, indent)
    page.commands("do", fix.commands, indent)
    page.commands("undo", fix.undo, indent)
    page.field("lasts", fix.persistence, indent)
    page.commands("check", fix.verify, indent)
    page.field("expect", fix.expect, indent)


def _next_checks(page: _Page, diagnosis: Diagnosis) -> None:
    if diagnosis.next_checks:
        page.heading("report-section-next")
    for number, check in enumerate(diagnosis.next_checks, 1):
        page.title(shared.capital(check.why), 2, str(number))
        page.para(shared.cost(check), 4)
        page.field("separates", ", ".join(check.separates), 4, most=2)
        page.command(check.command, 6)


def _readings(page: _Page, key: str, readings: Sequence[RuledOut | Normal]) -> None:
    """Causes ruled out or readings that are normal, each with its reason and place."""
    if readings:
        page.heading(key)
    shown = page.few(len(readings), 5)
    for item in readings[:shown]:
        page.para(phrase("report-reading", id=item.id, why=item.why), 2, label="-", column=2)
        for evidence in item.evidence if page.verbose else item.evidence[:1]:
            page.printed(evidence, 6)
    page.folded(len(readings) - shown, 2)


def _without_effect(page: _Page, diagnosis: Diagnosis) -> None:
    notes = shared.settings_without_effect(diagnosis)
    if notes:
        page.heading("report-section-without-effect")
    for finding in notes:
        _finding(page, finding, finding.text, 2)


def _conflicts(page: _Page, diagnosis: Diagnosis) -> None:
    if diagnosis.conflicts:
        page.heading("report-section-conflicts")
    shown = page.few(len(diagnosis.conflicts))
    for conflict in diagnosis.conflicts[:shown]:
        page.para(conflict, 2, label="-", column=2, most=2)
    page.folded(len(diagnosis.conflicts) - shown, 2)


def _inventory(page: _Page, rows: Sequence[InventoryRow]) -> None:
    """What was recognised in a line or two; each file that gave nothing or is damaged by itself."""
    page.heading("report-section-inventory")
    page.para(shared.inventory_summary(rows), 2)
    files = shared.by_file(rows)
    listed = {file: shared.said_of(parts) for file, parts in files.items() if page.verbose or shared.warns(parts)}
    shown = page.few(len(listed), 5)
    for file, said in list(listed.items())[:shown]:
        page.para(phrase("report-reading", id=file, why="; ".join(said)), 2, label="-", column=2, most=3)
    page.folded(len(listed) - shown, 2)
