"""The grammar of NCCL log lines, version by version: pure functions from printed text to values, no facts.

The envelope of a line is `[STAMP ]HOST:PID:TID [DEV] [FILE:LINE [(FUNC)] ]NCCL LEVEL MESSAGE`; people paste lines
with any part of what stands before `NCCL` cut off.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

PATHS = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "NODE", "SYS", "NET", "DIS")  # near to far
RING_PATTERN = 4

COLLECTIVES = (
    "AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "Send", "Recv", "AlltoAll", "AllToAll", "Scatter",
    "Gather", "SendRecv",
)
# First words of lines without facts, by the subsystem that prints them; empty for those that are on by default.
NOISE = {
    **dict.fromkeys(("threadThresholds", "CC", "MNNVL", "NVLS", "Launch"), ""),
    **dict.fromkeys(("proxyProgressAsync", "ncclPollProxyResponse", "Received", "New", "Queuing"), "PROXY"),
    **dict.fromkeys(("sendConnect", "recvConnect", "UDS:"), "PROXY"),
    **dict.fromkeys(("Mem", "Allocated"), "ALLOC"),
    **dict.fromkeys(("TOPO/NET", "ncclTopoPopulateNics", "ncclP2pSchedule:", "Tree"), "GRAPH"),
}
# The same for lines that stand alone.
PLAIN_NOISE = (
    "NCCL Inspector", "NCCL_INSPECTOR_", "NCCL git version", "P2p connect done in ", "HIP version", "ROCm version",
    "Librccl path", "This is usually caused by a system or configuration error in the Fabric Manager",
    "Disable NVLS (NCCL_NVLS_ENABLE=0)", "Do not force-enable NVLS",
)

_LEVEL = re.compile(r"NCCL (INFO|WARN|TRACE|CALL|ABORT|VERSION) ")
_PREFIX = re.compile(
    r"(?:([^\s:\[\]()<>|]{1,255}):(\d{1,10}):(\d{1,10}) (?:\[(-?\d{1,5})\] )?)?"
    r"(?:\d{1,12}\.\d{1,9} )?"  # milliseconds, on TRACE lines
    r"(?:([\w./-]{1,200}(?::\d{0,7})?:?)(?: \([\w:~]{1,200}\))? )?$"
)
_CHANNEL = re.compile(
    r"(?:Ring|Channel) (\d{1,3})(?:/(\d{1,3}))? : (\d{1,7})(?:\[-?[0-9a-fA-F]{1,16}\])?"
    r" -> (\d{1,7})(?:\[-?[0-9a-fA-F]{1,16}\])?(?: \[(send|receive)\])? via (.{1,200})$"
)
_COLLNET = re.compile(r"Coll(?:Net)? (\d{1,3})(?:/(\d{1,3}))? : (\d{1,7}) \[(send|receive)\] via (.{1,200})$")
_NET = re.compile(r"((?:NET|COLLNET)/[^/]{1,80})/(\d{1,6})(?:\((\d{1,7})\))?((?:/[\w()]{1,20})*)")
_RCCL_TAIL = re.compile(r" comm (0x[0-9a-f]{1,16}) nRanks \d+$")
_VERSION = re.compile(
    r"[NR]CCL version ?:? (\d{1,3}(?:\.\d{1,4}){1,3})(?:\+(?:cuda([\d.]{1,12})|hip[\d.]{1,12}))?(?: \S.{0,80})?$"
)
_PAIR = re.compile(r"([A-Za-z]\w{0,30}) (0x[0-9a-f]{1,16}|[0-9a-fA-F]{1,16}|-1)(?![\w.])")
_INTERFACE = re.compile(r"([\w.@-]{1,40}):([0-9A-Fa-f.:%\w]{0,80})<\d{1,5}>")
_IB_DEVICE = re.compile(r"([\w.+-]{1,64}):(\d{1,3})(?::\d{0,5}){0,2}/(\w{1,16})")
_SETTING = re.compile(r"((?:NCCL|RCCL)_\w{1,60}) set (?:by environment )?to (.*)$")
_INTEGER_STOP = re.compile(r"-?\d{1,20}\.")
_CHOICE = re.compile(
    r"(?:(\w{3,20})(?: \[\w{1,20}\])?: )?(\d{1,18}) Bytes -> Algo (\w{1,20}) proto (\w{1,10})"
    r"(?: channel\{Lo\.\.Hi\}=\{\d{1,4}\.\.(\d{1,4})\})?"
)
_COUNTS = re.compile(r"(\d{1,4}) coll channels(?:, \d{1,4} collnet channels)?(?:, (\d{1,4}) nvls channels)?")
_NUMERIC_ALGORITHMS = ("Tree", "Ring", "CollNet")
_NAMES = {
    name.upper(): name
    for name in ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT", "LL", "LL128", "Simple")
}
_PROTOCOLS = ("LL", "LL128", "Simple")


class Prefix(NamedTuple):
    """Who printed a line: all None for a line whose prefix was cut off; source: `misc/socket.cc:72`."""

    host: str | None
    pid: int | None
    tid: int | None
    device: int | None
    source: str | None


class Channel(NamedTuple):
    """A `via` line: channel number, connection index, the two ranks (peer -1 for COLLNET), tag, and the way."""

    number: int
    connection: int
    sender: int
    receiver: int
    tag: str | None
    via: Via


class Via(NamedTuple):
    """The way of a channel: `NET/IB` with NIC `0`; proxy: the rank that drives the NIC (PXN), where printed."""

    transport: str
    nic: str
    gdr: bool
    proxy: int | None
    comm: str | None


class Choice(NamedTuple):
    """Algorithm and protocol of one call; size in bytes; channels: how many, where printed."""

    collective: str | None
    size: int
    algorithm: str
    protocol: str
    channels: int | None


class Comm(NamedTuple):
    """A communicator line: the fields it printed by name, and the event at its end (`Init START`, …) if any."""

    comm: str
    rank: int
    nranks: int | None
    values: dict[str, str]
    event: str | None


def split_line(line: str, start: int) -> tuple[str, str, str] | None:
    """(what stands before, level, message) of a NCCL line; `start` is where the first `NCCL ` was found."""
    if line.startswith("INFO ", start + 5) and (start == 0 or line[start - 1] == " "):
        return line[:start], "INFO", line[start + 10 :].rstrip()  # nearly all lines
    while start >= 0:
        m = _LEVEL.match(line, start)
        if m and (start == 0 or line[start - 1] in " \t]:|>"):
            return line[:start], m[1], line[m.end() :].rstrip()
        start = line.find("NCCL ", start + 5)
    return None


def parse_prefix(text: str) -> Prefix:
    """The prefix of a line, whatever else stands before it.

    >>> parse_prefix("[2026-01-14 09:12:44] node01:40:41 [3] misc/socket.cc:72 (func) ")
    Prefix(host='node01', pid=40, tid=41, device=3, source='misc/socket.cc:72')
    """
    m = _PREFIX.search(text[-600:])
    if m is None:
        return Prefix(None, None, None, None, None)
    host, pid, tid, device, source = m.groups()
    return Prefix(
        host, int(pid) if pid else None, int(tid) if tid else None, int(device) if device else None,
        source.rstrip(":") if source else None,
    )


def parse_version(text: str) -> tuple[str, str | None] | None:
    """(NCCL version, CUDA it was built with) of a version line.

    >>> parse_version("NCCL version 2.21.5+cuda12.4")
    ('2.21.5', '12.4')
    >>> parse_version("NCCL version 2.28.9 compiled with CUDA 13.0")
    """
    m = _VERSION.match(text.strip())
    return None if m is None or "compiled with" in text else (m[1], m[2])


def version_key(version: str | None) -> tuple[int, ...] | None:
    """`2.18.3` -> (2, 18, 3), to compare with."""
    return tuple(int(part) for part in version.split(".")) if version else None


def cuda_version(code: int) -> str:
    """`12040` -> `12.4`."""
    return f"{code // 1000}.{code % 1000 // 10}"


@lru_cache(maxsize=2000)
def parse_via(text: str) -> Via:
    """What stands behind `via` on a channel line.

    >>> parse_via("NET/AWS Libfabric/3(2)/GDRDMA/Shared")
    Via(transport='NET/AWS Libfabric', nic='3', gdr=True, proxy=2, comm=None)
    >>> parse_via("P2P/CUMEM/read").transport, parse_via("direct shared memory").transport
    ('P2P/CUMEM', 'SHM')
    """
    comm = None
    if tail := _RCCL_TAIL.search(text):
        comm, text = tail[1], text[: tail.start()]
    if m := _NET.match(text):
        return Via(m[1], m[2], "GDRDMA" in m[4], int(m[3]) if m[3] else None, comm)
    if text.startswith(("SHM", "direct shared memory")):
        return Via("SHM", "", False, None, comm)
    return Via("/".join(text.split("/")[:2]).strip()[:80], "", False, None, comm)


def parse_channel(message: str) -> Channel | None:
    """A channel line of any version, None for anything else, also for one that is cut inside.

    >>> parse_channel("Channel 02/0 : 0[1b000] -> 8[1b000] [send] via NET/IB/1/GDRDMA").receiver
    8
    """
    if m := _CHANNEL.match(message):
        number, connection, sender, receiver, tag, way = m.groups()
    elif m := _COLLNET.match(message):
        number, connection, rank, tag, way = m.groups()
        sender, receiver = (rank, "-1") if tag == "send" else ("-1", rank)
    else:
        return None
    via = parse_via(way)
    known = via.nic or via.transport == "SHM" or via.transport.startswith("P2P/")
    if not known:
        return None
    return Channel(int(number), int(connection or 0), int(sender), int(receiver), tag, via)


def parse_comm(message: str) -> Comm | None:
    """A line that names a communicator and a rank of it.

    >>> c = parse_comm("ncclCommInitRank comm 0x5 rank 3 nranks 16 cudaDev 3 busId 1b000 commId 0xf - Init START")
    >>> c.comm, c.rank, c.nranks, c.values["busId"], c.event
    ('0x5', 3, 16, '1b000', 'Init START')
    """
    values = dict(_PAIR.findall(message))
    rank, nranks = values.get("rank"), values.get("nranks", values.get("nRanks"))
    if "comm" not in values or rank is None or not rank.isdecimal():
        return None
    event = None
    if message.endswith((" COMPLETE", " START")):
        event = " ".join(word for word in message.split()[-2:] if word != "-")
    return Comm(values["comm"], int(rank), int(nranks) if nranks and nranks.isdecimal() else None, values, event)


def parse_interfaces(text: str) -> list[tuple[str, str | None]]:
    """(interface, address) pairs of `[0]eth0:10.0.0.1<0> [1]eth1:fe80::1%eth1<0>`; address None where it is empty."""
    return [(name, address.partition("%")[0] or None) for name, address in _INTERFACE.findall(text[:20000])]


def parse_ib_devices(text: str) -> list[str]:
    """Devices of a `NET/IB : Using` line as `mlx5_0:1/IB`, members of merged ones apart, up to the `; OOB` part."""
    listed = text.partition("OOB")[0][:20000]
    return [f"{name}:{port}/{layer}" for name, port, layer in _IB_DEVICE.findall(listed)]


def parse_setting(message: str) -> tuple[str, str] | None:
    """(name, value) of `NCCL_X set by environment to V`; numeric ones print a full stop behind the number.

    >>> parse_setting("NCCL_IB_TIMEOUT set by environment to 22.")
    ('NCCL_IB_TIMEOUT', '22')
    """
    m = _SETTING.match(message)
    if m is None:
        return None
    value = m[2].strip()
    return m[1], value[:-1] if _INTEGER_STOP.fullmatch(value) else value


def parse_choice(message: str) -> Choice | None:
    """What NCCL chose for a call, of any version that says so in a line of subsystem TUNING.

    >>> parse_choice("AllReduce: 524288 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}")
    Choice(collective='AllReduce', size=524288, algorithm='Ring', protocol='Simple', channels=16)
    >>> parse_choice("8 Bytes -> Algo 0 proto 0 time 20.1").algorithm
    'Tree'
    """
    m = _CHOICE.match(message)
    if m is None:
        return None
    return Choice(m[1], int(m[2]), _algorithm(m[3]), _protocol(m[4]), int(m[5]) + 1 if m[5] else None)


def parse_counts(message: str) -> tuple[int, int | None] | None:
    """(collective channels, NVLS channels) of the channel summary.

    >>> parse_counts("16 coll channels, 16 collnet channels, 8 nvls channels, 16 p2p channels, 2 p2p channels per peer")
    (16, 8)
    """
    m = _COUNTS.match(message)
    return (int(m[1]), int(m[2]) if m[2] else None) if m else None


def _algorithm(text: str) -> str:
    """The name of an algorithm or of its number; numbers above 2 changed their meaning and stay numbers."""
    if text.isdecimal():
        return _NUMERIC_ALGORITHMS[int(text)] if int(text) < len(_NUMERIC_ALGORITHMS) else text
    return _NAMES.get(text.upper(), text)


def _protocol(text: str) -> str:
    """The name of a protocol or of its number."""
    if text.isdecimal():
        return _PROTOCOLS[int(text)] if int(text) < len(_PROTOCOLS) else text
    return _NAMES.get(text.upper(), text)
