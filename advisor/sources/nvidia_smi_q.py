r"""`nvidia-smi -q`, also cut to sections with `-d`: everything the driver knows of each GPU. Drivers 450 to 580 seen.

Four blanks a level; names repeat under different sections, so each value is known by its whole path. `Clocks Event
Reasons` (before 535: `Clocks Throttle Reasons`) must not be taken for `Clocks Event Reasons Counters`, whose values
are microseconds since the driver was loaded. Blocks name the bus only; the index is known where all GPUs are listed.

>>> from advisor.sources.base import Segment
>>> SAMPLE = '''\
... ==============NVSMI LOG==============
...
... Driver Version                            : 535.104.05
... Attached GPUs                             : 1
... GPU 00000000:5E:00.0
...     Product Name                          : NVIDIA A100-SXM4-40GB
...     PCI
...         GPU Link Info
...             PCIe Generation
...                 Max                       : 4
...                 Current                   : 4
...             Link Width
...                 Max                       : 16x
...                 Current                   : 8x
...     Clocks Event Reasons
...         Idle                              : Not Active
...         HW Slowdown                       : Active
...             HW Thermal Slowdown           : Active
... '''
>>> gpu, state = parse(Segment("q.txt", SAMPLE.splitlines(), range(1, 99)))
>>> gpu.index, gpu.bus_id, gpu.name, gpu.driver_version
(0, '0000:5e:00.0', 'NVIDIA A100-SXM4-40GB', '535.104.05')
>>> state.pcie_width, state.pcie_width_max, state.throttle_reasons, state.slowed
(8, 16, ('hw-slowdown', 'hw-thermal'), True)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from advisor.facts import Fact, Gpu, GpuState
from advisor.grammar.hardware import is_slowed, mebibytes, number, pci_address, product_name, switch, value, whole
from advisor.sources.base import Command, Problem, Segment, Source

_GPU = re.compile(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*")
_TITLE = re.compile(r"=+NVSMI LOG=+\s*")
_GLOBAL = ("Timestamp", "Driver Version", "CUDA Version", "Attached GPUs")
_ASKED = re.compile(r"(?:^|\s)(?:-i|--id)[= ]?\s*(\d{1,3})(?:\s|$)")
_REASONS = ("Clocks Event Reasons", "Clocks Throttle Reasons")
_REASON_NAMES = {
    "Idle": "idle", "Applications Clocks Setting": "app-clocks", "SW Power Cap": "sw-power-cap",
    "HW Slowdown": "hw-slowdown", "HW Thermal Slowdown": "hw-thermal", "HW Power Brake Slowdown": "hw-power-brake",
    "Sync Boost": "sync-boost", "SW Thermal Slowdown": "sw-thermal", "Display Clock Setting": "display-clocks",
}
_BROKEN = {"ERR!", "Unknown Error", "GPU is lost", "GPU requires reset", "[Unknown Error]"}
_WIDEST = 400  # longer lines are of no such text
_DEEPEST = 8


@dataclass(slots=True)
class Block:
    """One GPU: values by path (`PCI/GPU Link Info/Link Width/Current`)."""

    bus_id: str
    first: int
    last: int
    listing: int
    driver: str | None = None
    cuda: str | None = None
    values: dict[str, str] = field(default_factory=dict)

    def get(self, *paths: str) -> str | None:
        """The first of the paths that has a value."""
        for path in paths:
            found = value(self.values.get(path, ""))
            if found is not None:
                return found
        return None


@dataclass(slots=True)
class _Reader:
    """Goes through the lines, keeping the path by indentation."""

    segment: Segment
    blocks: list[Block] = field(default_factory=list)
    heads: list[dict[str, str]] = field(default_factory=lambda: [{}])
    path: list[tuple[int, str]] = field(default_factory=list)

    def read(self) -> None:
        for i, line in enumerate(self.segment.lines):
            if len(line) > _WIDEST or not line.strip():
                continue
            gpu = _GPU.fullmatch(line)
            if _TITLE.fullmatch(line):
                self.heads.append({})
                self.path = []
                self.segment.skip(i)
            elif gpu:
                head = self.heads[-1]
                self.blocks.append(Block(
                    pci_address(gpu[1]) or gpu[1], i, i, len(self.heads) - 1, head.get("Driver Version"),
                    head.get("CUDA Version"),
                ))
                self.path = []
                self.segment.skip(i)
            elif line[0].isspace() and self.blocks:
                self._row(i, line)
            else:
                self._head(i, line)

    def _head(self, i: int, line: str) -> None:
        key, colon, text = line.partition(" : ")
        if colon and key.strip() in _GLOBAL:
            self.heads[-1].setdefault(key.strip(), text.strip())
            self.segment.skip(i)

    def _row(self, i: int, line: str) -> None:
        block = self.blocks[-1]
        indent = len(line) - len(line.lstrip())
        while self.path and self.path[-1][0] >= indent:
            self.path.pop()
        key, colon, text = line.partition(" : ")
        key = key.strip().removesuffix(" :").strip()
        path = "/".join([name for _, name in self.path] + [key])
        if colon:
            block.values.setdefault(path, text.strip())
        if len(self.path) < _DEEPEST:
            self.path.append((indent, key))  # a row with a value may have rows below it as well
        block.last = i
        self.segment.skip(i)


def _reasons(block: Block) -> tuple[str, ...] | None:
    """Reasons that are active; None where the section is missing or without values."""
    found: dict[str, bool] = {}
    for path, text in block.values.items():
        section, _, rest = path.partition("/")
        name = _REASON_NAMES.get(rest.rpartition("/")[2])
        state = switch(text)
        if section in _REASONS and name and state is not None:
            found[name] = state
    return tuple(name for name in _REASON_NAMES.values() if found.get(name)) if found else None


def _ecc(block: Block, span: str, *, corrected: bool) -> int | None:
    """Sum of the ECC errors of a span (`Volatile`, `Aggregate`), as new and as old drivers sort them."""
    counts, old_total = [], None
    for path, text in block.values.items():
        parts = path.split("/")
        if parts[:2] != ["ECC Errors", span]:
            continue
        name = parts[2] if len(parts) > 2 else ""
        if len(parts) == 3 and ("Uncorrectable" not in name) == corrected and "orrectable" in name:
            counts.append(whole(text))
        elif parts[2:] == ["Single Bit" if corrected else "Double Bit", "Total"]:
            old_total = whole(text)
    known = [count for count in counts if count is not None]
    return sum(known) if known else old_total


def _state(segment: Segment, block: Block, index: int | None) -> GpuState:
    get = block.get
    link = "PCI/GPU Link Info"
    power = ("GPU Power Readings", "Power Readings")
    reasons = _reasons(block)
    used, recovery = get("Utilization/GPU", "Utilization/Gpu"), block.values.get("GPU Recovery Action", "")
    share = number(used)
    return GpuState(
        reading=segment.at(block.first), index=index, bus_id=block.bus_id,
        performance_state=get("Performance State"), utilization_share=share / 100 if share is not None else None,
        temperature_c=number(get("Temperature/GPU Current Temp")),
        thermal_margin_c=number(get("Temperature/GPU T.Limit Temp")),
        power_w=number(get(*(f"{s}/{k}" for k in ("Average Power Draw", "Power Draw", "Instantaneous Power Draw")
                             for s in power))),
        power_limit_w=number(get(*(f"{s}/{k}" for k in ("Current Power Limit", "Power Limit") for s in power))),
        power_default_w=number(get(*(f"{s}/Default Power Limit" for s in power))),
        sm_clock_mhz=whole(get("Clocks/SM")), sm_clock_max_mhz=whole(get("Max Clocks/SM")),
        app_clock_mhz=whole(get("Applications Clocks/Graphics")),
        throttle_reasons=reasons, slowed=is_slowed(reasons),
        pcie_gen=whole(get(f"{link}/PCIe Generation/Current")), pcie_gen_max=whole(get(f"{link}/PCIe Generation/Max")),
        pcie_device_gen_max=whole(get(f"{link}/PCIe Generation/Device Max")),
        pcie_host_gen_max=whole(get(f"{link}/PCIe Generation/Host Max")),
        pcie_width=whole(get(f"{link}/Link Width/Current")), pcie_width_max=whole(get(f"{link}/Link Width/Max")),
        pcie_replays=whole(get("PCI/Replays Since Reset", "PCI/Replay counter", "PCI/Replays since reset")),
        ecc_enabled=switch(get("ECC Mode/Current", "Ecc Mode/Current")),
        ecc_corrected=_ecc(block, "Volatile", corrected=True), ecc_uncorrected=_ecc(block, "Volatile", corrected=False),
        ecc_uncorrected_total=_ecc(block, "Aggregate", corrected=False),
        remap_pending=switch(get("Remapped Rows/Pending")),
        remap_failed=switch(get("Remapped Rows/Remapping Failure Occurred")),
        retire_pending=switch(get("Retired Pages/Pending Page Blacklist", "Retired Pages/Pending")),
        memory_unrepairable=switch(get("ECC Errors/Unrepairable Memory")),
        recovery_action=recovery.lower() if value(recovery) else None,
        fabric_state=get("Fabric/State"), fabric_status=get("Fabric/Status"),
        bar1_bytes=mebibytes(get("BAR1 Memory Usage/Total")), memory_bytes=mebibytes(get("FB Memory Usage/Total")),
        memory_used_bytes=mebibytes(get("FB Memory Usage/Used")),
        error=any(text in _BROKEN for text in block.values.values()),
    )


def _gpu(block: Block, index: int) -> Gpu:
    virtual = block.get("GPU Virtualization Mode/Virtualization Mode", "GPU Virtualization Mode/Virtualization mode")
    return Gpu(
        index=index, name=product_name(block.get("Product Name")), bus_id=block.bus_id, driver_version=block.driver,
        cuda_version=value(block.cuda or ""), persistence_mode=switch(block.get("Persistence Mode")),
        mig_mode=switch(block.get("MIG Mode/Current")), virtualization=virtual.lower() if virtual else None,
    )


def _indexes(segment: Segment, head: dict[str, str], blocks: list[Block]) -> list[int | None]:
    """Index of each block: its place, where the listing holds all GPUs, or the one that the command asked for."""
    if whole(head.get("Attached GPUs")) == len(blocks):
        return list(range(len(blocks)))
    asked = _ASKED.search((segment.command or "")[:1000])
    return [int(asked[1])] if asked and len(blocks) == 1 else [None] * len(blocks)


def listing(segment: Segment, head: dict[str, str], blocks: list[Block]) -> Iterator[Fact | Problem]:
    """Facts of one run of the command."""
    for block, index in zip(blocks, _indexes(segment, head, blocks), strict=True):
        origin = replace(segment.origin(block.first), end=segment.numbers[block.last])
        if index is not None:
            gpu = _gpu(block, index)
            gpu.origins = (origin,)
            yield gpu
        state = _state(segment, block, index)
        state.origins = (origin,)
        yield state
        if not block.values:
            yield Problem(segment.numbers[block.first], f"nothing follows of GPU {block.bus_id}")
    attached = whole(head.get("Attached GPUs"))
    if attached and len(blocks) < attached and not _ASKED.search((segment.command or "")[:1000]):
        line = segment.numbers[blocks[-1].last] if blocks else segment.numbers[0]
        yield Problem(line, f"{len(blocks)} of {attached} GPUs are listed")


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """For each GPU what does not change, where its index is known, and its state."""
    reader = _Reader(segment)
    reader.read()
    listings: list[list[Block]] = [[] for _ in reader.heads]
    for block in reader.blocks:
        listings[block.listing].append(block)
    for head, blocks in zip(reader.heads, listings, strict=True):
        yield from listing(segment, head, blocks)


SOURCE = Source(
    id="nvidia-smi-q",
    title="nvidia-smi -q",
    facts=(Gpu, GpuState),
    needles=("NVSMI LOG", "\nGPU ", "GPU 0"),
    signature=re.compile(
        r"^=+NVSMI LOG=+|^GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7][ \t]*$", re.M
    ),
    parse=parse,
    commands=(Command(("nvidia-smi", "-q"), seconds=3, timeout=30),),
    versions="drivers 450 to 580",
)
