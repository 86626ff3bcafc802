"""Readings of this machine over a short time: what the network ports carried, what the GPUs did, what the log says.

Ports are read in sysfs twice; `nvidia-smi dmon` runs in between. RDMA counters see what bypasses the kernel, which
`/sys/class/net` does not. Documents: Linux, Documentation/ABI,
sysfs-class-infiniband and sysfs-class-net.
"""

from __future__ import annotations

import re
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from advisor.collect.command import run
from advisor.facts import Fact, NicRate, Origin, RdmaCounters, RdmaPort
from advisor.read.decode import decode
from advisor.read.split import short
from advisor.read.unpack import Document
from advisor.sources.base import Command

SYS = Path("/sys/class")
_LOG_BYTES = 256 * 1024  # of the end of a followed log
_WORD = 4  # bytes that RDMA data counters count in
_RATE = re.compile(r"([\d.]+) Gb/sec")
_SLACK_S = 15.0
_STATE = ("nvidia-smi", "--query-gpu=index,name,utilization.gpu,power.draw,power.limit", "--format=csv")


@dataclass(slots=True)
class _Port:
    """Bytes of a port since it came up, and its line."""

    received: int
    sent: int
    line_gbit_s: float | None
    rdma: bool
    link_layer: str | None = None


@dataclass(slots=True)
class Window:
    """What was read over `seconds`. lacks: phrase keys of what could not be read."""

    seconds: float
    facts: list[Fact]
    documents: list[Document]
    lacks: list[str] = field(default_factory=list)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isdecimal() else None


def _rdma_ports(sys: Path) -> Iterator[tuple[str, _Port]]:
    for place in sorted(sys.glob("infiniband/*/ports/*")):
        counters = place / "counters"
        received, sent = _number(counters / "port_rcv_data"), _number(counters / "port_xmit_data")
        rate = _RATE.match(_text(place / "rate"))
        if received is not None and sent is not None and "ACTIVE" in _text(place / "state"):
            line = float(rate[1]) if rate else None
            name = f"{place.parent.parent.name}/{place.name}"
            yield name, _Port(received * _WORD, sent * _WORD, line, True, _text(place / "link_layer") or None)


def _interfaces(sys: Path) -> Iterator[tuple[str, _Port]]:
    """Interfaces with a device behind them, which leaves out bridges, tunnels and loopback."""
    for place in sorted(sys.glob("net/*")):
        received, sent = (_number(place / "statistics" / name) for name in ("rx_bytes", "tx_bytes"))
        if (place / "device").exists() and received is not None and sent is not None:
            speed = _number(place / "speed")
            yield place.name, _Port(received, sent, speed / 1000 if speed else None, False)


def _ports(sys: Path) -> dict[str, _Port]:
    return {**dict(_rdma_ports(sys)), **dict(_interfaces(sys))}


def _between(name: str, before: _Port, after: _Port, seconds: float, host: str) -> Iterator[Fact]:
    """Facts of what a port carried between two readings; none where its counters were reset."""
    received, sent = after.received - before.received, after.sent - before.sent
    if received < 0 or sent < 0 or seconds <= 0:
        return
    origins = (Origin(f"{host}/sysfs", 0, 0, name, "watch"),)
    if after.rdma:
        device, _, number = name.partition("/")
        port = int(number)
        yield RdmaPort(host=host, origins=origins, device=device, port=port, state="ACTIVE",
                       rate_gbit_s=after.line_gbit_s, link_layer=after.link_layer)  # fmt: skip
        yield RdmaCounters(host=host, origins=origins, device=device, port=port, reading="watch", readings=2,
                           interval_s=seconds, rcv_bytes_delta=received, xmit_bytes_delta=sent)  # fmt: skip
        return
    rates = [round(count * 8 / seconds / 1e9, 4) for count in (received, sent)]
    use = round(max(rates) / after.line_gbit_s, 4) if after.line_gbit_s else None
    yield NicRate(host=host, origins=origins, interface=name, sample="watch", readings=1, rx_gbit_s=rates[0],
                  tx_gbit_s=rates[1], busy_gbit_s=max(rates), use_share=use, use_max_share=use)  # fmt: skip


def _tail(log: Path) -> Document:
    with log.open("rb") as file:
        file.seek(0, 2)
        file.seek(max(0, file.tell() - _LOG_BYTES))
        data = file.read()
    # The first line may be the rest of one.
    return Document(log.name, decode(data.partition(b"\n")[2] if len(data) == _LOG_BYTES else data))


def watch_window(
    seconds: int,
    log: Path | None = None,
    sys: Path = SYS,
    wait: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Window:
    """Readings over about `seconds`. Raises OSError where the log cannot be read."""
    host = short(socket.gethostname())
    lacks: list[str] = []
    documents: list[Document] = []
    gpus = shutil.which("nvidia-smi") is not None
    before, start = _ports(sys), clock()
    if gpus:
        command = Command(("nvidia-smi", "dmon", "-s", "puc", "-c", str(seconds)), seconds, seconds + _SLACK_S)
        documents.append(run(f"{host}/dmon.txt", command, host))
    else:
        wait(seconds)
    passed = max(clock() - start, 1e-6)
    after = _ports(sys)
    facts = [f for name in after if name in before for f in _between(name, before[name], after[name], passed, host)]
    if gpus:
        documents.append(run(f"{host}/nvidia-smi.txt", Command(_STATE), host))
    else:
        lacks.append("watch-lacks-gpu")
    if not any(port.rdma for port in after.values()):
        lacks.append("watch-lacks-rdma")
    if not after:
        lacks.append("watch-lacks-ports")
    if log is None:
        lacks.append("watch-lacks-log")
    else:
        documents.append(_tail(log))
    return Window(passed, facts, documents, lacks)
