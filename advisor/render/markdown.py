"""The report that an engineer hands to the team, in Markdown as GitHub reads it.

Whatever a template prints is escaped unless a filter has made it safe (`code`, `codes`, `fence`, `bars`) or it is one
of the advisor's own phrases, so that a forgotten filter shows a backslash too many instead of breaking out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined

from advisor.data import phrase
from advisor.findings import Accounting, Diagnosis
from advisor.render import text as shared

_EVIDENCE = 300  # characters of a printed line
_HOSTS = 200  # characters of a folded host list
_SPECIAL = re.compile(r"[\\`*_\[\]~|]")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "$": "&#36;"}  # GitHub sets $...$ as mathematics
_BLOCK_START = re.compile(r"^(?:[-+#=](?=[-+#=\s])|\d+(?=[.)](?:\s|$)))")
# Before these GitHub makes something live: people notified, issues linked, bare addresses opened.
_LIVE = re.compile(r"(?i)(?<=@)(?=\w)|(?<=#)(?=\d)|(?<=http)(?=s?:)|(?<=ftp)(?=:)|(?<=www)(?=\.)|(?<=mailto)(?=:)")
_JOINER = "\u2060"  # invisible and of no width
_BACKTICKS = re.compile(r"`+")


class _Safe(str):
    """Markdown as it shall stand."""

    __slots__ = ()


def md(value: object) -> str:
    """Captured text as plain words of a paragraph: no markup, HTML, link, mention or list comes of it."""
    if isinstance(value, _Safe):
        return value
    text = shared.clean(str(value))
    text = _SPECIAL.sub(r"\\\g<0>", text)
    text = _LIVE.sub(_JOINER, text)
    text = re.sub("[&<>$]", lambda m: _ENTITIES[m[0]], text)
    return _BLOCK_START.sub(lambda m: f"{m[0]}\\" if m[0].isdigit() else f"\\{m[0]}", text)


def code(value: str, *, limit: int = _EVIDENCE, table: bool = False) -> _Safe:
    """A code span that no backtick inside can end; in a table also no bar."""
    text = shared.cut(shared.clean(value), limit)
    if table:  # a bar ends the cell even inside a code span, unless one backslash stands before it
        text = text.replace("\\|", "\\ |").replace("|", "\\|")
    ticks = "`" * (max(map(len, _BACKTICKS.findall(text)), default=0) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return _Safe(f"{ticks}{pad}{text}{pad}{ticks}" if text else "")


def codes(values: Iterable[str], *, table: bool = False) -> _Safe:
    """Code spans with commas between."""
    return _Safe(", ".join(code(value, limit=_HOSTS // 3 if table else _HOSTS, table=table) for value in values))


def fence(lines: Iterable[str], language: str = "text", indent: int = 0) -> _Safe:
    """A code block that no backticks inside can end; the first line stands where the template has put it."""
    kept = list(lines)
    longest = max((len(run) for line in kept for run in _BACKTICKS.findall(line)), default=0)
    ticks = "`" * max(3, longest + 1)
    body = [f"{' ' * indent}{line}" if line else "" for line in [*kept, ticks]]
    return _Safe("\n".join([f"{ticks}{language}", *body]))


def commands(values: Iterable[str], indent: int = 0) -> _Safe:
    """Commands, never cut."""
    return fence((line for value in values for line in shared.command_lines(value)), "sh", indent)


def printed(evidence: Iterable[Any], indent: int = 0) -> _Safe:
    """Evidence as `file:line: printed line`, long lines cut in the middle."""
    cut = shared.cut
    return fence((f"{shared.place(e)}: {cut(shared.clean(e.text), _EVIDENCE)}" for e in evidence), "text", indent)


def bars(account: Accounting) -> _Safe:
    """The waterfall as a code block."""
    rows = shared.waterfall(account, 40)
    label = max(len(name) for name, _, _ in rows)
    return fence(f"{name:<{label}}  {bar:<40}  {said}".rstrip() for name, bar, said in rows)


def sentence(text: str) -> str:
    """With exactly one full stop."""
    return f"{text.rstrip(' .')}."


def _say(key: str, **values: object) -> _Safe:
    """A phrase whose fields are escaped."""
    return _Safe(phrase(key, **{name: md(value) for name, value in values.items()}))


def render(diagnosis: Diagnosis) -> str:
    """The report. Raises jinja2.UndefinedError if the template names what the contract lacks."""
    environment = Environment(
        autoescape=False,  # noqa: S701 (HTML escaping would not help here; `finalize` escapes for Markdown)
        undefined=StrictUndefined,
        finalize=md,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(code=code, codes=codes, commands=commands, printed=printed, bars=bars)
    environment.filters.update(share=shared.share, cut=shared.cut, capital=shared.capital, sentence=sentence)
    environment.globals.update(say=_say, shared=shared)
    template = environment.from_string(files("advisor.render").joinpath("templates/report.md.j2").read_text("utf-8"))
    return template.render(d=diagnosis)
