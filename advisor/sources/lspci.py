r"""`lspci`, best as root with `-vv`: PCI devices, their links, ACS of the bridges. pciutils 3.1 to 3.13, from source.

LnkCap is what this end can do, LnkSta what was negotiated. The words `(downgraded)` and `(ok)` came and went with the
versions and are not printed on all ports, so only the numbers are read. Without root the capabilities are hidden,
which says nothing about them. The bridge above a device is the one whose secondary bus it is on.

>>> from advisor.sources.base import Segment
>>> SAMPLE = '''\
... 47:02.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0) (prog-if 00 [Normal decode])
... 	Bus: primary=47, secondary=4a, subordinate=4a, sec-latency=0
... 	Capabilities: [68] Express (v2) Downstream Port (Slot+), IntMsgNum 0
... 	Capabilities: [190 v1] Access Control Services
... 		ACSCtl:	SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
... 4a:00.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]
... 		LnkCap:	Port #0, Speed 32GT/s, Width x16, ASPM not supported
... 		LnkSta:	Speed 16GT/s (downgraded), Width x8 (downgraded)
... '''
>>> bridge, nic = parse(Segment("lspci.txt", SAMPLE.splitlines(), range(1, 99)))
>>> bridge.kind, bridge.port_type, bridge.acs_redirect, bridge.acs_flags
('bridge', 'Downstream Port', True, ('SrcValid', 'ReqRedir', 'CmpltRedir', 'UpstreamFwd'))
>>> nic.bdf, nic.kind, nic.speed_gt_s, nic.width, nic.max_speed_gt_s, nic.max_width, nic.parent
('0000:4a:00.0', 'nic', 16.0, 8, 32.0, 16, '0000:47:02.0')
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from advisor.facts import Fact, PciLink
from advisor.grammar.hardware import pci_address, pci_kind
from advisor.sources.base import Command, Problem, Segment, Source

_DEVICE = re.compile(
    r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (?:([A-Z3][\w /.,&-]{2,60}?)(?: \[([0-9a-f]{4})\])?"
    r"|([0-9a-f]{4})): (\S.*)"
)
_REVISION = re.compile(r"(?: \(rev [0-9a-f]{2}\))?(?: \(prog-if [^)]{1,40}\))?\s*$")
_IDS = re.compile(r"(?<=\S) \[[0-9a-f]{4}:[0-9a-f]{4}\]$")  # printed with -nn only
_BUSES = re.compile(r"\s+Bus: primary=([0-9a-f]{2}), secondary=([0-9a-f]{2}), .*")
_LINK = re.compile(
    r"\s*Lnk(Cap|Sta):\s+(?:Port #\d{1,3}, )?Speed (\S{1,12})(?: \([a-z]{2,12}\))?, Width x(\d{1,2})\b.*"
)
_TYPE = re.compile(
    r"\s+Capabilities: \[[0-9a-f]{2,3}(?: v\d)?\] Express (?:\(v\d\) )?([A-Z][A-Za-z/ -]{3,50}?)(?: \(.*|,.*)"
)
_SIZES = re.compile(r"\s+MaxPayload (\d{2,5}) bytes, MaxReadReq (\d{2,5}) bytes\s*")
_ORDERING = re.compile(r"\s+(?:DevCtl:.*)?RlxdOrd([+-]) .*")
_ACS = re.compile(r"\s*ACSCtl:\s+((?:\w{3,20}[+-] ?){1,12})\s*")
_NODE = re.compile(r"\s+NUMA node: (\d{1,4})\s*")
_GROUP = re.compile(r"\s+IOMMU group: (\d{1,5})\s*")
_DETAIL = re.compile(r"\s+\S.*")
_ASKED = re.compile(r"\blspci\b.{0,80}\s-s\s*([0-9a-fA-F:.]{6,16})\b")
_NOISE = re.compile(r"(?:pcilib: |lspci: ).*")
_WIDEST = 2000


@dataclass(slots=True)
class _Device:
    fact: PciLink
    first: int
    last: int
    secondary: str | None = None


def _speed(text: str) -> float | None:
    """GT/s of `16GT/s` or `2.5GT/s`."""
    match = re.fullmatch(r"(\d{1,3}(?:\.\d)?)GT/s", text)
    return float(match[1]) if match else None


def _detail(device: _Device, line: str) -> None:
    """Take over what one line below a device says."""
    fact = device.fact
    if link := _LINK.fullmatch(line):
        width = int(link[3]) or None  # x0: no link
        if link[1] == "Cap":
            fact.max_speed_gt_s, fact.max_width = _speed(link[2]), width
        else:
            fact.speed_gt_s, fact.width = (_speed(link[2]) if width else None), width
    elif acs := _ACS.fullmatch(line):
        fact.acs_flags = tuple(word[:-1] for word in acs[1].split() if word.endswith("+"))
        fact.acs_redirect = not {"ReqRedir", "CmpltRedir"}.isdisjoint(fact.acs_flags)
    elif kind := _TYPE.fullmatch(line):
        fact.port_type = kind[1].strip()
    elif buses := _BUSES.fullmatch(line):
        device.secondary = f"{(fact.bdf or '')[:4]}:{buses[2]}"
    elif sizes := _SIZES.fullmatch(line):
        fact.max_payload_bytes, fact.max_read_request_bytes = int(sizes[1]), int(sizes[2])
    elif ordering := _ORDERING.fullmatch(line):
        fact.relaxed_ordering = ordering[1] == "+"
    elif node := _NODE.fullmatch(line):
        fact.numa_node = int(node[1])
    elif group := _GROUP.fullmatch(line):
        fact.iommu_group = int(group[1])


def _devices(segment: Segment) -> list[_Device]:
    devices: list[_Device] = []
    asked = _ASKED.search((segment.command or "")[:1000])
    if asked and (address := pci_address(asked[1])) and not any(map(_DEVICE.match, segment.lines[:50])):
        devices.append(_Device(PciLink(bdf=address), 0, -1))  # `lspci -s 1b:00.0 -vv | grep LnkSta`
    for i, line in enumerate(segment.lines):
        if len(line) > _WIDEST:
            continue
        if match := _DEVICE.fullmatch(line):
            address, name, code_of_name, code, text = match.groups()
            text = _REVISION.sub("", text)
            kind = pci_kind(name, code or code_of_name, text)
            fact = PciLink(bdf=pci_address(address), device_text=_IDS.sub("", text), kind=kind)
            devices.append(_Device(fact, i, i))
        elif devices and devices[-1].last == i - 1 and (_DETAIL.fullmatch(line) or _NOISE.fullmatch(line)):
            _detail(devices[-1], line)
            segment.skip(i)
            devices[-1].last = i
        elif _NOISE.fullmatch(line):
            segment.skip(i)
    return devices


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """A fact for each GPU, NIC, NVSwitch and bridge, and for other devices with a link."""
    devices = _devices(segment)
    above = {device.secondary: device.fact.bdf for device in devices if device.secondary}
    for device in devices:
        fact = device.fact
        origin = replace(segment.origin(device.first), end=segment.numbers[max(device.first, device.last)])
        fact.parent = above.get((fact.bdf or "")[:7])
        if fact.kind != "other" or fact.width is not None or fact.max_width is not None:
            fact.origins = (origin,)
            yield fact


_CLASSES = (
    r"3D controller|VGA compatible controller|Display controller|Ethernet controller|Infiniband controller"
    r"|Network controller|PCI bridge|Host bridge|Bridge|Processing accelerators|Non-Volatile memory controller"
)

SOURCE = Source(
    id="lspci",
    title="lspci",
    facts=(PciLink,),
    needles=("controller", "ridge", "LnkSta:", "LnkCap:", "accelerators", ".0 0", ".0 1"),
    signature=re.compile(
        r"^(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] "
        rf"(?:(?:{_CLASSES})(?: \[[0-9a-f]{{4}}\])?|[01][0-9a-f]{{3}}): "
        r"|^[ \t]*Lnk(?:Cap|Sta):[ \t]+(?:Port #\d{1,3}, )?Speed ",
        re.M,
    ),
    parse=parse,
    commands=(Command(("lspci", "-D", "-vv"), seconds=2, timeout=30, root=True),),
    versions="pciutils 3.1 to 3.13",
)
