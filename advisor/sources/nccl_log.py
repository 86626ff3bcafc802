r"""NCCL and RCCL debug logs (`NCCL_DEBUG=INFO` or `WARN`), NCCL 2.3 to 2.30, with the lines of network plugins.

One fact for each process and each rank of a communicator, one for each kind of message with a known meaning, one for
each variable that NCCL says was set; the topology of subsystem GRAPH and the choices of TUNING as one fact each. A log
has no bandwidth in it: the tables of TUNING are what NCCL's model predicts. Lines may be pasted without prefix, of
several ranks mixed, of several runs, torn.

>>> from advisor.sources.base import Segment
>>> SAMPLE = '''\
... node01:40:40 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.1<0>
... node01:40:52 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.
... node01:40:52 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>
... node01:40:52 [0] NCCL INFO Using network Socket
... node01:40:52 [0] NCCL INFO comm 0x5 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0xf - Init START
... node01:40:52 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0
... '''
>>> segment = Segment("job.log", SAMPLE.splitlines(), range(1, 99))
>>> facts = list(parse(segment))
>>> [type(fact).__name__ for fact in facts]
['NcclProcess', 'NcclRank', 'EnvVar']
>>> facts[0].network, facts[0].stage, facts[1].edges[0].transport, facts[1].init_complete
('Socket', 'init-started', 'NET/Socket', False)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache

from advisor.facts import EnvVar, Fact, NcclChoice, NcclGraph, NcclMessage, NcclProcess, NcclRank, RdmaPort
from advisor.grammar.nccl.grammar import (
    COLLECTIVES,
    NOISE,
    PLAIN_NOISE,
    Channel,
    Prefix,
    cuda_version,
    parse_channel,
    parse_choice,
    parse_comm,
    parse_counts,
    parse_interfaces,
    parse_prefix,
    parse_setting,
    parse_version,
    split_line,
)
from advisor.grammar.nccl.messages import MessageLog
from advisor.grammar.nccl.network import read_network
from advisor.grammar.nccl.state import ProcessState
from advisor.sources.base import Problem, Segment, Source

# What a handler says of a line: nobody's, understood, understood and perhaps a known message too.
_NO, _DONE, _LOOK = 0, 1, 2
_PREFIXES_KEPT = 5000
_LONG = 8000  # NCCL itself cuts its lines at 1024 characters

_BACKTRACE = re.compile(r"\S{1,200}\.(?:cc|cu|h|c|cpp):\d{1,6} -> \d{1,2}\b")
# Frames that pass an error on to the caller. The network layer also returns one when it only says "not me".
_FAILED = re.compile(r"(?:\S{0,80}/)?(?:init|group|enqueue|proxy|transport|bootstrap)\.\w{1,3}:\d{1,6} -> [1-6]\b")
_CODE_LINE = re.compile(r"\S{1,200}\.(?:cc|cu|h|c|cpp):\d{1,6}$")
_RINGS = re.compile(r"(?:Channel|Ring) \d{1,3}(?:/(\d{1,3}))? : [\d .]{1,2000}$")
_TREE_SELF = re.compile(r"->(\d{1,7})->")
_TIMINGS = re.compile(r"rank (\d{1,7}) nranks \d{1,7} total ([\d.]{1,12})")
_CORE = re.compile(r"Device \d{1,5} CPU core (\d{1,5})")
_DROPPED = re.compile(r" \[repeated \d{1,9}x across cluster\]$")
_RANK_TAG = re.compile(r"\[(?:rank|default)\d{1,6}\]: ?")
_RESET = re.compile(r"Comm config \w{1,40} reset to (NCCL_\w{1,60})=(\S{1,80})")
_PLUGIN_NAME = re.compile(r"(?:NET/Plugin ?: )?Plugin name set by env(?:ironment)? to (\S{1,200})")
_TABLE_ROW = re.compile(r"\s{0,20}[A-Za-z]{3,20} \|[\s\w|]{10,400}$")

# Lines without an envelope that have a meaning: the rest of a NCCL message, the end of a process.
_QUOTED = ("Proceeding without NVLS",)

Handler = Callable[["_Reader", str], int]


class _Reader:
    """One pass over a segment."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.processes: dict[tuple[str | None, int | None], ProcessState] = {}
        self.env: dict[tuple[str | None, str, str], int] = {}
        self.ports: dict[tuple[str | None, str, int], RdmaPort] = {}
        self.messages = MessageLog(segment.origin)
        self.versions: list[tuple[int, str, str | None]] = []
        self.torn: list[int] = []
        self.dropped = 0
        self.prefixes: dict[str, Prefix] = {}
        self.index = 0
        self.tid: int | None = None
        self.process = ProcessState(None, None, 0)
        self.expect = ""  # what lines without a prefix follow: the rows of a `matrix`, the text of an `error`

    # --- lines ---------------------------------------------------------------------------------------------------

    def read(self) -> None:
        """Go through all lines once."""
        for index, line in enumerate(self.segment.lines):
            at = line.find("NCCL ")
            found = split_line(line, at) if at >= 0 else None
            self.index = index
            if found is None:
                self.plain(line)
            else:
                self.nccl(*found)

    def nccl(self, before: str, level: str, message: str) -> None:
        """One line of NCCL."""
        self.expect = ""
        prefix = self.prefixes.get(before)
        if prefix is None:
            prefix = parse_prefix(before)
            if len(self.prefixes) < _PREFIXES_KEPT and len(before) < _LONG:
                self.prefixes[before] = prefix
        key = (prefix.host, prefix.pid)
        known = self.processes.get(key)
        self.process = process = known or ProcessState(prefix.host, prefix.pid, self.index)
        self.tid, message = prefix.tid, message[:_LONG]
        if message.endswith("across cluster]") and (m := _DROPPED.search(message)):
            self.dropped, message = self.dropped + 1, message[: m.start()]
        if level in ("TRACE", "CALL"):
            process.subsystems.add(level)
            said = _DONE
        else:
            said = self.dispatch(message)
        if level == "WARN" or said != _DONE:
            severity = self.messages.take(message, self.index, level == "WARN", prefix.host, prefix.pid)
            said = said or (_NO if severity is None else _LOOK)
            if severity == "error":
                process.fail(self.index)
        if said:
            self.segment.understood.add(self.index)
            process.last = self.index
            if known is None:
                self.processes[key] = process

    def dispatch(self, message: str) -> int:
        """Hand the message to whoever knows its first word."""
        word = message.partition(" ")[0]
        handler = _HANDLERS.get(word)
        if handler is not None:
            return handler(self, message)
        if word in NOISE:
            return self.noise(NOISE[word])
        if not word:
            return self.indented(message)
        for start, other in _STARTS:
            if word.startswith(start):
                return other(self, message)
        if word.isdecimal():
            return self.counted(message)
        if _CODE_LINE.match(word):
            return self.code_line(message)
        return _NO

    def noise(self, subsystem: str) -> int:
        """A line without facts."""
        if subsystem:
            self.process.subsystems.add(subsystem)
        return _DONE

    def plain(self, line: str) -> None:
        """A line without `NCCL LEVEL`: a version line, what follows a NCCL line, an error that a framework quotes."""
        text = line.strip()
        if not text:
            self.expect = "" if self.expect == "matrix" else self.expect
        elif "CCL version" in text and (version := parse_version(text)):
            self.versions.append((self.index, *version))
            self.segment.skip(self.index)
        elif text.startswith(PLAIN_NOISE) or (self.expect == "matrix" and _TABLE_ROW.match(line)):
            self.segment.skip(self.index)
        elif self.expect == "error" or "Bus error" in text or text.startswith(_QUOTED):
            self.expect = ""
            if self.messages.quote(_RANK_TAG.sub("", text, count=1), self.index):
                self.segment.skip(self.index)
        elif text.endswith("Last error:"):
            self.expect = "error"
            self.segment.skip(self.index)

    # --- handlers: first word -> values -----------------------------------------------------------------------------

    def channel(self, message: str) -> int:
        """`Channel 00/0 : 0[0] -> 1[1] via ...`, and the rows of rings and trees that begin alike."""
        if channel := parse_channel(message):
            self.place_channel(channel)
        elif " via " not in message and message.count(" -> ") == 2:
            return self.noise("GRAPH")
        elif m := _RINGS.match(message):
            if m[1]:
                self.process.share("rings", int(m[1]), self.tid, self.index)
        else:
            self.torn.append(self.index)
        return _DONE

    def place_channel(self, channel: Channel) -> None:
        """Give a channel to the rank that printed it: the receiver prints `[receive]`, the sender all else."""
        owner, peer = channel.sender, channel.receiver
        # 2.3 prints network lines once and without a tag, where it prepares to receive
        direction = channel.tag or ("receive" if channel.via.nic else "both")
        if direction == "receive":
            owner, peer = peer, owner
        state = self.process.channel_rank(owner, peer, channel.via.comm, self.tid)
        state.add_channel(channel, peer, direction, self.index)

    def trees(self, message: str) -> int:
        """`Trees [0] 1/-1/-1->0->-1`: tells the rank of a thread before its communicator is named."""
        if m := _TREE_SELF.search(message):
            state = self.process.thread_rank(self.tid)
            if state.rank is None and self.process.pid is not None:
                self.process.channel_rank(int(m[1]), -1, None, self.tid)
        return _DONE

    def comm(self, message: str) -> int:
        """Any line with `comm 0x.. rank R`."""
        found = parse_comm(message)
        if found is None:
            return _LOOK
        self.process.comm_rank(found, self.tid).add_comm(found, self.index)
        self.process.subsystems.add("INIT")
        return _DONE

    def connected(self, message: str) -> int:
        """`Connected all rings` and `Connected to proxy`."""
        if message.startswith("Connected to proxy"):
            return self.noise("PROXY")
        if self.process.pid is None:
            self.process.stages.add("connected")
        else:
            self.process.thread_rank(self.tid).connected = True
        return _DONE

    def counted(self, message: str) -> int:
        """Lines that begin with a number: channel counts, a choice (2.6 to 2.22), a row of the graph."""
        if counts := parse_counts(message):
            self.process.share("coll_channels", counts[0], self.tid, self.index)
            if counts[1] is not None:
                self.process.share("nvls_channels", counts[1], self.tid, self.index)
            return _DONE
        if " Bytes -> " in message:
            return self.choice(message)
        return self.graph(message)

    def graph(self, message: str) -> int:
        """Tree, path table, pattern and row of subsystem GRAPH."""
        if self.process.graph.feed(message, self.tid, self.index):
            return self.noise("GRAPH")
        return _NO

    def indented(self, message: str) -> int:
        """Lines that begin with blanks: tables of TUNING, the tree of GRAPH."""
        return self.noise("TUNING") if "|" in message else self.graph(message)

    def collective(self, message: str) -> int:
        """A call (COLL), a choice or a row of a table (TUNING)."""
        if " Bytes -> " in message:
            return self.choice(message)
        if "|" in message:
            return self.noise("TUNING")
        return self.noise("COLL") if "opCount" in message else _NO

    def choice(self, message: str) -> int:
        """`AllReduce: 524288 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}`."""
        choice = parse_choice(message)
        if choice is None:
            return _LOOK if "->" in message else _NO
        choices = self.process.choices
        key = (choice.collective, choice.algorithm, choice.protocol)
        made = choices.get(key)
        if made is None:
            made = choices[key] = NcclChoice(
                host=self.process.host, pid=self.process.pid, collective=choice.collective,
                algorithm=choice.algorithm, protocol=choice.protocol, min_bytes=choice.size,
                origins=(self.segment.origin(self.index),),
            )
        made.calls += 1
        made.min_bytes, made.max_bytes = min(made.min_bytes, choice.size), max(made.max_bytes, choice.size)
        made.channels = max(made.channels or 0, choice.channels) if choice.channels else made.channels
        return self.noise("TUNING")

    def setting(self, message: str) -> int:
        """`NCCL_X set by environment to V`."""
        pair = parse_setting(message)
        if pair is None:
            if " set" in message:
                self.torn.append(self.index)
            return _NO
        self.env.setdefault((self.process.host, *pair), self.index)
        self.process.subsystems.add("NET" if " set to " in message else "ENV")
        return _LOOK

    def bootstrap(self, message: str) -> int:
        """`Bootstrap : Using eth0:10.0.0.1<0>` and the timings."""
        if " timings " in message:
            return _DONE
        if "Using " not in message:
            return _LOOK
        found = parse_interfaces(message)
        listed = message.partition("Using ")[2]
        name, address = found[0] if found else (listed.partition(":")[0], None)
        self.process.set("bootstrap_interface", name.strip() or None, self.index)
        self.process.set("bootstrap_address", address, self.index)
        self.process.stages.add("bootstrapped")
        return _LOOK

    def network(self, message: str) -> int:
        """`Using network IB`, `Assigned NET plugin IB to comm`, `Using internal Network Socket` (2.3)."""
        words = message.split()
        if message.startswith("Using network "):
            name = message[14:].strip()
        elif message.startswith("Assigned NET plugin ") and message.endswith(" to comm"):
            name = message[20:-8].strip()
        elif len(words) == 4 and words[2] == "Network":
            name = words[3]
        else:
            return _LOOK
        self.process.set("network", name, self.index)
        self.process.stages.add("network")
        return _DONE

    def net(self, message: str) -> int:
        """Lines of the network layer and of plugins, `NET/NAME : ...`; `NET/0-0 :GPU/...` is a row of the graph."""
        if " :GPU/" in message or " :CPU/" in message or " :NET/" in message:
            return self.graph(message)
        port = read_network(self.process, message, self.index)
        if port is not None:
            port.origins = (self.segment.origin(self.index),)
            self.ports.setdefault((port.host, port.device, port.port), port)
        return self.other(message)

    def old_net(self, message: str) -> int:
        """2.3: `NET : Using interface eth0:10.0.0.1<0>`, the first one is for the bootstrap too."""
        found = parse_interfaces(message)
        if not found:
            return _LOOK
        self.process.add("socket_interfaces", [name for name, _ in found], self.index)
        self.process.add("socket_addresses", [address for _, address in found if address], self.index)
        self.process.set("bootstrap_interface", found[0][0], self.index)
        self.process.set("bootstrap_address", found[0][1], self.index)
        return _LOOK

    def version(self, message: str) -> int:
        """`cudaDriverVersion 12040`, `NCCL version 2.28.9+cuda13.0` behind a prefix."""
        if message.startswith("cudaDriverVersion "):
            code = message[18:].strip()
            self.process.set("cuda_driver", cuda_version(int(code)) if code.isdecimal() else None, self.index)
            return _DONE
        if version := parse_version(message):
            self.process.set("nccl_version", version[0], self.index)
            self.process.set("build_cuda", version[1], self.index)
            return _DONE
        return _DONE if message.startswith(("NCCL git version", "NCCL Inspector")) else _LOOK

    def proxy(self, message: str) -> int:
        """`[Proxy Service] Device 0 CPU core 31`."""
        if m := _CORE.search(message):
            self.process.cores.add(int(m[1]))
            self.process.said.setdefault("proxy_cores", self.index)
            return _DONE
        return _LOOK

    def timings(self, message: str) -> int:
        """`Init timings - ncclCommInitRank: rank 0 nranks 2 total 0.36 (...)`."""
        if message.startswith("Init timings") and (m := _TIMINGS.search(message)):
            state = self.process.thread_rank(self.tid)
            if state.rank == int(m[1]):
                state.set("init_seconds", float(m[2]), self.index)
        return _LOOK if message.startswith("Init ") and "timings" not in message else _DONE

    def check(self, message: str) -> int:
        """`Check P2P Type isAllDirectP2p 1 directMode 0`."""
        if message.startswith("Check P2P Type isAllDirectP2p "):
            self.process.share("direct_p2p", message[30:31] == "1", self.tid, self.index)
            return _DONE
        return _LOOK

    def config(self, message: str) -> int:
        """`Comm config Blocking set to 1`; what was reset by a variable tells the variable."""
        if m := _RESET.match(message):
            self.env.setdefault((self.process.host, m[1], m[2].rstrip(".")), self.index)
        return _DONE

    def ras(self, message: str) -> int:
        """The listening line is on by default, all else of RAS is not."""
        return _DONE if message.startswith("RAS client listening") else self.noise("RAS")

    def code_line(self, message: str) -> int:
        """`init.cc:1582 -> 5`: an error on its way up; `init.cc:512 Cuda Alloc Size ...`."""
        if _BACKTRACE.match(message):
            if _FAILED.match(message):
                self.process.fail(self.index)
            return _LOOK
        return self.noise("ALLOC") if "Alloc" in message or "memory stack" in message else _LOOK

    def other(self, message: str) -> int:
        """Lines whose first word is known and whose meaning, if any, is in the table of messages."""
        if message.startswith("DMA-BUF is available"):
            self.process.set("dmabuf", True, self.index)
        elif message.startswith("Enabled NCCL Func/Proto/Algo Matrix"):
            self.expect = "matrix"
        elif message.startswith("Successfully loaded external network plugin "):
            self.process.set("net_plugin", message[44:].strip()[:200], self.index)
        elif " not open libibverbs" in message or message.startswith("Failed to open libibverbs"):
            self.process.add("ib_devices", [], self.index)
        elif message.startswith("GPU Direct RDMA "):
            self.process.subsystems.add("NET")
        elif m := _PLUGIN_NAME.match(message):
            self.env.setdefault((self.process.host, "NCCL_NET_PLUGIN", m[1]), self.index)
        return _LOOK

    # --- the end ---------------------------------------------------------------------------------------------------

    def facts(self) -> Iterator[Fact | Problem]:
        """Everything that was read, in a fixed order."""
        self.settle()
        origin = cache(self.segment.origin)
        for process in self.processes.values():
            if process.known:
                yield process.fact(origin)
            yield from (state.fact(process.host, process.pid, origin) for state in process.ranks if state.known)
            yield from process.choices.values()
            if graph := process.graph.fact(process.host, process.pid):
                graph.origins = tuple(origin(index) for index in process.graph.lines)
                yield graph
        yield from self.ports.values()
        for (host, name, value), index in self.env.items():
            yield EnvVar(host=host, name=name, value=value, where="log", in_ranks=True, origins=(origin(index),))
        owners = [(process.host, process.pid) for process in self.processes.values() if process.pid is not None]
        yield from self.messages.facts(owners[0] if len(owners) == 1 else None)
        yield from self.problems()

    def settle(self) -> None:
        """Give the version lines that have no prefix to the processes they can be of."""
        if self.versions and not self.processes:
            self.processes[None, None] = ProcessState(None, None, self.versions[0][0])
        for process in self.processes.values():
            near = [row for row in self.versions if process.first <= row[0] <= process.last]
            for rows in (near, self.versions):  # rank 0 alone prints it; all others of its job have the same
                if len({row[1:] for row in rows}) == 1:
                    process.set("nccl_version", rows[0][1], rows[0][0])
                    process.set("build_cuda", rows[0][2], rows[0][0])
                    break
            process.finish()

    def problems(self) -> Iterator[Problem]:
        """What was damaged."""
        if self.torn:
            line = self.segment.numbers[self.torn[0]]
            yield Problem(line, f"lines cut off or mixed with others: {len(self.torn)}, this is the first")
        if self.dropped:
            text = f"the launcher left out repeated lines (at {self.dropped} places): channels and messages are too few"
            yield Problem(self.segment.numbers[0], text)


_HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(("Channel", "Ring", "Coll", "CollNet"), _Reader.channel),
    "Trees": _Reader.trees,
    **dict.fromkeys(("comm", "[Rank"), _Reader.comm),
    "Connected": _Reader.connected,
    **dict.fromkeys((name + end for name in COLLECTIVES for end in ("", ":")), _Reader.collective),
    **dict.fromkeys(("Bootstrap", "Bootstrap:"), _Reader.bootstrap),
    **dict.fromkeys(("Using", "Assigned"), _Reader.network),
    "NET": _Reader.old_net,
    **dict.fromkeys(("NCCL", "cudaDriverVersion"), _Reader.version),
    "[Proxy": _Reader.proxy,
    **dict.fromkeys(("Init", "timings:"), _Reader.timings),
    "Check": _Reader.check,
    "Comm": _Reader.config,
    "RAS": _Reader.ras,
    **dict.fromkeys(("Pattern", "===", "+"), _Reader.graph),
    **dict.fromkeys(("DMA-BUF", "Enabled", "Successfully", "Initialized", "Failed", "GPU", "CUDA"), _Reader.other),
    **dict.fromkeys(("P2P", "GDRCOPY", "Plugin", "Topology", "Setting", "Disabling", "dlvsym", "Could"), _Reader.other),
    **dict.fromkeys(("Inspector:", "Kernel", "Hipruntime", "ROCr", "Loading"), _Reader.other),
    **dict.fromkeys(("ENV/Plugin:", "PROFILER/Plugin:", "TUNER/Plugin:", "GIN/Plugin:"), _Reader.other),
}
_STARTS: tuple[tuple[str, Handler], ...] = (
    ("ncclComm", _Reader.comm),
    ("NCCL_", _Reader.setting),
    ("RCCL_", _Reader.setting),
    ("NET/", _Reader.net),
    ("CPU/", _Reader.graph),
    ("GPU/", _Reader.graph),
    ("====", _Reader.graph),
    ("resp.opId", lambda reader, _: reader.noise("PROXY")),
)


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """Facts of a NCCL log. Sources: NCCL 2.3.5 to 2.30.7 (debug.cc and the INFO and WARN calls), RCCL, plugins."""
    reader = _Reader(segment)
    reader.read()
    yield from reader.facts()


SOURCE = Source(
    id="nccl-log",
    title="NCCL debug log",
    facts=(NcclProcess, NcclRank, NcclMessage, NcclGraph, NcclChoice, EnvVar, RdmaPort),
    needles=("NCCL INFO", "NCCL WARN", "NCCL TRACE", "NCCL CALL", "CCL version", "Last error:"),
    signature=re.compile(
        r"(?:^|[\s\]>:|])NCCL (?:INFO|WARN|TRACE|CALL) |^[NR]CCL version ?:? \d[\d.]*(?:\+\S+)?(?: HEAD\S*)?$"
        r"|Last error:$",
        re.MULTILINE,
    ),
    parse=parse,
    versions="NCCL 2.3 to 2.30, RCCL 2.20",
    in_nccl_lines=True,
)
