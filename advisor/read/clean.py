"""Take off what launchers put before lines, and part lines that two writers glued together.

Prefixes are voted on per file: one is taken off only where most lines carry it, since a lone `[0]` or `3:` means
something else. Samples stand beside each pattern.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

_SHARE = 0.6  # of the non-empty lines must carry a prefix before it counts as one

_PREFIXES = (
    re.compile(r"\[\d{1,6},\d{1,6}\]<std(?:out|err|diag)>: ?"),  # mpirun --tag-output: [1,3]<stdout>:
    re.compile(r"\[(?:rank|default)\d{1,6}\]: ?"),  # torchrun --tee: [rank3]: or [default3]:
    re.compile(r"\[pod/[^\]\s]{1,300}\] (?:\d{4}-\d\d-\d\dT[\d:.]{8,20}Z )?"),  # kubectl logs --prefix --timestamps
    re.compile(r"\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:\d\d) (?:stdout|stderr) [FP] "),  # CRI log file
    re.compile(r"\d{4}-\d\d-\d\dT[\d:.]{8,20}Z "),  # kubectl logs --timestamps
    re.compile(r"\([\w.]{1,80} pid=\d{1,9}(?:, ip=[\d.]{7,15})?\) ?"),  # Ray: (TrainWorker pid=4021, ip=10.0.0.7)
    re.compile(r"\([\w-]{1,80}, rank=\d{1,6}, pid=\d{1,9}\) ?"),  # SkyPilot: (head, rank=0, pid=36870)
)
# srun -l: "  3: text". tracepath and `ip link` number their lines alike, so nearly every line must carry it.
_SRUN = re.compile(r"\s{0,6}\d{1,6}: ")
_RANK_TAG = re.compile(r"\[(\d{1,6})\](?=[ \t]|$)")  # mpiexec -l: repeated at every write, also inside a line
_NCCL_PREFIX = re.compile(r"([A-Za-z0-9][\w.-]{0,252}):(\d{1,10}):\d{1,10} (?=\[-?\d{1,4}\] |NCCL )")
_STAMP = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] $")


def _docker_json(lines: Sequence[str]) -> list[str] | None:
    """The `log` fields of a Docker json-file log, None if it is none."""
    filled = [line for line in lines if line.strip()]
    if not filled or not all(line.startswith('{"log":') for line in filled):
        return None
    out = []
    for line in lines:
        try:
            out.append(str(json.loads(line)["log"]).rstrip("\n") if line.strip() else "")
        except (ValueError, KeyError, TypeError):
            out.append(line)
    return out


def _strip(lines: list[str], prefix: re.Pattern[str], share: float) -> list[str]:
    """Without the prefix where enough lines carry it."""
    filled = sum(1 for line in lines if line.strip())
    carried = sum(1 for line in lines if prefix.match(line))
    if not carried or carried < share * filled:
        return lines
    return [line[m.end() :] if (m := prefix.match(line)) else line for line in lines]


def _strip_rank_tags(lines: list[str]) -> list[str]:
    """Without `[n]` at the start of lines and wherever the same tag stands again inside such a line."""
    filled = sum(1 for line in lines if line.strip())
    carried = sum(1 for line in lines if _RANK_TAG.match(line))
    if carried < 2 or carried < _SHARE * filled:
        return lines
    out = []
    for line in lines:
        tag = _RANK_TAG.match(line)
        out.append(line.replace(tag[0], " ") if tag else line)
    return out


def _part_nccl_lines(lines: list[str], numbers: Sequence[int]) -> tuple[list[str], Sequence[int]]:
    """Cut lines in which a NCCL line follows other text without a line end.

    The text before is often a table cell (`0node01:1693:1693 [0] NCCL INFO`), so only (host, pid) pairs that stand at
    the start of some line count as a place to cut.
    """
    starts = (_NCCL_PREFIX.match(line) for line in lines)
    seen = {f"{m[1]}:{m[2]}:" for m in starts if m}
    # A cell that ends in a digit at the start of a line looks like a host of its own: 0node01 beside node01.
    known = sorted((key for key in seen if key.lstrip("0123456789") == key or key.lstrip("0123456789") not in seen),
                   key=len, reverse=True)  # fmt: skip
    if not known:
        return lines, numbers
    cut = re.compile("|".join(map(re.escape, known)))
    out: list[str] = []
    places: list[int] = []
    for line, number in zip(lines, numbers, strict=True):
        start = 0
        for m in cut.finditer(line):
            if m.start() <= start or not _NCCL_PREFIX.match(line, m.start()):
                continue
            end = m.start()
            stamp = _STAMP.search(line[start:end])
            end -= len(stamp[0]) if stamp else 0
            if line[start:end].strip():
                out.append(line[start:end])
                places.append(number)
            start = end
        out.append(line[start:])
        places.append(number)
    return out, places


def clean_lines(lines: list[str], first: int = 1) -> tuple[list[str], Sequence[int]]:
    """Cleaned lines and, for each, its line number in the file; `first` is the number of the first."""
    numbers: Sequence[int] = range(first, first + len(lines))
    lines = _docker_json(lines) or lines
    for prefix in _PREFIXES:
        lines = _strip(lines, prefix, _SHARE)
    if not any("pmtu" in line for line in lines):
        lines = _strip(lines, _SRUN, 0.9)
    lines = _strip_rank_tags(lines)
    if any("NCCL " in line for line in lines):
        lines, numbers = _part_nccl_lines(lines, numbers)
    return lines, numbers
