"""From what the user names (files, folders, `-`) to named texts, each read on its own terms.

An input that cannot be used is a problem of that input only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from advisor.data import phrase
from advisor.errors import UsageError
from advisor.read import collection
from advisor.read.archive import MOST_FILES, ArchiveError, Budget, decompress, is_archive, members
from advisor.read.decode import decode, is_binary
from advisor.read.nsys import NsysError, is_sqlite, trace_text
from advisor.read.unpickle import UnsafePickleError, flight_record_text, is_flight_record

STDIN = "-"
# A log larger than this is no longer read whole; the limit also ends decompression bombs.
MAX_BYTES = 512 * 1024 * 1024
_NESTED = 3  # archives within archives


@dataclass(slots=True)
class Document:
    """One input: its name as shown to the user, its text, or why there is none.

    host, command: whose it is and what gave it, where whoever brings it knows; manifest: it says so of others.
    """

    name: str
    text: str = ""
    problem: str | None = None
    host: str | None = None
    command: str | None = None
    manifest: bool = False


def _unusable(name: str, error: ArchiveError) -> Document:
    return Document(name, problem=phrase(f"input-{error}", limit=MAX_BYTES >> 20, count=MOST_FILES))


def unpack(name: str, data: bytes) -> list[Document]:
    """One document, or those of an archive, named `ARCHIVE/FILE`."""
    return list(_unpacked(name, data, Budget(MAX_BYTES), _NESTED))


def _unpacked(name: str, data: bytes, budget: Budget, nested: int) -> Iterator[Document]:
    try:
        data = decompress(data, budget.bytes)
        if not is_archive(data):
            yield from _parted(document(name, data))
        elif not nested:
            yield Document(name, problem=phrase("input-nested"))
        else:
            for member in members(data, budget):
                if not _passed_over(member.name):
                    yield from _unpacked(f"{name}/{member.name}", member.data, budget, nested - 1)
    except ArchiveError as error:
        yield _unusable(name, error)


def _parted(whole: Document) -> list[Document]:
    """The document itself, or what a collector's output or a bundle's list of hosts in it holds."""
    if collection.is_listing(whole.text):
        lost = collection.listed_problems(whole.text)
        return [Document(f"{whole.name}/{host}", problem=text, host=host) for host, text in lost]
    if not collection.is_collection(whole.text):
        return [whole]
    parts: list[Document] = []
    for found in collection.collections(whole.text):
        counted: dict[str, int] = {}
        for entry in collection.paired(found.entries):
            count = counted[entry.source] = counted.get(entry.source, 0) + 1
            name = f"{whole.name}/{found.host}/{entry.source}{f'-{count}' if count > 1 else ''}.txt"
            lines = "\n".join(part for part in (entry.output.removesuffix("\n"), entry.stderr) if part)
            text = f"$ {entry.command}\n{lines}\n"
            parts.append(Document(name, text, collection.problem(entry), found.host))
        if not found.complete:
            parts.append(Document(f"{whole.name}/{found.host}", problem=collection.reach_text("cut-short", "")))
    return parts


def _passed_over(name: str) -> bool:
    """Hidden files, which no tool's output is in."""
    return any(part.startswith(".") for part in name.split("/"))


def document(name: str, data: bytes) -> Document:
    """The text of some bytes, or the reason why they are none."""
    try:
        data = decompress(data, MAX_BYTES)
    except ArchiveError as error:
        return _unusable(name, error)
    if is_flight_record(data):
        try:
            return Document(name, flight_record_text(data))
        except UnsafePickleError as error:
            return Document(name, problem=phrase("input-unsafe-pickle", reason=str(error)))
    if is_sqlite(data):
        try:
            return Document(name, trace_text(data))
        except NsysError as error:
            return Document(name, problem=phrase(f"input-sqlite-{error}"))
    if is_binary(data):
        return Document(name, problem=phrase("input-binary"))
    if not data.strip():
        return Document(name, problem=phrase("input-empty"))
    return Document(name, decode(data))


def _read(path: Path, name: str) -> list[Document]:
    try:
        if path.stat().st_size > MAX_BYTES:
            return [Document(name, problem=phrase("input-too-large", limit=MAX_BYTES >> 20))]
        if not path.is_file():
            return [Document(name, problem=phrase("input-no-file"))]
        return unpack(name, path.read_bytes())
    except OSError as error:
        return [Document(name, problem=phrase("input-unreadable", reason=error.strerror or str(error)))]


def _files(folder: Path) -> Iterator[Path]:
    """Files below a folder, sorted; hidden ones and links that lead elsewhere are passed over."""
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if _passed_over(inside.as_posix()):
            continue
        if path.is_file() and not (path.is_symlink() and not path.resolve().is_relative_to(folder.resolve())):
            yield path


def documents(paths: Iterable[str]) -> list[Document]:
    """All inputs, each once, sorted by name, so that the order of the arguments does not matter.

    Files of a folder are named by their path below it. Raises UsageError for a path that does not exist.
    """
    found: dict[Path | str, tuple[str, Path | None]] = {}
    for given in paths:
        path = Path(given)
        if given == STDIN:
            found[STDIN] = (STDIN, None)
        elif path.is_dir():
            for file in _files(path):
                found.setdefault(file.resolve(), (file.relative_to(path).as_posix(), file))
        elif path.exists():
            found.setdefault(path.resolve(), (path.name, path))
        else:
            raise UsageError(phrase("no-such-path"), place=given, remedy=phrase("no-such-path-remedy"))
    names = [name for name, _ in found.values()]
    read: list[Document] = []
    for name, place in found.values():
        if place is None:
            read += unpack(name, sys.stdin.buffer.read(MAX_BYTES))
        else:
            read += _read(place, name if names.count(name) == 1 else place.as_posix())
    return sorted(read, key=lambda doc: (doc.name, doc.text))
