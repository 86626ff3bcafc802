"""What PCIe links carry, and the cards whose ports share one slot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from advisor.data import table
from advisor.expect.shape import Range
from advisor.facts import NicCard, PciLink, RdmaPort

_GENERATIONS = {2.5: "1", 5.0: "2", 8.0: "3", 16.0: "4", 32.0: "5", 64.0: "6"}
_VIRTUAL = ("rdmap", "efa")  # EFA devices are no ports of one card


def carried_gbit_s(speed_gt_s: float | None, width: int | None) -> Range | None:
    """Gbit/s of large transfers one way over a link, None where speed or width is unknown.

    >>> print(carried_gbit_s(8.0, 16))
    95.82-114.7
    """
    generation = _GENERATIONS.get(speed_gt_s or 0.0)
    if generation is None or not width:
        return None
    row = table("pcie")[generation]
    line = float(row["gbyte_s_per_lane"]) * width * 8
    return Range.of(row["practical_share"]) * line


def with_carried(links: Iterable[PciLink]) -> Iterator[PciLink]:
    """The links with what they carry; those without a speed or width are left out."""
    for link in links:
        carried = carried_gbit_s(link.speed_gt_s, link.width)
        if carried is not None:
            low, high = round(carried.low, 1), round(carried.high, 1)
            yield replace(link, carries_low_gbit_s=low, carries_high_gbit_s=high)


def _following(a: str | None, b: str | None) -> bool:
    return a is not None and b is not None and int(b, 16) - int(a, 16) == 1


def _pairs(ports: Sequence[RdmaPort], addresses: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """Two devices of one card and how that is known; ports are of one host, sorted by device, one a device."""
    for i, a in enumerate(ports):
        for b in ports[i + 1 :]:
            slots = [addresses[d.device].rpartition(".")[0] for d in (a, b) if d.device in addresses]
            if len(slots) == 2:
                if slots[0] == slots[1]:
                    yield a.device, b.device, "address"
            elif a.system_guid and b.system_guid:
                if a.system_guid == b.system_guid:
                    yield a.device, b.device, "system-guid"
            elif _following(a.node_guid, b.node_guid):
                yield a.device, b.device, "node-guid"


def _slot(devices: Sequence[str], links: Sequence[PciLink], board: str | None) -> tuple[float | None, str | None]:
    """The most the slot carries, and whether the link or the model says so."""
    own = [link for link in links if set(link.names or (link.device,)) & set(devices)]
    carried = [c.high for link in own if (c := carried_gbit_s(link.speed_gt_s, link.width))]
    if carried:
        return round(max(carried), 1), "link"
    widest = table("nics").get(board or "")
    best = carried_gbit_s(widest["speed_gt_s"], widest["width"]) if widest else None
    return (round(best.high, 1), "model") if best else (None, None)


def _below(devices: Sequence[str], links: Sequence[PciLink]) -> bool | None:
    own = [link for link in links if set(link.names or (link.device,)) & set(devices)]
    known = [
        link.width < link.max_width or (link.speed_gt_s or 0.0) < (link.max_speed_gt_s or 0.0)
        for link in own if link.width and link.max_width
    ]  # fmt: skip
    return any(known) if known else None


def _card(devices: list[str], known_by: str, ports: Sequence[RdmaPort], links: Sequence[PciLink]) -> NicCard:
    own = [port for port in ports if port.device in devices]
    up = [port for port in own if port.state == "ACTIVE"]
    rates = [port.rate_gbit_s for port in up]
    known = [rate for rate in rates if rate is not None]
    whole = bool(known) and len(known) == len(rates)
    slot, slot_from = _slot(devices, links, next((port.board for port in own if port.board), None))
    return NicCard(
        host=own[0].host, first=devices[0], second=devices[1], devices=tuple(devices), known_by=known_by,
        active=len({port.device for port in up}), sum_gbit_s=sum(known) if whole else None,
        best_gbit_s=max(known) if whole else None, slot_gbit_s=slot, slot_from=slot_from,
        link_below=_below(devices, links), origins=tuple(port.origins[0] for port in own if port.origins),
    )  # fmt: skip


def cards(ports: Iterable[RdmaPort], links: Iterable[PciLink]) -> Iterator[NicCard]:
    """The cards with several RDMA devices. Virtual functions share a system GUID with their card and are left out."""
    by_host: dict[str | None, list[RdmaPort]] = defaultdict(list)
    for port in ports:
        if not port.device.startswith(_VIRTUAL):
            by_host[port.host].append(port)
    all_links = list(links)
    for host, of_host in by_host.items():
        near = [link for link in all_links if link.host == host]
        addresses = {name: link.bdf for link in near if link.bdf for name in link.names or ()}
        one_each = {port.device: port for port in sorted(of_host, key=lambda port: (len(port.device), port.device))}
        yield from _cards([*one_each.values()], of_host, addresses, near)


def _cards(
    devices: Sequence[RdmaPort], ports: Sequence[RdmaPort], addresses: dict[str, str], links: Sequence[PciLink]
) -> Iterator[NicCard]:
    """Cards of one host. A group of more than two is no card with two ports but one with virtual functions."""
    groups: dict[str, list[str]] = {}
    how: dict[str, str] = {}
    for a, b, known_by in _pairs(devices, addresses):
        group = groups.get(a) or groups.get(b) or [a]
        groups[a] = groups[b] = group
        group += [name for name in (a, b) if name not in group]
        how.setdefault(group[0], known_by)
    for group in {id(group): group for group in groups.values()}.values():
        if len(group) == 2:
            yield _card(group, how[group[0]], ports, links)
