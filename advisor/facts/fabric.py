"""Facts about ports and links of the fabric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from advisor.facts.base import Fact


@dataclass(slots=True, kw_only=True)
class RdmaPort(Fact):
    """One port of an RDMA device (ibstatus, sysfs, ibstat, ibv_devinfo; later rdma link).

    device, port: `mlx5_0`, 1; state: `ACTIVE`, `DOWN`, `INIT`, `ARMED`; phys_state: `LinkUp`, `Polling`, `Disabled`,
    …; rate_gbit_s: as printed; width: lanes (4 for `4X`), speed: `EDR`, `HDR`, …, None where the tool does not print
    it; link_layer: `InfiniBand`, `Ethernet`; board: model code (`MT4129`); firmware; node_guid, system_guid: hex
    digits, lower case; sm_lid: 0 where no subnet manager was seen; active_mtu_bytes, max_mtu_bytes: of RDMA packets
    (ibv_devinfo); netdev: its network interface, netdev_up: has that one a carrier, pci: address of the device
    (ibdev2netdev).
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
    active_mtu_bytes: int | None = None
    max_mtu_bytes: int | None = None
    netdev: str | None = None
    netdev_up: bool | None = None
    pci: str | None = None


@dataclass(slots=True, kw_only=True)
class RdmaAbsent(Fact):
    """A tool that lists RDMA devices ran on this host and said there is none.

    tool: the tool that said so.
    """

    KEY: ClassVar[tuple[str, ...]] = ("tool",)

    tool: str


@dataclass(slots=True, kw_only=True)
class RoceGid(Fact):
    """One entry of a port's GID table (ibv_devinfo -v, show_gids, sysfs).

    device, port: None in a fragment that does not name them; index; gid: eight groups of four hex digits, lower case;
    type: `v1`, `v2` (RoCE), `ib`; address: the IP address it stands for, `10.0.0.1` or IPv6; family: `ipv4`, `ipv6`,
    `link-local`, of RoCE entries only; netdev: network interface it belongs to.
    """

    KEY: ClassVar[tuple[str, ...]] = ("device", "port", "index")

    device: str | None = None
    port: int | None = None
    index: int
    gid: str | None = None
    type: str | None = None
    address: str | None = None
    family: str | None = None
    netdev: str | None = None


