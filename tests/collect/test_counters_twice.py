"""Counters that a collector reads twice become rates, where the two readings stand in one collection."""

from __future__ import annotations

from advisor.diagnosis import facts_of
from advisor.facts import PortUse, RdmaCounters
from advisor.read.unpack import unpack

COMMAND = "'grep' '-r' '.' '/sys/class/infiniband'"


def counters(words: int) -> str:
    return f"/sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data:{words}\n"


def collected(second: int, at: int) -> bytes:
    mark = "@advisor.1.2"
    text = (
        f"{mark} open 1 node01 100\n{mark} run ibstatus 1 100 'ibstatus'\nInfiniband device 'mlx5_0' port 1 status:\n"
    )
    text += "\tstate:\t\t 4: ACTIVE\n\trate:\t\t 100 Gb/sec (4X EDR)\n\tlink_layer:\t InfiniBand\n"
    text += f"{mark} stderr\n{mark} exit 0 100\n"
    for reading, words, time in ((1, 1000, 100), (2, second, at)):
        text += f"{mark} run rdma-counters {reading} {time} {COMMAND}\n{counters(words)}"
        text += f"{mark} stderr\n{mark} exit 0 {time}\n"
    return f"{text}{mark} close {at}\n".encode()


def test_a_rate_over_the_time_between() -> None:
    store, _ = facts_of(unpack("node01.txt", collected(1000 + 25_000_000_000, 110)))
    (found,) = store.of(RdmaCounters)
    assert (found.host, found.readings, found.interval_s, found.xmit_bytes_delta) == (
        "node01",
        2,
        10.0,
        100_000_000_000,
    )
    (use,) = store.of(PortUse)
    assert (use.gbit_s, use.share) == (80.0, 0.8)


def test_no_time_between_gives_no_rate() -> None:
    store, _ = facts_of(unpack("node01.txt", collected(5000, 100)))
    (found,) = store.of(RdmaCounters)
    assert (found.readings, found.interval_s) == (1, None)
    assert not store.of(PortUse)
