r"""`nvidia-smi --query-gpu=... --format=csv`: chosen fields of each GPU. Drivers 418 to 580 seen.

The first line names the fields, with units in brackets; values repeat the unit unless `nounits`. With `noheader` the
fields are taken from the command line, where that is shown. With `-l` the rows repeat: each is a reading of its own.

>>> from advisor.sources.base import Segment
>>> SAMPLE = '''\
... index, pci.bus_id, pcie.link.width.current, clocks_event_reasons.active, clocks.current.sm [MHz], power.draw [W]
... 5, 00000000:BB:00.0, 16, 0x00000000000000A8, 1005 MHz, 388.10 W
... '''
>>> gpu, state = parse(Segment("q.csv", SAMPLE.splitlines(), range(1, 99)))
>>> gpu.index, gpu.bus_id, state.pcie_width, state.sm_clock_mhz, state.power_w
(5, '0000:bb:00.0', 16, 1005, 388.1)
>>> state.throttle_reasons, state.slowed
(('hw-slowdown', 'sw-thermal', 'hw-power-brake'), True)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from advisor.facts import Fact, Gpu, GpuState
from advisor.grammar.hardware import (
    THROTTLE_BITS,
    is_slowed,
    mebibytes,
    number,
    pci_address,
    product_name,
    switch,
    value,
    whole,
)
from advisor.sources.base import Command, Problem, Segment, Source


def _share(text: str) -> float | None:
    found = number(text)
    return found / 100 if found is not None else None


def _lower(text: str) -> str | None:
    word = value(text)
    return word.lower() if word else None


_GPU_FIELDS: dict[str, tuple[str, Any]] = {
    "name": ("name", product_name), "gpu_name": ("name", product_name),
    "driver_version": ("driver_version", value), "persistence_mode": ("persistence_mode", switch),
    "mig.mode.current": ("mig_mode", switch),
}
_STATE_FIELDS: dict[str, tuple[str, Any]] = {
    "pstate": ("performance_state", value), "utilization.gpu": ("utilization_share", _share),
    "temperature.gpu": ("temperature_c", number), "temperature.gpu.tlimit": ("thermal_margin_c", number),
    "power.draw": ("power_w", number), "power.draw.average": ("power_w", number),
    "power.draw.instant": ("power_w", number), "power.limit": ("power_limit_w", number),
    "enforced.power.limit": ("power_limit_w", number), "power.default_limit": ("power_default_w", number),
    "clocks.current.sm": ("sm_clock_mhz", whole), "clocks.sm": ("sm_clock_mhz", whole),
    "clocks.max.sm": ("sm_clock_max_mhz", whole), "clocks.applications.graphics": ("app_clock_mhz", whole),
    "pcie.link.gen.current": ("pcie_gen", whole), "pcie.link.gen.gpucurrent": ("pcie_gen", whole),
    "pcie.link.gen.max": ("pcie_gen_max", whole), "pcie.link.gen.gpumax": ("pcie_device_gen_max", whole),
    "pcie.link.gen.hostmax": ("pcie_host_gen_max", whole), "pcie.link.width.current": ("pcie_width", whole),
    "pcie.link.width.max": ("pcie_width_max", whole), "ecc.mode.current": ("ecc_enabled", switch),
    "ecc.errors.corrected.volatile.total": ("ecc_corrected", whole),
    "ecc.errors.uncorrected.volatile.total": ("ecc_uncorrected", whole),
    "ecc.errors.uncorrected.aggregate.total": ("ecc_uncorrected_total", whole),
    "remapped_rows.pending": ("remap_pending", switch), "remapped_rows.failure": ("remap_failed", switch),
    "retired_pages.pending": ("retire_pending", switch), "gpu_recovery_action": ("recovery_action", _lower),
    "fabric.state": ("fabric_state", value), "fabric.status": ("fabric_status", value),
    "memory.used": ("memory_used_bytes", mebibytes), "memory.total": ("memory_bytes", mebibytes),
}
_WHICH = ("index", "pci.bus_id", "gpu_bus_id")
_REASON = re.compile(r"clocks_(?:event|throttle)_reasons\.(\w+)")
_REASON_NAMES = {
    "gpu_idle": "idle", "applications_clocks_setting": "app-clocks", "sw_power_cap": "sw-power-cap",
    "hw_slowdown": "hw-slowdown", "sync_boost": "sync-boost", "sw_thermal_slowdown": "sw-thermal",
    "hw_thermal_slowdown": "hw-thermal", "hw_power_brake_slowdown": "hw-power-brake",
}
_NAME = re.compile(r"([a-z_]+(?:\.[a-z_0-9]+){0,6})(?: \[[^\]]{1,12}\])?")
_COMMAND = re.compile(r"--query-gpu[= ]([\w.,]{1,2000})")
_OTHER = {"timestamp", "uuid", "gpu_uuid", "serial", "count", "vbios_version", "compute_mode", "display_mode"}
_MOST_UNNUMBERED = 16  # rows without an index, beyond which they must be repetitions
_WIDEST = 4000


def _known(name: str) -> bool:
    return (
        name in _GPU_FIELDS or name in _STATE_FIELDS or name in _WHICH or name in _OTHER
        or _REASON.fullmatch(name) is not None
    )


def _header(line: str) -> list[str] | None:
    """Names of the fields, if the line is a heading: at least half of them are known, one of them tells something."""
    matches = [_NAME.fullmatch(cell.strip()) for cell in line.split(",")]
    names = [match[1] for match in matches if match]
    if len(names) < len(matches):
        return None
    known = [name for name in names if _known(name)]
    if 2 * len(known) < len(names) or not any("." in name or "_" in name or name == "pstate" for name in known):
        return None
    return names


def _reasons(row: dict[str, str]) -> tuple[str, ...] | None:
    """Reasons that are active, from the mask or from single fields."""
    found: dict[str, bool] = {}
    for name, text in row.items():
        match = _REASON.fullmatch(name)
        if not match:
            continue
        if match[1] == "active" and re.fullmatch(r"0x[0-9A-Fa-f]{1,16}", text):
            mask = int(text, 16)
            return tuple(reason for bit, reason in THROTTLE_BITS.items() if mask & bit)
        state = switch(text)
        if match[1] in _REASON_NAMES and state is not None:
            found[_REASON_NAMES[match[1]]] = state
    if not found:
        return None
    return tuple(reason for reason in THROTTLE_BITS.values() if found.get(reason))


def _row_facts(segment: Segment, i: int, row: dict[str, str], index: int | None) -> Iterator[Gpu | GpuState]:
    bus_id = pci_address(row.get("pci.bus_id") or row.get("gpu_bus_id") or "")
    origin = segment.origin(i)
    if index is not None:
        gpu = Gpu(origins=(origin,), index=index, bus_id=bus_id)
        for name, (attribute, convert) in _GPU_FIELDS.items():
            if name in row:
                setattr(gpu, attribute, convert(row[name]))
        yield gpu
    state = GpuState(origins=(origin,), reading=segment.at(i), index=index, bus_id=bus_id)
    told = False
    for name, (attribute, convert) in _STATE_FIELDS.items():
        if name in row and getattr(state, attribute) is None:
            setattr(state, attribute, convert(row[name]))
            told = True
    state.throttle_reasons = _reasons(row)
    state.slowed = is_slowed(state.throttle_reasons)
    broken = any(text.startswith(("[Unknown Error", "ERR!", "[GPU is lost", "[GPU requires")) for text in row.values())
    state.error = broken or None
    if told or state.throttle_reasons is not None or broken:
        yield state


def _rows(segment: Segment) -> Iterator[tuple[int, list[str], list[str]]]:
    """Line, names and values of each row."""
    command = segment.command or (segment.lines[0] if segment.lines else "")
    asked = _COMMAND.search(command[:_WIDEST])
    headless = asked is not None and "noheader" in command[:_WIDEST]
    names = asked[1].strip(",").split(",") if asked and headless else None
    for i, line in enumerate(segment.lines):
        if not line.strip() or len(line) > _WIDEST or _COMMAND.search(line):
            continue
        heading = _header(line)
        if heading:
            names = heading
            segment.skip(i)
            continue
        cells = [cell.strip() for cell in line.split(",")]
        if names and len(cells) == len(names) and all(cells):
            yield i, names, cells


def _plausible(row: dict[str, str]) -> bool:
    """Whether a line with the right number of cells is a row: what must be a number is one."""
    if "index" in row:
        return whole(row["index"]) is not None
    if "pci.bus_id" in row or "gpu_bus_id" in row:
        return pci_address(row.get("pci.bus_id") or row.get("gpu_bus_id") or "") is not None
    if len(row) > 1:
        return True
    word = next(iter(row.values()))
    return switch(word) is not None or number(word) is not None or word.startswith(("[", "0x", "P"))


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """For each row what does not change, where its GPU's index is known, and the state."""
    rows = [(i, dict(zip(names, cells, strict=True))) for i, names, cells in _rows(segment)]
    rows = [(i, row) for i, row in rows if _plausible(row)]
    repeats = re.search(r"\s(?:-l|-lms|--loop\S*|-i|--id)[= \d]", (segment.command or "")[:_WIDEST]) is not None
    countable = len(rows) <= _MOST_UNNUMBERED and not repeats
    for place, (i, row) in enumerate(rows):
        index = whole(row["index"]) if "index" in row else None
        if index is None and countable and not {"pci.bus_id", "gpu_bus_id", "index"} & row.keys():
            index = place
        yield from _row_facts(segment, i, row, index)