@dataclass(slots=True, kw_only=True)
class RdmaCounters(Fact):
    """Counters of one RDMA port at one time, and their growth where two readings are in the input (sysfs, perfquery).

    device, port: as in RdmaPort; perfquery names a LID instead of a device: then device is None and lid is known;
    reading: `FILE:LINE` of the last reading; readings: how many; interval_s: time between the first and the last,
    where the command shows it (`sleep 60`). Values are totals since the last reset, at the last reading; `*_delta`
    the growth from the first to the last, None with one reading or where the counter was reset between. rcv_bytes,
    xmit_bytes: the tools count words of 4 bytes, converted. xmit_wait: ticks in which data waited for credits, their
    length depends on the device. saturated: counters of few bits that stand at their highest value, age unknown.
    Names as in sysfs: `counters` first, then `hw_counters` of mlx5.
    """

    KEY: ClassVar[tuple[str, ...]] = ("device", "port", "lid", "reading")

    device: str | None = None
    port: int | None = None
    lid: int | None = None
    reading: str
    readings: int = 1
    interval_s: float | None = None
    saturated: tuple[str, ...] = ()
    rcv_bytes: int | None = None
    rcv_bytes_delta: int | None = None
    xmit_bytes: int | None = None
    xmit_bytes_delta: int | None = None
    xmit_wait: int | None = None
    xmit_wait_delta: int | None = None
    symbol_error: int | None = None
    symbol_error_delta: int | None = None
    link_error_recovery: int | None = None
    link_error_recovery_delta: int | None = None
    link_downed: int | None = None
    link_downed_delta: int | None = None
    rcv_errors: int | None = None
    rcv_errors_delta: int | None = None
    rcv_remote_physical_errors: int | None = None
    rcv_remote_physical_errors_delta: int | None = None
    rcv_switch_relay_errors: int | None = None
    rcv_switch_relay_errors_delta: int | None = None
    xmit_discards: int | None = None
    xmit_discards_delta: int | None = None
    local_link_integrity_errors: int | None = None
    local_link_integrity_errors_delta: int | None = None
    excessive_buffer_overrun_errors: int | None = None
    excessive_buffer_overrun_errors_delta: int | None = None
    vl15_dropped: int | None = None
    vl15_dropped_delta: int | None = None
    out_of_buffer: int | None = None
    out_of_buffer_delta: int | None = None
    out_of_sequence: int | None = None
    out_of_sequence_delta: int | None = None
    packet_seq_err: int | None = None
    packet_seq_err_delta: int | None = None
    implied_nak_seq_err: int | None = None
    implied_nak_seq_err_delta: int | None = None
    duplicate_request: int | None = None
    duplicate_request_delta: int | None = None
    local_ack_timeout_err: int | None = None
    local_ack_timeout_err_delta: int | None = None
    rnr_nak_retry_err: int | None = None
    rnr_nak_retry_err_delta: int | None = None
    req_transport_retries_exceeded: int | None = None
    req_transport_retries_exceeded_delta: int | None = None
    req_cqe_error: int | None = None
    req_cqe_error_delta: int | None = None
    resp_cqe_error: int | None = None
    resp_cqe_error_delta: int | None = None
    roce_adp_retrans: int | None = None
    roce_adp_retrans_delta: int | None = None
    roce_slow_restart: int | None = None
    roce_slow_restart_delta: int | None = None
    np_ecn_marked_roce_packets: int | None = None
    np_ecn_marked_roce_packets_delta: int | None = None
    np_cnp_sent: int | None = None
    np_cnp_sent_delta: int | None = None
    rp_cnp_handled: int | None = None
    rp_cnp_handled_delta: int | None = None
    rx_icrc_encapsulated: int | None = None
    rx_icrc_encapsulated_delta: int | None = None


@dataclass(slots=True, kw_only=True)
class LinkCarrier(Fact):
    """How often a network interface lost and regained its link (`/sys/class/net`).

    interface: None where the text does not name it; carrier: link now; carrier_changes: losses and returns since the
    interface came to be; speed_gbit_s.
    """

    KEY: ClassVar[tuple[str, ...]] = ("interface",)
    VOLATILE: ClassVar[tuple[str, ...]] = ("carrier_changes",)

    interface: str | None = None
    carrier: bool | None = None
    carrier_changes: int | None = None
    speed_gbit_s: float | None = None


@dataclass(slots=True, kw_only=True)
class NicCounters(Fact):
    """Counters that the driver keeps of an Ethernet interface (`ethtool -S`, mlx5_core and ena).

    interface: None where the command does not name it; reading: `FILE:LINE`. Totals since the driver was loaded, so
    that only their growth proves a present fault; None where this driver has no such counter. rx_out_of_buffer: no
    receive buffer was free; rx_discards, tx_discards: packets dropped at the port; rx_crc_errors, rx_symbol_errors;
    rx_uncorrected_symbols: left after FEC; rx_oversize: longer than the MTU; link_downs; rx_pause, tx_pause: global
    pause frames; rx_priority_pause, tx_priority_pause: PFC frames, all priorities together; tx_pause_storms;
    bandwidth_in_exceeded, bandwidth_out_exceeded, packet_rate_exceeded: packets queued or dropped by the limits of a
    cloud instance.
    """

    KEY: ClassVar[tuple[str, ...]] = ("interface", "reading")

    interface: str | None = None
    reading: str
    rx_out_of_buffer: int | None = None
    rx_discards: int | None = None
    tx_discards: int | None = None
    rx_crc_errors: int | None = None
    rx_symbol_errors: int | None = None
    rx_uncorrected_symbols: int | None = None
    rx_oversize: int | None = None
    link_downs: int | None = None
    rx_pause: int | None = None
    tx_pause: int | None = None
    rx_priority_pause: int | None = None
    tx_priority_pause: int | None = None
    tx_pause_storms: int | None = None
    bandwidth_in_exceeded: int | None = None
    bandwidth_out_exceeded: int | None = None
    packet_rate_exceeded: int | None = None


