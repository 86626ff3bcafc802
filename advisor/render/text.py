"""What the renderers share: making captured text harmless, cutting it, and writing figures.

All captured text is hostile: a log can hold terminal escapes, direction overrides and lines of megabytes.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from advisor.data import phrase
from advisor.findings import Accounting, CauseReport, Diagnosis, Evidence, Finding, FixCard, InventoryRow, NextCheck

# Whole escape sequences first, so that `[31m` does not stay behind: CSI, then OSC, DCS, SOS, PM, APC, then the short.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-~]"
)
_PLAIN = re.compile(r"[ -~]*")
_BLANK = {"\t": " ", "\n": " ", "\r": " ", "\v": " ", "\f": " ", "\x85": " ", "\u2028": " ", "\u2029": " "}
_INVISIBLE = ("Cc", "Cf")  # controls; direction overrides, zero-width and soft marks


def clean(text: str) -> str:
    """One line without escapes, control and invisible characters; a lone surrogate becomes U+FFFD."""
    if _PLAIN.fullmatch(text):
        return text.strip()
    return "".join(map(_harmless, _ESCAPES.sub("", text))).strip()


def _harmless(char: str) -> str:
    if char in _BLANK:
        return _BLANK[char]
    kind = unicodedata.category(char)
    if kind == "Cs":
        return "\ufffd"
    return "" if kind in _INVISIBLE else char


def command_lines(command: str) -> list[str]:
    """The lines of a command, harmless and otherwise as they are: never cut, never joined."""
    lines = command.replace("\r\n", "\n").split("\n")
    return [line[: len(line) - len(line.lstrip(" "))] + clean(line) for line in lines]


def cut(text: str, width: int, dots: str = "…") -> str:
    """At most `width` terminal cells: the middle goes, since logs say who at the start and what at the end."""
    if len(text) <= width and cell_len(text) <= width:
        return text
    room = max(width - cell_len(dots), 0)
    start = _fitting(text, room * 3 // 5)
    tail = _fitting(text[::-1], room - cell_len(start))[::-1]
    return f"{start.rstrip()}{dots}{tail.lstrip()}"


def head(text: str, width: int, dots: str = "…") -> str:
    """The text in at most `width` cells; of a longer one the end goes."""
    return text if cell_len(text) <= width else _fitting(text, max(width - cell_len(dots), 1)).rstrip() + dots


def _fitting(text: str, width: int) -> str:
    """The longest start of the text that takes at most `width` cells."""
    start = text[:width]
    while cell_len(start) > width:
        start = start[:-1]
    return start


def figure(value: float) -> str:
    """Three significant digits, never with an exponent: 0.0213, 8.7, 345, 12600."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def share(value: float) -> str:
    """A share as a percentage: 97 %, 2.3 %."""
    percent = value * 100
    return f"{percent:.0f} %" if abs(percent) >= 10 or percent == 0 else f"{percent:.2g} %"


def seconds(value: float) -> str:
    """A time as people say it: 1 s, 90 s, 10 min."""
    return f"{value:.3g} s" if value < 120 else f"{value / 60:.0f} min"


def place(evidence: Evidence) -> str:
    """`file:line`, or the file alone for what has no lines."""
    file = clean(evidence.file)
    return f"{file}:{evidence.line}" if evidence.line else file


def band(account: Accounting) -> str:
    """The expected range with its unit."""
    low, high = account.expected
    return phrase("report-band", low=figure(low), high=figure(high), unit=clean(account.unit))


def capital(text: str) -> str:
    """With a capital where a sentence begins."""
    return text[:1].upper() + text[1:]


def speed(account: Accounting) -> str:
    """Measured against expected, in a sentence."""
    low, high = account.expected
    key = "below" if account.measured < low else "above" if account.measured > high else "within"
    return phrase(
        f"report-speed-{key}",
        quantity=clean(account.quantity),
        measured=figure(account.measured),
        unit=clean(account.unit),
        expected=band(account),
        share=share(account.measured / low) if low > 0 else "",
    )


def cost(check: NextCheck) -> str:
    """What a check costs: time, rights, traffic."""
    return phrase(
        "report-cost",
        seconds=seconds(check.seconds),
        root=phrase("report-root-yes" if check.root else "report-root-no"),
        traffic=phrase("report-traffic-yes" if check.traffic else "report-traffic-no"),
    )


def by_file(rows: Iterable[InventoryRow]) -> dict[str, list[InventoryRow]]:
    """The rows of each file: a file that two sources read has two."""
    files: dict[str, list[InventoryRow]] = {}
    for row in rows:
        files.setdefault(row.file, []).append(row)
    return files


def warns(rows: Sequence[InventoryRow]) -> bool:
    """Whether a file gave nothing or something is wrong with it."""
    return not any(row.facts for row in rows) or any(row.problems for row in rows)


