"""Nsight Systems exports (`nsys export --type sqlite`) as the events of a chrome trace, which a source reads.

The database is untrusted: it lives in memory, cannot be written, may only be read with SELECT on tables, and a query
that takes too many steps is ended. Tables exist only where there are data, and columns grow with the version.
Document: NVIDIA Nsight Systems, exported SQLite schema.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

MAGIC = b"SQLite format 3\0"
_STEPS = 400_000_000  # of the database's machine, before a query counts as hostile
_CHECK_EVERY = 1_000_000
_NAME_LENGTH = 400
_COPIES = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}
_STEP = re.compile(r"(?:train(?:ing)?[ _-]?)?(?:step|iteration|iter)[ _#:=-]{0,3}\d{1,9}$|ProfilerStep#\d{1,9}$", re.I)
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_PRAGMA}
_TABLES = {
    "CUPTI_ACTIVITY_KIND_KERNEL": ("start", "end", "deviceId", "streamId", "demangledName", "gridX", "gridY", "gridZ"),
    "CUPTI_ACTIVITY_KIND_MEMCPY": ("start", "end", "deviceId", "copyKind", "bytes"),
    "CUPTI_ACTIVITY_KIND_MEMSET": ("start", "end", "deviceId"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "end", "nameId"),
    "NVTX_EVENTS": ("start", "end", "text", "textId"),
}


class NsysError(Exception):
    """Why an export is not read: `damaged`, `no-nsys` (another database), `too-slow`."""


def is_sqlite(data: bytes) -> bool:
    """Whether the bytes are an SQLite database."""
    return data.startswith(MAGIC)


def _only_reads(action: int, first: str | None, *_: object) -> int:
    if action == sqlite3.SQLITE_PRAGMA and first != "table_info":
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def _open(data: bytes) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.deserialize(data)
    database.set_authorizer(_only_reads)
    left = _STEPS

    def tick() -> int:
        nonlocal left
        left -= _CHECK_EVERY
        return left < 0

    database.set_progress_handler(tick, _CHECK_EVERY)
    return database


def _rows(database: sqlite3.Connection, table: str) -> Iterator[dict[str, Any]]:
    """Rows of a table, the columns it has of those we know; none where it is missing or a view."""
    kinds = dict(database.execute("SELECT name, type FROM sqlite_master"))
    if kinds.get(table) != "table":
        return
    there = {row[1] for row in database.execute(f"PRAGMA table_info({table})")}
    columns = [column for column in _TABLES[table] if column in there]
    quoted = ", ".join(f'"{column}"' for column in columns)
    for row in database.execute(f"SELECT {quoted} FROM {table} ORDER BY start"):  # noqa: S608 - names are ours
        yield dict(zip(columns, row, strict=True))


def _event(row: Mapping[str, Any], category: str, name: str, **args: Any) -> dict[str, Any] | None:
    start, end = row.get("start"), row.get("end")
    if not isinstance(start, int) or not isinstance(end, int) or end < start:
        return None
    return {
        "ph": "X", "cat": category, "name": name[:_NAME_LENGTH], "ts": start / 1000, "dur": (end - start) / 1000,
        "args": {key: value for key, value in args.items() if value is not None},
    }  # fmt: skip


def _events(database: sqlite3.Connection, names: Mapping[Any, str]) -> Iterator[dict[str, Any] | None]:
    for row in _rows(database, "CUPTI_ACTIVITY_KIND_KERNEL"):
        name = names.get(row.get("demangledName"), "")
        grid = [row.get(f"grid{axis}") or 1 for axis in "XYZ"]
        yield _event(row, "kernel", name, device=row.get("deviceId"), stream=row.get("streamId"), grid=grid)
    for row in _rows(database, "CUPTI_ACTIVITY_KIND_MEMCPY"):
        name = f"Memcpy {_COPIES.get(row.get('copyKind', 0), '')}"
        yield _event(row, "gpu_memcpy", name, device=row.get("deviceId"), bytes=row.get("bytes"))
    for row in _rows(database, "CUPTI_ACTIVITY_KIND_MEMSET"):
        yield _event(row, "gpu_memset", "Memset", device=row.get("deviceId"))
    for row in _rows(database, "CUPTI_ACTIVITY_KIND_RUNTIME"):
        yield _event(row, "cuda_runtime", names.get(row.get("nameId"), ""))
    for row in _rows(database, "NVTX_EVENTS"):
        text = row.get("text") or names.get(row.get("textId"), "")
        if isinstance(text, str) and (step := _STEP.match(text)):
            yield _event(row, "user_annotation", f"ProfilerStep#{step[0].rpartition('#')[2]}")


def _gpu(database: sqlite3.Connection) -> list[dict[str, str]]:
    try:
        found = database.execute("SELECT name FROM TARGET_INFO_GPU").fetchone()
    except sqlite3.DatabaseError:
        return []
    return [{"name": str(found[0])[:80]}] if found else []


def trace_text(data: bytes) -> str:
    """The export as a chrome trace, JSON, one event a line. Raises NsysError."""
    database = _open(data)
    try:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'StringIds' AND type = 'table'").fetchone():
            raise NsysError("no-nsys")
        names = {key: str(value) for key, value in database.execute("SELECT id, value FROM StringIds")}
        events = [json.dumps(event) for event in _events(database, names) if event is not None]
        gpu = _gpu(database)
    except sqlite3.OperationalError as error:
        raise NsysError("too-slow" if "interrupted" in str(error) else "damaged") from error
    except (sqlite3.DatabaseError, MemoryError, ValueError, TypeError) as error:
        raise NsysError("damaged") from error
    finally:
        database.close()
    head = json.dumps({"schemaVersion": 1, "deviceProperties": gpu, "traceName": "nsys export"})[:-1]
    return f'{head}, "traceEvents": [\n' + ",\n".join(events) + "\n]}\n"
