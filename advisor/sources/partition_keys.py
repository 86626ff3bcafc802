r"""Partition tables of InfiniBand ports (`/sys/class/infiniband/*/ports/*/pkeys/*`), as `grep . FILE...` prints them.

Linux 2.6 and newer. A table has up to 128 entries, most of them empty (0x0000). On RoCE the only key is 0xffff.

>>> SAMPLE = '''\
... /sys/class/infiniband/mlx5_0/ports/1/pkeys/0:0x7fff
... /sys/class/infiniband/mlx5_0/ports/1/pkeys/1:0x8012
... /sys/class/infiniband/mlx5_0/ports/1/pkeys/2:0x0000
... '''
>>> segment = Segment("pkeys.txt", SAMPLE.splitlines(), range(1, 99))
>>> [(k.device, k.port, k.index, k.key, k.partition, k.full) for k in parse(segment)]
[('mlx5_0', 1, 0, '0x7fff', 32767, False), ('mlx5_0', 1, 1, '0x8012', 18, True)]
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.facts import Fact, PartitionKey
from advisor.sources.base import Command, Problem, Segment, Source

_LINE = re.compile(
    r"(?:/\S{0,200}/)?(?P<device>[\w.-]{1,64})/ports/(?P<port>\d{1,3})/pkeys/(?P<index>\d{1,3}):0x(?P<key>[0-9a-fA-F]{4})"
)
_FULL_MEMBER = 0x8000


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """A fact for each entry that holds a partition."""
    for i, line in enumerate(segment.lines):
        match = _LINE.fullmatch(line.rstrip()) if "/pkeys/" in line[:500] else None
        if match is None:
            continue
        segment.skip(i)
        key = int(match["key"], 16)
        if partition := key & ~_FULL_MEMBER:
            yield PartitionKey(
                origins=(segment.origin(i),), device=match["device"], port=int(match["port"]),
                index=int(match["index"]), key=f"0x{key:04x}", partition=partition, full=bool(key & _FULL_MEMBER),
            )  # fmt: skip


SOURCE = Source(
    id="partition-keys",
    title="partition keys of InfiniBand ports (sysfs)",
    facts=(PartitionKey,),
    needles=("/pkeys/",),
    signature=re.compile(r"/ports/\d{1,3}/pkeys/\d{1,3}:0x", re.MULTILINE),
    parse=parse,
    commands=(
        Command((
            "find", "-L", "/sys/class/infiniband", "-maxdepth", "5",
            "(", "-name", "device", "-o", "-name", "subsystem", ")", "-prune", "-o",
            "-path", "*/ports/*/pkeys/*", "-exec", "grep", "-sHv", "0x0000", "{}", "+",
        )),
    ),
    versions="Linux 2.6 and newer",
)
