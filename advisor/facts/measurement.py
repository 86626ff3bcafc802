"""Facts that somebody measured: collectives, streams, round trips."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log2
from typing import Any, ClassVar

from advisor.facts.base import Fact


@dataclass(slots=True, frozen=True)
class Point:
    """One row of a collective's table. Bandwidths in GB/s (10^9); None where the table has no such column."""

    size_bytes: int
    time_us: float | None = None
    algbw_gbyte_s: float | None = None
    busbw_gbyte_s: float | None = None
    in_place_time_us: float | None = None
    in_place_algbw_gbyte_s: float | None = None
    in_place_busbw_gbyte_s: float | None = None
    wrong: int | None = None


@dataclass(slots=True, kw_only=True)
class CollectiveTest(Fact):
    """One table of a collective benchmark (nccl-tests, or a torch all-reduce loop).

    test: names the table, `FILE:LINE` of its first line; tool: `nccl-tests`, `torch-allreduce`; tool_version;
    collective: `all_reduce`, `all_gather`, … None where unknown; nranks; nnodes; hosts; gpus_per_host: the most on
    one host; gpu: product name; size_bytes: the largest size of the table; busbw_gbyte_s, algbw_gbyte_s: at the
    largest size, the better of out-of-place and in-place; time_us: at the smallest size; still_rising: the last
    doubling gained 10 % or more (None with one row); peak_busbw_gbyte_s, peak_size_bytes: of the best row;
    average_busbw_gbyte_s: the tool's last line (never to be judged); wrong: sum of wrong elements, None where not
    checked; zero_busbw: every row has busbw 0.00 beside algbw above 0; same_size_rows: rows of one size appear more
    than once; tables: how many tables of this input list `Rank 0` only, None where no list of devices is shown;
    failed: it stopped with an error, False where it reached its last line; points: the rows.

    More tools and fields: tool also `rccl-tests`, `osu` (its latency tables of collectives, no bandwidths); backend:
    `nccl`, `gloo` where printed; nccl_version: of the loaded library, headers_version: of the headers it was built
    with (`2.28.3`); groups: communicators that run at once (NCCL_TESTS_SPLIT), nranks is of one of
    them; launched: processes that the command line starts, where it is shown; unfinished_size_bytes: size
    of a row that was begun and never finished; error: text of the first failure.
    """

    KEY: ClassVar[tuple[str, ...]] = ("test",)

    test: str
    tool: str
    tool_version: str | None = None
    collective: str | None = None
    nranks: int | None = None
    nnodes: int | None = None
    hosts: tuple[str, ...] = ()
    gpus_per_host: int | None = None
    gpu: str | None = None
    size_bytes: int | None = None
    busbw_gbyte_s: float | None = None
    algbw_gbyte_s: float | None = None
    time_us: float | None = None
    still_rising: bool | None = None
    peak_busbw_gbyte_s: float | None = None
    peak_size_bytes: int | None = None
    average_busbw_gbyte_s: float | None = None
    wrong: int | None = None
    zero_busbw: bool | None = None
    same_size_rows: bool | None = None
    tables: int | None = None
    failed: bool | None = None
    backend: str | None = None
    nccl_version: str | None = None
    headers_version: str | None = None
    groups: int | None = None
    launched: int | None = None
    unfinished_size_bytes: int | None = None
    error: str | None = None
    points: tuple[Point, ...] = ()


def _best(point: Point) -> tuple[float | None, float | None]:
    """(busbw, algbw) of the better half of a row; algbw decides where there is no busbw."""
    halves = (
        (point.busbw_gbyte_s, point.algbw_gbyte_s),
        (point.in_place_busbw_gbyte_s, point.in_place_algbw_gbyte_s),
    )
    return max(halves, key=lambda half: (half[0] is not None, half[0] or 0.0, half[1] or 0.0 if half[0] is None else 0))


def _rate(point: Point) -> float:
    busbw, algbw = _best(point)
    return (algbw or 0.0) if busbw is None else busbw


def _still_rising(points: Sequence[Point]) -> bool | None:
    """Whether the last doubling gained 10 %; a larger step of the table counts as so many doublings."""
    last = max(points, key=lambda p: (p.size_bytes, _rate(p)))
    before = [p for p in points if p.size_bytes * 2 <= last.size_bytes]
    if not before:
        return None
    previous = max(before, key=lambda p: (p.size_bytes, _rate(p)))
    if not _rate(previous) or not _rate(last):
        return None
    doublings = log2(last.size_bytes / previous.size_bytes)
    return bool(_rate(last) / _rate(previous) >= 1.10**doublings)


