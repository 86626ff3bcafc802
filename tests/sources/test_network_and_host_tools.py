"""What capture pairs cannot show: commands above the output, damaged and hostile text, secrets."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from advisor.facts import EnvVar, Fact, Limit, ModuleList, PingTest, Sysctl, TcpCounters, TcpTest
from advisor.sources import all_sources
from advisor.sources.base import Problem, Segment, Source
from tests.capture_tools import CAPTURES, segment_of

SOURCES = {source.id: source for source in all_sources()}
OWN = (
    "ping", "iperf3", "environment", "ethtool", "limits", "df", "lsmod", "sysctl", "ss", "nstat", "kernel-log",
    "numactl", "lscpu", "cpufreq", "sar", "nvidia-smi-dmon",
)
TEXTS = [path for name in OWN for path in sorted((CAPTURES / name).glob("*.txt"))]


def segment(text: str, file: str = "paste.txt", command: str | None = None) -> Segment:
    lines = text.splitlines()
    return Segment(file, lines, range(1, len(lines) + 1), command=command)


def facts(source: str, text: str, command: str | None = None, file: str = "paste.txt") -> list[Fact]:
    return [item for item in SOURCES[source].parse(segment(text, file, command)) if isinstance(item, Fact)]


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: f"{p.parent.name}-{p.name}")
def test_damaged_text_is_read_as_far_as_it_goes(path: Path) -> None:
    source = SOURCES[path.parent.name]
    lines = segment_of(path).lines
    text = "\n".join(lines)
    chance = random.Random(path.name)  # noqa: S311
    damaged = [text[: len(text) * i // 12] for i in range(12)]
    damaged.append("\n".join(chance.sample(lines, len(lines))))
    damaged.append("\n".join(line[chance.randrange(len(line) + 1) :] for line in lines))
    damaged.append(text.replace("0", "\ufffd").replace("\t", " "))
    damaged.append("\n".join(f"{a}{b}" for a, b in zip(lines, reversed(lines), strict=True)))
    for cut in damaged:
        piece = segment(cut)
        source.recognises(piece)
        for item in source.parse(piece):
            assert isinstance(item, Fact | Problem)


HOSTILE = [
    "[" * 200_000, "{" * 200_000, '{"a":' * 100_000, "= " * 500_000, "9" * 1_000_000, " " * 1_000_000 + "x",
    "NCCL_DEBUG=" + "'" * 100_000, "PING " + "(" * 100_000, "[  5] " * 100_000, "64 bytes from " + "a" * 100_000,
    '{"start":{"connected":[' + '{"x":[' * 5_000, "ESTAB 0 0 " + "1.1.1.1:1 " * 50_000, "Xid (PCI:" * 50_000,
    "mpirun " + "-x A=B " * 50_000, "\n".join(['{"start":{"connected":[{'] * 2_000), "\n".join(["A=B \\"] * 20_000),
]


@pytest.mark.parametrize("name", OWN)
def test_hostile_text_costs_little(name: str) -> None:
    source: Source = SOURCES[name]
    for text in HOSTILE:
        started = time.perf_counter()
        piece = segment(text)
        source.recognises(piece)
        list(source.parse(piece))
        assert time.perf_counter() - started < 5, text[:40]


SILENT = "PING 10.1.0.2 (10.1.0.2) 8972(9000) bytes of data.\n\n--- 10.1.0.2 ping statistics ---\n" \
    "3 packets transmitted, 0 received, 100% packet loss, time 2044ms\n"


@pytest.mark.parametrize(
    ("command", "runs", "expected"),
    [
        ("ping -M do -c 3 -s 8972 10.1.0.2", 1, [True]),
        ("ping -c 3 -s 8972 10.1.0.2", 1, [None]),
        ("for h in a b; do ping -Mdo -s 8972 $h; done", 2, [True, True]),
        ("ping -s 8972 10.1.0.2; ping -M do -s 8972 10.1.0.2", 2, [None, True]),
        (None, 1, [None]),
    ],
)
def test_ping_takes_dont_fragment_from_the_command(command: str | None, runs: int, expected: list[bool]) -> None:
    found = facts("ping", SILENT * runs, command)
    assert [fact.dont_fragment for fact in found if isinstance(fact, PingTest)] == expected
    assert all(fact.outcome == "silent" for fact in found if isinstance(fact, PingTest))


def test_ping_that_never_began_takes_its_peer_from_the_command() -> None:
    (fact,) = facts("ping", "connect: Network is unreachable", "ping -c 3 10.200.0.9")
    assert isinstance(fact, PingTest)
    assert (fact.peer, fact.outcome) == ("10.200.0.9", "unreachable")


def test_failed_iperf3_takes_its_peer_from_the_command() -> None:
    text = "iperf3: error - unable to connect to server: No route to host"
    (fact,) = facts("iperf3", text, "iperf3 -P 4 -c node17 -t 5")
    assert isinstance(fact, TcpTest)
    assert fact.peer == "node17"
    assert fact.error == "unable to connect to server: No route to host"


def test_iperf3_leaves_blocks_of_iperf2_alone() -> None:
    older = """------------------------------------------------------------
