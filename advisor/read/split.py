"""Cut a text into segments: the output of one command each, of one host each, where the text shows it.

Shell prompts, banners of clush, pdsh and tail, and `host: ` before every line part a text. What shows none of them is
one segment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from advisor.read.clean import clean_lines
from advisor.sources.base import Segment

_HOST = r"[A-Za-z0-9][\w.-]{0,100}"
_PROMPTS = (
    # [root@node02 pt2pt]# ib_read_bw ..    [node2]$ ucx_perftest ..
    re.compile(rf"^\[(?:[\w.-]{{1,40}}@)?(?P<host>{_HOST})(?: [^\]]{{0,200}})?\][$#] ?(?P<command>\S.*)?$"),
    # user@node01:~/dir$ ping ..
    re.compile(rf"^(?:\([\w.-]+\) )?[\w.-]{{1,40}}@(?P<host>{_HOST}):[^\s$#]{{0,200}}[$#] ?(?P<command>\S.*)?$"),
    # bash-4.2# grep ..    sh-5.1$ ..
    re.compile(r"^(?:ba|z|k|)sh-\d[\d.]*[$#] (?P<command>\S.*)$"),
    # $ iperf3 -c ..
    re.compile(r"^\$ (?P<command>\S.*)$"),
)
_BANNERS = (
    re.compile(rf"^-{{3,}} ?(?P<host>{_HOST}) ?-{{3,}}$"),  # clush -b, dshbak: a rule above and below may stand too
    re.compile(rf"^=+\| ?(?P<host>{_HOST}) ?\|=+$"),  # ==========| node1 |==========
    re.compile(rf"^={{3,}} ?(?P<host>{_HOST}) ?={{3,}}$"),
    re.compile(rf"^(?P<host>{_HOST}) \| (?:CHANGED|SUCCESS|FAILED)(?: \| rc=\d+)? ?>>$"),  # ansible
)
_TAIL = re.compile(r"^==> (?P<file>\S.{0,300}) <==$")
_LINE_HOST = re.compile(r"^(?P<host>[A-Za-z][A-Za-z0-9.-]*\d[A-Za-z0-9.-]*):(?: |$)")
_SHARE = 0.95  # of the lines must begin with a host before `host: ` is taken for pdsh's prefix


def short(host: str) -> str:
    """The name before the first dot, an address as it is: NCCL and most tools print it so."""
    return host if re.fullmatch(r"[\d.]+", host) else host.partition(".")[0]


@dataclass(slots=True)
class _Piece:
    """Lines from `first` to `last` that belong together.

    opened_by: the banner or prompt before them; typed: the command stands on the first line, behind a prompt.
    """

    first: int
    host: str | None = None
    command: str | None = None
    opened_by: int = 0
    last: int = 0
    typed: bool = False


def _prompt(line: str) -> re.Match[str] | None:
    if "$" not in line and "#" not in line:
        return None
    return next((m for pattern in _PROMPTS if (m := pattern.match(line))), None)


def _banner(line: str) -> re.Match[str] | None:
    if line[:1] not in "-=" and " | " not in line:
        return None
    return next((m for pattern in _BANNERS if (m := pattern.match(line))), None)


def _pieces(lines: Sequence[str]) -> list[_Piece]:
    pieces = [_Piece(0)]
    for i, line in enumerate(lines):
        banner = _banner(line)
        prompt = None if banner else _prompt(line)
        if banner and any(char.isalpha() for char in banner["host"]):
            pieces.append(_Piece(i + 1, short(banner["host"]), opened_by=i))
        elif prompt:
            named = prompt.groupdict().get("host")
            host = short(named) if named else pieces[-1].host
            pieces.append(_Piece(i, host, prompt["command"] or None, opened_by=i, typed=bool(prompt["command"])))
        elif line.startswith("==>") and (tail := _TAIL.match(line)):
            pieces.append(_Piece(i + 1, pieces[-1].host, f"cat {tail['file']}", opened_by=i))
    for piece, following in zip(pieces, [*pieces[1:], None], strict=True):
        piece.last = (following.opened_by if following else len(lines)) - 1
    return pieces


def _joined_command(piece: _Piece, lines: list[str]) -> None:
    """Put a command that runs over several lines on the first of them, without the prompt; blank the others."""
    if piece.command is None or not piece.typed:
        return
    command, i = piece.command, piece.first
    while command.endswith("\\") and i < piece.last:
        i += 1
        command = command[:-1].rstrip() + " " + lines[i].lstrip("> ").strip()
        lines[i] = ""
    piece.command = lines[piece.first] = command


def _by_line_host(lines: Sequence[str]) -> dict[str, list[int]] | None:
    """Indexes of lines by host where every line begins with `host: `, None otherwise."""
    filled = [i for i, line in enumerate(lines) if line.strip()]
    owners: dict[str, list[int]] = {}
    for i in filled:
        match = _LINE_HOST.match(lines[i])
        if match:
            owners.setdefault(match["host"], []).append(i)
    carried = sum(map(len, owners.values()))
    if len(filled) < 2 or carried < _SHARE * len(filled) or min(map(len, owners.values())) < 2:
        return None
    return owners


def split(name: str, text: str, host: str | None = None, command: str | None = None) -> Iterator[Segment]:
    """The segments of a text, in its order.

    name: the file's name as shown; host, command: whose it is and what gave it, if that is known already.
    """
    raw = text.split("\n")
    if raw and raw[-1] == "":
        raw.pop()
    owners = _by_line_host(raw)
    if owners:
        for owner, indexes in owners.items():
            kept = [_LINE_HOST.sub("", raw[i], count=1) for i in indexes]
            yield from _segments(name, kept, [i + 1 for i in indexes], short(owner), command)
        return
    lines, numbers = clean_lines(raw)
    yield from _segments(name, lines, numbers, host, command)


def _segments(
    name: str, lines: list[str], numbers: Sequence[int], host: str | None, command: str | None
) -> Iterator[Segment]:
    for piece in _pieces(lines):
        _joined_command(piece, lines)
        part = lines[piece.first : piece.last + 1]
        if any(line.strip() for line in part):
            places = numbers[piece.first : piece.last + 1]
            segment = Segment(name, part, places, piece.host or host, piece.command or command)
            if piece.typed:
                segment.skip(0)
            yield segment