def _zero_busbw(points: Sequence[Point]) -> bool | None:
    """True with one rank: its factor 2(n-1)/n is 0. Rows with algbw below 0.05 could be 0.00 by rounding alone."""
    halves = [
        half
        for p in points
        for half in (
            (p.busbw_gbyte_s, p.algbw_gbyte_s),
            (p.in_place_busbw_gbyte_s, p.in_place_algbw_gbyte_s),
        )
        if half[0] is not None and (half[1] or 0.0) >= 0.05
    ]
    return all(busbw == 0 for busbw, _ in halves) if halves else None


def summarise(points: Sequence[Point]) -> dict[str, Any]:
    """The fields of `CollectiveTest` that follow from the rows alone, `points` among them."""
    if not points:
        return {}
    largest = max(p.size_bytes for p in points)
    smallest = min(p.size_bytes for p in points)
    busbw, algbw = _best(max((p for p in points if p.size_bytes == largest), key=_rate))
    peak = max(points, key=_rate)
    times = [
        p.in_place_time_us if p.time_us is None else p.time_us for p in points if p.size_bytes == smallest
    ]
    wrong = [p.wrong for p in points if p.wrong is not None]
    return {
        "size_bytes": largest,
        "busbw_gbyte_s": busbw,
        "algbw_gbyte_s": algbw,
        "time_us": min((t for t in times if t is not None), default=None),
        "still_rising": _still_rising(points),
        "peak_busbw_gbyte_s": _best(peak)[0],
        "peak_size_bytes": None if _best(peak)[0] is None else peak.size_bytes,
        "wrong": sum(wrong) if wrong else None,
        "zero_busbw": _zero_busbw(points),
        "same_size_rows": len({p.size_bytes for p in points}) < len(points),
        "points": tuple(points),
    }


def deciding_rows(points: Sequence[Point]) -> dict[str, int]:
    """For fields of `summarise`, which row (index into `points`) said them."""
    if not points:
        return {}
    order = range(len(points))
    largest = max(order, key=lambda i: (points[i].size_bytes, _rate(points[i])))
    smallest = min(order, key=lambda i: points[i].size_bytes)
    peak = max(order, key=lambda i: _rate(points[i]))
    rows = dict.fromkeys(("size_bytes", "busbw_gbyte_s", "algbw_gbyte_s", "zero_busbw", "still_rising"), largest)
    rows |= {"time_us": smallest, "peak_busbw_gbyte_s": peak, "peak_size_bytes": peak}
    wrong = [i for i in order if points[i].wrong]
    return rows | ({"wrong": wrong[0]} if wrong else {})


@dataclass(slots=True, frozen=True)
class RdmaPoint:
    """One row of a point-to-point table: bandwidths in 10^9 bit/s, times in us, None where there is no such column.

    peak_gbit_s None also where the tool measured none (it prints 0.00).
    """

    size_bytes: int
    average_gbit_s: float | None = None
    peak_gbit_s: float | None = None
    t_min_us: float | None = None
    t_typical_us: float | None = None
    t_avg_us: float | None = None
    t_max_us: float | None = None
    p99_us: float | None = None


