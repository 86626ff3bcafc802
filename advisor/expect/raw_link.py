"""What point-to-point tests (perftest, iperf3) got out of the line, before any collective is judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from advisor.data import phrase, table
from advisor.expect.shape import Range
from advisor.facts import (
    CollectiveTest,
    LinkDelivery,
    NcclMessage,
    NcclProcess,
    RdmaPort,
    RdmaTest,
    StepTimes,
    TcpPath,
    TrainingTrace,
)
from advisor.facts.store import FactStore

# What shows that more than the link is in question.
_JOB = (CollectiveTest, NcclMessage, NcclProcess, StepTimes, TrainingTrace)


def roce_row(mtu_bytes: int | None) -> str:
    """The row of `rdma.yaml`, wire, for a path MTU of RoCE.

    >>> roce_row(4200), roce_row(1024), roce_row(None)
    ('roce-4096', 'roce-1024', 'roce')
    """
    if mtu_bytes is None:
        return "roce"
    return f"roce-{max(m for m in (1024, 2048, 4096) if m <= max(1024, mtu_bytes))}"


def _standing(share: float, row: str) -> str:
    band = table("bands")["link"][row]
    if share >= band["fine"]:
        return "in-band"
    return "low" if share < band["low"] else "inconclusive"


def _line(test: RdmaTest, ports: Sequence[RdmaPort]) -> RdmaPort | None:
    """The port that was tested; of several hosts' ports of the name, only where all run at one rate."""
    own = [p for p in ports if p.device == test.device and p.rate_gbit_s and test.host in (p.host, None)]
    return own[0] if own and len({p.rate_gbit_s for p in own}) == 1 else None


def _rdma(test: RdmaTest, ports: Sequence[RdmaPort]) -> LinkDelivery | None:
    """None where the test or its line cannot be judged: errors, small messages, no unit, port not known."""
    port = _line(test, ports)
    least = table("bands")["link_least_bytes"]["value"]
    if test.kind != "bandwidth" or test.error or port is None or port.rate_gbit_s is None:
        return None
    if not test.average_gbit_s or (test.size_bytes or 0) < least:
        return None
    ethernet = (test.link_type or port.link_layer) == "Ethernet"
    wire = Range.of(table("rdma")["wire"][roce_row(test.mtu_bytes or port.active_mtu_bytes) if ethernet else "ib"])
    measured = test.average_gbit_s / (2 if test.bidirectional else 1)
    payload = port.rate_gbit_s * wire.high
    share = round(measured / payload, 3)
    why = phrase(
        "link-rdma-ethernet" if ethernet else "link-rdma-ib", line=f"{port.rate_gbit_s:g}", payload=f"{payload:.4g}",
        mtu=test.mtu_bytes or port.active_mtu_bytes or "?",
    )  # fmt: skip
    return LinkDelivery(
        host=test.host or port.host, origins=test.origins, test=test.test, tool=test.tool, device=test.device,
        peer=test.peer, gpu_memory=test.gpu_memory, measured_gbit_s=round(measured, 2), line_gbit_s=port.rate_gbit_s,
        payload_gbit_s=round(payload, 2), share=share,
        standing=_standing(share, "rdma-gpu" if test.gpu_memory else "rdma-host"), why=why, alone=False,
    )  # fmt: skip


def _version(text: str | None) -> tuple[int, ...]:
    parts = (text or "").split(".")
    return tuple(int(part) for part in parts if part.isdigit())


def _enough_streams(path: TcpPath) -> bool:
    """Whether the test could have filled the line: several threads, or a line that one thread fills."""
    row = table("bands")["iperf3_threads"]
    if path.line_gbit_s is not None and path.line_gbit_s <= row["line_gbit_s"]:
        return True
    threaded = path.tool != "iperf3" or _version(path.tool_version) >= _version(row["version"])
    return threaded and (path.streams or 1) >= row["streams"]


def _tcp(path: TcpPath) -> LinkDelivery | None:
    best = max(path.one_stream_gbit_s or 0.0, path.many_streams_gbit_s or 0.0)
    if not path.line_gbit_s or not best:
        return None
    share = round(best / path.line_gbit_s, 3)
    standing = _standing(share, "tcp")
    if standing == "low" and not _enough_streams(path):
        standing = "inconclusive"
    return LinkDelivery(
        host=path.host, origins=path.origins, test=f"{path.tool} {path.local}>{path.peer} {path.reverse}",
        tool=path.tool, device=path.interface, peer=path.peer, measured_gbit_s=round(best, 3),
        line_gbit_s=path.line_gbit_s, payload_gbit_s=path.line_gbit_s, share=share, standing=standing,
        why=phrase("link-tcp", line=f"{path.line_gbit_s:g}", streams=path.streams or 1), alone=False,
    )  # fmt: skip


def raw_links(store: FactStore, paths: Iterable[TcpPath]) -> Iterator[LinkDelivery]:
    """One fact for each bandwidth test whose line is known and that is fit to be judged."""
    ports = store.of(RdmaPort)
    alone = not any(store.of(kind) for kind in _JOB)
    for found in [*(_rdma(test, ports) for test in store.of(RdmaTest)), *(_tcp(path) for path in paths)]:
        if found is not None:
            found.alone = alone
            yield found
