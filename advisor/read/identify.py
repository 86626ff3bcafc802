"""Say whose facts they are: which host, which run.

Hosts are named by the content, else by the file's or folder's name, else not at all; a fact without a host joins a
named one only when the input holds exactly one. A run is a set of processes that share a communicator; before NCCL
2.16, which prints none, the processes of one file until a rank starts anew.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence

from advisor.facts import (
    CollectiveTest,
    CollectiveTimeout,
    EnvVar,
    Fact,
    FlightRecord,
    NcclChoice,
    NcclGraph,
    NcclMessage,
    NcclProcess,
    NcclRank,
    RankFailure,
    RasProblem,
    RasReport,
    StepTimes,
)
from advisor.read.split import short

_NAMED = re.compile(
    r"(?:^|[._/ -])((?:node|host|worker|compute|server|dgx|hgx|gpu-?node|gpu(?=-?\d\d))-?\d+)(?=$|[._/ -])", re.I
)
# Facts about the processes of one run, beside NcclProcess and NcclRank.
_OF_A_RUN = (
    CollectiveTest, CollectiveTimeout, EnvVar, FlightRecord, NcclChoice, NcclGraph, NcclMessage, RankFailure,
    RasProblem, RasReport, StepTimes,
)  # fmt: skip
Process = tuple[str, str | None, int | None]  # file, host, pid


def host_of_name(file: str, known: Iterable[str]) -> str | None:
    """The host that a file's or folder's name gives: one the contents name too, else what looks like one."""
    parts = set(re.split(r"[._/]", file))
    for host in sorted(known, key=len, reverse=True):
        if host in parts:
            return host
    found = _NAMED.search(file)
    return short(found[1]) if found else None


def _file(fact: Fact) -> str:
    return fact.origins[0].file if fact.origins else ""


def _line(fact: Fact) -> int:
    return fact.origins[0].line if fact.origins else 0


def name_hosts(facts: Sequence[Fact]) -> None:
    """Fill in hosts from file names, then from the only host of the input."""
    named = {fact.host for fact in facts if fact.host}
    for fact in facts:
        if fact.host is None and fact.origins and not _spans_hosts(fact):
            fact.host = host_of_name(_file(fact), named)
    hosts = {fact.host for fact in facts if fact.host}
    if len(hosts) == 1:
        only = next(iter(hosts))
        for fact in facts:
            if fact.host is None and not _spans_hosts(fact):
                fact.host = only


def _spans_hosts(fact: Fact) -> bool:
    """Whether the fact is about several hosts at once."""
    return len(getattr(fact, "hosts", ())) > 1


class _Groups:
    """Disjoint sets of processes."""

    def __init__(self) -> None:
        self._parent: dict[object, object] = {}

    def find(self, item: object) -> object:
        """The representative of an item's set."""
        parent = self._parent.setdefault(item, item)
        while parent != item:
            self._parent[item] = self._parent[parent]
            item, parent = parent, self._parent[parent]
        return item

    def join(self, a: object, b: object) -> None:
        """Make the sets of two items one."""
        self._parent[self.find(a)] = self.find(b)


def _process(fact: NcclProcess | NcclRank) -> Process:
    return (_file(fact), fact.host, fact.pid)


def _join_processes(groups: _Groups, ranks: Sequence[NcclRank], processes: Sequence[NcclProcess]) -> None:
    """Join processes that share a communicator, and, where none is printed, those of one file."""
    for rank in ranks:
        groups.join(_process(rank), ("comm", rank.comm_id) if rank.comm_id else _process(rank))
    with_id = {_process(rank) for rank in ranks if rank.comm_id}
    by_file: dict[str, list[NcclProcess]] = defaultdict(list)
    for process in sorted(processes, key=_line):
        by_file[_file(process)].append(process)
    held: dict[Process, set[tuple[int, int]]] = defaultdict(set)
    for rank in ranks:
        if rank.rank is not None and rank.nranks is not None:
            held[_process(rank)].add((rank.nranks, rank.rank))
    for file, members in by_file.items():
        number, seen = 0, set[tuple[int, int]]()
        for process in members:
            key = _process(process)
            if held[key] & seen:  # a rank that was there already: the next run
                number, seen = number + 1, set()
            seen |= held[key]
            if key not in with_id:
                groups.join(key, ("file", file, number))
    _join_files(groups, [rank for rank in ranks if _process(rank) not in with_id])


def _join_files(groups: _Groups, ranks: Sequence[NcclRank]) -> None:
    """Join files of old NCCL, one per rank or host, that hold different ranks of one size."""
    by_size: dict[int, dict[object, set[int]]] = defaultdict(lambda: defaultdict(set))
    for rank in ranks:
        if rank.nranks is not None and rank.rank is not None:
            by_size[rank.nranks][groups.find(_process(rank))].add(rank.rank)
    for runs in by_size.values():
        taken: set[int] = set()
        total = sum(map(len, runs.values()))
        for members in runs.values():
            taken |= members
        if len(taken) == total and len(runs) > 1:
            first, *rest = runs
            for other in rest:
                groups.join(other, first)


def name_runs(facts: Sequence[Fact]) -> None:
    """Fill in runs: of NCCL's own facts first, then of what was read from the same file."""
    ranks = [fact for fact in facts if isinstance(fact, NcclRank)]
    processes = [fact for fact in facts if isinstance(fact, NcclProcess)]
    groups = _Groups()
    _join_processes(groups, ranks, processes)
    own: list[NcclProcess | NcclRank] = sorted([*processes, *ranks], key=lambda fact: (_file(fact), _line(fact)))
    names: dict[object, str] = {}
    starts: dict[str, dict[str, int]] = defaultdict(dict)
    for fact in own:
        name = names.setdefault(groups.find(_process(fact)), f"run-{len(names) + 1}")
        fact.run = name
        starts[_file(fact)].setdefault(name, _line(fact))
    for other in facts:
        if other.run is None and _file(other) in starts and _belongs_to_a_run(other):
            end = other.origins[0].end or _line(other)
            begun = [run for run, line in starts[_file(other)].items() if line <= end]
            other.run = begun[-1] if begun else next(iter(starts[_file(other)]))
    if len(names) == 1:
        _join_only_run(facts, next(iter(names.values())), ranks)


def _belongs_to_a_run(fact: Fact) -> bool:
    return isinstance(fact, _OF_A_RUN) and getattr(fact, "where", "log") in ("log", "launcher")


def _join_only_run(facts: Sequence[Fact], run: str, ranks: Sequence[NcclRank]) -> None:
    """A measurement in a file of its own joins the only run, unless their sizes contradict."""
    sizes = {rank.nranks for rank in ranks if rank.nranks is not None}
    for fact in facts:
        if fact.run is None and _belongs_to_a_run(fact):
            size = getattr(fact, "nranks", None)
            if size is None or not sizes or size in sizes:
                fact.run = run
