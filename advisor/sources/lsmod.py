"""`lsmod` and /proc/modules: which kernel modules are loaded.

A list that is whole makes the absence of a module evidence; `lsmod | grep NAME` does so for that name only.

    >>> SAMPLE = '''Module                  Size  Used by
    ... mlx5_ib               471040  0
    ... ib_core               442368  2 ib_umad,mlx5_ib
    ... '''
    >>> segment = Segment("lsmod.txt", SAMPLE.splitlines(), range(1, 99))
    >>> [getattr(f, "name", None) or (f.complete, f.names) for f in parse(segment)]
    ['mlx5_ib', 'ib_core', (False, ('ib_core', 'mlx5_ib'))]
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.facts import Fact, KernelModule, ModuleList
from advisor.sources.base import Command, Problem, Segment, Source

_HEADER = re.compile(r"^Module +Size +Used by", re.MULTILINE)
_MATTER = (
    r"nvidia(?:_\w{1,30})?|nv_peer_mem|gdrdrv|nouveau|amdgpu|mlx[45]_\w{1,20}|ib_\w{1,20}|rdma_\w{1,20}|iw_cm|irdma|efa"
    r"|ena|gve|mana|mana_ib|bnxt_en|bnxt_re|ice|ixgbe|i40e|qede|qedr|cxgb4|ionic|ionic_rdma|hns_roce_\w{1,20}|siw"
    r"|virtio_net|hv_netvsc|vmxnet3|knem|xpmem|sch_netem|sch_tbf|nf_conntrack|vfio_pci|vfio"
)
_NAME = re.compile(_MATTER)
_ROW = re.compile(
    r"^(?P<name>[A-Za-z0-9][\w-]{0,60}) +(?P<size>\d{1,12}) +(?P<uses>-?\d{1,9})"
    r"(?: +(?P<by>[\w,\[\]-]{1,2000}))?(?: +(?:Live|Loading|Unloading) 0x\w{1,20}(?: \(\w{1,10}\))?)? *$"
)
_FILTER = re.compile(r"(?:lsmod|/proc/modules) *\|? *\|")
_GREP = re.compile(
    r"(?:lsmod *\| *[ef]?grep|[ef]?grep)(?: +-[a-zA-Z]+)* +[\"']?([\w.|\\^-]{1,200})[\"']?(?: +/proc/modules)? *$"
)
_WHOLE = 10  # modules; no machine with a network has fewer, so a shorter list was cut or filtered


def _searched(segment: Segment) -> str | None:
    """What a `lsmod | grep` looked for."""
    command = (segment.command or "").strip()
    m = _GREP.search(command) if "lsmod" in command or "/proc/modules" in command else None
    return m[1] if m else None


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact a module that matters, and one for the list (sizes are not kept)."""
    names: set[str] = set()
    header = modules = 0
    first = last = None
    for index, line in enumerate(segment.lines):
        if len(line) > 3000:
            continue
        if _HEADER.match(line):
            header += 1
            segment.skip(index)
        elif m := _ROW.match(line):
            wanted = _NAME.fullmatch(m["name"])
            if not (header or wanted):
                continue
            modules += 1
            first, last = index if first is None else first, index
            segment.skip(index)
            if wanted:
                names.add(m["name"])
                by = tuple(part for part in (m["by"] or "").split(",") if part.strip("-"))
                yield KernelModule(
                    name=m["name"], uses=int(m["uses"]), used_by=by, origins=(segment.origin(index),)
                )
    searched = _searched(segment)
    if first is None and not searched:
        return
    complete = header > 0 and modules >= _WHOLE and not _FILTER.search(segment.command or "")
    origin = segment.origin(first or 0, last or 0, text=segment.lines[first or 0].strip())
    yield ModuleList(
        complete=complete, searched=searched, modules=modules, names=tuple(sorted(names)), origins=(origin,)
    )


SOURCE = Source(
    id="lsmod",
    title="lsmod (kernel modules)",
    facts=(KernelModule, ModuleList),
    needles=("Used by", "nvidia", "mlx5", "lsmod", "ib_core", "/proc/modules", " Live 0x"),
    signature=re.compile(
        rf"^Module +Size +Used by|^(?:{_MATTER}) +\d{{4,9}} +\d{{1,5}}(?: |$)|^.{{0,40}}lsmod *\|", re.MULTILINE
    ),
    parse=parse,
    commands=(Command(("lsmod",)),),
    versions="kmod 20 to 33, Linux 4 to 6",
)