def said_of(rows: Sequence[InventoryRow]) -> list[str]:
    """What a file was recognised as, what was not understood, what is wrong with it."""
    said = [phrase("report-row", source=row.source, facts=row.facts) for row in rows if row.source is not None]
    first = rows[0]
    if not said:
        said.append(phrase("report-not-recognised"))
    elif first.not_understood:
        where = ", ".join(map(str, first.first_not_understood))
        said.append(phrase("report-not-understood", count=first.not_understood, lines=first.lines, first=where))
    return list(dict.fromkeys(said + [problem for row in rows for problem in row.problems]))


def inventory_summary(rows: Sequence[InventoryRow]) -> str:
    """Files, lines and facts in all, and how many files each source read."""
    if not rows:
        return phrase("report-nothing-read")
    firsts = [parts[0] for parts in by_file(rows).values()]
    said = phrase(
        "report-inventory",
        files=len(firsts),
        lines=sum(row.lines for row in firsts),
        unread=sum(row.not_understood for row in firsts),
        facts=sum(row.facts for row in rows),
    )
    sources = Counter(row.source for row in rows if row.source)
    if not sources:
        return said
    listed = ", ".join(phrase("report-source-files", source=name, files=sources[name]) for name in sorted(sources))
    return phrase("report-inventory-recognised", said=said, sources=listed)


def findings_for(diagnosis: Diagnosis, cause: CauseReport) -> list[Finding]:
    """The findings a cause rests on, the proving ones first."""
    named = [f for f in diagnosis.findings if f.id in cause.findings and f.evidence_kind in ("proves", "suggests")]
    return sorted(named, key=lambda f: f.evidence_kind != "proves")


def findings_against(diagnosis: Diagnosis, cause: CauseReport) -> list[Finding]:
    """The findings that speak against a cause which stands all the same."""
    return [f for f in diagnosis.findings if f.evidence_kind == "refutes" and f.explained_by == cause.id]


def settings_without_effect(diagnosis: Diagnosis) -> list[Finding]:
    """Settings that look wrong and show no effect here."""
    return [f for f in diagnosis.findings if f.evidence_kind == "note"]


def first_fix(diagnosis: Diagnosis) -> FixCard | None:
    """What to do now, where the first cause is confirmed or nothing is left to look at."""
    cause = diagnosis.causes[0] if diagnosis.causes else None
    if cause is None or not cause.fixes or (diagnosis.next_checks and cause.confidence != "confirmed"):
        return None
    return cause.fixes[0]


def first_check(diagnosis: Diagnosis) -> NextCheck | None:
    """What to run now, where nothing is to be done yet."""
    return diagnosis.next_checks[0] if diagnosis.next_checks and first_fix(diagnosis) is None else None


def still_open(diagnosis: Diagnosis) -> list[str]:
    """Ids of the causes that the next checks bear on."""
    return sorted({cause for check in diagnosis.next_checks for cause in check.separates})


def consequences(diagnosis: Diagnosis, cause: CauseReport) -> list[str]:
    """Ids of the causes that this one brings about."""
    return [other.id for other in diagnosis.causes if cause.id in other.caused_by]


@dataclass(slots=True, frozen=True)
class Bars:
    """The glyphs of a waterfall: what is there, what is lost, the band of what may be expected."""

    full: str
    lost: str
    band: str


BLOCKS = Bars("█", "░", "▒")
ASCII_BARS = Bars("#", "-", "=")


def waterfall(account: Accounting, width: int, bars: Bars = BLOCKS) -> list[tuple[str, str, str]]:
    """Rows (label, bar, figure) from the expected to the measured value; each bar takes at most `width` cells.

    The losses begin at the value they are shares of, which lies in the band: what they leave of it is the measured one.
    """
    low, high = account.expected
    scale = max(high, account.measured)
    unit = clean(account.unit)

    def cells(value: float) -> int:
        return round(width * min(max(value / scale, 0), 1)) if scale > 0 else 0

    rows = [(phrase("report-expected"), bars.full * cells(low) + bars.band * (cells(high) - cells(low)), band(account))]
    losses = [*account.explained.items(), (phrase("report-unexplained"), account.unexplained)]
    left = 1 - sum(lost for _, lost in losses)
    whole = account.measured / left if 0 < left < 1 else low
    top = whole
    for name, lost in losses:
        if lost >= 0.005:  # less does not show and is within what a repetition differs by
            bottom = max(top - lost * whole, 0)
            bar = " " * cells(bottom) + bars.lost * (cells(top) - cells(bottom))
            rows.append((clean(name), bar, f"-{share(lost)}"))
            top = bottom
    measured = bars.full * max(cells(account.measured), int(account.measured > 0))
    rows.append((phrase("report-measured"), measured, f"{figure(account.measured)} {unit}"))
    return rows
