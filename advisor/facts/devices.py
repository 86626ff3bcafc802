"""Facts about GPUs at one moment and about PCIe links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from advisor.facts.base import Fact


@dataclass(slots=True, kw_only=True)
class GpuState(Fact):
    """A GPU at one moment (nvidia-smi: default table, -q, --query-gpu). Each reading is a fact of its own.

    reading: `FILE:LINE`; index: as in Gpu, None where the tool names only the bus; bus_id: PCI address of the kernel's
    form; performance_state: `P0`, …; utilization_share: 0 to 1, of the time in which any kernel ran, also one that
    waits; temperature_c; thermal_margin_c: degrees left to the limit (`GPU T.Limit Temp`); power_w, power_limit_w,
    power_default_w: drawn, allowed now, allowed as shipped; sm_clock_mhz, sm_clock_max_mhz, app_clock_mhz: now, of the
    model, and the application clock set; throttle_reasons: those active, of `idle`, `app-clocks`, `sw-power-cap`, `hw-
    slowdown`, `sync-boost`, `sw-thermal`, `hw-thermal`, `hw-power-brake`, `display-clocks`, empty where the tool says
    that none is; slowed: one of hw-slowdown, sw-thermal, hw-thermal, hw-power-brake is among them; pcie_gen,
    pcie_gen_max, pcie_width, pcie_width_max: of the link as nvidia-smi counts them, at idle a lower generation saves
    power, a lower width does not; pcie_device_gen_max, pcie_host_gen_max: of the two ends; pcie_replays: since reset;
    ecc_enabled; ecc_uncorrected, ecc_corrected: since the driver was loaded, all memories; ecc_uncorrected_total: in
    the GPU's life; remap_pending: a row is remapped at the next reset; remap_failed; retire_pending: pages are retired
    at the next reset; memory_unrepairable; recovery_action: `none`, `reset`, `reboot`, `drain p2p`, …; fabric_state,
    fabric_status: of NVSwitch machines, `Completed`, `In Progress`, `Success`; bar1_bytes; memory_used_bytes,
    memory_bytes; error: an `ERR!` or `[Unknown Error]` stands where a value should.
    """

    KEY: ClassVar[tuple[str, ...]] = ("reading",)

    reading: str
    index: int | None = None
    bus_id: str | None = None
    performance_state: str | None = None
    utilization_share: float | None = None
    temperature_c: float | None = None
    thermal_margin_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    power_default_w: float | None = None
    sm_clock_mhz: int | None = None
    sm_clock_max_mhz: int | None = None
    app_clock_mhz: int | None = None
    throttle_reasons: tuple[str, ...] | None = None
    slowed: bool | None = None
    pcie_gen: int | None = None
    pcie_gen_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_device_gen_max: int | None = None
    pcie_host_gen_max: int | None = None
    pcie_replays: int | None = None
    ecc_enabled: bool | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    ecc_uncorrected_total: int | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    retire_pending: bool | None = None
    memory_unrepairable: bool | None = None
    recovery_action: str | None = None
    fabric_state: str | None = None
    fabric_status: str | None = None
    bar1_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_bytes: int | None = None
    error: bool | None = None


@dataclass(slots=True, kw_only=True)
class GpuFailure(Fact):
    """nvidia-smi could not work with a GPU or with all of them.

    kind: `device-handle` (one GPU does not answer), `gpu-lost`, `no-driver` (the driver is not loaded or does not
    answer), `no-devices` (it knows no GPU), `version-mismatch` (driver and library), `nvml` (another failure at the
    start); bus_id: of the GPU, where named.
    """

    KEY: ClassVar[tuple[str, ...]] = ("kind", "bus_id")

    kind: str
    bus_id: str | None = None


@dataclass(slots=True, kw_only=True)
class GpuNvlinks(Fact):
    """The NVLinks of a GPU (`nvidia-smi nvlink -s`, error counters of `-e`).

    index: as in Gpu; active, inactive: links; gbyte_s_per_link: one direction, as printed (raw signalling on NVLink 4
    and 5), the slowest active link; errors: replay, recovery and CRC errors of all links since reset, None where only
    the status was printed; error_links: links with any.
    """

    KEY: ClassVar[tuple[str, ...]] = ("index",)

    index: int
    active: int | None = None
    inactive: int | None = None
    gbyte_s_per_link: float | None = None
    errors: int | None = None
    error_links: tuple[int, ...] | None = None


@dataclass(slots=True, kw_only=True)
class PciLink(Fact):
    """A PCI device and its link to the port above it (lspci -vv, sysfs).

    bdf: address, `0000:1b:00.0`, None where the text names only a device of it; device: that device, `mlx5_0`, `eth2`,
    None where the address is known; names: RDMA and network devices of a known address; device_text: as lspci names it;
    kind: `gpu` (NVIDIA, AMD, Intel display and 3D controllers), `nic`, `nvswitch`, `bridge`, `other`; port_type:
    `Endpoint`, `Root Port`, `Upstream Port`, `Downstream Port`, …; speed_gt_s, width: negotiated; max_speed_gt_s,
    max_width: what this end can do; a link is degraded only against both ends; parent: address of the bridge above (bus
    numbers of lspci -v, long sysfs paths); acs_redirect: ReqRedir or CmpltRedir is on, acs_flags: the ACSCtl flags that
    are on (empty where all are off, None where none are shown: no ACS, or not root); max_payload_bytes,
    max_read_request_bytes, relaxed_ordering: of DevCtl; numa_node; iommu_group; carries_low_gbit_s,
    carries_high_gbit_s: what large transfers get over the negotiated link one way, worked out.
    """

    KEY: ClassVar[tuple[str, ...]] = ("bdf", "device")

    bdf: str | None = None
    device: str | None = None
    names: tuple[str, ...] | None = None
    device_text: str | None = None
    kind: str | None = None
    port_type: str | None = None
    speed_gt_s: float | None = None
    width: int | None = None
    max_speed_gt_s: float | None = None
    max_width: int | None = None
    parent: str | None = None
    acs_redirect: bool | None = None
    acs_flags: tuple[str, ...] | None = None
    max_payload_bytes: int | None = None
    max_read_request_bytes: int | None = None
    relaxed_ordering: bool | None = None
    numa_node: int | None = None
    iommu_group: int | None = None
    carries_low_gbit_s: float | None = None
    carries_high_gbit_s: float | None = None


@dataclass(slots=True, kw_only=True)
class GpuDiagnostic(Fact):
    """One test of DCGM's diagnostic on a host (`dcgmi diag`).

    test: as printed, lower case (`pcie`, `memory bandwidth`, `denylist`); category: `deployment`, `integration`,
    `hardware`, `stress`, where printed; status: the worst of all GPUs, `fail`, `warn`, `pass`, `skip`; failed: it is
    fail; failed_gpus: DCGM's numbers of the GPUs that failed or were warned of, empty where the test names none;
    message: the first warning.
    """

    KEY: ClassVar[tuple[str, ...]] = ("test",)

    test: str
    category: str | None = None
    status: str | None = None
    failed: bool | None = None
    failed_gpus: tuple[int, ...] = ()
    message: str | None = None
