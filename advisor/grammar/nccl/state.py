"""What is known so far of the processes and ranks while a NCCL log is read: aggregates, never lines.

Lines of different ranks stand between each other. A line belongs to a rank by the communicator pointer it names, else
by the rank numbers of a channel line, else by its thread: each thread is bound to the rank it last spoke of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from advisor.facts import Edge, NcclChoice, NcclProcess, NcclRank, Origin
from advisor.grammar.nccl.grammar import Channel, Comm, version_key
from advisor.grammar.nccl.graph import GraphReader

_ORIGINS = 24  # lines kept as the origin of one fact
_ERRORS = 4  # lines kept of the errors of a process
_STAGES = ("started", "bootstrapped", "network", "init-started", "init-complete", "connected", "destroyed")
_CONNECTION = 1000  # a channel's bit: its number, connection indexes above 0 a thousand further

OriginOf = Callable[[int], Origin]
EdgeKey = tuple[int, str, str, bool, str]


@dataclass(slots=True, eq=False)
class RankState:
    """One rank of one communicator; comm or rank None until a line names it."""

    rank: int | None = None
    comm: str | None = None
    values: dict[str, Any] = field(default_factory=dict)
    started: bool = False
    complete: bool = False
    connected: bool = False
    destroyed: bool = False
    edges: dict[EdgeKey, int] = field(default_factory=dict)
    nics: set[str] = field(default_factory=set)
    pxn: int | None = None
    lines: list[int] = field(default_factory=list)
    said: dict[str, int] = field(default_factory=dict)

    def note(self, index: int, *names: str) -> None:
        """Keep a line as an origin, and as the first that speaks of the named fields."""
        if len(self.lines) < _ORIGINS:
            self.lines.append(index)
        for name in names:
            self.said.setdefault(name, index)

    def set(self, name: str, value: object, index: int) -> None:
        """Set a field of the fact unless it is known."""
        if name not in self.values and value is not None:
            self.values[name] = value
            self.note(index, name)

    def add_comm(self, comm: Comm, index: int) -> None:
        """Take in a line that names the communicator."""
        self.comm, self.rank = comm.comm, comm.rank
        if comm.event == "Init START":
            self.started = True
            self.note(index, "init_started", "init_complete")
        elif comm.event in ("Init COMPLETE", "COMPLETE"):
            self.complete = True
            self.said["init_complete"] = index
            self.note(index)
        elif comm.event in ("Destroy COMPLETE", "Abort COMPLETE"):
            self.destroyed = True
            self.note(index)
        printed = comm.values
        self.set("nranks", comm.nranks, index)
        self.set("comm_id", printed.get("commId"), index)
        self.set("bus_id", printed.get("busId"), index)
        for name, word in (("nnodes", "nNodes"), ("local_ranks", "localRanks"), ("local_rank", "localRank")):
            value = printed.get(word, "")
            self.set(name, int(value) if value.isdecimal() else None, index)
        if printed.get("MNNVL") in ("0", "1"):
            self.set("mnnvl", printed["MNNVL"] == "1", index)

    def add_channel(self, channel: Channel, peer: int, direction: str, index: int) -> None:
        """Count a channel; the same line twice (log pasted twice, stdout beside the file) counts once."""
        via = channel.via
        if via.transport not in self.said and len(self.said) < _ORIGINS:
            self.note(index, via.transport, "edges")
            if via.nic:
                self.note(index, "nics_used", "net_channels", "gdr_channels")
        if via.gdr and len(self.said) < _ORIGINS:
            self.said.setdefault("/GDRDMA", index)
        bit = 1 << (channel.number + (_CONNECTION if channel.connection else 0))
        key = (peer, via.transport, via.nic, via.gdr, direction)
        known = self.edges.get(key, 0)
        if via.proxy is not None and not known & bit:
            self.pxn = (self.pxn or 0) + (via.proxy != self.rank)
        self.edges[key] = known | bit

    def fits(self, rank: int, peer: int) -> bool:
        """Whether a channel between the two ranks can be this rank's."""
        return self.rank == rank and not self.destroyed and peer < self.values.get("nranks", peer + 1)

    def fact(self, host: str | None, pid: int | None, origin: OriginOf) -> NcclRank:
        """The fact of this rank."""
        made = NcclRank(host=host, pid=pid, rank=self.rank, comm=self.comm, **self.values)
        made.origins = tuple(origin(index) for index in sorted(set(self.lines)))
        made.said_at = {name: origin(index) for name, index in self.said.items()}
        made.init_started = True if self.started else None
        made.init_complete = True if self.complete else False if self.started else None
        made.edges = tuple(
            sorted(
                Edge(peer, transport, nic, gdr, direction, bits.bit_count())
                for (peer, transport, nic, gdr, direction), bits in self.edges.items()
            )
        )
        if made.edges:
            net = [edge for edge in made.edges if edge.transport.startswith("NET/")]
            made.nics_used = tuple(sorted({edge.nic for edge in net}, key=lambda nic: (len(nic), nic)))
            made.net_channels = sum(edge.channels for edge in net)
            made.gdr_channels = sum(edge.channels for edge in net if edge.gdr)
            made.pxn_channels = self.pxn
        return made

    @property
    def known(self) -> bool:
        """Whether anything is known that is worth a fact."""
        return self.comm is not None or bool(self.edges) or bool(self.values)


