"""PyTorch's flight recorder: the last collectives of one rank, as JSON.

Seen: formats 2.2 to 2.10 (torch 2.2 to 2.11). The reader turns the pickle that torch writes into the same JSON. The
file is of one rank; which one stands in the dump or only in the file's name. `scheduled` does not show that a
collective did not start: without timing (TORCH_NCCL_ENABLE_TIMING) it stays so.

    >>> SAMPLE = '''{"version": "2.4", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
    ... "entries": [
    ... {"process_group": ["0", "default_pg"], "collective_seq_id": 7, "profiling_name": "nccl:all_reduce",
    ...  "input_sizes": [[1024]], "input_dtypes": ["Float"], "state": "scheduled"}]}'''
    >>> segment = Segment("nccl_trace_rank_1", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.rank, f.group, f.group_ranks, f.entries[0].seq, f.entries[0].op) for f in parse(segment)]
    [(1, 'default_pg', (0, 1), 7, 'all_reduce')]
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from advisor.facts import Fact, FlightEntry, FlightRecord
from advisor.sources.base import Problem, Segment, Source

_MAX_ENTRIES = 50_000
_RANK_IN_NAME = re.compile(r"(\d{1,7})(?:\.json|\.txt|\.pkl|\.pickle)?$")
_INSIDE_TORCH = re.compile(r"/torch/|site-packages/(?:torch|deepspeed|accelerate|lightning|megatron)")
_LINE_OF_ENTRY = re.compile(r'^\s{0,20}\{"')


def _integer(value: object) -> int | None:
    """A count that is known: text in JSON dumps; -1 stands for none."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _ranks(value: object) -> tuple[int, ...]:
    """`"[0, 1]"` or a list of numbers."""
    if isinstance(value, str):
        return tuple(int(number) for number in re.findall(r"\d{1,9}", value[:1_000_000]))
    return tuple(rank for rank in value if isinstance(rank, int)) if isinstance(value, list) else ()


def _sizes(value: object) -> tuple[tuple[int, ...], ...]:
    if not isinstance(value, list):
        return ()
    return tuple(tuple(n for n in shape if isinstance(n, int)) for shape in value if isinstance(shape, list))


def _caller(entry: dict[str, Any]) -> str:
    """`FUNCTION FILE:LINE` of the innermost frame that is the program's own."""
    frames = entry.get("frames")
    for frame in frames if isinstance(frames, list) else ():
        if isinstance(frame, dict) and not _INSIDE_TORCH.search(str(frame.get("filename", ""))[:400]):
            return f"{frame.get('name')} {frame.get('filename')}:{frame.get('line')}"[:400]
    return ""


def _names(entry: dict[str, Any]) -> tuple[str, str]:
    """Number and name of an entry's process group."""
    group = entry.get("process_group")
    if isinstance(group, list) and len(group) > 1:
        return str(group[0])[:80], str(group[1])[:200]
    number = str(entry.get("pg_id", "0"))[:80]
    return number, ""


def _entry(raw: dict[str, Any]) -> FlightEntry | None:
    """One collective; None for point-to-point calls and what has no number."""
    if raw.get("is_p2p") is True:
        return None
    seq = _integer(raw.get("collective_seq_id", raw.get("seq_id")))
    if seq is None:
        return None
    name = str(raw.get("profiling_name", ""))[:100]
    dtypes = raw.get("input_dtypes")
    return FlightEntry(
        seq=seq, op=name.partition(":")[2] or name, sizes=_sizes(raw.get("input_sizes")),
        dtypes=tuple(str(t)[:40] for t in dtypes) if isinstance(dtypes, list) else (),
        state=str(raw.get("state", ""))[:20], caller=_caller(raw),
    )  # fmt: skip


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """A FlightRecord for each process group of the dump."""
    try:
        data = json.loads(segment.text)
    except (ValueError, RecursionError):
        yield Problem(segment.numbers[0], "the flight record is no complete JSON")
        return
    if not isinstance(data, dict) or not isinstance(data.get("entries"), list):
        return
    raw = [entry for entry in data["entries"][:_MAX_ENTRIES] if isinstance(entry, dict)]
    last = len(segment.lines) - 1
    whole = segment.origin(0, last, "flight record")
    lines = [i for i, line in enumerate(segment.lines) if _LINE_OF_ENTRY.match(line) and '"profiling_name"' in line]
    places = lines if len(lines) == len(raw) else [None] * len(raw)
    rank = _integer(data.get("rank"))
    if rank is None:
        found = _RANK_IN_NAME.search(segment.file)
        rank = int(found[1]) if found else None
    groups: dict[tuple[str, str], list[FlightEntry]] = {}
    shown: dict[tuple[str, str], int] = {}
    for item, place in zip(raw, places, strict=True):
        entry = _entry(item)
        if entry is not None:
            groups.setdefault(_names(item), []).append(entry)
            if place is not None:
                shown[_names(item)] = place
    for (number, name), entries in groups.items():
        fact = _record(data, number, name, entries)
        fact.rank = rank
        end = shown.get((number, name))
        fact.origins = (whole,) if end is None else (segment.origin(end, text=_short(entries[-1])),)
        yield fact


def _short(entry: FlightEntry) -> str:
    """The last collective of a group in a few words: what the evidence shows."""
    return f"last recorded: {entry.seq} {entry.op} {list(map(list, entry.sizes))} {entry.state}"


def _record(data: dict[str, Any], number: str, name: str, entries: list[FlightEntry]) -> FlightRecord:
    config, status = _of(data, "pg_config", number), _of(data, "pg_status", number)
    return FlightRecord(
        group=name or str(config.get("desc") or number), group_ranks=_ranks(config.get("ranks")),
        version=str(data["version"])[:20] if "version" in data else None,
        nccl_version=str(v)[:40] if (v := data.get("comm_lib_version", data.get("nccl_version"))) else None,
        last_enqueued=_integer(status.get("last_enqueued_collective")),
        last_started=_integer(status.get("last_started_collective")),
        last_completed=_integer(status.get("last_completed_collective")),
        entries=tuple(sorted(entries, key=lambda e: e.seq)),
    )  # fmt: skip


def _of(data: dict[str, Any], table: str, number: str) -> dict[str, Any]:
    rows = data.get(table)
    row = rows.get(number) if isinstance(rows, dict) else None
    return row if isinstance(row, dict) else {}


SOURCE = Source(
    id="flight-recorder",
    title="PyTorch flight recorder",
    facts=(FlightRecord,),
    needles=('"pg_config"', '"collective_seq_id"', '"seq_id"'),
    signature=re.compile(r'\A\s{0,99}\{(?=[^\0]*"entries")(?=[^\0]*"(?:pg_config|collective_seq_id|seq_id)")'),
    parse=parse,
    versions="formats 2.2 to 2.10",
)
