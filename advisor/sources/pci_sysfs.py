r"""PCIe links in sysfs, as `grep` prints the files: `/sys/bus/pci/devices/*/current_link_speed` and its kin.

Linux 4.x to 6.x. Paths that begin at a network or RDMA device do not name the address, unless its `uevent` is there
too. Values are `16.0 GT/s PCIe`, `8 GT/s` on old kernels, `Unknown` for emulated devices.

>>> from advisor.sources.base import Segment
>>> SAMPLE = '''\
... /sys/class/infiniband/mlx5_0/device/current_link_speed:16.0 GT/s PCIe
... /sys/class/infiniband/mlx5_0/device/current_link_width:8
... /sys/class/infiniband/mlx5_0/device/max_link_width:16
... '''
>>> [link] = parse(Segment("links.txt", SAMPLE.splitlines(), range(1, 99)))
>>> link.bdf, link.device, link.kind, link.speed_gt_s, link.width, link.max_width
(None, 'mlx5_0', 'nic', 16.0, 8, 16)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from advisor.facts import Fact, PciLink
from advisor.grammar.hardware import pci_address, pci_kind, whole
from advisor.sources.base import Command, Problem, Segment, Source

_ADDRESS = r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_LINE = re.compile(
    rf"(?:/sys/bus/pci/devices/|/sys/devices/pci[^:\s]{{1,12}}:[0-9a-f]{{2}}/(?:(?:{_ADDRESS}/){{0,12}}))({_ADDRESS})"
    r"/([a-z_]{3,30})[:=](.*)"
    r"|/sys/class/(infiniband|net|drm)/([^/\s:]{1,64})/device/([a-z_]{3,30})[:=](.*)"
)
_PARENT = re.compile(rf"({_ADDRESS})/{_ADDRESS}/[a-z_]{{3,30}}[:=]")
_SPEED = re.compile(r"(\d{1,3}(?:\.\d)?) GT/s(?: PCIe)?\s*")
_SLOT = re.compile(r"PCI_SLOT_NAME=(\S{7,20})")
_FILES = {
    "current_link_speed", "current_link_width", "max_link_speed", "max_link_width", "numa_node", "class", "vendor",
    "uevent",
}
_WIDEST = 1000


@dataclass(slots=True)
class _Device:
    """Files of one device, by address or by the name the path begins with."""

    first: int
    last: int
    bdf: str | None
    name: str | None = None
    parent: str | None = None
    subsystem: str | None = None
    files: dict[str, str] = field(default_factory=dict)


def _speed(text: str | None) -> float | None:
    match = _SPEED.fullmatch((text or "").strip())
    return float(match[1]) if match else None


def _width(text: str | None) -> int | None:
    """Lanes; 0 (no link) and 255 (emulated devices) are unknown."""
    lanes = whole(text)
    return lanes if lanes is not None and 0 < lanes <= 32 else None


def _devices(segment: Segment) -> Iterator[_Device]:
    devices: dict[tuple[str | None, str], _Device] = {}
    for i, line in enumerate(segment.lines):
        match = _LINE.fullmatch(line) if line.startswith("/sys/") and len(line) < _WIDEST else None
        if not match or (match[2] or match[6]) not in _FILES:
            continue
        address, file, text, subsystem, name, file_of_name, text_of_name = match.groups()
        bdf = pci_address(address) if address else None
        device = devices.setdefault((subsystem, bdf or name), _Device(i, i, bdf, name, subsystem=subsystem))
        above = _PARENT.search(line)
        if above:
            device.parent = pci_address(above[1])
        slot = _SLOT.match((text_of_name or text or "").strip())
        if slot:
            device.bdf = pci_address(slot[1])
        elif (file or file_of_name) != "uevent":
            device.files.setdefault(file or file_of_name, (text_of_name if text is None else text).strip())
        device.last = i
        segment.skip(i)
    yield from devices.values()


def _kind(device: _Device) -> str | None:
    if device.subsystem in ("infiniband", "net"):
        return "nic"
    code = device.files.get("class", "")
    if not re.fullmatch(r"0x[0-9a-f]{6}", code):
        return "gpu" if device.subsystem == "drm" and device.files.get("vendor") in ("0x10de", "0x1002") else None
    return pci_kind(None, code[2:6], device.files.get("vendor", ""))


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """A fact for each device with a link or a known NUMA node."""
    for device in _devices(segment):
        get = device.files.get
        node = whole(get("numa_node"))
        fact = PciLink(
            bdf=device.bdf, device=device.name if device.bdf is None else None,
            names=(device.name,) if device.bdf and device.name else None, kind=_kind(device), parent=device.parent,
            speed_gt_s=_speed(get("current_link_speed")), width=_width(get("current_link_width")),
            max_speed_gt_s=_speed(get("max_link_speed")), max_width=_width(get("max_link_width")),
            numa_node=node if node is not None and node >= 0 else None,
        )
        if "current_link_width" in device.files and fact.width is None:
            fact.speed_gt_s = None  # no link: the speed of an empty slot says nothing
        fact.origins = (replace(segment.origin(device.first), end=segment.numbers[device.last]),)
        told = (fact.speed_gt_s, fact.width, fact.max_speed_gt_s, fact.max_width, fact.numa_node)
        if any(item is not None for item in told):
            yield fact


SOURCE = Source(
    id="pci-sysfs",
    title="PCIe links in sysfs",
    facts=(PciLink,),
    needles=("_link_speed", "_link_width", "/numa_node"),
    signature=re.compile(
        r"^/sys/(?:bus/pci/devices|devices/pci|class/(?:infiniband|net|drm)/)\S{0,400}?"
        r"/(?:(?:current|max)_link_(?:speed|width)|numa_node)[:=]",
        re.M,
    ),
    parse=parse,
    commands=(
        Command((
            "find", "-L", "/sys/bus/pci/devices", "-maxdepth", "2", "(", "-name", "current_link_speed", "-o",
            "-name", "current_link_width", "-o", "-name", "max_link_speed", "-o", "-name", "max_link_width", "-o",
            "-name", "numa_node", "-o", "-name", "class", "-o", "-name", "vendor", ")",
            "-exec", "grep", "-sH", ".", "{}", "+",
        ), seconds=2),
        Command((
            "find", "-L", "/sys/class/infiniband", "-maxdepth", "3", "-path", "*/device/*", "(",
            "-name", "current_link_speed", "-o", "-name", "current_link_width", "-o", "-name", "max_link_speed", "-o",
            "-name", "max_link_width", "-o", "-name", "numa_node", "-o", "-name", "uevent", ")",
            "-exec", "grep", "-sH", ".", "{}", "+",
        )),
    ),
    versions="Linux 4.x to 6.x",
)
