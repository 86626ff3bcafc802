"""`nvidia-smi dmon`: readings of the GPUs, made into means and maxima.

Seen: drivers 390 to 580, any -s and -o. The header repeats and names the columns each time; `-` is no value.

    >>> SAMPLE = '''# gpu    pwr  gtemp     sm    mem   mclk   pclk
    ... # Idx      W      C      %      %    MHz    MHz
    ...     0    120     41    100      2   2619   1980
    ...     0    124     42    100      4   2619   1980
    ...     1      -     40      0      0   2619    345
    ... '''
    >>> segment = Segment("dmon.txt", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.index, f.readings, f.sm_share, f.power_w, f.busy_share) for f in parse(segment)]
    [(0, 2, 1.0, 122.0, 1.0), (1, 1, 0.0, None, 0.0)]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

from advisor.facts import Fact, GpuLoad
from advisor.sources.base import Command, Problem, Segment, Source

_HEADER = re.compile(r"^#\s*(?:Date +)?(?:Time +)?gpu +[a-z]")
_UNITS = re.compile(r"^#\s*(?:YYYYMMDD +)?(?:HH:MM:SS +)?Idx +")
_BUSY, _QUIET = 50.0, 5.0  # percent of the time with a kernel resident


@dataclass(slots=True)
class _Gpu:
    """All readings of one GPU, by column."""

    first: int
    last: int
    rows: list[dict[str, float | None]] = field(default_factory=list)

    def values(self, *names: str, busy: bool = False) -> list[float]:
        """Numbers of a column under any of its names; `busy` takes only the readings in which kernels ran."""
        rows = [row for row in self.rows if not busy or (row.get("sm") or 0) >= _BUSY]
        return [value for row in rows for name in names if (value := row.get(name)) is not None]

    def quiet_power(self) -> float | None:
        """Median power of the readings in which next to no kernel ran."""
        quiet = [row.get("pwr") for row in self.rows if (sm := row.get("sm")) is not None and sm <= _QUIET]
        known = [power for power in quiet if power is not None]
        return median(known) if known else None


def _mean(values: list[float], scale: float = 1.0) -> float | None:
    return round(sum(values) / len(values) / scale, 4) if values else None


def _whole(values: list[float]) -> int | None:
    return int(max(values)) if values else None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < 1e12 else None


def _fact(segment: Segment, index: int, gpu: _Gpu) -> GpuLoad:
    sm, power = gpu.values("sm"), gpu.values("pwr")
    busy = [value for value in sm if value >= _BUSY]
    thermal = gpu.values("tviol")
    return GpuLoad(
        index=index, sample=segment.at(gpu.first), readings=len(gpu.rows), sm_share=_mean(sm, 100),
        busy_share=round(len(busy) / len(sm), 4) if sm else None, power_w=_mean(power),
        power_max_w=max(power, default=None), busy_power_w=_mean(gpu.values("pwr", busy=True)),
        busy_sm_share=_mean(busy, 100), sm_max_share=max(sm) / 100 if sm else None, quiet_power_w=gpu.quiet_power(),
        memory_share=_mean(gpu.values("mem"), 100),
        sm_clock_mhz=_mean(gpu.values("pclk", busy=True) or gpu.values("pclk")),
        temperature_c=_whole(gpu.values("gtemp", "temp")), power_limited_share=_mean(gpu.values("pviol"), 100),
        thermal_violation=any(thermal) if thermal else None,
        pcie_rx_gbyte_s=_mean(gpu.values("rxpci"), 1000), pcie_tx_gbyte_s=_mean(gpu.values("txpci"), 1000),
        pcie_replays=_whole(gpu.values("pci")), ecc_double=_whole(gpu.values("dbecc")),
        origins=(segment.origin(gpu.first, gpu.first),),
    )


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact a GPU (%, W, C, MHz, MB/s printed; shares, GB/s kept)."""
    names: list[str] = []
    gpus: dict[int, _Gpu] = {}
    for index, line in enumerate(segment.lines):
        if len(line) > 1000:
            continue
        if line.startswith("#"):
            if _HEADER.match(line):
                names = line.lstrip("#").split()
                names = [] if "pid" in names else names  # pmon, one row a process
            elif not _UNITS.match(line):
                continue
            segment.skip(index)
            continue
        cells = line.split()
        if not names or len(cells) != len(names):
            continue
        row = dict(zip(names, cells, strict=True))
        if not row["gpu"].isdecimal() or len(row["gpu"]) > 4:
            continue
        gpu = gpus.setdefault(int(row["gpu"]), _Gpu(index, index))
        gpu.last = index
        gpu.rows.append({name: _number(cell) for name, cell in row.items()})
        segment.skip(index)
    for number in sorted(gpus):
        yield _fact(segment, number, gpus[number])


SOURCE = Source(
    id="nvidia-smi-dmon",
    title="nvidia-smi dmon",
    facts=(GpuLoad,),
    needles=("gpu ",),
    signature=re.compile(r"^#\s*(?:Date +)?(?:Time +)?gpu +[a-z]", re.MULTILINE),
    parse=parse,
    commands=(Command(("nvidia-smi", "dmon", "-s", "pucvmet", "-c", "5"), 6, 20),),
    versions="drivers 390 to 580",
)
