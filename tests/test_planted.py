"""One fault planted in a healthy cluster comes first, whatever else the tools print."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from advisor.diagnosis import diagnose
from advisor.read.unpack import Document
from tests.healthy import KINDS, cluster

BY_NAME = {kind.name: kind for kind in KINDS}
Change = Callable[[str, str], str]


def _meant(name: str, part: str, hosts: tuple[str, ...] | None) -> bool:
    host, _, file = name.partition("/")
    return file == f"{part}.txt" and (hosts is None or host in hosts)


def sub(part: str, old: str, new: str, hosts: tuple[str, ...] | None = ("node003",), count: int = 1) -> Change:
    """Replace what one host (None: every host) prints."""

    def change(name: str, text: str) -> str:
        if not _meant(name, part, hosts):
            return text
        changed, times = re.subn(old, new, text, count=count)
        assert times, f"{name} does not hold {old}"
        return changed

    return change


def app(part: str, more: str, hosts: tuple[str, ...] | None = ("node003",)) -> Change:
    """Print something after it."""
    return lambda name, text: text + more if _meant(name, part, hosts) else text


FLAPS = "".join(
    f"[ {8000 + i * 40}.1] mlx5_core 0000:1a:00.0 eth2: Link {'down' if i % 2 else 'up'}\n" for i in range(1, 11)
)
LARGE_PING = (
    "$ ping -M do -s 8972 -c 3 10.2.0.4\nPING 10.2.0.4 (10.2.0.4) 8972(9000) bytes of data.\n\n"
    "--- 10.2.0.4 ping statistics ---\n3 packets transmitted, 0 received, 100% packet loss, time 2043ms\n"
)
PLANTED: tuple[tuple[str, str, list[Change]], ...] = (
    ("ib-link-downgrade", "ib-ndr", [sub("ibstatus", r"400 Gb/sec \(4X NDR\)", "100 Gb/sec (1X NDR)")]),
    (
        "ib-port-inactive",
        "ib-ndr",
        [sub("ibstatus", r"4: ACTIVE\n\tphys state:\t 5: LinkUp", "1: DOWN\n\tphys state:\t 2: Polling")],
    ),
    ("ib-port-inactive", "ib-ndr", [sub("ibstatus", r"4: ACTIVE", "2: INIT")]),
    ("mtu-mismatch", "tcp-25g", [sub("ip-addr", "mtu 9000", "mtu 1500")]),
    ("mtu-mismatch", "roce", [sub("ip-addr", "mtu 9000", "mtu 1500")]),
    ("eth-link-downgrade", "tcp-25g", [sub("ethtool", "Speed: 25000", "Speed: 10000")]),
    (
        "nccl-tcp-fallback",
        "ib-ndr",
        [
            sub("nccl.log", r"NET/IB : Using [^\n]*", "NET/IB : No device found.", None, 0),
            sub("nccl.log", "Using network IB", "Using network Socket", None, 0),
            sub("nccl.log", r"NET/IB/\d/GDRDMA", "NET/Socket/0", None, 0),
        ],
    ),
    (
        "nccl-debug-env-left-on|nccl-tcp-fallback",
        "ib-ndr",
        [
            app("env", "NCCL_IB_DISABLE=1\n", None),
            sub("nccl.log", r"NET/IB : Using [^\n]*", "NCCL_IB_DISABLE set by environment to 1.", None, 0),
            sub("nccl.log", "Using network IB", "Using network Socket", None, 0),
            sub("nccl.log", r"NET/IB/\d/GDRDMA", "NET/Socket/0", None, 0),
        ],
    ),
    (
        "nccl-debug-env-left-on|p2p-disabled",
        "ib-ndr",
        [app("env", "NCCL_P2P_DISABLE=1\n", None), sub("nccl.log", "P2P/CUMEM", "SHM/direct/direct", None, 0)],
    ),
    ("gdr-unavailable|gdr-forced-off", "ib-ndr", [sub("nccl.log", "/GDRDMA", "", None, 0)]),
    ("memlock-limit", "ib-ndr", [sub("host", "unlimited", "64")]),
    ("shm-too-small", "ib-ndr", [sub("host", r"504G +\d+M +504G   1%", "64M  1M  63M   2%")]),
    (
        "gpu-hardware-error",
        "ib-ndr",
        [app("dmesg", "[ 9001.1] NVRM: Xid (PCI:0000:20:00): 79, pid=1234, GPU has fallen off the bus.\n")],
    ),
    (
        "gpu-throttling",
        "ib-ndr",
        [
            sub(
                "gpus",
                r"P0, 0 %, 1, 5, 16, 16, 0x0000000000000001, 345 MHz, 1980 MHz, \d+\.\d+ W",
                "P0, 100 %, 5, 5, 16, 16, 0x0000000000000048, 900 MHz, 1980 MHz, 310.00 W",
            )
        ],
    ),
    (
        "nvlink-missing",
        "ib-ndr",
        [sub("topo", r"(GPU0\t X \t)NV18", "\\1NODE"), sub("topo", r"(GPU1\t)NV18", "\\1NODE")],
    ),
    ("link-flapping", "ib-ndr", [app("dmesg", FLAPS)]),
    (
        "nic-underused|nccl-debug-env-left-on",
        "ib-ndr",
        [
            sub("env", "NCCL_IB_HCA=mlx5", "NCCL_IB_HCA=mlx5_0", None),
            sub("nccl.log", r"Using \[0\]mlx5_0:1/IB[^;]*;", "Using [0]mlx5_0:1/IB [RO];", None, 0),
            sub("nccl.log", r"NET/IB/\d/", "NET/IB/0/", None, 0),
        ],
    ),
    ("mtu-blackhole", "tcp-25g", [app("ping", LARGE_PING)]),
    ("slow-node|gpu-throttling", "ib-ndr", [sub("gpus", r"700\.00 W, 700\.00 W", "400.00 W, 700.00 W", count=0)]),
    ("heterogeneous-nodes", "ib-ndr", [sub("gpus", "NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", count=0)]),
)


@pytest.mark.parametrize(
    ("causes", "kind", "changes"), PLANTED, ids=[f"{c}-{k}-{n}" for n, (c, k, _) in enumerate(PLANTED)]
)
def test_the_planted_fault_comes_first(causes: str, kind: str, changes: list[Change]) -> None:
    inputs = []
    for name, text in cluster(BY_NAME[kind], 4, measured=False):
        for change in changes:
            text = change(name, text)  # noqa: PLW2901
        inputs.append(Document(name, text))
    diagnosis = diagnose(inputs).diagnosis
    assert diagnosis.causes[0].id in causes.split("|")
    assert diagnosis.verdict in ("fault", "suspect")
