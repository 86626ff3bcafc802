"""Facts of jobs that stand still: who waits, in which collective, and who is not there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from advisor.facts.base import Fact


@dataclass(slots=True, kw_only=True)
class CollectiveTimeout(Fact):
    """What one rank's NCCL watchdog (PyTorch) printed about a collective that did not end.

    rank: as printed, which in a group other than the default one is the rank inside that group; group: `default_pg`,
    or the number of the group where it has no name; reported: its own watchdog timed out, False where it only heard of
    it from another rank; op: `ALLREDUCE`, …; seq: number of the work in its group; numel_in, numel_out: elements;
    timeout_ms: the limit, ran_ms: how long it waited; last_enqueued, last_completed: numbers of the last work that this
    rank handed to NCCL and that ended (None where the printed value is not initialised); first_rank: the rank that it
    names as the first to time out; caller: `FUNCTION FILE:LINE` of the program; before: `checkpoint` or `evaluation`
    where the last ordinary lines of the log before the timeout say so, with before_text; clock: as printed,
    `MMDD HH:MM:SS.fraction` without a year.
    """

    KEY: ClassVar[tuple[str, ...]] = ("rank", "group", "seq")

    rank: int | None = None
    group: str | None = None
    reported: bool | None = None
    op: str | None = None
    seq: int | None = None
    numel_in: int | None = None
    numel_out: int | None = None
    timeout_ms: int | None = None
    ran_ms: int | None = None
    last_enqueued: int | None = None
    last_completed: int | None = None
    first_rank: int | None = None
    caller: str | None = None
    before: str | None = None
    before_text: str | None = None
    clock: str | None = None


@dataclass(slots=True, kw_only=True)
class RankFailure(Fact):
    """A rank that ended or could not begin, as PyTorch and its launcher tell it.

    kind: `out-of-memory`, `exception`, `cuda-error`, `nccl-error` (code: `ncclSystemError`, …), `signal` and `exit`
    (code: the number, of torchrun's closing report), `store-connect` (address: of the store), `store-timeout` (joined
    of expected clients came), `store-gone` (its host or rank 0 ended before), `heartbeat`; rank: None where not said;
    text: as printed; detail: NCCL's own last error; first: torchrun calls it the first failure; shadow: the cause lies
    on another rank; clock: as in CollectiveTimeout.
    """

    KEY: ClassVar[tuple[str, ...]] = ("rank", "kind", "code", "address", "text")

    rank: int | None = None
    kind: str
    text: str = ""
    code: str | None = None
    address: str | None = None
    detail: str | None = None
    joined: int | None = None
    expected: int | None = None
    first: bool | None = None
    shadow: bool = False
    clock: str | None = None


@dataclass(slots=True, kw_only=True)
class RasReport(Fact):
    """One answer of NCCL's RAS service (`ncclras`, 2.24 and newer).

    report: names it, `FILE:LINE`; nodes, processes, gpus: of the job, communicators: groups of them or, in JSON, all;
    statuses, errors: the distinct words of the table (`RUNNING`; `OK`, `MISMATCH`, `INCOMPLETE`, `ERROR`); healthy: all
    of them OK and nothing listed below; timestamp: as printed (JSON).
    """

    KEY: ClassVar[tuple[str, ...]] = ("report",)

    report: str
    nccl_version: str | None = None
    nodes: int | None = None
    processes: int | None = None
    gpus: int | None = None
    communicators: int | None = None
    statuses: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    healthy: bool | None = None
    timestamp: str | None = None


@dataclass(slots=True, kw_only=True)
class RasProblem(Fact):
    """What a RAS report lists about one communicator.

    report: as in RasReport; comm: its hash; kind: `MISMATCH`, `INCOMPLETE`, `ERROR`, `TIMEOUT`, `DEAD`; operation:
    `AllReduce`, …; counts: distinct numbers of operations launched, ascending; lagging_ranks: those with the lowest,
    lagging_hosts: nodes of them as printed (often addresses); ahead_ranks: how many have launched more; missing_ranks:
    ranks that did not answer; text: the report's own sentence.
    """

    KEY: ClassVar[tuple[str, ...]] = ("report", "comm", "kind", "operation")

    report: str
    comm: str | None = None
    kind: str
    operation: str | None = None
    counts: tuple[int, ...] = ()
    lagging_ranks: tuple[int, ...] = ()
    lagging_hosts: tuple[str, ...] = ()
    ahead_ranks: int | None = None
    missing_ranks: tuple[int, ...] = ()
    text: str = ""


@dataclass(slots=True, frozen=True)
class FlightEntry:
    """One collective in a flight recorder: number in its group, `all_reduce`, sizes, types, state, line of the program.

    state: `scheduled`, `started`, `completed`; `scheduled` does not show that it did not start, timing may be off.
    """

    seq: int
    op: str
    sizes: tuple[tuple[int, ...], ...] = ()
    dtypes: tuple[str, ...] = ()
    state: str = ""
    caller: str = ""


@dataclass(slots=True, kw_only=True)
class FlightRecord(Fact):
    """What one rank's PyTorch flight recorder holds of one process group, oldest first; older entries are lost.

    rank: of the whole job, from the dump or the file's name; group: name, description; group_ranks: its members;
    last_enqueued, last_started, last_completed: as recorded, None for none; version: of the format; nccl_version;
    entries: collectives, without point-to-point calls.
    """

    KEY: ClassVar[tuple[str, ...]] = ("rank", "group")

    rank: int | None = None
    group: str | None = None
    group_ranks: tuple[int, ...] = ()
    version: str | None = None
    nccl_version: str | None = None
    last_enqueued: int | None = None
    last_started: int | None = None
    last_completed: int | None = None
    entries: tuple[FlightEntry, ...] = ()


@dataclass(slots=True, kw_only=True)
class HangSummary(Fact):
    """All ranks of one process group put together: who waits in which collective, and who never reached it. Derived.

    group; nranks: its size where known; op, seq: of the first collective that did not end; reported: ranks whose
    watchdog timed out; same_seq: all of them at this number; behind: ranks whose last enqueued work is smaller, that is
    who never called it; silent: ranks of the group that did not report, where all that did agree and the size is known
    or follows from the ranks seen; divergence: how the flight records first differ, `missing`, `op`, `size`, `dtype`,
    None where they agree or fewer than two were given; differing: ranks that differ from the majority; records: flight
    records compared; all_entered: every rank of the group handed it to NCCL and none ended it; ended: kind of the
    failure that a rank which is behind or silent had before; before, before_text: as in CollectiveTimeout;
    timeout_ms; caller: line of the program that waits.
    """

    KEY: ClassVar[tuple[str, ...]] = ("group",)

    group: str
    nranks: int | None = None
    op: str | None = None
    seq: int | None = None
    reported: tuple[int, ...] = ()
    same_seq: bool | None = None
    behind: tuple[int, ...] | None = None
    behind_enqueued: int | None = None
    silent: tuple[int, ...] | None = None
    silent_count: int | None = None
    divergence: str | None = None
    differing: tuple[int, ...] = ()
    difference: str | None = None
    records: int | None = None
    all_entered: bool | None = None
    ended: str | None = None
    before: str | None = None
    before_text: str | None = None
    timeout_ms: int | None = None
    caller: str | None = None
