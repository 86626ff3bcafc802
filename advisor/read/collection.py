"""What a collector printed, as documents: one for each command that it ran, or a line that says why it ran none.

The form is described in `advisor.collect.script`. Text before and between collections (a login banner, a second
host's collection in the same file) is allowed. A collection that breaks off gives what it holds.

A bundle also holds `collection.json`, which says of hosts how reaching them went:

    {"advisor_collection": 1, "hosts": {"node07": {"state": "refused", "detail": "Connection refused"}}}
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from advisor.data import phrase
from advisor.read.split import short

_FRAME = re.compile(r"^(@advisor\.\d+\.\d+) (open|run|stderr|exit|not|close)\b ?(.*?)\r?$", re.MULTILINE)
_ENDED = (124, 137, 143)  # by `timeout`, by the signal that follows it, by busybox's `timeout`
LISTING = "collection.json"
# Sources that make two readings in one text into growth over a time.
PAIRED = ("perfquery", "rdma-counters")
_LISTING = re.compile(r'\s{0,100}\{\s{0,100}"advisor_collection"')


@dataclass(slots=True)
class Entry:
    """A command of a collection.

    host: what the machine calls itself; source, reading, command, started (seconds since the epoch), output, stderr;
    exit: None where the collection broke off; refused: `missing`, `root` or `late` where it was not run.
    """

    host: str
    source: str
    command: str
    reading: int = 1
    started: int = 0
    output: str = ""
    stderr: str = ""
    exit: int | None = None
    refused: str | None = None


@dataclass(slots=True)
class Collection:
    """All that one run of the collector printed; complete: it came to its end."""

    host: str
    entries: list[Entry] = field(default_factory=list)
    complete: bool = False


def is_collection(text: str) -> bool:
    """Whether a collector printed the text, or a part of it."""
    return "@advisor." in text and any(m[2] == "open" for m in _FRAME.finditer(text))


def is_listing(text: str) -> bool:
    """Whether the text is the list of hosts of a bundle."""
    return _LISTING.match(text) is not None


def _command(words: str) -> str:
    """The command as people type it; as it stands where its quoting is damaged."""
    try:
        return shlex.join(shlex.split(words))
    except ValueError:
        return words.strip()


def _number(word: str) -> int:
    return int(word) if word.isdecimal() else 0


def _frames(text: str) -> Iterator[re.Match[str]]:
    """The frame lines; those of another mark than the open one are output."""
    mark = ""
    for frame in _FRAME.finditer(text):
        if frame[2] == "open":
            mark = frame[1]
        if frame[1] == mark:
            yield frame


def _words(rest: str, count: int) -> list[str]:
    """So many words and the rest of the line; empty ones where it is cut off."""
    return (rest.split(" ", count) + [""] * count)[: count + 1]


def _opened(rest: str) -> Collection:
    _, host, *_ = _words(rest, 2)
    return Collection(short(host) or "unknown")


def _started(found: Collection, rest: str, output: str) -> Entry:
    source, reading, started, words = _words(rest, 3)
    return Entry(found.host, source, _command(words), _number(reading), _number(started), output)


def _refused(found: Collection, rest: str) -> Entry:
    source, why, words = _words(rest, 2)
    return Entry(found.host, source, _command(words), refused=why)


def collections(text: str) -> Iterator[Collection]:
    """The collections in a text, in its order."""
    frames = list(_frames(text))
    ends = [*(frame.start() for frame in frames), len(text)][1:]
    found: Collection | None = None
    for frame, end in zip(frames, ends, strict=True):
        kind, rest, body = frame[2], frame[3], text[frame.end() + 1 : end].removesuffix("\n")
        if kind == "open":
            if found is not None:
                yield found
            found = _opened(rest)
        elif found is not None:
            _add(found, kind, rest, body)
    if found is not None:
        yield found


def _add(found: Collection, kind: str, rest: str, body: str) -> None:
    """Put what follows a frame line where it belongs."""
    last = found.entries[-1] if found.entries else None
    if kind == "run":
        found.entries.append(_started(found, rest, body))
    elif kind == "not":
        found.entries.append(_refused(found, rest))
    elif kind == "stderr" and last is not None:
        last.stderr = body
    elif kind == "exit" and last is not None:
        last.exit = _number(rest.partition(" ")[0])
    elif kind == "close":
        found.complete = True


def paired(entries: list[Entry]) -> Iterator[Entry]:
    """The entries, with both readings of counters as the output of one command where a source reads them so.

    Of other counters the second reading is left out: two totals would seem to disagree.
    """
    later = {(entry.source, entry.command): entry for entry in entries if entry.reading > 1}
    for entry in entries:
        second = later.get((entry.source, entry.command))
        passed = second.started - entry.started if second else 0
        if entry.reading == 1 and entry.source in PAIRED and second is not None and passed > 0:
            command = f"{entry.command}; sleep {passed}; {entry.command}"
            yield replace(entry, command=command, output=f"{entry.output.rstrip()}\n{second.output}")
        elif entry.reading <= 1:
            yield entry


def problem(entry: Entry) -> str | None:
    """Why a command gave nothing to read; None where it did."""
    tool = entry.command.split(" ", 1)[0]
    if entry.refused:
        known = entry.refused if entry.refused in ("missing", "root", "late") else "late"
        return phrase(f"collect-{known}", tool=tool, command=entry.command)
    if entry.exit is None and not entry.output.strip():
        return phrase("collect-broken-off", command=entry.command)
    if entry.exit in _ENDED and not entry.output.strip():
        return phrase("collect-ended", command=entry.command)
    return None


def listed_problems(text: str) -> Iterator[tuple[str, str]]:
    """Of a bundle's list: hosts that gave nothing, or not all, and why."""
    try:
        hosts = json.loads(text)["hosts"]
        rows = [(str(host), str(row["state"]), str(row.get("detail") or "")) for host, row in hosts.items()]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return
    for host, state, detail in rows:
        if state != "done":
            yield host, reach_text(state, detail)


STATES = (
    "timeout", "no-route", "refused", "denied", "unknown-name", "host-key", "closed", "hangs", "cut-short", "garbage",
    "no-shell", "no-program", "not-found", "disk-full", "too-much", "interrupted", "failed",
)  # fmt: skip


def reach_text(state: str, detail: str) -> str:
    """How reaching a host went, as a line."""
    return phrase(f"reach-{state if state in STATES else 'failed'}", detail=detail)
