"""Which transports stay on a host."""

from __future__ import annotations

from advisor.expect.placement import place
from advisor.facts import Edge, NcclRank
from advisor.sources.nccl_log import parse
from tests.capture_tools import CAPTURES, segment_of


def _rank(number: int, host: str | None, *edges: Edge, **values: object) -> NcclRank:
    return NcclRank(host=host, rank=number, edges=edges, **values)  # type: ignore[arg-type]


def _placed(capture: str) -> list[NcclRank]:
    facts = parse(segment_of(CAPTURES / "nccl-log" / capture))
    return place(fact for fact in facts if isinstance(fact, NcclRank))


def test_two_nodes_of_eight() -> None:
    for rank in _placed("2.21-ib-gdr-2x8.txt"):
        assert rank.intra_transports == ("P2P/CUMEM",)
        assert rank.inter_transports == ("NET/IB",)
        assert rank.unplaced_transports == ()
        assert "via NET/IB" in rank.said_at["inter_transports"].text


def test_old_logs_are_placed_by_size_of_communicator() -> None:
    first = _placed("2.8-ib-gdr.txt")[0]
    assert (first.intra_transports, first.inter_transports) == (("P2P/IPC",), ("NET/IB",))


def test_network_inside_a_host_though_counted_as_two_nodes() -> None:
    for rank in _placed("real-2.28-p2p-and-shm-disabled.txt"):
        assert rank.nnodes == 2
        assert (rank.intra_transports, rank.inter_transports) == (("NET/Socket",), ())


def test_one_log_of_many() -> None:
    alone = _rank(0, "a", Edge(1, "NET/IB"), Edge(2, "SHM"), comm_id="0x1", nranks=4)
    placed = place([alone])[0]
    assert placed.intra_transports == ("SHM",)
    assert placed.inter_transports == ()
    assert placed.unplaced_transports == ("NET/IB",)


def test_counts_decide_where_hosts_are_unknown() -> None:
    everywhere = place([_rank(0, None, Edge(1, "NET/Socket"), nranks=2, nnodes=2)])[0]
    assert everywhere.inter_transports == ("NET/Socket",)
    single = place([_rank(0, None, Edge(1, "NET/Socket"), nranks=2, nnodes=1)])[0]
    assert single.intra_transports == ("NET/Socket",)


def test_multi_node_nvlink_may_leave_the_host() -> None:
    ranks = [
        _rank(0, "a", Edge(1, "P2P/MNNVL"), Edge(-1, "COLLNET/SHARP"), comm_id="0x1", nranks=2),
        _rank(1, "b", comm_id="0x1", nranks=2),
    ]
    first, second = place(ranks)
    assert first.inter_transports == ("COLLNET/SHARP", "P2P/MNNVL")
    assert second.intra_transports is None


def test_a_number_on_two_hosts_tells_nothing() -> None:
    ranks = [
        _rank(0, "a", Edge(1, "NET/IB"), nranks=2),
        _rank(1, "a", nranks=2),
        _rank(1, "b", nranks=2),
    ]
    assert place(ranks)[0].unplaced_transports == ("NET/IB",)


def test_the_hash_tells_communicators_apart() -> None:
    ranks = [
        _rank(0, "a", Edge(1, "NET/IB"), comm_id="0x1", nranks=2),
        _rank(1, "b", comm_id="0x1", nranks=2),
        _rank(1, "a", comm_id="0x2", nranks=2),
    ]
    assert place(ranks)[0].inter_transports == ("NET/IB",)
