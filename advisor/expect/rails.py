"""Which NIC the channels of a rank use, and how far that NIC is from the rank's GPU."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from advisor.facts import Edge, Gpu, GpuNicUse, NcclProcess, NcclRank, TopoPath

_ORDER = ("PIX", "PXB", "PHB", "NODE", "SYS")
_LISTED = re.compile(r"^([\w.-]+):\d+/")


def address_of(bus_id: str) -> str | None:
    """The kernel's PCI address of NCCL's `busId`, a hexadecimal number without zeros in front.

    >>> address_of("9d000")
    '0000:9d:00.0'
    >>> address_of("1000001b0")
    '1000:00:1b.0'
    """
    if not re.fullmatch(r"[0-9a-fA-F]{1,12}", bus_id):
        return None
    number = int(bus_id, 16)
    return f"{number >> 20:04x}:{number >> 12 & 0xFF:02x}:{number >> 4 & 0xFF:02x}.{number & 0xF}"


def _gpu_of(rank: NcclRank, gpus: Sequence[Gpu], in_order: Sequence[str], listed: int) -> int | None:
    """Index of a rank's GPU: by its address, or by its place where every GPU of the host has a rank.

    in_order: addresses of all ranks of the host, sorted, which is the order `topo -m` lists GPUs in.
    """
    address = address_of(rank.bus_id) if rank.bus_id else None
    if address is None:
        return None
    known = [gpu.index for gpu in gpus if gpu.bus_id == address]
    if known:
        return known[0]
    return in_order.index(address) if len(in_order) == listed else None


def _names(listing: Sequence[str]) -> list[str]:
    """Devices of a `Using` line in its order, empty for merged ones."""
    return [m[1] if (m := _LISTED.match(text)) else "" for text in listing]


def _all_or_none(edges: Sequence[Edge]) -> bool | None:
    words = {edge.gdr for edge in edges}
    return words.pop() if len(words) == 1 else None


@dataclass(slots=True)
class _Sharing:
    """How the ranks of one host share its NICs; users: GPU and direction of the channels over each."""

    users: dict[str, set[tuple[str | None, str]]]
    local_ranks: int | None
    complete: bool  # the channels of all these ranks are known

    def senders(self, nic: str) -> int | None:
        return sum(direction == "send" for _, direction in self.users[nic]) if self.complete else None

    def idle(self, listed: Sequence[str]) -> tuple[str, ...] | None:
        """The listed NICs without a channel; merged ones have no name here."""
        return tuple(nic for nic in listed if nic not in self.users) if self.complete and all(listed) else None


def _by_nic(rank: NcclRank, devices: Sequence[str]) -> dict[str, list[Edge]]:
    """The channels of a rank over each NIC; its list gives the numbers their names."""
    found: dict[str, list[Edge]] = defaultdict(list)
    for edge in rank.edges:
        number = int(edge.nic) if edge.transport.startswith("NET/IB") and edge.nic.isdecimal() else len(devices)
        if number < len(devices) and devices[number]:
            found[devices[number]].append(edge)
    return found


def _sharing(ranks: Sequence[tuple[NcclRank, Sequence[str]]]) -> _Sharing:
    users: dict[str, set[tuple[str | None, str]]] = defaultdict(set)
    for rank, devices in ranks:
        for nic, edges in _by_nic(rank, devices).items():
            users[nic] |= {(rank.bus_id, edge.direction) for edge in edges}
    local = max((rank.local_ranks for rank, _ in ranks if rank.local_ranks), default=None)
    shown = {rank.bus_id for rank, devices in ranks if rank.bus_id and rank.edges and all(devices) and devices}
    return _Sharing(users, local, local is not None and len(shown) >= local)


def _uses(
    rank: NcclRank, gpu: int, devices: Sequence[str], paths: dict[tuple[str, str], str], sharing: _Sharing
) -> Iterator[GpuNicUse]:
    ways = {nic: path for (name, nic), path in paths.items() if name == f"GPU{gpu}" and path in _ORDER}
    if not ways:
        return
    near = min(ways, key=lambda nic: (_ORDER.index(ways[nic]), len(nic), nic))
    by_nic = _by_nic(rank, devices)
    for nic, edges in sorted(by_nic.items()):
        path = ways.get(nic)
        lines = [rank.said_at[edge.transport] for edge in edges if edge.transport in rank.said_at]
        yield GpuNicUse(
            host=rank.host, run=rank.run, pid=rank.pid, rank=rank.rank, gpu=gpu, nic=nic, path=path,
            nearest=ways[near], near_nic=near,
            nearer=None if path is None else _ORDER.index(ways[near]) < _ORDER.index(path),
            near_used=any(ways.get(used) == ways[near] for used in by_nic), gdr=_all_or_none(edges),
            relayed=None if rank.pxn_channels is None else rank.pxn_channels > 0,
            senders=sharing.senders(nic), listed_nics=len(devices) if all(devices) else None,
            idle_nics=sharing.idle(devices), local_ranks=sharing.local_ranks,
            origins=tuple(dict.fromkeys(lines[:1])) or rank.origins[:1],
        )  # fmt: skip


def uses(
    ranks: Iterable[NcclRank], processes: Iterable[NcclProcess], gpus: Iterable[Gpu], paths: Iterable[TopoPath]
) -> Iterator[GpuNicUse]:
    """One fact for each rank and NIC where log and topology can be joined.

    NCCL numbers NICs in the order of its `Using` line; merged devices and plugins with names of their own are left out.
    """
    devices = {(p.host, p.run, p.pid): p.ib_devices for p in processes if p.ib_devices}
    known, ways = list(gpus), list(paths)
    by_host: dict[tuple[str | None, str | None], list[NcclRank]] = defaultdict(list)
    for rank in ranks:
        by_host[rank.host, rank.run].append(rank)
    for (host, run), members in by_host.items():
        table = {(p.a, p.b): p.path for p in ways if p.host == host and p.kind == "gpu-nic" and p.path}
        listed = len({name for name, _ in table})
        in_order = sorted({a for rank in members if rank.bus_id and (a := address_of(rank.bus_id))})
        named = [(rank, _names(devices.get((host, run, rank.pid)) or ())) for rank in members]
        sharing = _sharing(named)
        for rank, names in named:
            gpu = _gpu_of(rank, [gpu for gpu in known if gpu.host == host], in_order, listed)
            if gpu is not None and any(names):
                yield from _uses(rank, gpu, names, table, sharing)
