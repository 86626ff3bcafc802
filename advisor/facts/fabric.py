"""Facts about ports and links of the fabric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from advisor.facts.base import Fact


@dataclass(slots=True, kw_only=True)
class RdmaPort(Fact):
    """One port of an RDMA device (ibstatus, ibstat; later ibv_devinfo, sysfs, rdma link).

    device, port: `mlx5_0`, 1; state: `ACTIVE`, `DOWN`, `INIT`, `ARMED`; phys_state: `LinkUp`, `Polling`, `Disabled`,
    …; rate_gbit_s: as printed; width: lanes (4 for `4X`), speed: `EDR`, `HDR`, …, None where the tool does not print
    it; link_layer: `InfiniBand`, `Ethernet`; board: model code (`MT4129`); firmware; node_guid, system_guid: hex
    digits, lower case; sm_lid: 0 where no subnet manager was seen.
    """

    KEY: ClassVar[tuple[str, ...]] = ("device", "port")

    device: str
    port: int
    state: str | None = None
    phys_state: str | None = None
    rate_gbit_s: float | None = None
    width: int | None = None
    speed: str | None = None
    link_layer: str | None = None
    board: str | None = None
    firmware: str | None = None
    node_guid: str | None = None
    system_guid: str | None = None
    sm_lid: int | None = None


@dataclass(slots=True, kw_only=True)
class RdmaAbsent(Fact):
    """A tool that lists RDMA devices ran on this host and said there is none.

    tool: the tool that said so.
    """

    KEY: ClassVar[tuple[str, ...]] = ("tool",)

    tool: str
