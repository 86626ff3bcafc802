"""Who is missing where ranks wait: watchdog lines and flight records of all ranks put together.

The rank that reports a timeout is the one that waits. Ranks run ahead of the GPU, so only the first collective that
did not end says something: whoever has not handed that one to NCCL is missing, and if all have, it is the transport.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from advisor.facts import CollectiveTimeout, Fact, FlightEntry, FlightRecord, HangSummary, NcclRank, RankFailure
from advisor.facts.store import FactStore

T = TypeVar("T", CollectiveTimeout, FlightRecord)
DEFAULT_GROUP = "default_pg"
# Collectives that take as many elements on every rank; the others may differ by design (all_to_all, gather, scatter).
_EQUAL_SIZES = frozenset(
    {"all_reduce", "allreduce", "broadcast", "reduce", "_all_gather_base", "_allgather_base", "_reduce_scatter_base"}
)


_OF_THE_DEVICE = frozenset({"out-of-memory", "cuda-error"})
_NOT_AN_END = frozenset({"store-connect", "store-timeout"})  # of a rank that has not begun


def hangs(store: FactStore) -> list[Fact]:
    """A HangSummary for each process group of which a rank reported a timeout or left a flight record that hangs."""
    timeouts, records = _by_group(store.of(CollectiveTimeout)), _by_group(store.of(FlightRecord))
    ranks, failures = store.of(NcclRank), store.of(RankFailure)
    found = (
        _summary(group, timeouts.get(group, {}), records.get(group, {}), ranks, failures)
        for group in sorted({*timeouts, *records})
    )
    return [summary for summary in found if summary is not None]


def _by_group(facts: Iterable[T]) -> dict[str, dict[int, T]]:
    """Facts by group and rank, of each rank the first. No group, or number 0 alone, is the default one."""
    groups: dict[str, dict[int, T]] = defaultdict(dict)
    for fact in facts:
        if fact.rank is not None:
            groups[DEFAULT_GROUP if fact.group in (None, "0") else fact.group].setdefault(fact.rank, fact)
    return groups


def _summary(
    group: str, timeouts: Mapping[int, CollectiveTimeout], records: Mapping[int, FlightRecord],
    ranks: Sequence[NcclRank], failures: Sequence[RankFailure],
) -> HangSummary | None:  # fmt: skip
    reports = {rank: fact for rank, fact in timeouts.items() if fact.reported}
    named = {fact.first_rank for fact in timeouts.values() if fact.first_rank is not None}
    found = HangSummary(group=group, reported=tuple(sorted({*reports, *named})), nranks=_size(group, records, ranks))
    stuck = _compare(found, records)
    if not found.reported and stuck is None:
        return None
    _from_watchdog(found, reports)
    found.seq = stuck if found.seq is None else found.seq
    if found.seq is not None:
        _who_is_behind(found, timeouts, records)
    _who_is_silent(found, timeouts, records)
    absent = found.differing if found.divergence == "missing" else ()
    missing = {*(found.behind or ()), *(found.silent or ()), *absent}
    found.ended = _ended(failures, reports)
    hosts = {host for rank in sorted(missing) or found.differing if (host := _host(rank, timeouts, records, ranks))}
    found.host = hosts.pop() if len(hosts) == 1 else None
    _say_where(found, timeouts, records)
    return found


def _say_where(
    found: HangSummary, timeouts: Mapping[int, CollectiveTimeout], records: Mapping[int, FlightRecord]
) -> None:
    """Origins: all that was put together, and the lines that decide."""
    found.origins = tuple(sorted({o for fact in (*timeouts.values(), *records.values()) for o in fact.origins}))
    for rank in found.reported:
        if rank in timeouts:
            found.said_at = {**timeouts[rank].said_at, **found.said_at}
    for rank in found.behind or ():
        said = timeouts[rank].said_at.get("last_enqueued") if rank in timeouts else None
        if said:
            found.said_at["behind"] = said


def _size(group: str, records: Mapping[int, FlightRecord], ranks: Sequence[NcclRank]) -> int | None:
    """Ranks of the group: as its records say, or, of the default group, the largest communicator of the log."""
    members = max((len(record.group_ranks) for record in records.values()), default=0)
    if members:
        return members
    sizes = {rank.nranks for rank in ranks if rank.nranks is not None}
    return max(sizes) if sizes and group == DEFAULT_GROUP else None


def _from_watchdog(found: HangSummary, reports: Mapping[int, CollectiveTimeout]) -> None:
    numbers = [fact.seq for fact in reports.values() if fact.seq is not None]
    if numbers:
        found.seq = min(numbers)
        found.same_seq = len(set(numbers)) == 1 and len(numbers) == len(reports)
    for name in ("op", "timeout_ms", "caller", "before", "before_text"):
        values = [value for fact in reports.values() if (value := getattr(fact, name)) is not None]
        if values and getattr(found, name) is None:
            setattr(found, name, values[0])


def _who_is_behind(
    found: HangSummary, timeouts: Mapping[int, CollectiveTimeout], records: Mapping[int, FlightRecord]
) -> None:
    """Ranks that have not handed the stuck collective to NCCL, and whether every rank has."""
    enqueued: dict[int, int] = {}
    for rank, record in records.items():
        last = record.entries[-1].seq if record.entries else record.last_enqueued
        if last is not None:
            enqueued[rank] = last
    for rank, fact in timeouts.items():
        if fact.reported and fact.seq is not None:
            enqueued[rank] = fact.seq
        elif fact.last_enqueued is not None:
            enqueued[rank] = fact.last_enqueued
    seq = found.seq or 0
    if len(enqueued) > 1 and any(rank not in found.reported for rank in enqueued):
        found.behind = tuple(sorted(rank for rank, last in enqueued.items() if last < seq))
        found.behind_enqueued = max((last for last in enqueued.values() if last < seq), default=None)
    if found.behind or found.divergence:
        found.all_entered = False
    elif found.nranks is not None and len(enqueued) >= found.nranks:
        found.all_entered = True


def _who_is_silent(
    found: HangSummary, timeouts: Mapping[int, CollectiveTimeout], records: Mapping[int, FlightRecord]
) -> None:
    """Ranks of which nothing was heard while two or more others wait at one number."""
    if not found.same_seq or len(found.reported) < 2:
        return
    size = found.nranks if found.nranks is not None else max(found.reported) + 1
    found.silent = tuple(rank for rank in range(size) if rank not in {*timeouts, *records, *found.reported})
    found.silent_count = len(found.silent)


def _ended(failures: Sequence[RankFailure], reports: Mapping[int, CollectiveTimeout]) -> str | None:
    """Kind of what ended a rank that reports nothing, unless it is known to have come after the timeout."""
    clocks = [fact.clock for fact in reports.values() if fact.clock]
    for failure in failures:
        late = bool(failure.clock and clocks and failure.clock > min(clocks)) or _below(failure, reports)
        silent = failure.kind in _OF_THE_DEVICE if failure.rank is None else failure.rank not in reports
        if failure.kind not in _NOT_AN_END and silent and not failure.shadow and not late:
            return failure.kind
    return None


def _below(failure: RankFailure, reports: Mapping[int, CollectiveTimeout]) -> bool:
    """Whether it stands below a timeout in the same file."""
    return any(
        mine.file == other.file and mine.line > other.line
        for mine in failure.origins
        for report in reports.values()
        for other in report.origins[:1]
    )


def _host(
    rank: int, timeouts: Mapping[int, CollectiveTimeout], records: Mapping[int, FlightRecord], ranks: Sequence[NcclRank]
) -> str | None:
    for fact in (timeouts.get(rank), records.get(rank)):
        if fact is not None and fact.host:
            return fact.host
    hosts = {known.host for known in ranks if known.rank == rank and known.host}
    return hosts.pop() if len(hosts) == 1 else None


# ------------------------------------------------------------------------------------------------- flight records


def _compare(found: HangSummary, records: Mapping[int, FlightRecord]) -> int | None:
    """Fill in how the records first differ; gives the number of the first collective that did not end."""
    tables = {rank: {e.seq: e for e in record.entries} for rank, record in records.items() if record.entries}
    open_numbers = [n for table in tables.values() for n, entry in table.items() if entry.state != "completed"]
    if not open_numbers:
        return None
    stuck = min(open_numbers)
    waiting = next(table[stuck] for table in tables.values() if stuck in table)
    found.op, found.caller = waiting.op, waiting.caller or None
    if len(tables) < 2:
        return stuck
    found.records = len(tables)
    first = max(min(table) for table in tables.values())  # older entries have left the buffer of some rank
    for seq in range(first, stuck + 1):
        if _difference(found, seq, {rank: table.get(seq) for rank, table in tables.items()}):
            break
    return stuck


def _difference(found: HangSummary, seq: int, entries: Mapping[int, FlightEntry | None]) -> bool:
    """Whether the ranks differ at this number; the first kind of difference that there is is kept."""
    usual = Counter(entry for entry in entries.values() if entry is not None).most_common(1)[0][0]
    kinds = {
        "missing": [rank for rank, entry in entries.items() if entry is None],
        "op": [rank for rank, entry in entries.items() if entry and entry.op != usual.op],
        "dtype": [rank for rank, entry in entries.items() if entry and entry.dtypes != usual.dtypes],
        "size": [rank for rank, entry in entries.items()
                 if entry and usual.op in _EQUAL_SIZES and entry.sizes != usual.sizes],
    }  # fmt: skip
    for kind, differing in kinds.items():
        if differing:
            found.divergence, found.differing, found.seq = kind, tuple(sorted(differing)), seq
            found.difference = f"{_words(usual)} against {_words(entries[differing[0]])}"
            return True
    return False


def _words(entry: FlightEntry | None) -> str:
    if entry is None:
        return "nothing"
    shapes = " ".join("x".join(map(str, shape)) for shape in entry.sizes)
    return " ".join(part for part in (entry.op, shapes, " ".join(entry.dtypes)) if part)