SOURCE = Source(
    id="nvidia-smi-query",
    title="nvidia-smi --query-gpu",
    facts=(Gpu, GpuState),
    needles=(
        "pcie.link", "clocks", "power", "temperature", "utilization", "ecc.", "persistence_mode", "pstate", "fabric.",
        "bus_id", "driver_version", "memory.", "remapped_rows", "retired_pages", "gpu_", "--query-gpu",
    ),
    signature=re.compile(
        r"^(?:index|name|gpu_name|timestamp|uuid|pstate|[a-z_]{2,30}(?:\.[a-z_]{1,30}){1,5}|driver_version"
        r"|persistence_mode)(?: \[[^\]\n]{1,12}\])?, [a-z]"
        r"|^(?:persistence_mode|driver_version|pstate|(?:clocks|clocks_event_reasons|clocks_throttle_reasons|pcie\.link"
        r"|power|temperature|ecc|utilization|fabric)\.[a-z_.]{1,60})(?: \[[^\]\n]{1,12}\])?[ \t]*$|--query-gpu[= ]",
        re.M,
    ),
    parse=parse,
    commands=(
        Command((
            "nvidia-smi",
            "--query-gpu=index,name,pci.bus_id,driver_version,persistence_mode,pstate,utilization.gpu,"
            "pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max,"
            "clocks_throttle_reasons.active,clocks.current.sm,clocks.max.sm,power.draw,power.limit,power.default_limit,"
            "temperature.gpu,ecc.errors.uncorrected.volatile.total",
            "--format=csv",
        ), seconds=2, timeout=20),
    ),
    versions="drivers 418 to 580",
)
