"""How full the ports were: bytes over time against the line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from advisor.facts import EthernetLink, NicRate, PortUse, RdmaCounters, RdmaPort
from advisor.facts.store import FactStore


def _rdma(counters: RdmaCounters, ports: Sequence[RdmaPort]) -> PortUse | None:
    """From the growth of the byte counters; None where the time between the readings or the rate is not known."""
    grown = [n for n in (counters.rcv_bytes_delta, counters.xmit_bytes_delta) if n is not None]
    rates = {
        p.rate_gbit_s for p in ports
        if (p.host, p.device, p.port) == (counters.host, counters.device, counters.port) and p.rate_gbit_s
    }  # fmt: skip
    if not grown or not counters.interval_s or len(rates) != 1:
        return None
    line = rates.pop() or 0.0
    gbit_s = max(grown) * 8 / counters.interval_s / 1e9
    return PortUse(
        host=counters.host, origins=counters.origins, device=f"{counters.device}/{counters.port}",
        sample=counters.reading, rdma=True, seconds=counters.interval_s, gbit_s=round(gbit_s, 3), line_gbit_s=line,
        share=round(gbit_s / line, 4),
    )  # fmt: skip


def _ethernet(rate: NicRate, links: Sequence[EthernetLink]) -> PortUse | None:
    """From a monitor's busy readings, against the link's speed or the monitor's own idea of it."""
    if rate.busy_gbit_s is None:
        return None
    speeds = {k.speed_gbit_s for k in links if (k.host, k.interface) == (rate.host, rate.interface) and k.speed_gbit_s}
    line = speeds.pop() if len(speeds) == 1 else None
    if line is None and rate.use_share and rate.busy_gbit_s:
        mean = max(rate.rx_gbit_s or 0.0, rate.tx_gbit_s or 0.0)
        line = round(mean / rate.use_share, 3) if mean else None
    if not line:
        return None
    return PortUse(
        host=rate.host, origins=rate.origins, device=rate.interface, sample=rate.sample, rdma=False,
        gbit_s=round(rate.busy_gbit_s, 3), line_gbit_s=line, share=round(rate.busy_gbit_s / line, 4),
    )  # fmt: skip


def port_uses(store: FactStore) -> Iterator[PortUse]:
    """One fact for each port whose traffic over a time and whose line are known."""
    ports, links = store.of(RdmaPort), store.of(EthernetLink)
    found = [
        *(_rdma(counters, ports) for counters in store.of(RdmaCounters)),
        *(_ethernet(rate, links) for rate in store.of(NicRate)),
    ]
    for use in found:
        if use is not None:
            yield use
