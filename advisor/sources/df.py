"""`df`: sizes of mounted file systems, above all of /dev/shm.

Seen: coreutils 8.2 to 9.4 (-h, -H, -k, -m, -T, -P), busybox, translated headers. Letters are powers of 1024 but with
-H. A row without its header and without a letter has no unit, so only its share is known.

    >>> SAMPLE = '''Filesystem      Size  Used Avail Use% Mounted on
    ... shm              64M   13M   52M  20% /dev/shm
    ... '''
    >>> segment = Segment("df.txt", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.mount, f.kind, f.size_bytes, f.free_bytes, f.use_share) for f in parse(segment)]
    [('/dev/shm', 'tmpfs', 67108864, 54525952, 0.2)]
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.facts import Fact, Filesystem
from advisor.sources.base import Command, Problem, Segment, Source

_AMOUNT = r"(?:\d{1,20}|\d{1,6}[.,]?\d{0,3}[kKMGTPEB]i?B?|-)"
_ROW = re.compile(
    rf"^(?P<device>\S{{1,400}})(?: +(?P<type>[a-z][\w.-]{{0,40}}))? +(?P<size>{_AMOUNT}) +(?P<used>{_AMOUNT})"
    rf" +(?P<free>{_AMOUNT}) +(?P<use>\d{{1,3}}%|-) +(?P<mount>/.{{0,400}})$"
)
_HEADER = re.compile(r"^\S[^%/]{10,100}\S*% +\S")
_BLOCKS = re.compile(r" (\d{1,6})([KMGB]?)-?[bB]l")
_SCALES = {"": 1, "B": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50, "E": 2**60}
_DF = re.compile(r"(?:^|[\s;|&/])df((?: +-{1,2}[\w-]+)*)")
_KINDS = {"shm": "tmpfs", "tmpfs": "tmpfs", "devtmpfs": "devtmpfs", "udev": "devtmpfs", "overlay": "overlay"}
_INODES = re.compile(r"IUse%|Inodes")


def _unit(header: str) -> int | None:
    """Bytes of one block by the header (`1K-blocks`, `1M-blocks`); None where it names none (-h, -H)."""
    m = _BLOCKS.search(header)
    return int(m[1]) * _SCALES[m[2]] if m else None


def _command_unit(command: str | None) -> tuple[int | None, int]:
    """Bytes of one block, and the base of letters, by the options of the command."""
    m = _DF.search(command or "")
    options = "".join(word.lstrip("-") for word in m[1].split() if not word.startswith("--")) if m else ""
    unit = 2**20 if "m" in options else 2**10 if "k" in options or (m and not set("hHB") & set(options)) else None
    return unit, 1000 if "H" in options else 1024


def _bytes(text: str, unit: int | None, base: int) -> int | None:
    if text.isdecimal():
        return int(text) * unit if unit else 0 if text == "0" else None
    letter = re.match(r"([\d.,]+)([kKMGTPEB])", text)
    if not letter:
        return None
    power = "BKMGTPE".index(letter[2].upper())
    try:
        return round(float(letter[1].replace(",", ".")) * float(base**power))
    except ValueError:
        return None


def _fact(segment: Segment, m: re.Match[str], first: int, last: int, unit: int | None, base: int) -> Filesystem:
    use = m["use"].rstrip("%")
    return Filesystem(
        mount=m["mount"].strip(), device=m["device"], kind=m["type"] or _KINDS.get(m["device"]),
        size_bytes=_bytes(m["size"], unit, base), used_bytes=_bytes(m["used"], unit, base),
        free_bytes=_bytes(m["free"], unit, base), use_share=int(use) / 100 if use.isdecimal() else None,
        origins=(segment.origin(first, last),),
    )


def _before_rows(lines: list[str], index: int) -> bool:
    """Whether what follows a line with a `%` is a row of df, so that the line is its header."""
    following = lines[index + 1] if index + 1 < len(lines) else ""
    return len(following.split()) == 1 or _ROW.match(following.rstrip()) is not None


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact a row (blocks or letters printed, bytes kept)."""
    unit, base = _command_unit(segment.command)
    inodes = False
    for index, line in enumerate(segment.lines):
        if len(line) > 1500 or ("/" not in line and "%" not in line):
            continue
        first, text = index, line.rstrip()
        if text[:1].isspace() and index and len(segment.lines[index - 1].split()) == 1:
            first, text = index - 1, segment.lines[index - 1].strip() + text  # a long device name broke the row
        if m := _ROW.match(text):
            if inodes:
                segment.skip(first, index)
            else:
                yield _fact(segment, m, first, index, unit, base)
        elif _HEADER.match(text) and _before_rows(segment.lines, index):
            unit, inodes = _unit(text), bool(_INODES.search(text))
            segment.skip(index)


SOURCE = Source(
    id="df",
    title="df (file systems)",
    facts=(Filesystem,),
    needles=("% /",),
    signature=re.compile(rf"(?: +{_AMOUNT}){{3}} +(?:\d{{1,3}}%|-) +/", re.MULTILINE),
    parse=parse,
    commands=(Command(("df", "-h", "/dev/shm")),),  # noqa: S108
    versions="coreutils 8.2 to 9.4, busybox",
)
