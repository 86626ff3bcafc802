"""Limits of processes: `ulimit -a`, `ulimit -l`, `prlimit`, `/proc/PID/limits`.

Seen: bash 4 to 5.2, dash, zsh, util-linux 2.38 and the kernel's own table. `ulimit` prints KiB, the kernel bytes. The
bare number of `ulimit -l` is known only by the command above it.

    >>> SAMPLE = '''max locked memory           (kbytes, -l) 64
    ... open files                          (-n) 1048576
    ... stack size                  (kbytes, -s) unlimited
    ... '''
    >>> segment = Segment("ulimit-a.txt", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.name, f.soft_bytes, f.soft, f.unlimited) for f in parse(segment)]
    [('memlock', 65536, None, False), ('nofile', None, 1048576, False), ('stack', None, None, True)]
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.facts import Fact, Limit
from advisor.sources.base import Command, Problem, Segment, Source

_SIZES = {"bytes": 1, "kbytes": 1024, "kb": 1024, "512-bytes": 512}
_VALUE = r"(?P<value>unlimited|\d{1,20})$"
_BASH = re.compile(
    rf"^(?P<what>[a-zA-Z][a-zA-Z -]{{2,40}}?) +\((?:(?P<unit>[\w -]{{1,12}}), )?-(?P<flag>\w)\) +{_VALUE}"
)
_DASH = re.compile(rf"^(?P<what>[a-z][a-z -]{{2,40}}?)(?:\((?P<unit>[\w-]{{1,12}})\))? +{_VALUE}")
_ZSH = re.compile(
    r"^-(?P<flag>\w): (?P<what>[a-z][a-z -]{2,40}?)(?: \((?P<unit>[\w-]{1,12})\))? +(?P<value>unlimited|\d{1,20})$"
)
_BOTH = r"(?P<soft>unlimited|\d{1,20}) +(?P<hard>unlimited|\d{1,20})(?: +(?P<unit>\w{1,12}))?$"
_PROC = re.compile(rf"^Max (?P<what>[a-z][a-z -]{{2,24}}?) {{2,}}{_BOTH}")
_PRLIMIT = re.compile(rf"^(?P<what>[A-Z]{{2,12}}) +\S.{{3,80}}? +{_BOTH}")
_TITLES = re.compile(r"^(?:Limit +Soft Limit +Hard Limit +Units|RESOURCE +DESCRIPTION +SOFT +HARD +UNITS)")
_FLAGS = {"l": "memlock", "n": "nofile", "u": "nproc", "s": "stack", "v": "as"}
_WORDS = {
    "locked memory": "memlock", "max locked memory": "memlock", "locked-in-memory size": "memlock",
    "open files": "nofile", "file descriptors": "nofile", "processes": "nproc", "max user processes": "nproc",
    "process": "nproc", "stack size": "stack", "stack": "stack", "address space": "as", "memlock": "memlock",
    "nofile": "nofile", "nproc": "nproc", "nofiles": "nofile",
}
_BARE = re.compile(r"^\s*(unlimited|\d{1,15})\s*$")
_ULIMIT_L = re.compile(r"ulimit -[SH]{0,2}l\b")
_PID = re.compile(r"/?proc[/_.-](\d{1,10})[/_.-]limits")


def _number(text: str, unit: str | None) -> int | None:
    """A limit in bytes or pieces; None for `unlimited`."""
    return None if text == "unlimited" or not text.isdecimal() else int(text) * _SIZES.get(unit or "", 1)


def _limit(segment: Segment, index: int, name: str, soft: str, hard: str | None, unit: str | None) -> Limit:
    sized = unit in _SIZES
    low, high = _number(soft, unit), _number(hard, unit) if hard else None
    return Limit(
        name=name, soft_bytes=low if sized else None, hard_bytes=high if sized else None,
        soft=None if sized else low, hard=None if sized else high, unlimited=soft == "unlimited",
        origins=(segment.origin(index),),
    )


def _line(segment: Segment, index: int, line: str) -> Limit | None:
    """The limit of one row of any of the tables; rows of limits that do not matter are only marked."""
    if m := _BASH.match(line) or _ZSH.match(line):
        segment.skip(index)
        name = _FLAGS.get(m["flag"])
        return _limit(segment, index, name, m["value"], None, m["unit"]) if name else None
    if m := _DASH.match(line):
        name = _WORDS.get(m["what"])
        if m["unit"]:
            segment.skip(index)
        return _limit(segment, index, name, m["value"], None, m["unit"]) if name else None
    if m := _PROC.match(line) or _PRLIMIT.match(line):
        segment.skip(index)
        name = _WORDS.get(m["what"].lower())
        return _limit(segment, index, name, m["soft"], m["hard"], m["unit"]) if name else None
    return None


def _bare(segment: Segment) -> Iterator[Limit]:
    """The answer of `ulimit -l`, where the command says that it is one."""
    if not _ULIMIT_L.search(segment.command or ""):
        return
    found = [(i, m[1]) for i, line in enumerate(segment.lines) if len(line) < 40 and (m := _BARE.match(line))]
    if len(found) == 1:  # of several numbers nobody knows which is the limit
        index, value = found[0]
        yield _limit(segment, index, "memlock", value, None, "kbytes")


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact a limit (KiB of ulimit, bytes of the kernel; bytes kept)."""
    pid = _PID.search(segment.command or "") or _PID.search(segment.file)
    found = False
    for index, line in enumerate(segment.lines):
        if len(line) > 200:
            continue
        if _TITLES.match(line):
            segment.skip(index)
        elif limit := _line(segment, index, line.rstrip()):
            limit.pid = int(pid[1]) if pid else None
            found = True
            yield limit
    if not found:
        yield from _bare(segment)


SOURCE = Source(
    id="limits",
    title="process limits (ulimit, prlimit, /proc/PID/limits)",
    facts=(Limit,),
    needles=("locked", "MEMLOCK", "open files", "ulimit"),
    signature=re.compile(
        r"^(?:max )?locked memory *\(k|^-l: locked-in-memory|^Max locked memory {2}|^MEMLOCK +max|^open files +\(-n\)"
        r"|ulimit -[SH]{0,2}l\b",
        re.MULTILINE,
    ),
    parse=parse,
    commands=(Command(("sh", "-c", "ulimit -a")), Command(("cat", "/proc/self/limits"))),
    versions="bash 4 to 5.2, dash, zsh, util-linux 2.38, Linux 4 to 6",
)
