"""What a source declares, and the text it is given.

A source is one module of this package: `SOURCE = Source(...)` at its end, a pure function from a segment to facts
before it. It is found by walking the package; nothing is registered anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from advisor.facts import Fact, Origin

_NCCL_LINE = re.compile(r"NCCL (?:INFO|WARN|TRACE|CALL) ")


@dataclass(slots=True)
class Segment:
    """A stretch of one input that is the output of one command, or of several tools mixed in one log.

    lines: cleaned (no ANSI, no launcher prefix, no line ends); numbers: line number in `file` of each line, 1-based;
    host: who printed it, as far as the input says; command: the command line it is the output of, where it is shown.
    A source marks what it understood: `origin` does so for the lines of a fact, `skip` for recognised lines that
    carry none.
    """

    file: str
    lines: list[str]
    numbers: Sequence[int]
    host: str | None = None
    command: str | None = None
    source: str = ""
    understood: set[int] = field(default_factory=set)
    _text: str | None = None
    _searched: str | None = None

    @property
    def text(self) -> str:
        """The whole segment as one string, made once."""
        if self._text is None:
            self._text = "\n".join(self.lines)
        return self._text

    @property
    def searched(self) -> str:
        """What tools are recognised in: the text without NCCL's own lines, and the command, made once.

        Logs are long and nearly all of them is NCCL's; every signature would be searched in all of it.
        """
        if self._searched is None:
            others = "\n".join(line for line in self.lines if not _NCCL_LINE.search(line))
            self._searched = others if self.command is None else f"{self.command}\n{others}"
        return self._searched

    def origin(self, first: int, last: int | None = None, text: str | None = None) -> Origin:
        """Origin of lines `first` to `last` (0-based indexes into `lines`, inclusive); marks them as understood."""
        last = first if last is None else last
        self.skip(first, last)
        printed = self.lines[first].strip() if text is None else text
        return Origin(self.file, self.numbers[first], self.numbers[last], printed, self.source, self.command)

    def skip(self, first: int, last: int | None = None) -> None:
        """Mark lines as recognised though they give no fact."""
        if last is None:
            self.understood.add(first)
        else:
            self.understood.update(range(first, last + 1))

    def at(self, index: int) -> str:
        """`FILE:LINE` of a line, as a name for what starts there."""
        return f"{self.file}:{self.numbers[index]}"


@dataclass(slots=True, frozen=True)
class Problem:
    """Something is damaged in a text that was recognised; the rest of it still gave facts.

    text says what and where it ends; line is the line number in the file.
    """

    line: int
    text: str


@dataclass(slots=True, frozen=True)
class Command:
    """How to get the text on a live host, without a shell.

    argv; seconds: how long it usually takes; timeout: hard limit in seconds on the whole of it; root: needs it;
    traffic: loads the network; disturbs: may slow a running job; stderr: its error output is part of the text.
    """

    argv: tuple[str, ...]
    seconds: float = 1.0
    timeout: float = 10.0
    root: bool = False
    traffic: bool = False
    disturbs: bool = False
    stderr: bool = False


@dataclass(slots=True, frozen=True)
class Source:
    """One tool: how to get its output, how to know it by content, how to turn it into facts.

    id: name of the module with `-` for `_`; title: the tool as people call it; facts: the types it can give;
    needles: strings of which at least one is in every such text (a cheap first test); signature: searched in the
    segment's text, says that this tool's output is in it; parse: facts and problems of a segment that matched, in
    any order, never an exception on any text; commands: ways to collect it; versions: tool versions seen;
    in_nccl_lines: NCCL's own lines are searched too.
    """

    id: str
    title: str
    facts: tuple[type[Fact], ...]
    needles: tuple[str, ...]
    signature: re.Pattern[str]
    parse: Callable[[Segment], Iterator[Fact | Problem]]
    commands: tuple[Command, ...] = ()
    versions: str = ""
    in_nccl_lines: bool = False

    def recognises(self, segment: Segment) -> bool:
        """Whether this tool's output is in the segment."""
        text = segment.text if self.in_nccl_lines else segment.searched
        return any(needle in text for needle in self.needles) and self.signature.search(text) is not None
