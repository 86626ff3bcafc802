r"""NCCL's topology and graph files: NCCL_TOPO_DUMP_FILE, NCCL_GRAPH_DUMP_FILE, and files made for NCCL_TOPO_FILE.

Seen: version 1 of both, NCCL 2.5 to 2.28. What they say is NCCL's model: link_speed and link_width are the most that
both ends of a PCIe link can do, never what was negotiated, and a network of 10000 Mb/s may be one whose speed could
not be read. `dev` of a GPU is its number in nvidia-smi. The graph gives no edges, only what each search arrived at.

>>> from advisor.sources.base import Segment
>>> SAMPLE = '''\
... <system version="1">
...   <cpu numaid="0" arch="x86_64" vendor="GenuineIntel">
...     <pci busid="0000:16:00.0" class="0x060400" vendor="0x1000" device="0xc030" link_speed="32.0 GT/s PCIe">
...       <pci busid="0000:1b:00.0" class="0x030200"><gpu dev="0" sm="90" rank="0" gdr="1"/></pci>
...       <pci busid="0000:19:00.0" class="0x020700">
...         <nic><net name="mlx5_0" dev="0" speed="400000" port="1" guid="0xa1" gdr="1"/></nic>
...       </pci>
...     </pci>
...   </cpu>
... </system>
... '''
>>> gpu, graph = parse(Segment("topo.xml", SAMPLE.splitlines(), range(1, 99)))
>>> gpu.index, gpu.bus_id, graph.nics, graph.nic_gbyte_s, graph.gpu_nic_paths, graph.bridges
(0, '0000:1b:00.0', ('0',), (50.0,), ('PIX',), ('1000c03000000000',))
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from advisor.facts import Fact, Gpu, NcclGraph
from advisor.grammar.hardware import integer, pci_address
from advisor.grammar.xml import Element, documents
from advisor.sources.base import Problem, Segment, Source

_NEAR_TO_FAR = ("PIX", "PXB", "PHB", "SYS")
_RING = 4
_BRIDGE, _NVSWITCH = "0x0604", "0x068000"  # PCI classes
_MBIT = 8000  # Mb/s in a GB/s
_NUMBER = re.compile(r"\d{1,6}(?:\.\d{1,6})?")


@dataclass(slots=True)
class _Place:
    """A GPU or network and the elements above it, from the root down."""

    element: Element
    above: tuple[Element, ...]

    @property
    def bus_id(self) -> str | None:
        """Address of the PCI device it is; None where there is none (a virtual network interface)."""
        return pci_address(self._device.get("busid", ""))

    @property
    def vendor(self) -> str | None:
        """Vendor of that device, four hex digits."""
        number = integer(self._device.get("vendor", ""))
        return None if number is None else f"{number & 0xFFFF:04x}"

    @property
    def _device(self) -> dict[str, str]:
        return next((e.attributes for e in reversed(self.above) if e.name == "pci"), {})


@dataclass(slots=True)
class _System:
    """What of a topology matters, gathered in document order."""

    cpus: list[Element] = field(default_factory=list)
    gpus: list[_Place] = field(default_factory=list)
    nets: list[_Place] = field(default_factory=list)
    bridges: set[str] = field(default_factory=set)
    nvswitch: bool = False

    def gather(self, root: Element) -> None:
        waiting: list[tuple[Element, tuple[Element, ...]]] = [(root, ())]
        while waiting:
            element, above = waiting.pop()
            self._take(element, above)
            waiting.extend((child, (*above, element)) for child in reversed(element.children))

    def _take(self, element: Element, above: tuple[Element, ...]) -> None:
        if element.name == "cpu":
            self.cpus.append(element)
        elif element.name == "gpu":
            self.gpus.append(_Place(element, above))
        elif element.name == "net":
            self.nets.append(_Place(element, above))
        elif element.name == "nvlink":
            self.nvswitch = self.nvswitch or element.attributes.get("tclass") == _NVSWITCH
        elif element.name == "pci" and element.attributes.get("class", "").startswith(_BRIDGE):
            parts = [element.attributes.get(name, "0x0") for name in _IDS]
            self.bridges.add("".join(f"{(integer(part) or 0) & 0xFFFF:04x}" for part in parts))


_IDS = ("vendor", "device", "subsystem_vendor", "subsystem_device")


def _nic_path(gpu: _Place, net: _Place) -> str | None:
    """NCCL's name of the PCIe path between two devices; None where one is no PCI device."""
    if gpu.bus_id is None or net.bus_id is None:
        return None
    common = [a for a, b in zip(gpu.above, net.above, strict=False) if a is b]
    if common[-1].name != "pci":
        return "PHB" if common[-1].name == "cpu" else "SYS"
    switches = {id(e) for place in (gpu, net) for e in place.above[len(common) - 1 :] if e.name == "pci"}
    own = {id(next(e for e in reversed(place.above) if e.name == "pci")) for place in (gpu, net)}
    return "PIX" if len(switches - own) <= 1 else "PXB"


