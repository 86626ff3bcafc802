"""The reports: golden files, and what must hold of every report whatever the input."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from markdown_it import MarkdownIt
from rich.cells import cell_len
from rich.console import Console

from advisor.data import phrase
from advisor.findings import Accounting, Diagnosis, NextCheck
from advisor.render import json as as_json
from advisor.render import markdown, terminal, text
from tests.golden_tools import SCHEMA, inputs, load, on_terminal, rendered

WIDTHS = (60, 80, 120, 200)
INVISIBLE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")
each_input = pytest.mark.parametrize("path", inputs(), ids=lambda p: p.stem)


def commands_of(diagnosis: Diagnosis) -> list[str]:
    """Every command of a report, as lines."""
    said = [check.command for check in diagnosis.next_checks]
    for cause in diagnosis.causes:
        for fix in cause.fixes:
            said += [*fix.commands, *fix.undo, *fix.verify]
    return [line.strip() for command in said for line in text.command_lines(command)]


@each_input
def test_golden(path: Path) -> None:
    for golden, made in rendered(path).items():
        assert made == golden.read_text(encoding="utf-8"), f"{golden.name}: python -m tests.golden_tools write"


@each_input
@pytest.mark.parametrize("width", WIDTHS)
def test_the_first_ten_lines_hold_the_answer(path: Path, width: int) -> None:
    diagnosis = load(path)
    head = on_terminal(diagnosis, width).split("\n")[:10]
    shown = "\n".join(head)
    assert head[0].startswith(phrase(f"report-verdict-{diagnosis.verdict}"))
    if diagnosis.causes:
        first = diagnosis.causes[0]
        evidence = text.findings_for(diagnosis, first)[0].evidence[0]
        assert first.id in shown
        assert phrase(f"report-confidence-{first.confidence}") in shown
        assert f":{evidence.line}" in shown
        assert width < 80 or text.place(evidence) in shown
    fix, check = text.first_fix(diagnosis), text.first_check(diagnosis)
    command = check.command if check else fix.commands[0] if fix else None
    if command:
        assert [line.strip() for line in head if line.strip() in text.command_lines(command)]
    else:
        assert phrase("report-nothing-first") in shown


@each_input
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("verbose", [False, True])
def test_lines_keep_to_the_width_and_commands_stay_whole(path: Path, width: int, verbose: bool) -> None:
    diagnosis = load(path)
    commands = commands_of(diagnosis)
    lines = on_terminal(diagnosis, width, verbose=verbose).split("\n")
    too_wide = [line for line in lines if cell_len(line) > width]
    assert [line for line in too_wide if line.strip() not in commands] == []
    if verbose:
        shown = {line.strip() for line in lines}
        assert [command for command in commands if command and command not in shown] == []


@each_input
def test_nothing_invisible_reaches_the_reader(path: Path) -> None:
    diagnosis = load(path)
    assert INVISIBLE.search(on_terminal(diagnosis, 80, verbose=True)) is None
    assert INVISIBLE.search(markdown.render(diagnosis)) is None


@each_input
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_encodings_without_block_characters(path: Path, encoding: str) -> None:
    shown = on_terminal(load(path), 80, encoding=encoding)
    assert "#" in shown or load(path).accounting is None
    assert "…" not in shown


@each_input
def test_colours_are_the_eight_and_no_color_has_none(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def escapes(console: Console) -> set[str]:
        terminal.render(load(path), console)
        assert isinstance(console.file, io.StringIO)
        return {code for codes in re.findall(r"\x1b\[([\d;]*)m", console.file.getvalue()) for code in codes.split(";")}

    coloured = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="truecolor")
    assert escapes(coloured) <= {"", "0", "1", "2", *map(str, range(30, 38))}
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="truecolor")
    assert escapes(plain) <= {"", "0", "1", "2"}


@each_input
def test_markdown_cannot_be_broken_out_of(path: Path) -> None:
    diagnosis = load(path)
    made = markdown.render(diagnosis)
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(made)
    html = [t.content.strip() for t in tokens if t.type == "html_block"]
    inline = [child for t in tokens for child in t.children or []]
    assert html in ([], ["<details>\n<summary>Every file</summary>", "</details>"])
    assert {child.content for child in inline if child.type == "html_inline"} <= {"<br>"}
    assert not [child for child in inline if child.type in ("link_open", "image", "s_open", "em_open")]
    fenced = "\n".join(t.content for t in tokens if t.type == "fence")
    assert [command for command in commands_of(diagnosis) if command not in fenced] == []
    headings = [tokens[i + 1].content for i, t in enumerate(tokens) if t.type == "heading_open"]
    fixes = sum(len(cause.fixes) for cause in diagnosis.causes)
    assert len([h for h in headings if h.startswith(("Repair: ", "Or: ", "If confirmed: "))]) == fixes
    columns = [t.content.count("|") for t in tokens if t.type == "table"]
    assert columns == [0] * len(columns)
    rows = [line for line in made.split("\n") if line.startswith("| ")]
    assert {len(re.split(r"(?<!\\)\|", row)) for row in rows} <= {8}


@each_input
def test_json_says_the_same_and_follows_the_schema(path: Path) -> None:
    diagnosis = load(path)
    made = as_json.render(diagnosis)
    assert made == path.read_text(encoding="utf-8")
    assert as_json.load(made) == diagnosis
    jsonschema.Draft202012Validator(as_json.schema()).validate(json.loads(made))


def test_schema_is_fresh() -> None:
    """If not: `python -m tests.golden_tools write`."""
    assert json.loads(SCHEMA.read_text(encoding="utf-8")) == as_json.schema()


def test_json_is_ascii_and_has_no_lone_surrogates() -> None:
    diagnosis = replace(load(inputs()[0]), conflicts=["caf\udce9 Zürich"])
    made = as_json.render(diagnosis)
    assert made.isascii()
    assert json.loads(made)["conflicts"] == ["caf? Zürich"]


def test_surrogates_reach_neither_terminal_nor_markdown() -> None:
    diagnosis = replace(load(inputs()[0]), conflicts=["caf\udce9"])
    assert "caf\ufffd" in on_terminal(diagnosis, 80)
    assert "caf\ufffd" in markdown.render(diagnosis)


def test_rendering_imports_nothing_heavy_before_it_is_needed() -> None:
    code = "import advisor.render, sys; print([m for m in ('rich', 'jinja2', 'pydantic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]0;title\x07text\x1b]8;;http://x\x1b\\link", "textlink"),
        ("a\tb\nc\r\x00\x08", "a b c"),
        ("\u202eabc\u202c\u200b\ufeff", "abc"),
        ("  straße 東京  ", "straße 東京"),
        ("\x1b", ""),
    ],
)
def test_clean(raw: str, shown: str) -> None:
    assert text.clean(raw) == shown


@pytest.mark.parametrize("width", [1, 2, 3, 10, 11, 12, 80])
@pytest.mark.parametrize("line", ["", "short", "x" * 5000, "東" * 400, "a" + "東" * 400 + "b"])
def test_cut_fits_and_keeps_both_ends(line: str, width: int) -> None:
    cut = text.cut(line, width)
    assert cell_len(cut) <= width
    if len(line) > 100 and width >= 10:
        assert cut[0] == line[0]
        assert cut[-1] == line[-1]


def test_figures() -> None:
    assert [text.figure(v) for v in (0.02134, 8.718, 99.96, 345.2, 12600.0)] == [
        "0.0213",
        "8.72",
        "100",
        "345",
        "12600",
    ]
    assert [text.share(v) for v in (0.974, 0.0234, 0.0, 1.0)] == ["97 %", "2.3 %", "0 %", "100 %"]
    assert [text.seconds(v) for v in (0.5, 1.0, 90.0, 600.0)] == ["0.5 s", "1 s", "90 s", "10 min"]


def test_waterfall_steps_from_expected_to_measured() -> None:
    losses = {"a": 0.5, "b": 0.15}
    account = Accounting(
        quantity="busbw", unit="GB/s", expected=(100, 120), measured=30, explained=losses, unexplained=0.05
    )
    bars = [bar for _, bar, _ in text.waterfall(account, 12, text.ASCII_BARS)]
    assert bars == ["##########==", "     -----", "    -", "   -", "###"]


def test_waterfall_of_nothing_measured() -> None:
    account = Accounting(quantity="q", unit="u", expected=(0, 0), measured=0, explained={"a": 2.0}, unexplained=0)
    assert [bar.strip() for _, bar, _ in text.waterfall(account, 12)] == ["", "", ""]


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("1. item", "1\\. item"),
        ("- item", "\\- item"),
        ("# head", "\\# head"),
        ("0.5 s", "0.5 s"),
        ("a_b*c*", "a\\_b\\*c\\*"),
        ("<b>&", "&lt;b&gt;&amp;"),
        ("$x$", "&#36;x&#36;"),
    ],
)
def test_markdown_escapes(raw: str, shown: str) -> None:
    assert markdown.md(raw) == shown


def test_checks_come_first_until_a_cause_is_confirmed() -> None:
    check = NextCheck(command="ibstatus", why="w", separates=[], seconds=1, root=False, traffic=False)
    fault = replace(load(next(p for p in inputs() if p.stem == "fault")), next_checks=[check])
    assert text.first_fix(fault) is fault.causes[0].fixes[0]
    likely = replace(fault.causes[0], confidence="likely")
    fault.causes[0] = likely
    assert text.first_fix(fault) is None
    assert text.first_check(fault) is check


def test_a_fault_without_a_known_repair_points_to_its_page() -> None:
    fault = load(next(p for p in inputs() if p.stem == "fault"))
    fault.causes[0] = replace(fault.causes[0], fixes=[])
    command = phrase("report-explain-command", cause="container-misconfig")
    assert command in [line.strip() for line in on_terminal(fault, 80).split("\n")[:10]]
    assert f"\n{command}\n" in markdown.render(fault)
