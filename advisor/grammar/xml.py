"""XML documents inside a text, read without any of XML's dangers.

Reading begins at the root element, so that no document type and with it no entity can be declared; the declaration
that nvidia-smi prints before it is never looked at. Depth, number of elements and text are limited.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

_NO_MORE = expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS]
_DEEPEST = 64
_MOST_ELEMENTS = 500_000
_LONGEST_TEXT = 400  # characters of an element's text that are kept


@dataclass(slots=True)
class Element:
    """One element: its attributes, the elements in it, its own text without blanks around it.

    first, last: indexes of its lines in the text; last is the last line read where its end is missing.
    """

    name: str
    attributes: dict[str, str]
    first: int
    last: int = 0
    text: str = ""
    children: list[Element] = field(default_factory=list)

    def each(self, name: str) -> Iterator[Element]:
        """The elements of this name in it at any depth, itself included, in document order."""
        waiting = [self]
        while waiting:
            element = waiting.pop()
            if element.name == name:
                yield element
            waiting.extend(reversed(element.children))

    def leaves(self) -> Iterator[tuple[str, str]]:
        """(path below this element, text) of each element that holds no other: `pci/replay_counter`, `0`."""
        waiting = [(child.name, child) for child in reversed(self.children)]
        while waiting:
            path, element = waiting.pop()
            if not element.children:
                yield path, element.text
            waiting.extend((f"{path}/{child.name}", child) for child in reversed(element.children))


class _LimitError(Exception):
    """The document is deeper or larger than any that a tool writes."""


@dataclass(slots=True)
class _Builder:
    """Makes the tree from what the parser reports; the root is on line `start` of `lines` (indexes)."""

    lines: list[str]
    start: int
    parser: expat.XMLParserType = field(default_factory=expat.ParserCreate)
    root: Element | None = None
    open: list[Element] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._begin
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters

    @property
    def line(self) -> int:
        return min(self.start + self.parser.CurrentLineNumber, len(self.lines)) - 1

    @property
    def complete(self) -> bool:
        return self.root is not None and not self.open

    def _begin(self, name: str, attributes: dict[str, str]) -> None:
        self.count += 1
        if len(self.open) >= _DEEPEST or self.count > _MOST_ELEMENTS:
            raise _LimitError
        element = Element(name, attributes, self.line, self.line)
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)

    def _end(self, _name: str) -> None:
        element = self.open.pop()
        element.last = self.line
        element.text = element.text.strip()

    def _characters(self, text: str) -> None:
        element = self.open[-1]
        if len(element.text) < _LONGEST_TEXT:
            element.text = (element.text + text)[:_LONGEST_TEXT]

    def read(self, column: int) -> str | None:
        """Read from a column of the root's line to the root's end; what is wrong (`cut` at an early end), else None."""
        try:
            for i in range(self.start, len(self.lines)):
                self.parser.Parse(self.lines[i][column if i == self.start else 0 :] + "\n", False)
                if self.complete:
                    return None
            self.parser.Parse("", True)
        except expat.ExpatError as error:
            if self.complete:
                return None
            return "cut" if error.code == _NO_MORE else expat.ErrorString(error.code)
        except _LimitError:
            return "deeper or larger than any that a tool writes"
        return None

    def close(self) -> None:
        """End what is still open at the last line that was read."""
        for element in self.open:
            element.last = self.line
            element.text = ""  # a value that was cut is none


@dataclass(slots=True, frozen=True)
class Document:
    """A document that was found: its root, its last line (index), what is wrong with it, None where nothing is."""

    root: Element
    last: int
    wrong: str | None


def documents(lines: list[str], root: str) -> Iterator[Document]:
    """Every document of a text whose root element has that name; a damaged one as far as it can be read."""
    begins = re.compile(rf"<{re.escape(root)}(?=[\s>/]|$)")
    i = 0
    while i < len(lines):
        match = begins.search(lines[i])
        if not match:
            i += 1
            continue
        builder = _Builder(lines, i)
        wrong = builder.read(match.start())
        last = builder.line
        if builder.root is not None:
            builder.close()
            last = builder.root.last if builder.complete else last
            yield Document(builder.root, last, wrong)
        i = last + 1