def _best_paths(system: _System) -> tuple[str, ...]:
    best: set[str] = set()
    for gpu in system.gpus:
        paths = {_nic_path(gpu, net) for net in system.nets}
        best |= set([name for name in _NEAR_TO_FAR if name in paths][:1])
    return tuple(name for name in _NEAR_TO_FAR if name in best)


def _topology(segment: Segment, root: Element) -> Iterator[Fact]:
    system = _System()
    system.gather(root)
    for gpu in system.gpus:
        index = integer(gpu.element.attributes.get("dev", ""))
        if index is not None and gpu.bus_id is not None:
            yield Gpu(origins=(segment.origin(gpu.element.first),), index=index, bus_id=gpu.bus_id)
    networks = [net.element.attributes for net in system.nets]
    speeds = {speed / _MBIT for net in networks if (speed := integer(net.get("speed", ""))) is not None}
    guids = {guid for net in networks if integer(guid := net.get("guid", "")) not in (None, 0)}
    numa = [integer(cpu.attributes.get("numaid", "")) for cpu in system.cpus]
    yield NcclGraph(
        origins=(segment.origin(root.first),), gpus=len(system.gpus), cpus=len(system.cpus),
        nics=tuple(net.get("dev", "?") for net in networks), nic_gbyte_s=tuple(sorted(speeds)),
        nic_chips=len(guids) or None, bridges=tuple(sorted(system.bridges)), nvswitch=system.nvswitch,
        no_numa=-1 in numa if numa else None, gpu_nic_paths=_best_paths(system) or None,
        nic_vendors=_vendors(system), gdr_vendors=_vendors(system, gdr=True),
    )


def _vendors(system: _System, *, gdr: bool = False) -> tuple[str, ...] | None:
    """Who made the NICs, or those which may reach GPU memory; None where the file does not say both of any."""
    said = [(net.vendor, net.element.attributes.get("gdr")) for net in system.nets]
    known = {(vendor, integer(reach)) for vendor, reach in said if vendor and reach}
    return tuple(sorted({vendor for vendor, reach in known if reach or not gdr})) if known else None


def _beginning(segment: Segment, root: Element) -> Iterator[Fact]:
    """What a topology that was cut still shows: that something is there, never how many there are."""
    system = _System()
    system.gather(root)
    if vendors := _vendors(system):
        yield NcclGraph(
            origins=(segment.origin(root.first),), nic_vendors=vendors, gdr_vendors=_vendors(system, gdr=True),
            nvswitch=system.nvswitch or None,
        )  # fmt: skip


def _rate(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else None


def _graph(segment: Segment, root: Element) -> Iterator[Fact]:
    """The ring search of a graph file, else its first."""
    searches = [g for g in root.children if g.name == "graph" and integer(g.attributes.get("nchannels", ""))]
    rings = [g for g in searches if integer(g.attributes.get("pattern", "")) == _RING]
    for search in (rings or searches)[:1]:
        said = search.attributes
        nics = sorted({net.attributes.get("dev", "?") for net in search.each("net")}, key=lambda nic: (len(nic), nic))
        path = said.get("typeinter")
        yield NcclGraph(
            origins=(segment.origin(search.first),), pattern=integer(said.get("pattern", "")),
            channels=integer(said["nchannels"]), intra_gbyte_s=_rate(said.get("speedintra", "")),
            inter_gbyte_s=_rate(said.get("speedinter", "")) if nics else None, intra_path=said.get("typeintra"),
            nic_path=path if nics else None, nics_planned=tuple(nics),
        )


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """The GPUs and what NCCL made of the machine; of a graph file the rings it planned."""
    for name, read in (("system", _topology), ("graphs", _graph)):
        for document in documents(segment.lines, name):
            if document.root.attributes.get("version") is None:
                continue
            if not document.wrong:
                yield from read(segment, document.root)
            else:
                yield Problem(segment.numbers[document.last], f"the XML is damaged: {document.wrong}")
                if document.wrong == "cut" and name == "system":
                    yield from _beginning(segment, document.root)
            segment.skip(document.root.first, document.last)


SOURCE = Source(
    id="nccl-topo-xml",
    title="NCCL topology file",
    facts=(Gpu, NcclGraph),
    needles=("<system version=", "<graphs version="),
    signature=re.compile(r"<(?:system|graphs) version=\""),
    parse=parse,
    versions="version 1, NCCL 2.5 to 2.28",
)