@dataclass(slots=True, kw_only=True)
class RdmaTest(Fact):
    """One run of a point-to-point benchmark: perftest, ucx_perftest, the OSU pairs (those may run over TCP too).

    test: names the run, `FILE:LINE`; tool: `ib_write_bw`, `ib_send_lat`, …, `ucx_perftest`, `osu_bw`; tool_version;
    operation: `write`, `read`, `send`, `atomic`, of UCX the name of its test (`tag_bw`), of OSU `send`, `put`, …;
    kind: `bandwidth` or `latency`; device: `mlx5_0`; local, peer: address or name, peer from the command, the remote
    GID or an error; transport: `IB`, connection: `RC`, `UD`, …; link_type: `IB`, `Ethernet`; mtu_bytes: path MTU in
    use; gid_index; qps; pairs: sending processes whose sum it is; size_bytes: the largest row, with average_gbit_s and
    peak_gbit_s of that row; both are None where the input has no unit, then printed is the bare number; unit: as
    printed; t_typical_us, t_avg_us, t_max_us, p99_us: of the smallest row, latency_size_bytes; round_trip: the
    latencies are whole round trips (read, atomic), False for half ones; is_server: the passive side, which may print
    no rows; gpu_memory: the buffers are on a GPU; bidirectional: the sum of both directions; relaxed_ordering;
    clock_unsteady: the tool warns that the CPU clock is not fixed; error: id of what stopped it (`port-down`,
    `device-not-found`, `no-device`, `connect-failed`, `retry-exceeded`, `completion-error`, `exchange-failed`,
    `peer-gone`, `warm-up-failed`, `memory-registration`, `qp-setup-failed`, `link-down`, `other`), error_text: as
    printed; points: the rows.
    """

    KEY: ClassVar[tuple[str, ...]] = ("test",)

    test: str
    tool: str
    tool_version: str | None = None
    operation: str | None = None
    kind: str | None = None
    device: str | None = None
    local: str | None = None
    peer: str | None = None
    transport: str | None = None
    connection: str | None = None
    link_type: str | None = None
    mtu_bytes: int | None = None
    gid_index: int | None = None
    qps: int | None = None
    pairs: int | None = None
    size_bytes: int | None = None
    average_gbit_s: float | None = None
    peak_gbit_s: float | None = None
    printed: float | None = None
    unit: str | None = None
    latency_size_bytes: int | None = None
    t_typical_us: float | None = None
    t_avg_us: float | None = None
    t_max_us: float | None = None
    p99_us: float | None = None
    round_trip: bool | None = None
    is_server: bool | None = None
    gpu_memory: bool | None = None
    bidirectional: bool | None = None
    relaxed_ordering: bool | None = None
    clock_unsteady: bool | None = None
    error: str | None = None
    error_text: str | None = None
    points: tuple[RdmaPoint, ...] = ()


def summarise_rdma(points: Sequence[RdmaPoint]) -> dict[str, Any]:
    """The fields of `RdmaTest` that follow from the rows alone, `points` among them; a size that repeats: its last."""
    if not points:
        return {}
    fields: dict[str, Any] = {"points": tuple(points)}
    rates = [p for p in points if p.average_gbit_s is not None]
    if rates:
        size = max(p.size_bytes for p in rates)
        row = [p for p in rates if p.size_bytes == size][-1]
        fields |= {"size_bytes": size, "average_gbit_s": row.average_gbit_s, "peak_gbit_s": row.peak_gbit_s}
    times = [p for p in points if p.t_avg_us is not None or p.t_typical_us is not None]
    if times:
        size = min(p.size_bytes for p in times)
        row = [p for p in times if p.size_bytes == size][-1]
        fields |= {
            "latency_size_bytes": size, "t_typical_us": row.t_typical_us, "t_avg_us": row.t_avg_us,
            "t_max_us": row.t_max_us, "p99_us": row.p99_us,
        }
    return fields


def deciding_rdma_rows(points: Sequence[RdmaPoint]) -> dict[str, int]:
    """For fields of `summarise_rdma`, which row (index into `points`) said them."""
    rates = [i for i, p in enumerate(points) if p.average_gbit_s is not None]
    times = [i for i, p in enumerate(points) if p.t_avg_us is not None or p.t_typical_us is not None]
    rows: dict[str, int] = {}
    if rates:
        largest = max(rates, key=lambda i: (points[i].size_bytes, i))
        rows |= dict.fromkeys(("size_bytes", "average_gbit_s", "peak_gbit_s"), largest)
    if times:
        smallest = min(times, key=lambda i: (points[i].size_bytes, -i))
        rows |= dict.fromkeys(("latency_size_bytes", "t_typical_us", "t_avg_us", "t_max_us", "p99_us"), smallest)
    return rows


