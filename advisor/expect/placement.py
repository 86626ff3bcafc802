"""Which channels of a rank stay on its host and which leave it: only known when the logs of all ranks are.

A channel line names the ranks at both ends, not their hosts; a rank's host stands in the prefix of its own lines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace

from advisor.facts import Edge, NcclRank

Place = tuple[object, int]


def _keys(rank: NcclRank, number: int) -> tuple[Place, ...]:
    """Names of rank `number` of the same communicator, the surest first: by hash, by size, by number alone."""
    return (("id", rank.comm_id), number), (("size", rank.nranks), number), ("any", number)


def _hosts(ranks: Iterable[NcclRank]) -> Mapping[Place, set[str]]:
    """Hosts seen for each rank. Two hosts for one name mean that it names ranks of different communicators."""
    seen: dict[Place, set[str]] = defaultdict(set)
    for rank in ranks:
        if rank.host is None or rank.rank is None:
            continue
        by_id, by_size, by_number = _keys(rank, rank.rank)
        if rank.comm_id:
            seen[by_id].add(rank.host)
        if rank.nranks:
            seen[by_size].add(rank.host)
        seen[by_number].add(rank.host)
    return seen


def _host_of(rank: NcclRank, peer: int, hosts: Mapping[Place, set[str]]) -> str | None:
    by_id, by_size, by_number = _keys(rank, peer)
    keys = (by_id,) if rank.comm_id else (by_size,) if rank.nranks else (by_number,)
    for key in keys:
        found = hosts.get(key, set())
        if len(found) == 1:
            return next(iter(found))
    return None


def _stays(rank: NcclRank, edge: Edge, hosts: Mapping[Place, set[str]]) -> bool | None:
    """Whether an edge stays on the rank's host, None where that is not known."""
    if edge.transport.startswith("COLLNET"):
        return False
    if rank.nnodes == 1 or (edge.transport.startswith(("P2P", "SHM")) and "MNNVL" not in edge.transport):
        return True
    peer = _host_of(rank, edge.peer, hosts)
    if peer is not None and rank.host is not None:
        return peer == rank.host
    # without P2P and SHM, NCCL counts every rank of one host as a node: the hosts themselves come first
    return False if rank.nnodes is not None and rank.nnodes == rank.nranks else None


def _place_rank(rank: NcclRank, hosts: Mapping[Place, set[str]]) -> NcclRank:
    if not rank.edges:
        return rank
    sides: dict[bool | None, set[str]] = {True: set(), False: set(), None: set()}
    for edge in rank.edges:
        sides[_stays(rank, edge, hosts)].add(edge.transport)
    said_at = dict(rank.said_at)
    for side, name in ((True, "intra_transports"), (False, "inter_transports"), (None, "unplaced_transports")):
        lines = [rank.said_at[transport] for transport in sides[side] if transport in rank.said_at]
        if lines:
            said_at[name] = min(lines)
    return replace(
        rank,
        said_at=said_at,
        intra_transports=tuple(sorted(sides[True])),
        inter_transports=tuple(sorted(sides[False])),
        unplaced_transports=tuple(sorted(sides[None])),
    )


def place(ranks: Iterable[NcclRank]) -> list[NcclRank]:
    """The ranks of one run with intra_, inter_ and unplaced_transports filled in; a rank without channels stays.

    A peer's host is taken from its own lines (same communicator by hash; where logs of old versions have none, of
    the same size). P2P over NVLink or PCIe and shared memory never leave a host, multi-node NVLink may.
    """
    listed = list(ranks)
    hosts = _hosts(listed)
    return [_place_rank(rank, hosts) for rank in listed]
