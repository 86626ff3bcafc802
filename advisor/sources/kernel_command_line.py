"""`/proc/cmdline`, and the same line in the kernel log: how the IOMMU, ASPM and ACS were set at start.

The last of repeated options holds, as in the kernel. `iommu=pt` alone does not switch an IOMMU on; without `=on` or
`=off` the kernel's own choice holds, which depends on how it was built.

    >>> SAMPLE = "BOOT_IMAGE=/vmlinuz-6.8.0 root=/dev/nvme0n1p2 ro intel_iommu=on iommu=pt pcie_aspm=off quiet"
    >>> [fact] = parse(Segment("cmdline.txt", [SAMPLE], range(1, 2)))
    >>> fact.iommu, fact.pcie_aspm, fact.options
    ('pass-through', 'off', ('intel_iommu=on', 'iommu=pt', 'pcie_aspm=off'))
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.facts import Fact, KernelCommandLine
from advisor.sources.base import Command, Problem, Segment, Source

_LONGEST_LINE = 4500  # the kernel takes 2048 on x86 and 4096 elsewhere
_LINE = re.compile(r"(?:^|Command line: )(?=(?:BOOT_IMAGE|root|initrd)=\S)")
_SHOWN = (
    "intel_iommu", "amd_iommu", "iommu", "iommu.passthrough", "iommu.strict", "arm-smmu.disable_bypass", "pcie_aspm",
    "pcie_acs_override", "pci", "isolcpus", "nohz_full", "mitigations", "hugepages", "hugepagesz",
    "default_hugepagesz", "transparent_hugepage", "numa_balancing", "intel_idle.max_cstate", "processor.max_cstate",
    "intel_pstate", "amd_pstate", "cpufreq.default_governor", "ipv6.disable",
)  # fmt: skip


def _iommu(options: dict[str, str]) -> str | None:
    """How the options set the IOMMU; switched off outweighs passed through."""
    makers = {word for name in ("intel_iommu", "amd_iommu") for word in options.get(name, "").split(",")}
    general = set(options.get("iommu", "").split(","))
    if "off" in makers | general:
        return "off"
    if general & {"pt", "nopt"} or options.get("iommu.passthrough") in ("0", "1"):
        through = "pt" in general or options.get("iommu.passthrough") == "1"
        return "pass-through" if through else "on"
    return "on" if "on" in makers or "force" in general else None


def _acs_override(words: list[str]) -> bool | None:
    """True where an option takes ACS off; `pci=` adds up, unlike other options."""
    takes_off = ("pcie_acs_override", "config_acs=", "disable_acs_redir=")
    set_here = [word for word in words if word.startswith(("pci=", "pcie_"))]
    return True if any(name in word for word in set_here for name in takes_off) else None


def _fact(segment: Segment, i: int, text: str) -> KernelCommandLine:
    words = text.split()
    options = {name: setting for name, _, setting in (word.partition("=") for word in words)}
    pages = options.get("hugepages", "")
    return KernelCommandLine(
        origins=(segment.origin(i),), iommu=_iommu(options), pcie_aspm=options.get("pcie_aspm"),
        acs_override=_acs_override(words), isolated_cpus=options.get("isolcpus"),
        hugepages=int(pages) if re.fullmatch(r"\d{1,12}", pages) else None,
        options=tuple(sorted({word for word in words if word.partition("=")[0] in _SHOWN})),
    )


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact for each such line; its options are empty where none matters here."""
    for i, line in enumerate(segment.lines):
        found = _LINE.search(line) if len(line) < _LONGEST_LINE else None
        if found:
            yield _fact(segment, i, line[found.end() :])


SOURCE = Source(
    id="kernel-command-line",
    title="/proc/cmdline",
    facts=(KernelCommandLine,),
    needles=("BOOT_IMAGE=", "root=", "initrd="),
    signature=re.compile(
        r"^BOOT_IMAGE=\S|^(?:root|initrd)=\S{1,200} [a-z]|Command line: (?:BOOT_IMAGE|root|initrd)=", re.M
    ),
    parse=parse,
    commands=(Command(("cat", "/proc/cmdline")),),
    versions="Linux 3.10 to 6.12",
)