@dataclass(slots=True, kw_only=True)
class PhysicalLink(Fact):
    """The physical link of a port as the firmware of the adapter sees it (mlxlink, mstlink).

    device: as the command names it, `mlx5_0`, `mt4129_pciconf0` or a PCI address, None where unknown; pci: where it is
    an address; port; reading: `FILE:LINE`; state: `Active`, `Polling`, `Disable`, …; phys_state; speed: as printed,
    `IB-HDR`, `400G`, None without a link; width: lanes; rate_gbit_s: of both; fec: as printed; enabled_speeds,
    cable_speeds: modes that the port offers and that the cable supports, as printed; max_enabled_gbit_s,
    max_cable_gbit_s: the fastest of each, InfiniBand modes with the lanes that the link has, None where these are
    unknown; status_opcode: 0 for no fault; recommendation: the firmware's own words. Counters since they were cleared,
    minutes_counted ago: symbol_errors; effective_errors: left after FEC; link_downs, link_error_recoveries. Bit error
    rates, 0 where no error was seen: raw_ber before FEC, effective_ber after it, symbol_ber after all correction.
    cable_type.
    """

    KEY: ClassVar[tuple[str, ...]] = ("device", "port", "reading")

    device: str | None = None
    pci: str | None = None
    port: int | None = None
    reading: str
    state: str | None = None
    phys_state: str | None = None
    speed: str | None = None
    width: int | None = None
    rate_gbit_s: float | None = None
    fec: str | None = None
    enabled_speeds: tuple[str, ...] | None = None
    cable_speeds: tuple[str, ...] | None = None
    max_enabled_gbit_s: float | None = None
    max_cable_gbit_s: float | None = None
    status_opcode: int | None = None
    recommendation: str | None = None
    minutes_counted: float | None = None
    symbol_errors: int | None = None
    symbol_ber: float | None = None
    effective_errors: int | None = None
    effective_ber: float | None = None
    raw_ber: float | None = None
    link_downs: int | None = None
    link_error_recoveries: int | None = None
    cable_type: str | None = None


@dataclass(slots=True, kw_only=True)
class LibfabricProvider(Fact):
    """A provider of libfabric on a host (`fi_info`).

    provider: `efa`, `verbs`, `tcp`, `shm`, …, layered ones as printed (`tcp;ofi_rxm`), `any` where fi_info found none
    at all; available: False where it was asked for and not found; domains: devices, sorted, without the suffix of the
    endpoint (`rdmap0s6-rdm` -> `rdmap0s6`); devices: how many; endpoints: `FI_EP_RDM`, …, sorted.
    """

    KEY: ClassVar[tuple[str, ...]] = ("provider",)

    provider: str
    available: bool
    domains: tuple[str, ...] = ()
    devices: int = 0
    endpoints: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class PartitionKey(Fact):
    """One entry of the partition table of an RDMA port (`/sys/class/infiniband/*/ports/*/pkeys/*`).

    device, port, index: where it stands; key: as printed, `0xffff`; partition: its lower 15 bits, which both ends must
    share; full: bit 0x8000, a full member: of two ends that talk, one at least. Empty entries (0x0000) are left out.
    """

    KEY: ClassVar[tuple[str, ...]] = ("device", "port", "index")

    device: str
    port: int
    index: int
    key: str
    partition: int
    full: bool
