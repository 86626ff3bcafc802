"""Facts about a machine beside its GPUs: Ethernet links, limits, file systems, kernel, processors, sockets, load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from advisor.facts.base import Fact


@dataclass(slots=True, kw_only=True)
class EthernetLink(Fact):
    """The link of an Ethernet interface (`ethtool IFACE`).

    interface: None where the text does not name it; speed_gbit_s: negotiated, None for `Unknown!`;
    max_supported_gbit_s, max_advertised_gbit_s, max_partner_gbit_s: the fastest link mode that the interface can do,
    offers, and that the other end offers, None where not reported; duplex: `full`, `half`; link_detected;
    link_reason: why there is no link (`No cable`); lanes; autoneg; port: `FIBRE`, `Direct Attach Copper`, …
    """

    KEY: ClassVar[tuple[str, ...]] = ("interface",)

    interface: str | None = None
    speed_gbit_s: float | None = None
    max_supported_gbit_s: float | None = None
    max_advertised_gbit_s: float | None = None
    max_partner_gbit_s: float | None = None
    duplex: str | None = None
    link_detected: bool | None = None
    link_reason: str | None = None
    lanes: int | None = None
    autoneg: bool | None = None
    port: str | None = None


@dataclass(slots=True, kw_only=True)
class Route(Fact):
    """A route of this host, or one next hop of it, or the answer for one address (`ip route`, `ip route get`).

    destination: `default`, a network `10.0.0.0/24`, or an address; asked: the kernel's answer for one address (get);
    kind: `unicast`, `local`, `unreachable`, `blackhole`, `prohibit`, …; gateway: None on the same network; interface;
    source_address: that it sends from; metric: least wins; table: None for the main one; mtu_bytes: set on the route,
    or learned for the path where asked; link_down: True with the flag `linkdown` or `dead`, else None.
    """

    KEY: ClassVar[tuple[str, ...]] = ("destination", "asked", "gateway", "interface", "metric", "table")

    destination: str
    asked: bool
    kind: str
    gateway: str | None = None
    interface: str | None = None
    source_address: str | None = None
    metric: int | None = None
    table: str | None = None
    mtu_bytes: int | None = None
    link_down: bool | None = None


@dataclass(slots=True, kw_only=True)
class Limit(Fact):
    """A limit of a process or shell (`ulimit`, `/proc/PID/limits`).

    name: `memlock`, `nofile`, `nproc`, `stack`, `core`, …; soft_bytes, hard_bytes: of sizes; soft, hard: of counts;
    unlimited: the soft limit is; pid: of /proc/PID/limits where the input says it, None for a shell.
    """

    KEY: ClassVar[tuple[str, ...]] = ("name", "pid")

    name: str
    pid: int | None = None
    soft_bytes: int | None = None
    hard_bytes: int | None = None
    soft: int | None = None
    hard: int | None = None
    unlimited: bool | None = None


@dataclass(slots=True, kw_only=True)
class Filesystem(Fact):
    """A mounted file system (`df`).

    mount: where; device: first column (`tmpfs`, `/dev/nvme0n1p2`); kind: type where printed (-T) or said by the
    device (`tmpfs`, `overlay`); size_bytes, used_bytes, free_bytes; use_share: used, 0 to 1.
    """

    KEY: ClassVar[tuple[str, ...]] = ("mount",)
    VOLATILE: ClassVar[tuple[str, ...]] = ("used_bytes", "free_bytes", "use_share")

    mount: str
    device: str | None = None
    kind: str | None = None
    size_bytes: int | None = None
    used_bytes: int | None = None
    free_bytes: int | None = None
    use_share: float | None = None


@dataclass(slots=True, kw_only=True)
class KernelModule(Fact):
    """A loaded kernel module that matters for GPUs or the network (`lsmod`).

    name: with underscores; uses: how often it is in use; used_by: modules that use it.
    """

    KEY: ClassVar[tuple[str, ...]] = ("name",)

    name: str
    uses: int | None = None
    used_by: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class ModuleList(Fact):
    """A list of kernel modules was read, so that a module's absence is evidence.

    complete: the whole list (False where it was filtered or cut); searched: what `lsmod | grep` looked for, so that
    the absence of just that is known; modules: how many it names; names: those that matter, sorted.
    """

    KEY: ClassVar[tuple[str, ...]] = ("searched",)

    complete: bool
    searched: str | None = None
    modules: int | None = None
    names: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class Sysctl(Fact):
    """A kernel setting (`sysctl`, `/proc/sys`).

    name: with dots, `net.ipv4.tcp_rmem`; value: as printed, blanks made single; max_bytes: the largest buffer it
    allows, for settings that are buffer sizes; number: the value where it is a single whole number; configured: True
    where it stands in a configuration file, and so need not be in force.
    """

    KEY: ClassVar[tuple[str, ...]] = ("name", "configured")

    name: str
    value: str
    configured: bool | None = None
    max_bytes: int | None = None
    number: int | None = None


@dataclass(slots=True, kw_only=True)
class TcpSocket(Fact):
    """All TCP connections of one sample between two addresses (`ss -ti`).

    sample: `FILE:LINE` of the first; local, peer: addresses without ports; connections: all of them; states: distinct
    ones, sorted; unanswered: in SYN-SENT; data_connections: those that sent 100 kB or more, or hold unsent data; over
    these, unless there are none: rwnd_limited_share, sndbuf_limited_share: of their busy time, 0 to 1; retrans:
    segments sent again; retransmit_share: of the bytes sent; lost: segments now taken for lost; mss_bytes, pmtu_bytes:
    least; congestion; cwnd: largest, in segments; window_bytes: largest window the peer granted; rtt_us: mean;
    min_rtt_us; delivery_gbit_s: sum of the rates of those that were not limited by the application; unsent_bytes.
    """

    KEY: ClassVar[tuple[str, ...]] = ("local", "peer", "sample")

    sample: str
    local: str
    peer: str
    connections: int = 0
    states: tuple[str, ...] = ()
    unanswered: int | None = None
    data_connections: int | None = None
    rwnd_limited_share: float | None = None
    sndbuf_limited_share: float | None = None
    retrans: int | None = None
    retransmit_share: float | None = None
    lost: int | None = None
    mss_bytes: int | None = None
    pmtu_bytes: int | None = None
    congestion: str | None = None
    cwnd: int | None = None
    window_bytes: int | None = None
    rtt_us: float | None = None
    min_rtt_us: float | None = None
    delivery_gbit_s: float | None = None
    unsent_bytes: int | None = None


@dataclass(slots=True, kw_only=True)
class TcpCounters(Fact):
    """Counters of the TCP/IP stack of a host (`nstat`, `netstat -s`, /proc/net/snmp).

    sample: `FILE:LINE` where they begin; is_delta: since the last call of nstat (True) or since boot (False), None
    where the text does not say; counts: out_segs, in_segs, retrans_segs, timeouts, fast_retrans, lost_retransmits,
    syn_retrans, backlog_drops, rcvq_drops, prunes (receive queue over its limit), listen_drops, out_of_order,
    reasm_fails, frag_fails, udp_buffer_errors; retransmit_share: retrans_segs over out_segs, None below 1000 segments.
    """

    KEY: ClassVar[tuple[str, ...]] = ("sample",)

    sample: str
    is_delta: bool | None = None
    out_segs: int | None = None
    in_segs: int | None = None
    retrans_segs: int | None = None
    retransmit_share: float | None = None
    timeouts: int | None = None
    fast_retrans: int | None = None
    lost_retransmits: int | None = None
    syn_retrans: int | None = None
    backlog_drops: int | None = None
    rcvq_drops: int | None = None
    prunes: int | None = None
    listen_drops: int | None = None
    out_of_order: int | None = None
    reasm_fails: int | None = None
    frag_fails: int | None = None
    udp_buffer_errors: int | None = None


@dataclass(slots=True, kw_only=True)
class KernelEvent(Fact):
    """What the kernel logged about one device, all lines of one kind in one fact (dmesg, journalctl -k, syslog).

    kind: `xid`, `sxid` (NVSwitch), `aer-correctable`, `aer-nonfatal`, `aer-fatal`, `link-down`, `link-up`,
    `pcie-link-down`, `module-event` (cable or transceiver), `pcie-limited`, `pcie-full`, `high-temperature`,
    `power-low`, `nic-health`, `nic-command-error`, `tx-timeout`, `iommu-domain`, `iommu-enabled`, `oom-kill`,
    `machine-check`, `memory-error`, `cpu-throttled`, `hung-task`, `conntrack-full`, `neighbour-table-full`,
    `syn-flood`, `peermem-failed`, `driver-mismatch`;
    device: interface, PCI address (`0000:1b:00.0`) or process; pci: address where device is an interface;
    code: number of an Xid, names of AER bits, word of a module event or IOMMU domain; detail: the rest of an Xid line,
    or the type of an AER error; count: events; first_time, last_time: as printed; span_s: between them;
    speed_gbit_s: of a link that came up; available_gbit_s, capable_gbit_s: PCIe bandwidth; at: the limiting PCIe port.
    """

    KEY: ClassVar[tuple[str, ...]] = ("kind", "device", "code", "first_time")

    kind: str
    device: str | None = None
    code: str | None = None
    pci: str | None = None
    detail: str | None = None
    count: int = 1
    first_time: str | None = None
    last_time: str | None = None
    span_s: float | None = None
    speed_gbit_s: float | None = None
    available_gbit_s: float | None = None
    capable_gbit_s: float | None = None
    at: str | None = None
    text: str = ""


@dataclass(slots=True, kw_only=True)
class NumaNode(Fact):
    """A NUMA node of a host (`numactl -H`, `lscpu`).

    node: number; cpus: list in ranges, `0-31,64-95`, empty for a node without processors; cpu_count; size_bytes,
    free_bytes: memory; distances: to all nodes in order, 10 is the node itself.
    """

    KEY: ClassVar[tuple[str, ...]] = ("node",)
    VOLATILE: ClassVar[tuple[str, ...]] = ("free_bytes",)

    node: int
    cpus: str | None = None
    cpu_count: int | None = None
    size_bytes: int | None = None
    free_bytes: int | None = None
    distances: tuple[int, ...] | None = None


@dataclass(slots=True, kw_only=True)
class CpuInfo(Fact):
    """The processors of a host (`lscpu`).

    architecture: `x86_64`, `aarch64`; vendor, model: as printed; cpus: logical; sockets, cores_per_socket,
    threads_per_core, numa_nodes; hypervisor: its vendor (`KVM`, `Microsoft`, `VMware`), so the host is a virtual
    machine; virtual: True with one, False in a listing that would have named it; mhz: at that moment; max_mhz.
    """

    architecture: str | None = None
    vendor: str | None = None
    model: str | None = None
    cpus: int | None = None
    sockets: int | None = None
    cores_per_socket: int | None = None
    threads_per_core: int | None = None
    numa_nodes: int | None = None
    hypervisor: str | None = None
    virtual: bool | None = None
    mhz: float | None = None
    max_mhz: float | None = None


@dataclass(slots=True, kw_only=True)
class CpuFrequency(Fact):
    """How the clock of the processors is governed (sysfs cpufreq, `cpupower frequency-info`, /proc/cpuinfo).

    governors: distinct ones, sorted (`performance`, `powersave`, `schedutil`, …); driver: `intel_pstate`,
    `acpi-cpufreq`, `amd-pstate`, …; cpus: processors seen; min_mhz, max_mhz: least and greatest clock at that moment;
    limit_mhz: greatest clock that the policy allows; hardware_mhz: that the hardware can do; absent: the tool said
    that there is no such driver, as in virtual machines.
    """

    KEY: ClassVar[tuple[str, ...]] = ("sample",)

    sample: str
    governors: tuple[str, ...] | None = None
    driver: str | None = None
    cpus: int | None = None
    min_mhz: float | None = None
    max_mhz: float | None = None
    limit_mhz: float | None = None
    hardware_mhz: float | None = None
    absent: bool | None = None


@dataclass(slots=True, kw_only=True)
class NicRate(Fact):
    """What an interface carried over the readings of one run of a monitor (`sar -n DEV,EDEV`, `sadf -j`).

    sample: `FILE:LINE` where they begin; readings: how many, 0 where only averages were printed; rx_gbit_s, tx_gbit_s:
    means; rx_max_gbit_s, tx_max_gbit_s: of the readings; busy_share: of the readings, those with a tenth of the
    greatest or more; busy_gbit_s: median of the busier direction in these; use_share, use_max_share: of the link's
    speed, None where the kernel knows no speed; errors_per_s, drops_per_s: means, both directions together. RDMA
    traffic does not pass here.
    """

    KEY: ClassVar[tuple[str, ...]] = ("interface", "sample")

    interface: str
    sample: str
    readings: int = 0
    rx_gbit_s: float | None = None
    tx_gbit_s: float | None = None
    rx_max_gbit_s: float | None = None
    tx_max_gbit_s: float | None = None
    busy_share: float | None = None
    busy_gbit_s: float | None = None
    use_share: float | None = None
    use_max_share: float | None = None
    errors_per_s: float | None = None
    drops_per_s: float | None = None


@dataclass(slots=True, kw_only=True)
class GpuLoad(Fact):
    """The load of a GPU over the readings of one run of a monitor (`nvidia-smi dmon`).

    sample: `FILE:LINE` where they begin; index; readings; sm_share: mean time with any kernel resident, 0 to 1 (a NCCL
    kernel that waits counts too); busy_share: of the readings, those with sm at 50 % or more; power_w, power_max_w;
    busy_power_w, busy_sm_share: means in the busy ones; sm_max_share; quiet_power_w: median power in the readings with
    sm at 5 % or less; memory_share; sm_clock_mhz: mean in the busy ones, else in all;
    temperature_c: greatest of the GPU; power_limited_share: mean time held back by the power limit;
    thermal_violation: seen; pcie_rx_gbyte_s, pcie_tx_gbyte_s: means; pcie_replays, ecc_double: counts since reset.
    """

    KEY: ClassVar[tuple[str, ...]] = ("index", "sample")

    index: int
    sample: str
    readings: int = 0
    sm_share: float | None = None
    busy_share: float | None = None
    power_w: float | None = None
    power_max_w: float | None = None
    busy_power_w: float | None = None
    busy_sm_share: float | None = None
    sm_max_share: float | None = None
    quiet_power_w: float | None = None
    memory_share: float | None = None
    sm_clock_mhz: float | None = None
    temperature_c: int | None = None
    power_limited_share: float | None = None
    thermal_violation: bool | None = None
    pcie_rx_gbyte_s: float | None = None
    pcie_tx_gbyte_s: float | None = None
    pcie_replays: int | None = None
    ecc_double: int | None = None


@dataclass(slots=True, kw_only=True)
class Bond(Fact):
    """A bond of network interfaces (`/proc/net/bonding/NAME`).

    bond: its name, None where the text does not say it; mode: `802.3ad`, `active-backup`, `balance-rr`, …; spreads:
    the mode sends over all members at once; hash_policy: `layer2`, `layer3+4`, …; members: interfaces, as listed;
    up, down: those whose MII status is so; aggregators: distinct 802.3ad aggregators of the members; split: there
    is more than one, so that some members carry nothing; active: the member in use in active-backup mode;
    slowest_gbit_s, fastest_gbit_s: of the members that are up.
    """

    KEY: ClassVar[tuple[str, ...]] = ("bond", "members")

    bond: str | None = None
    mode: str | None = None
    spreads: bool | None = None
    hash_policy: str | None = None
    members: tuple[str, ...] = ()
    up: tuple[str, ...] = ()
    down: tuple[str, ...] = ()
    aggregators: tuple[int, ...] = ()
    split: bool | None = None
    active: str | None = None
    slowest_gbit_s: float | None = None
    fastest_gbit_s: float | None = None


@dataclass(slots=True, kw_only=True)
class Service(Fact):
    """A system service (`systemctl status`, `systemctl is-active`, journal).

    name: without `.service`; state: `active`, `inactive`, `failed`, `activating`, …, `not-found` and `masked` where it
    cannot run; detail: `running`, `Result: exit-code`; reason: of services we know why it ended, `nothing-to-manage`
    (fabric manager without an NVSwitch), `version-mismatch` (with the driver).
    """

    KEY: ClassVar[tuple[str, ...]] = ("name",)

    name: str
    state: str | None = None
    detail: str | None = None
    reason: str | None = None


@dataclass(slots=True, kw_only=True)
class CpuLoad(Fact):
    """What the processors of a host did over the readings of one run of a monitor (`mpstat`).

    sample: `FILE:LINE` where they begin; readings: how many, 0 where only averages were printed; a single one may be
    the mean since the machine started. Means over all CPUs, 0 to 1: user_share, system_share, softirq_share (most of it
    receives packets), iowait_share, steal_share (taken by the hypervisor), idle_share. cpus: rows of single CPUs,
    None where only `all` was printed; of these, by mean: busiest_cpu and busiest_share (not idle);
    busiest_softirq_cpu and busiest_softirq_share: near 1, one CPU receives all it can.
    """

    KEY: ClassVar[tuple[str, ...]] = ("sample",)

    sample: str
    readings: int = 0
    cpus: int | None = None
    user_share: float | None = None
    system_share: float | None = None
    softirq_share: float | None = None
    iowait_share: float | None = None
    steal_share: float | None = None
    idle_share: float | None = None
    busiest_cpu: int | None = None
    busiest_share: float | None = None
    busiest_softirq_cpu: int | None = None
    busiest_softirq_share: float | None = None


@dataclass(slots=True, kw_only=True)
class KernelCommandLine(Fact):
    """What the kernel was started with (`/proc/cmdline`, the kernel log's `Command line:`).

    iommu: `off`, `on` (translates every transfer), `pass-through` (devices use physical addresses, as without), as
    the options say, None where they say nothing and the kernel's own choice holds; pcie_aspm: value of that option;
    acs_override: pcie_acs_override or pci=config_acs/disable_acs_redir, which take ACS off; isolated_cpus: isolcpus,
    as printed; hugepages: reserved at start; options: those that matter here, as printed, sorted.
    """

    KEY: ClassVar[tuple[str, ...]] = ()

    iommu: str | None = None
    pcie_aspm: str | None = None
    acs_override: bool | None = None
    isolated_cpus: str | None = None
    hugepages: int | None = None
    options: tuple[str, ...] = ()
