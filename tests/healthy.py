"""Text of healthy clusters as their tools print it, with the oddities that healthy machines have.

Unused ports that are down, old error counters, idle GPUs on Gen1 links, a slow management interface, docker bridges,
corrected ECC, a full /boot, a power cap reached once. All values are invented; the layouts are those of the tools.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Kind:
    """A kind of cluster: RDMA devices of a node that carry the job, and how each names itself."""

    name: str
    nics: int
    rate: str
    gbit_s: int
    link_layer: str
    speed_tag: str
    busbw: float  # of all_reduce on many nodes
    busbw_two: float  # on two, where Tree reads higher
    gpu: str
    nvlinks: int
    network: str  # as NCCL says it


KINDS = (
    Kind("ib-hdr", 8, "200 Gb/sec (4X HDR)", 200, "InfiniBand", "IB", 188.0, 232.0, "NVIDIA A100-SXM4-80GB", 12, "IB"),
    Kind("ib-ndr", 8, "400 Gb/sec (4X NDR)", 400, "InfiniBand", "IB", 372.0, 465.0, "NVIDIA H100 80GB HBM3", 18, "IB"),
    Kind("roce", 8, "400 Gb/sec (4X NDR)", 400, "Ethernet", "RoCE", 362.0, 452.0, "NVIDIA H100 80GB HBM3", 18, "IB"),
    Kind("tcp-25g", 0, "", 25, "Ethernet", "", 2.6, 3.9, "NVIDIA A10", 0, "Socket"),
)


def ibstatus(kind: Kind, random: Random) -> str:
    out = []
    for n in range(kind.nics + 1):  # the last is the unused second port of a management card
        unused = n == kind.nics
        guid = f"fe80:0000:0000:0000:{random.randrange(1 << 16):04x}:{random.randrange(1 << 16):04x}:0003:{n:04x}"
        state, phys = ("1: DOWN", "3: Disabled") if unused else ("4: ACTIVE", "5: LinkUp")
        rate, layer = ("40 Gb/sec (4X QDR)", "Ethernet") if unused else (kind.rate, kind.link_layer)
        lid = 0 if layer == "Ethernet" else 16 + n
        out.append(
            f"Infiniband device 'mlx5_{n}' port 1 status:\n\tdefault gid:\t {guid}\n\tbase lid:\t {lid:#x}\n"
            f"\tsm lid:\t\t {'0x1' if lid else '0x0'}\n\tstate:\t\t {state}\n\tphys state:\t {phys}\n"
            f"\trate:\t\t {rate}\n\tlink_layer:\t {layer}\n"
        )
    return "\n".join(out)


def counters(kind: Kind, random: Random) -> str:
    """One reading, with errors from the day the cable was put in."""
    lines = []
    for n in range(kind.nics):
        place = f"/sys/class/infiniband/mlx5_{n}/ports/1"
        old = {"symbol_error": random.randrange(3), "link_downed": random.randrange(1, 4), "port_rcv_errors": 0}
        old |= {"port_xmit_wait": random.randrange(10**9), "link_error_recovery": random.randrange(2)}
        old |= {"port_xmit_data": 10**13 + random.randrange(10**11), "port_rcv_data": 10**13}
        lines += [f"{place}/counters/{name}:{value}" for name, value in old.items()]
        hw = {"out_of_sequence": random.randrange(40), "packet_seq_err": 0, "local_ack_timeout_err": 0}
        hw |= {"np_cnp_sent": random.randrange(900), "rnr_nak_retry_err": 0}
        lines += [f"{place}/hw_counters/{name}:{value}" for name, value in hw.items()]
    return "\n".join(lines) + "\n"


def ip_link(kind: Kind, host: int) -> str:
    fast = "eth2" if kind.nics else "ens5"
    out = [
        "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN group default qlen 1000\n"
        "    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00\n    inet 127.0.0.1/8 scope host lo",
        "2: eno1: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP group default qlen 1000\n"
        f"    link/ether 02:00:00:00:00:{host:02x} brd ff:ff:ff:ff:ff:ff\n    inet 10.1.0.{host}/24 scope global eno1",
        "3: eno2: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500 qdisc mq state DOWN group default qlen 1000\n"
        f"    link/ether 02:00:00:00:01:{host:02x} brd ff:ff:ff:ff:ff:ff",
        f"4: {fast}: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP group default qlen 1000\n"
        f"    link/ether 02:00:00:00:02:{host:02x} brd ff:ff:ff:ff:ff:ff\n    inet 10.2.0.{host}/24 scope global {fast}",
        "5: docker0: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500 qdisc noqueue state DOWN group default\n"
        "    link/ether 02:42:00:00:00:01 brd ff:ff:ff:ff:ff:ff\n    inet 172.17.0.1/16 scope global docker0",
    ]
    return "\n".join(out) + "\n"


def ethtool(kind: Kind) -> str:
    name, speed = ("eth2", 100000) if kind.nics else ("ens5", 25000)
    modes = f"{speed}baseCR4/Full" if kind.nics else f"{speed}baseCR/Full"
    return (
        f"Settings for {name}:\n\tSupported link modes:   10000baseCR/Full\n\t                        {modes}\n"
        f"\tAdvertised link modes:  {modes}\n\tSpeed: {speed}Mb/s\n\tDuplex: Full\n\tLink detected: yes\n"
    )


def topo(kind: Kind) -> str:
    gpus, nics = 8, kind.nics
    head = "\t" + "\t".join([f"GPU{i}" for i in range(gpus)] + [f"NIC{i}" for i in range(nics)])
    rows = [head + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"]
    for i in range(gpus):
        cells = [" X " if i == j else (f"NV{kind.nvlinks}" if kind.nvlinks else near(i, j)) for j in range(gpus)]
        cells += ["PIX" if i == j else near(i, j) for j in range(nics)]
        rows.append(f"GPU{i}\t" + "\t".join(cells) + f"\t{'0-47' if i < 4 else '48-95'}\t{i // 4}\t\tN/A")
    for i in range(nics):
        cells = ["PIX" if i == j else near(i, j) for j in range(gpus)]
        cells += [" X " if i == j else near(i, j) for j in range(nics)]
        rows.append(f"NIC{i}\t" + "\t".join(cells))
    legend = "\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n"
    names = "\nNIC Legend:\n\n" + "".join(f"  NIC{i}: mlx5_{i}\n" for i in range(nics)) if nics else ""
    return "\n".join(rows) + "\n" + legend + names


def near(i: int, j: int) -> str:
    return "NODE" if i // 4 == j // 4 else "SYS"


def gpu_query(kind: Kind, random: Random) -> str:
    """Idle GPUs: low clocks, Gen1 links, some corrected ECC errors."""
    head = (
        "index, name, pci.bus_id, pstate, utilization.gpu [%], pcie.link.gen.current, pcie.link.gen.max, "
        "pcie.link.width.current, pcie.link.width.max, clocks_throttle_reasons.active, clocks.current.sm [MHz], "
        "clocks.max.sm [MHz], power.draw [W], power.limit [W], power.default_limit [W], temperature.gpu, "
        "ecc.errors.uncorrected.volatile.total"
    )
    rows = [
        f"{i}, {kind.gpu}, 00000000:{16 + 16 * i:02X}:00.0, P0, 0 %, 1, 5, 16, 16, 0x0000000000000001, 345 MHz, "
        f"1980 MHz, {70 + random.randrange(12)}.{random.randrange(99):02d} W, 700.00 W, 700.00 W, "
        f"{28 + random.randrange(8)}, 0"
        for i in range(8)
    ]
    return head + "\n" + "\n".join(rows) + "\n"


def host_text(random: Random) -> str:
    return (
        "$ ulimit -l\nunlimited\n$ df -h /dev/shm /boot\nFilesystem      Size  Used Avail Use% Mounted on\n"
        f"tmpfs           504G  {random.randrange(2, 30)}M  504G   1% /dev/shm\n/dev/sda2       974M  921M   12M  99% /boot\n"
        "$ cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor\npowersave\n"
        "$ cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_driver\nintel_pstate\n"
        "$ cat /proc/cmdline\nBOOT_IMAGE=/vmlinuz-5.15.0-97-generic root=/dev/sda3 ro iommu=pt intel_iommu=on\n"
        "$ sysctl net.ipv4.tcp_rmem net.ipv4.tcp_wmem\nnet.ipv4.tcp_rmem = 4096\t131072\t6291456\n"
        "net.ipv4.tcp_wmem = 4096\t16384\t4194304\n"
    )


def kernel_log() -> str:
    return (
        "[    4.100001] mlx5_core 0000:1a:00.0: Port module event: module 0, Cable plugged\n"
        "[    5.200001] mlx5_core 0000:1a:00.0 eth2: Link up\n"
        "[    9.300001] nvidia: loading out-of-tree module taints kernel.\n"
        "[   12.400001] pcieport 0000:16:02.0: AER: Corrected error received: 0000:16:02.0\n"
    )


def environment(kind: Kind) -> str:
    hca = "NCCL_IB_HCA=mlx5\n" if kind.nics else ""
    gid = "NCCL_IB_GID_INDEX=3\n" if kind.speed_tag == "RoCE" else ""
    return f"HOME=/root\nNCCL_DEBUG=INFO\nNCCL_SOCKET_IFNAME={'eth2' if kind.nics else 'ens5'}\n{hca}{gid}OMP_NUM_THREADS=8\n"


def ping(host: int, peer: int, random: Random) -> str:
    average = 0.06 + random.random() / 10
    return (
        f"PING 10.2.0.{peer} (10.2.0.{peer}) 56(84) bytes of data.\n"
        f"64 bytes from 10.2.0.{peer}: icmp_seq=1 ttl=64 time={average:.3f} ms\n\n--- 10.2.0.{peer} ping statistics ---\n"
        "5 packets transmitted, 5 received, 0% packet loss, time 4088ms\n"
        f"rtt min/avg/max/mdev = {average - 0.02:.3f}/{average:.3f}/{average + 0.1:.3f}/0.021 ms\n"
    )


def nccl(kind: Kind, hosts: int, host: int) -> str:
    """The log of one host's ranks at NCCL_DEBUG=INFO."""
    out, name = [], f"node{host:03d}"
    fast = "eth2" if kind.nics else "ens5"
    for local in range(8):
        rank = (host - 1) * 8 + local
        at = f"{name}:{4000 + local}:{4100 + local} [{local}] NCCL INFO "
        out.append(f"{at}Bootstrap: Using {fast}:10.2.0.{host}<0>")
        out.append(f"{at}NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.")
        if kind.nics:
            used = " ".join(f"[{n}]mlx5_{n}:1/{kind.speed_tag}" for n in range(kind.nics))
            out.append(f"{at}NET/IB : Using {used} [RO]; OOB {fast}:10.2.0.{host}<0>")
        else:
            out += [f"{at}NET/IB : No device found.", f"{at}NET/Socket : Using [0]{fast}:10.2.0.{host}<0>"]
        out.append(f"{at}Using network {kind.network}")
        total = hosts * 8
        out.append(
            f"{at}ncclCommInitRankConfig comm 0x{rank + 4096:x} rank {rank} nranks {total} cudaDev {local} nvmlDev {local}"
            f" busId {0x10000 + local * 0x10000:x} commId 0xabc123 - Init START"
        )
        way = f"NET/IB/{local}/GDRDMA" if kind.nics else "NET/Socket/0"
        if hosts > 1:
            after = (rank + 8) % total
            out.append(f"{at}Channel 00/0 : {rank}[{local}] -> {after}[{local}] [send] via {way}")
        inside = "P2P/CUMEM" if kind.nvlinks else "SHM/direct/direct"
        out.append(
            f"{at}Channel 01/0 : {rank}[{local}] -> {(host - 1) * 8 + (local + 1) % 8}[{(local + 1) % 8}] via {inside}"
        )
        out.append(
            f"{at}ncclCommInitRankConfig comm 0x{rank + 4096:x} rank {rank} nranks {total} cudaDev {local} nvmlDev {local}"
            f" busId {0x10000 + local * 0x10000:x} commId 0xabc123 - Init COMPLETE"
        )
    return "\n".join(out) + "\n"