@dataclass(slots=True, eq=False)
class ProcessState:
    """One process: fields of its fact, its ranks, what it chose, its graph."""

    host: str | None
    pid: int | None
    first: int
    last: int = 0
    values: dict[str, Any] = field(default_factory=dict)
    lists: dict[str, dict[str, None]] = field(default_factory=dict)
    cores: set[int] = field(default_factory=set)
    networks: dict[str, int] = field(default_factory=dict)
    subsystems: set[str] = field(default_factory=set)
    stages: set[str] = field(default_factory=set)
    ranks: list[RankState] = field(default_factory=list)
    by_thread: dict[int | None, RankState] = field(default_factory=dict)
    by_number: dict[int, list[RankState]] = field(default_factory=dict)
    by_comm: dict[tuple[str, int], RankState] = field(default_factory=dict)
    graph: GraphReader = field(default_factory=GraphReader)
    choices: dict[tuple[str | None, str, str], NcclChoice] = field(default_factory=dict)
    lines: list[int] = field(default_factory=list)
    said: dict[str, int] = field(default_factory=dict)
    shared: dict[str, set[Any]] = field(default_factory=dict)
    errors: list[int] = field(default_factory=list)

    @property
    def known(self) -> bool:
        """Whether it is worth a fact: a pasted message alone tells nothing of its process."""
        said = self.values or self.lists or self.stages or self.ranks or self.subsystems
        return self.pid is not None or bool(said)

    def note(self, index: int, name: str = "") -> None:
        """Keep a line as an origin, and as the first that speaks of a field."""
        if len(self.lines) < _ORIGINS:
            self.lines.append(index)
        if name:
            self.said.setdefault(name, index)

    def set(self, name: str, value: object, index: int) -> None:
        """Set a field of the fact unless it is known."""
        if name not in self.values and value is not None:
            self.values[name] = value
            self.note(index, name)

    def fail(self, index: int) -> None:
        """A line of an error that ends a run."""
        if len(self.errors) < _ERRORS:
            self.errors.append(index)

    def add(self, name: str, items: list[str], index: int) -> None:
        """Add to a field that is a list; an empty list makes it known."""
        if name not in self.lists:
            self.lists[name] = {}
            self.note(index, name)
        self.lists[name].update(dict.fromkeys(items))

    def _new(self, rank: int | None) -> RankState:
        made = RankState(rank=rank)
        self.ranks.append(made)
        if rank is not None:
            self.by_number.setdefault(rank, []).append(made)
        return made

    def _name(self, state: RankState, rank: int) -> RankState:
        if state.rank is None:
            state.rank = rank
            self.by_number.setdefault(rank, []).append(state)
        return state

    def thread_rank(self, tid: int | None) -> RankState:
        """The rank that this thread last spoke of, a new nameless one at first."""
        state = self.by_thread.get(tid)
        if state is None:
            state = self.by_thread[tid] = self._new(None)
        return state

    def comm_rank(self, comm: Comm, tid: int | None) -> RankState:
        """The rank a communicator line speaks of. Old versions print it last, when its channels are known already."""
        state = self.by_comm.get((comm.comm, comm.rank))
        identity = comm.values.get("commId")
        if state is not None:
            other = identity and state.values.get("comm_id", identity) != identity
            if other or (state.destroyed and comm.event and comm.event.startswith("Init")):
                state = None  # the pointer of a destroyed communicator came into use again
        if state is None:
            named = [s for s in self.by_number.get(comm.rank, ()) if s.comm is None]
            bound = self.by_thread.get(tid)
            if named:
                state = named[-1]
            elif bound is not None and bound.comm is None and bound.rank is None:
                state = self._name(bound, comm.rank)
            else:
                state = self._new(comm.rank)
        self.by_comm[comm.comm, comm.rank] = state
        self.by_thread[tid] = state
        return state

    def channel_rank(self, rank: int, peer: int, comm: str | None, tid: int | None) -> RankState:
        """The rank that a channel line belongs to."""
        bound = self.by_thread.get(tid)
        state = self.by_comm.get((comm, rank)) if comm else None
        if state is None and bound is not None:
            if bound.fits(rank, peer):
                return bound
            if bound.rank is None and bound.comm is None:
                return self._name(bound, rank)
        if state is None:
            fitting = (s for s in reversed(self.by_number.get(rank, ())) if s.fits(rank, peer))
            state = next(fitting, None) or self._new(rank)
        self.by_thread[tid] = state
        return state

    def share(self, name: str, value: object, tid: int | None, index: int) -> None:
        """A value of the thread's rank; in a paste without prefixes nobody knows whose, so all must agree."""
        if self.pid is None:
            self.shared.setdefault(name, set()).add(value)
            self.note(index)
            self.thread_rank(tid)
        else:
            self.thread_rank(tid).set(name, value, index)

    def _share_out(self) -> None:
        for name, found in self.shared.items():
            if len(found) == 1:
                for state in self.ranks:
                    state.values.setdefault(name, next(iter(found)))

    def finish(self) -> None:
        """Settle what is only known at the end."""
        self._share_out()
        for state in self.ranks:
            for _, transport, *_ in state.edges:
                if transport.startswith("NET/"):
                    self.networks.setdefault(transport[4:], state.said.get(transport, self.first))
        if "network" not in self.values:
            version = version_key(self.values.get("nccl_version"))
            if len(self.networks) == 1:
                name, index = next(iter(self.networks.items()))
                self.set("network", name, index)
            elif not self.networks and self.lists.get("socket_interfaces"):
                # since 2.6 sockets are asked only after all others refused; before, both are listed
                no_ib = self.lists.get("ib_devices") == {} and "net_plugin" not in self.values
                if no_ib or (version and version >= (2, 6)):
                    self.set("network", "Socket", self.said["socket_interfaces"])
        relaxed = self.values.pop("relaxed", None)
        if self.lists.get("ib_devices"):
            version = version_key(self.values.get("nccl_version"))
            if relaxed or (version and version >= (2, 12)):
                self.set("relaxed_ordering", bool(relaxed), self.said["ib_devices"])

    def _stage(self) -> str | None:
        """How far it came. Before 2.22 all is connected before the communicator is complete."""
        stages = set(self.stages)
        for state in self.ranks:
            begun = state.started or state.comm is not None or state.edges
            stages |= {"init-started"} if begun else set()
            if state.complete:
                stages.add("init-complete")
            if state.connected and (state.complete or not state.started):
                stages.add("connected")
            if state.destroyed:
                stages.add("destroyed")
        return next((stage for stage in reversed(_STAGES) if stage in stages), None)

    def fact(self, origin: OriginOf) -> NcclProcess:
        """The fact of this process."""
        lines = self.lines or [self.first]
        made = NcclProcess(host=self.host, pid=self.pid, **self.values)
        made.origins = tuple(origin(index) for index in sorted({*lines, *self.errors}))
        self.said["stage"] = self.last
        if self.errors:
            self.said["failed"] = self.errors[0]
        made.said_at = {name: origin(index) for name, index in self.said.items()}
        made.subsystems = tuple(sorted(self.subsystems))
        made.proxy_cores = tuple(sorted(self.cores)) or None
        for name, items in self.lists.items():
            setattr(made, name, tuple(items))
        made.stage = self._stage()
        ended = made.stage == "destroyed"
        made.failed = True if self.errors else False if ended else None
        return made
