"""Facts about one machine: its GPUs, their paths, interfaces, environment and limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from advisor.facts.base import Fact


@dataclass(slots=True, kw_only=True)
class Gpu(Fact):
    """A GPU of a host.

    index: number on the host (nvidia-smi order); name: product name as printed; bus_id: PCI address, lower case;
    cpu_affinity, numa_affinity: as printed by `nvidia-smi topo -m` (None where empty or N/A); driver_version;
    cuda_version: the newest the driver supports, not the toolkit's; persistence_mode; mig_mode: the GPU is cut into
    instances; virtualization: `none`, `pass-through`, `vgpu`, … (nvidia-smi -q).
    """

    KEY: ClassVar[tuple[str, ...]] = ("index",)

    index: int
    name: str | None = None
    bus_id: str | None = None
    cpu_affinity: str | None = None
    numa_affinity: str | None = None
    driver_version: str | None = None
    cuda_version: str | None = None
    persistence_mode: bool | None = None
    mig_mode: bool | None = None
    virtualization: str | None = None


@dataclass(slots=True, kw_only=True)
class TopoPath(Fact):
    """The PCIe or NVLink path between two devices of a host (`nvidia-smi topo -m`).

    a, b: device names in the order of the table (`GPU0`, `GPU1`, `mlx5_0`, `NIC0`), a before b, each pair once;
    kind: `gpu-gpu` or `gpu-nic` (`nic-nic` pairs give no fact); path: `NV`, `PIX`, `PXB`, `PHB`, `NODE`, `SYS`;
    nvlinks: number of bonded NVLinks where path is `NV`.
    """

    KEY: ClassVar[tuple[str, ...]] = ("a", "b")

    a: str
    b: str
    kind: str
    path: str | None = None
    nvlinks: int | None = None


@dataclass(slots=True, kw_only=True)
class GpuTopology(Fact):
    """The whole of a `nvidia-smi topo -m` table, in one fact.

    gpus, nics: how many of each stand in the table; gpu_paths: the distinct paths between GPUs, sorted (`NV18`,
    `PHB`); best_nic_paths: the distinct best paths of the GPUs to any NIC, sorted; all_nvlink: every pair of GPUs is
    joined by NVLink (None with fewer than two GPUs); min_nvlinks: the fewest NVLinks of any pair, None without;
    gpus_spanning_numa: GPUs whose affinity covers two or more NUMA nodes.
    """

    gpus: int
    nics: int
    gpu_paths: tuple[str, ...] = ()
    best_nic_paths: tuple[str, ...] = ()
    all_nvlink: bool | None = None
    min_nvlinks: int | None = None
    gpus_spanning_numa: int | None = None


@dataclass(slots=True, kw_only=True)
class GpuPeerAccess(Fact):
    """Whether the GPUs of a host can reach each other (`nvidia-smi topo -p2p r|w|n|a|p`).

    capability: `read`, `write`, `nvlink`, `atomics`, `pci`, None where the letter asked for is not shown: the table
    does not name it; gpus: in the table; states: the distinct cells, sorted, of `OK`, `CNS` (chipset), `GNS` (GPU),
    `TNS` (topology not supported), `NS`, `U` (unknown); pairs, refused_pairs: pairs of GPUs with a known state, and
    those that are not OK in one direction or both; all_ok: None where none is refused and some are unknown.
    """

    KEY: ClassVar[tuple[str, ...]] = ("capability",)

    capability: str | None = None
    gpus: int
    states: tuple[str, ...] = ()
    pairs: int = 0
    refused_pairs: tuple[str, ...] = ()
    all_ok: bool | None = None


@dataclass(slots=True, kw_only=True)
class NetInterface(Fact):
    """A network interface of a host (`ip link`, `ip addr`, text or JSON).

    name: without the `@peer` part; kind: `ether`, `loopback`, `infiniband`, `none`, as in `link/…`; device_kind: of a
    software device, `veth`, `bond`, `bridge`, `vlan`, … (ip -d); mtu_bytes; max_mtu_bytes: the driver's limit (ip -d);
    admin_up: flag UP; carrier: flag LOWER_UP (False where the interface is up without it, None where it is down);
    oper_state: `UP`, `DOWN`, `UNKNOWN`, …; master: bond or bridge it belongs to; addresses: with prefix length,
    `10.0.0.1/24`, link-local included, None where only links were listed; virtual: no data network is behind it
    (loopback, bridges without an uplink, veth on a bridge, tunnels: `lo`, `docker0`, `virbr0`, `cali…`, `flannel…`),
    None where name and kind do not tell; speed_gbit_s: link speed where the input gives it; pci: parent PCI address;
    rx_dropped, tx_dropped, rx_errors, tx_errors: counters since the interface came up; networks: derived from the
    addresses, `10.0.0.0/24`, without link-local ones and those of a single address.
    """

    KEY: ClassVar[tuple[str, ...]] = ("name",)

    name: str
    kind: str | None = None
    device_kind: str | None = None
    mtu_bytes: int | None = None
    max_mtu_bytes: int | None = None
    admin_up: bool | None = None
    carrier: bool | None = None
    oper_state: str | None = None
    master: str | None = None
    addresses: tuple[str, ...] | None = None
    virtual: bool | None = None
    speed_gbit_s: float | None = None
    pci: str | None = None
    rx_errors: int | None = None
    rx_dropped: int | None = None
    tx_errors: int | None = None
    tx_dropped: int | None = None
    networks: tuple[str, ...] | None = None


@dataclass(slots=True, kw_only=True)
class EnvVar(Fact):
    """An environment variable that matters for the job, with where it was found.

    where: `log` (NCCL printed it), `environment` (output of env, /proc/PID/environ), `conf` (nccl.conf), `script`
    (export line, or before a command), `launcher` (mpirun -x, srun --export, docker -e); in_ranks: True where it is
    sure that the ranks have it (log, launcher, conf, before a command that is itself the rank or starts it on this
    host: python, torchrun, all_reduce_perf), None otherwise. value: of a conf file with blanks and quotes as they
    stand, since NCCL keeps them.
    """

    KEY: ClassVar[tuple[str, ...]] = ("name", "value", "where")

    name: str
    value: str
    where: str
    in_ranks: bool | None = None


@dataclass(slots=True, kw_only=True)
class LaunchCommand(Fact):
    """A command line that starts the processes of a job (mpirun, srun, torchrun, deepspeed).

    launch: `FILE:LINE`; launcher: `mpirun`, `srun`, `torchrun`, `deepspeed`, …; processes: that it starts in all,
    nodes, per_node: as its options say or as follows from two of them, None where variables or the scheduler say it;
    hosts: named on the line, ranges as written (`node[01-04]`); rendezvous: address of torchrun's meeting point;
    program: what it starts, without its folder; gpus_per_process: `-g` times `-t` of nccl-tests; largest_bytes: its
    `-e`; binding: what each process is bound to, as said (mpirun --bind-to `core`, `numa`, `none`; srun --cpu-bind
    `cores`; torchrun --numa-binding `node`), None where the launcher's default holds; cores_each: processors for each
    process (mpirun PE=, srun --cpus-per-task).
    """

    KEY: ClassVar[tuple[str, ...]] = ("launch",)

    launch: str
    launcher: str
    processes: int | None = None
    nodes: int | None = None
    per_node: int | None = None
    hosts: tuple[str, ...] = ()
    rendezvous: str | None = None
    program: str | None = None
    gpus_per_process: int | None = None
    largest_bytes: int | None = None
    binding: str | None = None
    cores_each: int | None = None