def nccl_tests(kind: Kind, hosts: int) -> str:
    total = hosts * 8
    ranks = "\n".join(
        f"#  Rank {r:2d} Group  0 Pid  {4000 + r % 8} on    node{r // 8 + 1:03d} device {r % 8:2d} [0000:{16 + 16 * (r % 8):02x}:00.0] {kind.gpu}"
        for r in range(total)
    )
    rows, full = [], kind.busbw_two if hosts == 2 else kind.busbw
    for size, share in ((1 << 30, 0.97), (1 << 31, 0.99), (1 << 32, 1.0)):
        busbw = full * share
        algbw = busbw * total / (2 * (total - 1))
        time = size / algbw / 1e3
        cells = f"{time:9.1f} {algbw:7.2f} {busbw:7.2f}      0"
        rows.append(f"{size:12d} {size // 4:13d}     float     sum      -1 {cells} {cells}")
    return (
        "# nThread 1 nGpus 1 minBytes 1073741824 maxBytes 4294967296 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n"
        f"#\n# Using devices\n{ranks}\n#\n"
        "#                                                              out-of-place                       in-place\n"
        "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
        + "\n".join(rows) + f"\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {full * 0.98:.3f}\n#\n"
    )  # fmt: skip


def cluster(kind: Kind, hosts: int, measured: bool) -> Iterator[tuple[str, str]]:
    """(file name, text) of everything that people collect; measured: with nccl-tests over all ranks."""
    random = Random(f"{kind.name}{hosts}")  # noqa: S311 (noise, the same each time)
    for host in range(1, hosts + 1):
        name = f"node{host:03d}"
        parts = {
            "ip-addr": ip_link(kind, host), "ethtool": ethtool(kind), "topo": topo(kind), "gpus": gpu_query(kind, random),
            "host": host_text(random), "dmesg": kernel_log(), "env": environment(kind), "nccl.log": nccl(kind, hosts, host),
        }  # fmt: skip
        if kind.nics:
            parts |= {"ibstatus": ibstatus(kind, random), "counters": counters(kind, random)}
        if hosts > 1:
            parts["ping"] = ping(host, host % hosts + 1, random)
        for part, text in parts.items():
            yield f"{name}/{part}.txt", text
    if measured:
        yield "all_reduce.txt", nccl_tests(kind, hosts)