@dataclass(slots=True, kw_only=True)
class PingTest(Fact):
    """One run of ping.

    peer: the address pinged (the name where ping printed no address); peer_name: its name, where one was given;
    message: what ping or a hop said went wrong, first line; payload_bytes: -s; packet_bytes: with the IP and ICMP
    headers; dont_fragment: True where the command or an answer shows it, None otherwise; sent, received (the replies
    seen, where the summary is missing), errors (`+3 errors`); loss_share: 0 to 1;
    rtt_min_us, rtt_avg_us, rtt_max_us, rtt_mdev_us; local_mtu_bytes: of `message too long, mtu=N`;
    hop_mtu_bytes: of `Frag needed and DF set (mtu = N)`, hop: who said it; unreachable: a `… Unreachable` answer;
    outcome: `answered` (any reply), `too-long` (this host's own MTU), `frag-needed` (a hop says so), `unreachable`,
    `silent` (nothing came back, no error), `error` (errors, which ones unknown).
    """

    KEY: ClassVar[tuple[str, ...]] = ("peer", "payload_bytes", "test")

    test: str
    peer: str
    peer_name: str | None = None
    message: str | None = None
    payload_bytes: int | None = None
    packet_bytes: int | None = None
    dont_fragment: bool | None = None
    sent: int | None = None
    received: int | None = None
    errors: int | None = None
    loss_share: float | None = None
    rtt_min_us: float | None = None
    rtt_avg_us: float | None = None
    rtt_max_us: float | None = None
    rtt_mdev_us: float | None = None
    local_mtu_bytes: int | None = None
    hop_mtu_bytes: int | None = None
    hop: str | None = None
    unreachable: bool | None = None
    outcome: str | None = None


@dataclass(slots=True, kw_only=True)
class PathTrace(Fact):
    """One run of tracepath.

    test: `FILE:LINE`; peer: the address that answered as the target, else the host that the command names, None where
    neither is known; peer_name: its name beside the address; reached: the target answered, None in a text that ends
    before; hops, back: on the way there and, as far as the answer tells, back; rtt_us: the shortest of the target;
    local_mtu_bytes: of the own interface; path_mtu_bytes: largest packet of the whole path, or up to the last hop that
    named a limit, None where neither the target nor such a hop answered; narrow_hop: the last hop that lowered it;
    refused_by: a hop that answered that it does not forward (`!H`, `!N`, `!A`, …), this host itself where the target
    does not answer ARP.
    """

    KEY: ClassVar[tuple[str, ...]] = ("peer", "test")

    test: str
    peer: str | None = None
    peer_name: str | None = None
    reached: bool | None = None
    hops: int | None = None
    back: int | None = None
    rtt_us: float | None = None
    local_mtu_bytes: int | None = None
    path_mtu_bytes: int | None = None
    narrow_hop: str | None = None
    refused_by: str | None = None


@dataclass(slots=True, kw_only=True)
class TcpTest(Fact):
    """One run of iperf3 or iperf2 over TCP or UDP; a bidirectional run gives one fact for each direction.

    test: names the run, `FILE:LINE` (` reverse` behind it for the second direction); tool: `iperf3`, `iperf2`;
    tool_version: `3.12`; role: `client`, `server`: which end printed it; local, peer: addresses; peer_name: the name
    that was given; protocol: `TCP`, `UDP`; streams: -P; reverse: data came from the peer (-R of a client, no -R at a
    server); bidirectional: both ways at once; duration_s; target_gbit_s: -b, over all streams; received_gbit_s,
    sent_gbit_s: sums over the streams, 10^9 bit/s; slowest_interval_gbit_s, fastest_interval_gbit_s: sums over the
    streams in the intervals of half a second or more; retransmits; retransmit_share: of the segments sent, 0 to 1;
    mss_bytes; pmtu_bytes: least path MTU seen; mean_rtt_us; max_window_bytes: largest send window seen (snd_wnd, else
    snd_cwnd); window_granted: it is the one the receiver granted, False where it is the congestion window;
    cpu_local_share, cpu_remote_share: of one core, 1 = 100 %; congestion: algorithm; error: what stopped it;
    lost_share: UDP.
    """

    KEY: ClassVar[tuple[str, ...]] = ("test",)

    test: str
    tool: str
    tool_version: str | None = None
    role: str | None = None
    local: str | None = None
    peer: str | None = None
    peer_name: str | None = None
    protocol: str | None = None
    streams: int | None = None
    reverse: bool | None = None
    bidirectional: bool | None = None
    duration_s: float | None = None
    target_gbit_s: float | None = None
    received_gbit_s: float | None = None
    sent_gbit_s: float | None = None
    slowest_interval_gbit_s: float | None = None
    fastest_interval_gbit_s: float | None = None
    retransmits: int | None = None
    retransmit_share: float | None = None
    mss_bytes: int | None = None
    pmtu_bytes: int | None = None
    mean_rtt_us: float | None = None
    max_window_bytes: int | None = None
    window_granted: bool | None = None
    cpu_local_share: float | None = None
    cpu_remote_share: float | None = None
    congestion: str | None = None
    lost_share: float | None = None
    error: str | None = None
