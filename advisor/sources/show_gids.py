r"""`show_gids` (mlnx-tools) and the sysfs files it reads, as `grep` prints them: the GID table of RoCE ports.

Only rows that name RoCE v1 or v2 have a version; InfiniBand ports print none. Which index holds RoCE v2 over IPv4 is
not the same on all hosts.

>>> from advisor.sources.base import Segment
>>> SAMPLE = '''\
... DEV	PORT	INDEX	GID					IPv4  		VER	DEV
... ---	----	-----	---					------------  	---	---
... mlx5_2	1	0	fe80:0000:0000:0000:0e42:a1ff:fe00:0009			v1	eth3
... mlx5_2	1	5	0000:0000:0000:0000:0000:ffff:c0a8:050a	192.168.5.10  	v2	eth3
... n_gids_found=2
... '''
>>> for f in parse(Segment("gids.txt", SAMPLE.splitlines(), range(1, 99))):
...     print(f.device, f.port, f.index, f.type, f.address, f.family, f.netdev)
mlx5_2 1 0 v1 fe80::e42:a1ff:fe00:9 link-local eth3
mlx5_2 1 5 v2 192.168.5.10 ipv4 eth3
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.facts import Fact, RoceGid
from advisor.grammar.hardware import gid, gid_address, roce_type
from advisor.sources.base import Command, Problem, Segment, Source

_HEADING = re.compile(r"\s*(?:DEV\s+PORT\s+INDEX\s+GID\b.*|---\s+----\s+-----\s+---.*|n_gids_found=\d+)\s*")
_ROW = re.compile(
    r"\s*(\S{1,64})\s+(\d{1,3})\s+(\d{1,4})\s+((?:[0-9A-Fa-f]{4}:){7}[0-9A-Fa-f]{4})(?:\s+(\d[\d.]{6,14}))?"
    r"(?:\s+(v[12]))?(?:\s+([^\s.]\S{0,63}))?\s*"
)
_SYSFS = re.compile(
    r"/sys/class/infiniband/([^/\s:]{1,64})/ports/(\d{1,3})/(gids|gid_attrs/types|gid_attrs/ndevs)/(\d{1,4}):(.*)"
)
_Key = tuple[str, int, int]


def _fact(device: str, port: int, index: int, spelled: str | None, version: str, netdev: str | None) -> RoceGid:
    kind = roce_type(version)
    address, family = gid_address(spelled) if kind in ("v1", "v2") else (None, None)
    return RoceGid(
        device=device, port=port, index=index, gid=spelled, type=kind, address=address, family=family,
        netdev=netdev or None,
    )


def _table(segment: Segment) -> Iterator[RoceGid | Problem]:
    """Rows of show_gids."""
    for i, line in enumerate(segment.lines):
        if len(line) > 500:
            continue
        if _HEADING.fullmatch(line):
            segment.skip(i)
        elif row := _ROW.fullmatch(line):
            device, port, index, spelled, _, version, netdev = row.groups()
            fact = _fact(device, int(port), int(index), gid(spelled), version or "", netdev)
            origin = segment.origin(i)
            if fact.gid:
                fact.origins = (origin,)
                yield fact


def _sysfs(segment: Segment) -> Iterator[RoceGid]:
    """Entries from `.../gids/3:...`, `.../gid_attrs/types/3:RoCE v2` and `.../gid_attrs/ndevs/3:eth0`."""
    entries: dict[_Key, dict[str, tuple[int, str]]] = {}
    for i, line in enumerate(segment.lines):
        if match := _SYSFS.fullmatch(line):
            segment.skip(i)
            entry = entries.setdefault((match[1], int(match[2]), int(match[4])), {})
            entry.setdefault(match[3], (i, match[5].strip()))
    roce = {
        key[:2]
        for key, entry in entries.items()
        if "gid_attrs/ndevs" in entry or entry.get("gid_attrs/types", (0, ""))[1] == "RoCE v2"
    }
    for (device, port, index), entry in entries.items():
        spelled = gid(entry.get("gids", (0, ""))[1])
        kind = entry.get("gid_attrs/types", (0, ""))[1]
        if spelled is None and "gids" in entry:
            continue  # an unused place of the table
        if kind == "IB/RoCE v1" and (device, port) not in roce:
            kind = ""  # what the entries of InfiniBand ports are called as well
        fact = _fact(device, port, index, spelled, kind, entry.get("gid_attrs/ndevs", (0, ""))[1])
        fact.origins = (segment.origin(min(place for place, _ in entry.values())),)
        yield fact


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """A fact for each entry of a GID table."""
    yield from _table(segment)
    yield from _sysfs(segment)


SOURCE = Source(
    id="show-gids",
    title="show_gids",
    facts=(RoceGid,),
    needles=("n_gids_found=", "INDEX", "/gids/", "/gid_attrs/", ":0000:"),
    signature=re.compile(
        r"^[ \t]*n_gids_found=\d|^[ \t]*DEV[ \t]+PORT[ \t]+INDEX[ \t]+GID\b"
        r"|^/sys/class/infiniband/[^/\s:]{1,64}/ports/\d{1,3}/(?:gids|gid_attrs/types|gid_attrs/ndevs)/\d"
        r"|^[ \t]{0,8}\S{1,64}[ \t]+\d{1,3}[ \t]+\d{1,4}[ \t]+(?:[0-9A-Fa-f]{4}:){7}[0-9A-Fa-f]{4}[ \t][^\n]{0,80}"
        r"\bv[12]\b",
        re.M,
    ),
    parse=parse,
    commands=(
        Command(("show_gids",), seconds=2),
        Command((
            "find", "-L", "/sys/class/infiniband", "-maxdepth", "6",
            "(", "-name", "device", "-o", "-name", "subsystem", ")", "-prune", "-o",
            "(", "-path", "*/gids/*", "-o", "-path", "*/gid_attrs/types/*", "-o", "-path", "*/gid_attrs/ndevs/*", ")",
            "-exec", "grep", "-sHv", "^\\(0000:\\)\\{7\\}0000$", "{}", "+",
        )),
    ),
    versions="mlnx-tools 5x",
)