Client connecting to 10.4.0.2, TCP port 5001
------------------------------------------------------------
[  3] local 10.4.0.1 port 50110 connected with 10.4.0.2 port 5001
[ ID] Interval       Transfer     Bandwidth
[  3] 0.00-10.00 sec  10.9 GBytes  9.36 Gbits/sec
"""
    newer = """Connecting to host 10.4.0.2, port 5201
[  5] local 10.4.0.1 port 50120 connected to 10.4.0.2 port 5201
[ ID] Interval           Transfer     Bitrate         Retr
[  5]   0.00-10.00  sec  10.8 GBytes  9.28 Gbits/sec    3             sender
[  5]   0.00-10.04  sec  10.8 GBytes  9.25 Gbits/sec                  receiver
"""
    assert facts("iperf3", older) == []
    for text in (older + newer, newer + older, older + newer + older):
        (fact,) = facts("iperf3", text)
        assert isinstance(fact, TcpTest)
        assert (fact.received_gbit_s, fact.retransmits) == (9.25, 3)


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "UCX_AUTH_TOKEN", "SLURM_JWT", "NCCL_X_PASSWORD"]
)
def test_secrets_are_dropped(name: str) -> None:
    texts = [f"PATH=/bin\nHOME=/root\n{name}=s3cret", f"export {name}=s3cret", f"mpirun -x {name}=s3cret ./a.out",
             f"docker run -e {name}=s3cret img", f'"{name}=s3cret",', f"- name: {name}\n  value: s3cret"]
    assert [fact for text in texts for fact in facts("environment", text)] == []


@pytest.mark.parametrize(
    "text",
    [
        "NCCL_IB_DISABLE=1 makes it work", "with NCCL_DEBUG=INFO we see", "use NCCL_DEBUG=INFO, NCCL_IB_HCA=mlx5_0.",
        "# export NCCL_P2P_DISABLE=1", "I ran mpirun -x NCCL_NET=Socket by mistake", "export NCCL_DEBUG=$LEVEL",
        "n1:7:7 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.", "NCCL_ALGO=Ring, NCCL_PROTO=LL",
    ],
)
def test_prose_is_no_variable(text: str) -> None:
    assert facts("environment", text) == []


def test_conf_file_keeps_what_nccl_keeps() -> None:
    found = facts("environment", "NCCL_IB_HCA=mlx5_0 \nNCCL_DEBUG='WARN'", file="host7/.nccl.conf")
    assert [(f.value, f.where, f.in_ranks) for f in found if isinstance(f, EnvVar)] == [
        ("mlx5_0 ", "conf", True), ("'WARN'", "conf", True),
    ]


def test_bare_limit_needs_its_command() -> None:
    assert facts("limits", "64") == []
    (fact,) = facts("limits", "ulimit -l\n64", "ulimit -l")
    assert isinstance(fact, Limit)
    assert (fact.name, fact.soft_bytes) == ("memlock", 65536)


def test_df_takes_its_unit_from_the_command() -> None:
    row = "tmpfs  16  0  16  0% /dev/shm"
    sizes = [getattr(facts("df", row, command)[0], "size_bytes", 0) for command in ("df -m", "df", None)]
    assert sizes == [16 * 2**20, 16 * 1024, None]


def test_absence_of_one_module_is_known_from_grep() -> None:
    (fact,) = facts("lsmod", "lsmod | grep nvidia_peermem", "lsmod | grep nvidia_peermem")
    assert isinstance(fact, ModuleList)
    assert (fact.complete, fact.searched, fact.names) == (False, "nvidia_peermem", ())


def test_sysctl_files_named_by_cat() -> None:
    command = "cat /proc/sys/net/ipv4/tcp_rmem /proc/sys/net/core/rmem_max"
    found = facts("sysctl", f"{command}\n4096\t131072\t6291456\n212992", command)
    assert [(f.name, f.max_bytes) for f in found if isinstance(f, Sysctl)] == [
        ("net.ipv4.tcp_rmem", 6291456), ("net.core.rmem_max", 212992),
    ]
    assert facts("sysctl", f"{command}\n212992", command) == []


@pytest.mark.parametrize(("command", "delta"), [("nstat", True), ("nstat -az", False), (None, None)])
def test_nstat_says_differences_by_its_options(command: str | None, delta: bool | None) -> None:
    (fact,) = facts("nstat", "#kernel\nTcpOutSegs  5000  0.0\nTcpRetransSegs  50  0.0", command)
    assert isinstance(fact, TcpCounters)
    assert (fact.is_delta, fact.retransmit_share) == (delta, 0.01)


def test_governors_counted_by_uniq() -> None:
    command = "cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor | sort | uniq -c"
    (fact,) = facts("cpufreq", f"{command}\n     96 powersave\n     32 performance", command)
    assert (getattr(fact, "governors", None), getattr(fact, "cpus", None)) == (("performance", "powersave"), 128)


def test_rows_alone_take_the_rest_from_the_command() -> None:
    rows = "[SUM]   0.00-10.00  sec  50.0 GBytes  43.0 Gbits/sec    9             sender\n"
    (fact,) = facts("iperf3", rows, "iperf3 -c node17 -P 16 -R -t 10")
    assert isinstance(fact, TcpTest)
    assert (fact.peer, fact.streams, fact.role, fact.reverse) == ("node17", 16, "client", True)
