r"""`nvidia-smi -q -x`: what `nvidia-smi -q` prints, as XML. Schemas v9 to v13 (drivers 450 to 580) seen.

The elements are put under the names that the text has, and read by the same code. The document type is left out before
reading, so that nothing it names is looked for.

>>> from advisor.sources.base import Segment
>>> SAMPLE = '''\
... <?xml version="1.0" ?>
... <!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
... <nvidia_smi_log>
...   <driver_version>535.104.05</driver_version>
...   <attached_gpus>1</attached_gpus>
...   <gpu id="00000000:5E:00.0">
...     <product_name>NVIDIA A100-SXM4-40GB</product_name>
...     <pci><pci_gpu_link_info><link_widths>
...       <max_link_width>16x</max_link_width><current_link_width>8x</current_link_width>
...     </link_widths></pci_gpu_link_info></pci>
...     <clocks_event_reasons>
...       <clocks_event_reason_hw_slowdown>Active</clocks_event_reason_hw_slowdown>
...     </clocks_event_reasons>
...   </gpu>
... </nvidia_smi_log>
... '''
>>> gpu, state = parse(Segment("q.xml", SAMPLE.splitlines(), range(1, 99)))
>>> gpu.index, gpu.bus_id, gpu.name, gpu.driver_version
(0, '0000:5e:00.0', 'NVIDIA A100-SXM4-40GB', '535.104.05')
>>> state.pcie_width, state.pcie_width_max, state.throttle_reasons, state.slowed
(8, 16, ('hw-slowdown',), True)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.facts import Fact, Gpu, GpuState
from advisor.grammar.hardware import pci_address
from advisor.grammar.xml import Document, Element, documents
from advisor.sources.base import Problem, Segment, Source
from advisor.sources.nvidia_smi_q import Block, listing

_LINK = "PCI/GPU Link Info"
_NAMES = {  # path of an element below <gpu> -> path in the text of `nvidia-smi -q`
    "product_name": "Product Name",
    "persistence_mode": "Persistence Mode",
    "mig_mode/current_mig": "MIG Mode/Current",
    "gpu_virtualization_mode/virtualization_mode": "GPU Virtualization Mode/Virtualization Mode",
    "gpu_recovery_action": "GPU Recovery Action",
    "pci/pci_gpu_link_info/pcie_gen/current_link_gen": f"{_LINK}/PCIe Generation/Current",
    "pci/pci_gpu_link_info/pcie_gen/max_link_gen": f"{_LINK}/PCIe Generation/Max",
    "pci/pci_gpu_link_info/pcie_gen/max_device_link_gen": f"{_LINK}/PCIe Generation/Device Max",
    "pci/pci_gpu_link_info/pcie_gen/max_host_link_gen": f"{_LINK}/PCIe Generation/Host Max",
    "pci/pci_gpu_link_info/link_widths/current_link_width": f"{_LINK}/Link Width/Current",
    "pci/pci_gpu_link_info/link_widths/max_link_width": f"{_LINK}/Link Width/Max",
    "pci/replay_counter": "PCI/Replays Since Reset",
    "performance_state": "Performance State",
    "fb_memory_usage/total": "FB Memory Usage/Total",
    "fb_memory_usage/used": "FB Memory Usage/Used",
    "bar1_memory_usage/total": "BAR1 Memory Usage/Total",
    "utilization/gpu_util": "Utilization/GPU",
    "ecc_mode/current_ecc": "ECC Mode/Current",
    "ecc_errors/unrepairable_memory": "ECC Errors/Unrepairable Memory",
    "retired_pages/pending_blacklist": "Retired Pages/Pending Page Blacklist",
    "retired_pages/pending_retirement": "Retired Pages/Pending",
    "remapped_rows/remapped_row_pending": "Remapped Rows/Pending",
    "remapped_rows/remapped_row_failure": "Remapped Rows/Remapping Failure Occurred",
    "temperature/gpu_temp": "Temperature/GPU Current Temp",
    "temperature/gpu_temp_tlimit": "Temperature/GPU T.Limit Temp",
    "clocks/sm_clock": "Clocks/SM",
    "max_clocks/sm_clock": "Max Clocks/SM",
    "applications_clocks/graphics_clock": "Applications Clocks/Graphics",
    "fabric/state": "Fabric/State",
    "fabric/status": "Fabric/Status",
}
_POWER_SECTIONS = {"gpu_power_readings": "GPU Power Readings", "power_readings": "Power Readings"}
_POWER = {
    "average_power_draw": "Average Power Draw", "power_draw": "Power Draw",
    "instant_power_draw": "Instantaneous Power Draw", "current_power_limit": "Current Power Limit",
    "power_limit": "Power Limit", "default_power_limit": "Default Power Limit",
}
# Whole names: the counters' elements begin alike, and hold microseconds.
_REASON = re.compile(r"clocks_(event|throttle)_reasons/clocks_(?:event|throttle)_reason_(\w{1,60})")
_REASONS = {
    "gpu_idle": "Idle", "applications_clocks_setting": "Applications Clocks Setting", "sw_power_cap": "SW Power Cap",
    "hw_slowdown": "HW Slowdown", "hw_thermal_slowdown": "HW Thermal Slowdown",
    "hw_power_brake_slowdown": "HW Power Brake Slowdown", "sync_boost": "Sync Boost",
    "sw_thermal_slowdown": "SW Thermal Slowdown", "display_clocks_setting": "Display Clock Setting",
}
_ECC = re.compile(r"ecc_errors/(volatile|aggregate)/(\w{1,60}(?:/\w{1,60})?)")


def _path(path: str) -> str:
    """The path of an element as the text of `nvidia-smi -q` would have it; unchanged where nothing reads it."""
    section, _, name = path.partition("/")
    if reason := _REASON.fullmatch(path):
        return f"Clocks {reason[1].title()} Reasons/{_REASONS.get(reason[2], reason[2])}"
    if ecc := _ECC.fullmatch(path):
        return f"ECC Errors/{ecc[1].title()}/{ecc[2].replace('_', ' ').title()}"
    if section in _POWER_SECTIONS and name in _POWER:
        return f"{_POWER_SECTIONS[section]}/{_POWER[name]}"
    return _NAMES.get(path, path)


def _block(gpu: Element, head: dict[str, str]) -> Block | None:
    """One GPU as the reader of the text makes it; None where its address is missing."""
    bus_id = pci_address(gpu.attributes.get("id", ""))
    if bus_id is None:
        return None
    block = Block(bus_id, gpu.first, gpu.last, 0, head.get("driver_version"), head.get("cuda_version"))
    for path, text in gpu.leaves():
        block.values.setdefault(_path(path), text)
    return block


def _document(segment: Segment, document: Document) -> Iterator[Fact | Problem]:
    children = document.root.children
    head = {child.name: child.text for child in children if not child.children}
    blocks = [block for child in children if child.name == "gpu" and (block := _block(child, head))]
    yield from listing(segment, {"Attached GPUs": head.get("attached_gpus", "")}, blocks)
    segment.skip(document.root.first, document.last)
    if document.wrong:
        yield Problem(segment.numbers[document.last], f"the XML is damaged: {document.wrong}")


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """For each GPU what does not change, where its index is known, and its state."""
    for i, line in enumerate(segment.lines):
        if line.startswith(("<?xml version", "<!DOCTYPE nvidia_smi_log SYSTEM ")) and len(line) < 200:
            segment.skip(i)
    for document in documents(segment.lines, "nvidia_smi_log"):
        yield from _document(segment, document)


SOURCE = Source(
    id="nvidia-smi-xml",
    title="nvidia-smi -q -x",
    facts=(Gpu, GpuState),
    needles=("<nvidia_smi_log",),
    signature=re.compile(r"<nvidia_smi_log[\s>]"),
    parse=parse,
    versions="schemas v9 to v13",
)
