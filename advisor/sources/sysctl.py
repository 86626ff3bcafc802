"""`sysctl` and /proc/sys: kernel settings of the network, memory and scheduler.

Forms: `NAME = VALUE` (what is in force), `PATH:VALUE` (grep .), `cat PATH` with the command shown, and
`NAME=VALUE` or a file *.conf (what somebody configured). Only settings that can matter for a job are kept.

    >>> SAMPLE = '''net.ipv4.tcp_rmem = 4096	131072	6291456
    ... net.core.wmem_max = 212992
    ... dev.cdrom.info = x
    ... '''
    >>> segment = Segment("sysctl.txt", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.name, f.value, f.max_bytes) for f in parse(segment)]
    [('net.ipv4.tcp_rmem', '4096 131072 6291456', 6291456), ('net.core.wmem_max', '212992', 212992)]
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.facts import Fact, Sysctl
from advisor.sources.base import Command, Problem, Segment, Source

_ROOTS = r"(?:net|vm|kernel|fs|dev|abi|crypto|debug|user|sunrpc)"
_LINE = re.compile(rf"^(?P<name>{_ROOTS}\.[\w./:@-]{{2,120}})(?P<sign> = | ?= ?)(?P<value>.{{0,300}})$")
_PATH = re.compile(r"^/proc/sys/(?P<path>[\w./:@-]{2,120}):(?P<value>.{0,300})$")
_CAT = re.compile(r"^(?:\S{0,60}/)?(?:cat|head|more)\b(?: +-\S{1,20})*((?: +/proc/sys/[\w./-]{2,120})+) *$")
_KEPT = re.compile(
    r"net\.core\.\w{1,60}|net\.ipv4\.(?:tcp_|udp_|ip_|ipfrag_|icmp_)\w{1,60}|net\.ipv4\.neigh\.default\.gc_\w{1,20}"
    r"|net\.ipv4\.conf\.[\w./@-]{1,40}\.(?:rp_filter|arp_ignore|arp_announce|arp_filter)|net\.netfilter\.nf_conntrack_\w{1,40}"
    r"|net\.ipv4\.fib_multipath_\w{1,30}"
    r"|vm\.(?:zone_reclaim_mode|swappiness|overcommit_memory|max_map_count|nr_hugepages|min_free_kbytes)"
    r"|kernel\.(?:numa_balancing|shmmax|shmall|shmmni|perf_event_paranoid|yama\.ptrace_scope|pid_max|threads-max)"
    r"|fs\.(?:file-max|nr_open)"
)
_BUFFERS = re.compile(
    r"net\.core\.(?:[rw]mem_(?:max|default)|optmem_max)|net\.ipv4\.tcp_[rw]mem|kernel\.shmmax|net\.ipv4\.udp_[rw]mem_min"
)


def _fact(segment: Segment, index: int, name: str, value: str, *, configured: bool) -> Iterator[Fact]:
    """The fact of one setting where it may matter."""
    segment.skip(index)
    words = value.split()
    if not words or not _KEPT.fullmatch(name):
        return
    numbers = [int(word) for word in words if word.isdecimal() and len(word) < 20]
    whole = len(numbers) == len(words)
    yield Sysctl(
        name=name, value=" ".join(words), configured=configured or None,
        max_bytes=numbers[-1] if whole and _BUFFERS.fullmatch(name) else None,
        number=numbers[0] if whole and len(numbers) == 1 else None, origins=(segment.origin(index),),
    )


def _concatenated(segment: Segment) -> Iterator[Fact]:
    """Values alone, below a `cat` of as many files."""
    m = _CAT.match(segment.command or "")
    if not m:
        return
    names = [path[len("/proc/sys/") :].replace("/", ".") for path in m[1].split()]
    lines = [line.strip() for line in segment.lines]
    rows = [i for i, line in enumerate(lines) if line and line != (segment.command or "").strip()]
    if len(rows) == len(names):  # a file that cannot be read leaves a hole that nobody can place
        for index, name in zip(rows, names, strict=True):
            yield from _fact(segment, index, name, segment.lines[index], configured=False)


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact a setting that may matter (bytes as the kernel prints them)."""
    file = segment.file.rsplit("/", 1)[-1]
    in_conf = file.endswith(".conf") or "sysctl.d" in segment.file or "sysctl.conf" in (segment.command or "")
    for index, line in enumerate(segment.lines):
        if len(line) > 500:
            continue
        text = line.strip()
        if m := _LINE.match(text):
            yield from _fact(segment, index, m["name"], m["value"], configured=in_conf or m["sign"] != " = ")
        elif m := _PATH.match(text):
            yield from _fact(segment, index, m["path"].replace("/", "."), m["value"], configured=False)
    yield from _concatenated(segment)


SOURCE = Source(
    id="sysctl",
    title="sysctl (kernel settings)",
    facts=(Sysctl,),
    needles=("net.", "vm.", "kernel.", "/proc/sys/"),
    signature=re.compile(
        rf"^\s{{0,20}}{_ROOTS}\.[\w./:@-]{{2,120}} ?= ?\S|^/proc/sys/[\w./:@-]{{2,120}}:"
        r"|^(?:\S{0,60}/)?(?:cat|head|more) +/proc/sys/",
        re.MULTILINE,
    ),
    parse=parse,
    commands=(
        Command(
            (
                "sysctl", "net.core.rmem_max", "net.core.wmem_max", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
                "net.ipv4.tcp_congestion_control", "net.ipv4.tcp_mtu_probing", "net.core.default_qdisc",
                "kernel.numa_balancing",
            )
        ),
    ),
    versions="procps 3.3 to 4, Linux 4 to 6",
)
