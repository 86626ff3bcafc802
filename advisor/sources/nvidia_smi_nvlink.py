r"""`nvidia-smi nvlink` with -s (status), -e (errors) or -c (capabilities), and `nvidia-smi -L`. Drivers 450 to 580.

-s prints the raw signalling of a link in one direction: 26.562 on NVLink 4 carries 25 GB/s. Error counters are totals
since the last reset. All three begin each GPU with the line that -L consists of.

>>> from advisor.sources.base import Segment
>>> SAMPLE = '''\
... GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-0a0b0c0d-0000-4000-8000-00000000000a)
... 	 Link 0: 25 GB/s
... 	 Link 1: 25 GB/s
... 	 Link 2: <inactive>
... '''
>>> gpu, links = parse(Segment("nvlink.txt", SAMPLE.splitlines(), range(1, 99)))
>>> gpu.index, gpu.name, links.index, links.active, links.inactive, links.gbyte_s_per_link
(0, 'NVIDIA A100-SXM4-80GB', 0, 2, 1, 25.0)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from advisor.facts import Fact, Gpu, GpuNvlinks
from advisor.grammar.hardware import product_name
from advisor.sources.base import Command, Problem, Segment, Source

_GPU = re.compile(r"\s{0,8}GPU (\d{1,3}): (\S.{0,80}?) \(UUID: \S{1,60}\)\s*")
_STATUS = re.compile(r"\s*Link (\d{1,3}): (?:(\d{1,4}(?:\.\d{1,6})?) GB/s|(<?inactive>?))\s*", re.I)
_ERRORS = re.compile(r"\s*Link (\d{1,3}): (Replay|Recovery|CRC) Errors: (\d{1,18})\s*", re.I)
_OTHER = re.compile(r"\s*Link \d{1,3}[:,] .{1,100}")
_ALL_INACTIVE = re.compile(r"\s*Unable to retrieve NVLink information as all links are inActive\s*", re.I)
_MIG = re.compile(r"\s+MIG \S{1,30}\s+Device\s+\d{1,2}: \(UUID: .{1,80}\)\s*")


@dataclass(slots=True)
class _Links:
    """What is printed below the line of one GPU."""

    index: int
    first: int
    last: int
    name: str | None
    mig: bool | None = None
    speeds: list[float] = field(default_factory=list)
    inactive: int = 0
    status: bool = False
    errors: dict[int, int] | None = None

    def read(self, line: str) -> bool:
        """Take one line; False if it is none of this tool."""
        if status := _STATUS.fullmatch(line):
            self.status = True
            if status[2]:
                self.speeds.append(float(status[2]))
            else:
                self.inactive += 1
        elif errors := _ERRORS.fullmatch(line):
            self.errors = self.errors or {}
            link = int(errors[1])
            self.errors[link] = self.errors.get(link, 0) + int(errors[3])
        elif _ALL_INACTIVE.fullmatch(line):
            self.status = True
        elif _MIG.fullmatch(line):
            self.mig = True
        else:
            return _OTHER.fullmatch(line) is not None
        return True


def _facts(segment: Segment, links: _Links) -> Iterator[Fact]:
    origin = replace(segment.origin(links.first), end=segment.numbers[links.last])
    yield Gpu(origins=(origin,), index=links.index, name=product_name(links.name), mig_mode=links.mig)
    if not links.status and links.errors is None:
        return
    known = links.status and (links.speeds or links.inactive)
    errors = links.errors
    yield GpuNvlinks(
        origins=(origin,), index=links.index, active=len(links.speeds) if links.status else None,
        inactive=links.inactive if known else None, gbyte_s_per_link=min(links.speeds, default=None),
        errors=None if errors is None else sum(errors.values()),
        error_links=None if errors is None else tuple(sorted(link for link, count in errors.items() if count)),
    )


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """The GPUs and, where they are shown, their links."""
    listed: list[_Links] = []
    for i, line in enumerate(segment.lines):
        if len(line) > 300:
            continue
        gpu = _GPU.fullmatch(line)
        if gpu:
            listed.append(_Links(int(gpu[1]), i, i, gpu[2]))
            segment.skip(i)
        elif listed and listed[-1].read(line):
            listed[-1].last = i
            segment.skip(i)
        elif not listed and _STATUS.fullmatch(line):
            yield Problem(segment.numbers[i], "a link without the GPU it belongs to")
            return
    for links in listed:
        yield from _facts(segment, links)


SOURCE = Source(
    id="nvidia-smi-nvlink",
    title="nvidia-smi nvlink, nvidia-smi -L",
    facts=(Gpu, GpuNvlinks),
    needles=(" (UUID: ", "Link "),
    signature=re.compile(
        r"^\s{0,8}GPU \d{1,3}: \S.{0,80} \(UUID: |^[ \t]*Link \d{1,3}: (?:\d[\d.]{0,8} GB/s|<?[Ii]n[Aa]ctive)", re.M
    ),
    parse=parse,
    commands=(
        Command(("nvidia-smi", "nvlink", "-s"), seconds=2, timeout=20),
        Command(("nvidia-smi", "nvlink", "-e"), seconds=2, timeout=20),
    ),
    versions="drivers 450 to 580",
)
