r"""`nvidia-smi` without options: its table, and the one-line failures of all its options. Drivers 384 to 580 seen.

A GPU takes two rows, since drivers of the 450s three. Widths differ by driver, so cells are split at the bars. Long
names are cut (`NVIDIA A100-SXM...`) and then unknown. `CUDA Version` is what the driver supports, not the toolkit.

>>> from advisor.sources.base import Segment
>>> SAMPLE = '''\
... | NVIDIA-SMI 550.90.07    Driver Version: 550.90.07    CUDA Version: 12.4 |
... |   3  NVIDIA H100 80GB HBM3   On  |   00000000:4A:00.0 Off |        2 |
... | N/A   86C    P0     412W /  700W |  61234MiB /  81559MiB |    100%      Default |
... |                                  |                       |         Disabled |
... '''
>>> gpu, state = parse(Segment("smi.txt", SAMPLE.splitlines(), range(1, 99)))
>>> gpu.index, gpu.name, gpu.bus_id, gpu.persistence_mode, gpu.mig_mode, gpu.driver_version
(3, 'NVIDIA H100 80GB HBM3', '0000:4a:00.0', True, False, '550.90.07')
>>> state.temperature_c, state.power_w, state.power_limit_w, state.utilization_share, state.ecc_uncorrected
(86.0, 412.0, 700.0, 1.0, 2)
>>> [f.kind for f in parse(Segment("smi.txt", ["No devices were found"], [1]))]
['no-devices']
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from advisor.facts import Fact, Gpu, GpuFailure, GpuState
from advisor.grammar.hardware import mebibytes, number, pci_address, product_name, switch, value, whole
from advisor.sources.base import Command, Problem, Segment, Source

_VERSIONS = re.compile(r"\| +NVIDIA-SMI +\S+ +Driver Version: +(\S+)(?: +CUDA Version: +(\S+))? *\|")
_FRAME = re.compile(r"[|+](?:[-=+|]+|.*[|+])\s*")
_FIRST = re.compile(r"(\d{1,3}) +(\S.*?) +(On|Off|N/A|Enabled|Disabled)")
_BUS = re.compile(r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])(?: +(?:On|Off|N/A))?")
_SECOND = re.compile(r"(\S+) +(\S+) +(P\d{1,2}|N/A|Unknown|ERR!) +(\S+) */ *(\S+)")
_MEMORY = re.compile(r"(\S+) */ *(\S+)")
_PCI = re.compile(r"(?:\b|GPU)((?:[0-9A-Fa-f]{4,8}:)[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")
_DATE = re.compile(r"\w{3} \w{3} +\d{1,2} \d\d:\d\d:\d\d.{0,12}")
_WIDEST = 400
_FAILURES = (
    ("gpu-lost", re.compile(r"(?:Unable to determine the device handle for .{1,60}: )?GPU is lost\..{0,100}")),
    ("device-handle", re.compile(r"Unable to determine the device handle for .{1,200}")),
    ("no-driver", re.compile(r"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.{0,200}")),
    ("no-devices", re.compile(r"No devices were found\.?")),
    ("version-mismatch", re.compile(r"Failed to initialize NVML: Driver/library version mismatch.{0,100}")),
    ("no-driver", re.compile(r"Failed to initialize NVML: Driver Not Loaded.{0,100}")),
    ("nvml", re.compile(r"(?:Failed to initialize NVML: |NVIDIA-SMI has failed because ).{1,200}")),
)


def _failure(segment: Segment, i: int, line: str) -> GpuFailure | None:
    text = line.strip()
    for kind, pattern in _FAILURES:
        if pattern.fullmatch(text):
            bus = _PCI.search(text)
            bus_id = pci_address(bus[1]) if bus else None
            return GpuFailure(origins=(segment.origin(i),), kind=kind, bus_id=bus_id)
    return None


def _cells(line: str) -> list[str] | None:
    """The three cells of a row of the GPU part of the table, None for other lines."""
    if not line.startswith("|") or len(line) > _WIDEST:
        return None
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    return cells if len(cells) == 3 else None


def _second_row(state: GpuState, cells: list[str]) -> bool:
    """Fan, temperature, power | memory | utilisation."""
    row = _SECOND.fullmatch(cells[0])
    if not row:
        return False
    state.temperature_c, state.performance_state = number(row[2]), value(row[3])
    state.power_w, state.power_limit_w = number(row[4]), number(row[5])
    memory = _MEMORY.fullmatch(cells[1])
    if memory:
        state.memory_used_bytes, state.memory_bytes = mebibytes(memory[1]), mebibytes(memory[2])
    used = number(cells[2].partition(" ")[0])
    state.utilization_share = used / 100 if used is not None else None
    return True


def _gpu(segment: Segment, i: int, cells: list[str]) -> tuple[Gpu, GpuState] | None:
    """What the first row of a GPU says."""
    first, bus = _FIRST.fullmatch(cells[0]), _BUS.fullmatch(cells[1])
    if not first or not bus:
        return None
    bus_id = pci_address(bus[1])
    gpu = Gpu(index=int(first[1]), name=product_name(first[2]), bus_id=bus_id, persistence_mode=switch(first[3]))
    state = GpuState(reading=segment.at(i), index=gpu.index, bus_id=bus_id)
    state.ecc_uncorrected = whole(cells[2])
    state.ecc_enabled = True if state.ecc_uncorrected is not None else switch(cells[2])
    return gpu, state


def _table(segment: Segment) -> Iterator[Gpu | GpuState]:
    versions: re.Match[str] | None = None
    current: tuple[Gpu, GpuState] | None = None
    row, framed = 0, False
    for i, line in enumerate(segment.lines):
        if len(line) > _WIDEST:
            continue
        found = _VERSIONS.match(line)
        versions = found or versions
        cells = _cells(line)
        begun = _gpu(segment, i, cells) if cells else None
        if begun:
            current, row = begun, 1
            for fact in current:
                fact.origins = (segment.origin(i),)
            if versions:
                current[0].driver_version, current[0].cuda_version = versions[1], value(versions[2] or "")
            yield from current
        elif current and cells:
            row += 1
            if row == 2 and _second_row(current[1], cells):
                current[1].origins = (replace(current[1].origins[0], end=segment.numbers[i]),)
            elif row == 3:
                current[0].mig_mode = switch(cells[2])
        if current and cells:
            current[1].error = bool(current[1].error or "ERR!" in line or "Unknown Error" in line)
        framed = framed or bool(found or begun) or "Persistence-M" in line
        if framed and _FRAME.fullmatch(line):
            segment.skip(i)


def _surroundings(segment: Segment) -> None:
    """The frame above the first GPU and the date above the frame belong to the table as well."""
    for i, line in enumerate(segment.lines):
        if len(line) <= _WIDEST and (_VERSIONS.match(line) or "Persistence-M" in line):
            place = i - 1
            while place >= 0 and len(segment.lines[place]) <= _WIDEST and _FRAME.fullmatch(segment.lines[place]):
                segment.skip(place)
                place -= 1
            if place >= 0 and _DATE.fullmatch(segment.lines[place].strip()[:100]):
                segment.skip(place)
            return


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """For each row of the table what does not change and the state; failures."""
    found = list(_table(segment))  # a GPU's later rows complete its facts
    yield from found
    if found:
        _surroundings(segment)
    for i, line in enumerate(segment.lines):
        if len(line) <= _WIDEST and (failure := _failure(segment, i, line)):
            yield failure
            if segment.lines[i + 1 : i + 2] and segment.lines[i + 1].startswith("NVML library version"):
                segment.skip(i + 1)


SOURCE = Source(
    id="nvidia-smi",
    title="nvidia-smi",
    facts=(Gpu, GpuState, GpuFailure),
    needles=(
        "NVIDIA-SMI", "|", "Unable to determine the device handle", "No devices were found", "GPU is lost",
        "Failed to initialize NVML",
    ),
    signature=re.compile(
        r"^\| +NVIDIA-SMI +\d|^\| +\d{1,3} +\S[^|\n]{0,80}\| +[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7] "
        r"|^[ \t]*(?:Unable to determine the device handle for |NVIDIA-SMI has failed because |No devices were found"
        r"|Failed to initialize NVML: |GPU is lost\.)",
        re.M,
    ),
    parse=parse,
    commands=(Command(("nvidia-smi",), seconds=2, timeout=20, stderr=True),),
    versions="drivers 384 to 580",
)
