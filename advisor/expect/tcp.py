"""The band of several nodes over TCP: a wide one, since one thread moves 15 to 35 Gb/s and nobody says how many run."""

from __future__ import annotations

from advisor.data import phrase, table
from advisor.expect.collectives import network_factor
from advisor.expect.inter import needed_size, possible_algorithms, rate_sum
from advisor.expect.shape import Band, Ceiling, ClusterShape, Range


def iperf3_band(shape: ClusterShape, collective: str, algorithm: str | None) -> Band | None:
    """NCCL against what iperf3 moved on the same path: a comparison of experience, not of physics."""
    algorithms = possible_algorithms(shape, collective, algorithm)
    factor = network_factor(collective, algorithms, shape.nodes, shape.gpus_per_node)
    if factor is None or not shape.tcp_line_gbit_s:
        return None
    line, shares = shape.tcp_line_gbit_s / 8, table("tcp")["of_iperf3"]
    why = phrase("expect-iperf3", line=f"{line:.4g}", low=f"{shares['low']:.0%}", fine=f"{shares['fine']:.0%}")
    return Band(
        low=line * shares["low"] * factor.low, typical=line * shares["fine"] * factor.low,
        fine=line * shares["fine"] * factor.low, high=line * max(1.0, factor.high), stage="tcp",
        size_bytes=needed_size(shape, collective), algorithms=algorithms, why=(why,),
        assumed=(phrase("expect-assumed-iperf3"),), ceilings=(Ceiling(name="tcp", gbyte_s=line, why=why),),
    )  # fmt: skip


def _streams(shape: ClusterShape, line_gbit_s: float) -> Range:
    """What the threads that drive the sockets move together, Gb/s, before the line limits it."""
    rows = table("tcp")
    easy = rows["easy_line"]
    if line_gbit_s <= easy["gbit_s"]:
        return Range(easy["share"] * line_gbit_s, line_gbit_s)
    one = Range.of(rows["stream_gbit_s" if (shape.frame_bytes or 0) >= 9000 else "stream_small_frames_gbit_s"])
    sockets = shape.sockets or 1
    fewest = sockets if (shape.frame_bytes or 0) >= 9000 else 1
    # Each process has its own thread; how many channels of how many processes are busy is not in the facts.
    return Range(fewest * one.low, sockets * shape.gpus_per_node * one.high)


def tcp_band(shape: ClusterShape, collective: str, algorithm: str | None) -> Band | None:
    """The band over kernel TCP; None without the line rate of the interfaces, or for a collective not modelled."""
    if shape.tcp_line_gbit_s:
        return iperf3_band(shape, collective, algorithm)
    algorithms = possible_algorithms(shape, collective, algorithm)
    factor = network_factor(collective, algorithms, shape.nodes, shape.gpus_per_node)
    if factor is None or not shape.nics:
        return None
    rows = table("tcp")
    line = rate_sum(shape.nics)
    streams = _streams(shape, line * 8) * (1 / 8)
    tuned = (shape.sockets or 1) >= rows["tuned_sockets"]["value"] and line * 8 > rows["easy_line"]["gbit_s"]
    kept = Range.of(rows["wire"]) * Range.of(rows["tuned" if tuned else "nccl"])
    healthy = Range(line, line) * kept
    healthy = healthy.capped(streams)
    why = [
        phrase("expect-tcp-line", nics=" + ".join(f"{c} x {r:g}" for c, r in shape.nics), total=f"{line:.4g}"),
        phrase("expect-tcp-streams", sockets=shape.sockets or 1, streams=streams),
    ]
    assumed = [phrase("expect-assumed-tcp-threads")]
    if (shape.frame_bytes or 0) < 9000 and line * 8 > rows["easy_line"]["gbit_s"]:
        assumed.append(phrase("expect-assumed-tcp-frames"))
    fine = healthy.high * (factor.high if shape.nodes == 2 else factor.low) * table("bands")["network"]["fine"]
    if shape.gpus_per_node > 1:
        fine = min(fine, line * table("bands")["one_nic_full"]["value"])
    return Band(
        low=min(healthy.low * factor.low * table("bands")["network"]["low"], fine), typical=healthy.low * factor.low,
        fine=fine, high=line * rows["wire"]["high"] * factor.high, stage="tcp", algorithms=algorithms,
        size_bytes=needed_size(shape, collective), why=tuple(why), assumed=tuple(assumed),
        ceilings=(Ceiling(name="tcp", gbyte_s=round(line * rows["wire"]["high"], 3), why=why[0]),),
    )  # fmt: skip
