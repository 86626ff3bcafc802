"""Normal forms of what several tools print differently: PCI addresses, port states, GUIDs, InfiniBand rates.

Facts of different tools about one device are merged by equal values, so each source converts with these.
"""

from __future__ import annotations

import ipaddress
import re

_PCI = re.compile(r"(?:([0-9A-Fa-f]{4,8}):)?([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])")
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*Gb/sec(?:\s*\((\d+)X(?:\s+(\w+))?\))?")
_STATES = {
    "DOWN": "DOWN", "INIT": "INIT", "INITIALIZING": "INIT", "ARMED": "ARMED", "ACTIVE": "ACTIVE",
    "ACTIVE_DEFER": "ACTIVE_DEFER", "NOP": "NOP",
}
_PHYS_STATES = {
    name.lower(): name
    for name in (
        "Sleep", "Polling", "Disabled", "PortConfigurationTraining", "LinkUp", "LinkErrorRecovery", "PhyTest",
    )
}
_LINK_LAYERS = {"infiniband": "InfiniBand", "ib": "InfiniBand", "ethernet": "Ethernet"}
_NO_VALUE = {
    "", "-", "n/a", "[n/a]", "not supported", "[not supported]", "unknown", "err!", "unknown error", "[unknown error]",
}


def pci_address(text: str) -> str | None:
    """`00000000:1B:00.0` and `1b:00.0` -> `0000:1b:00.0`, the form of the kernel; None if it is no PCI address."""
    match = _PCI.fullmatch(text.strip())
    if not match:
        return None
    domain, bus, device, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{bus}:{device}.{function}".lower()


def port_state(text: str) -> str | None:
    """State of an RDMA port from `4: ACTIVE` (sysfs), `Active` (ibstat), `PORT_ACTIVE (4)` (ibv_devinfo)."""
    word = text.partition("(")[0].rpartition(":")[2].strip().upper().removeprefix("PORT_")
    return _STATES.get(word)


def phys_state(text: str) -> str | None:
    """Physical state of an RDMA port from `5: LinkUp` (sysfs), `LinkUp` (ibstat), `LINK_UP (5)` (ibv_devinfo)."""
    word = text.partition("(")[0].rpartition(":")[2]
    return _PHYS_STATES.get(re.sub(r"[\s_]", "", word).lower())


def link_layer(text: str) -> str | None:
    """`InfiniBand` or `Ethernet`; ibstatus prints `IB` on kernels that know nothing else."""
    return _LINK_LAYERS.get(text.strip().lower())


def ib_rate(text: str) -> tuple[float | None, int | None, str | None]:
    """Gb/s, lanes and name of the speed of `100 Gb/sec (2X HDR)`; old kernels print `10 Gb/sec (4X)` without a name."""
    match = _RATE.search(text)
    if not match:
        return None, None, None
    return float(match[1]), int(match[2]) if match[2] else None, match[3]


def guid(text: str) -> str | None:
    """`0x0011223344556677` and `0011:2233:4455:6677` -> `0011223344556677`; None if it is none or all zero."""
    digits = text.strip().lower().removeprefix("0x").replace(":", "")
    if not re.fullmatch(r"[0-9a-f]{16}", digits) or not digits.strip("0"):
        return None
    return digits


def integer(text: str) -> int | None:
    """A decimal or `0x` hexadecimal number, None for anything else."""
    word = text.strip()
    if re.fullmatch(r"0x[0-9A-Fa-f]{1,16}", word):
        return int(word, 16)
    return int(word) if re.fullmatch(r"-?[0-9]{1,20}", word) else None


def value(text: str) -> str | None:
    """The text, None where it is one of the ways to print that there is no value."""
    word = text.strip()
    if word.lower() in _NO_VALUE or word.lower().startswith("requested functionality"):
        return None
    return word


def gid(text: str) -> str | None:
    """A GID in its long form, eight groups of four hex digits; None if it is none or all zero."""
    try:
        number = int(ipaddress.IPv6Address(text.strip()))
    except ValueError:
        return None
    digits = f"{number:032x}"
    return ":".join(digits[i : i + 4] for i in range(0, 32, 4)) if number else None


def gid_address(text: str | None) -> tuple[str | None, str | None]:
    """IP address and family (`ipv4`, `ipv6`, `link-local`) that a RoCE GID stands for."""
    if text is None:
        return None, None
    address = ipaddress.IPv6Address(text)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped), "ipv4"
    return str(address), "link-local" if address.is_link_local else "ipv6"


def roce_type(text: str) -> str | None:
    """`v1`, `v2` or `ib` from `RoCE v2`, `IB/RoCE v1` (sysfs), `v2` (show_gids), `IB` (ibv_devinfo)."""
    word = text.strip().lower()
    if word in ("v1", "roce v1", "ib/roce v1"):
        return "v1"
    if word in ("v2", "roce v2"):
        return "v2"
    return "ib" if word in ("ib", "infiniband") else None


# ---------------------------------------------------------------------------------------------------- nvidia-smi values

THROTTLE_BITS = {  # of the mask clocks_event_reasons.active (nvml.h, nvmlClocksEventReason*)
    0x1: "idle", 0x2: "app-clocks", 0x4: "sw-power-cap", 0x8: "hw-slowdown", 0x10: "sync-boost", 0x20: "sw-thermal",
    0x40: "hw-thermal", 0x80: "hw-power-brake", 0x100: "display-clocks",
}
SLOWING = {"hw-slowdown", "sw-thermal", "hw-thermal", "hw-power-brake"}  # a power cap at full load is normal
_NUMBER = re.compile(r"(-?\d{1,18}(?:\.\d{1,9})?)(?:\s*(?:x|C|W|%|MHz|KB/s|us|MiB|GB/s))?")
_SWITCH = {
    "enabled": True, "on": True, "yes": True, "active": True,
    "disabled": False, "off": False, "no": False, "not active": False,
}
MIB = 1024 * 1024


def number(text: str | None) -> float | None:
    """The number of `345 MHz`, `16x`, `77.39 W`, `29 C`; None for `N/A` and everything else."""
    match = _NUMBER.fullmatch((text or "").strip())
    return float(match[1]) if match else None


def whole(text: str | None) -> int | None:
    """As `number`, for what is counted."""
    found = number(text)
    return int(found) if found is not None else None


def mebibytes(text: str | None) -> int | None:
    """Bytes of `143771 MiB`."""
    found = number(text)
    return int(found * MIB) if found is not None else None


def switch(text: str | None) -> bool | None:
    """Enabled, On, Yes, Active and their opposites; None for `N/A` and everything else."""
    return _SWITCH.get((text or "").strip().lower())


def product_name(text: str | None) -> str | None:
    """A GPU's product name; None where it is cut (`NVIDIA A100-SXM...`) or missing."""
    name = value(text or "")
    return None if name is None or name.endswith("..") else name


def is_slowed(reasons: tuple[str, ...] | None) -> bool | None:
    """Whether one of the reasons means that the GPU is slowed against its will."""
    return None if reasons is None else not SLOWING.isdisjoint(reasons)


# ---------------------------------------------------------------------------------------------------------- PCI devices

_GPU_CLASSES = {"3D controller", "VGA compatible controller", "Display controller", "Processing accelerators"}
_NIC_CLASSES = {"Ethernet controller", "Infiniband controller", "Network controller"}
_CLASS_NAMES = {  # PCI class codes
    "0300": "VGA compatible controller", "0302": "3D controller", "0380": "Display controller",
    "1200": "Processing accelerators", "0200": "Ethernet controller", "0207": "Infiniband controller",
    "0280": "Network controller", "0604": "PCI bridge", "0680": "Bridge",
}
_GPU_MAKERS = re.compile(
    r"NVIDIA|\bAMD\b|Advanced Micro Devices|\bIntel\b|\b(?:10de|1002|8086):[0-9a-f]{4}|^0x(?:10de|1002|8086)"
)
_NVIDIA = re.compile(r"NVIDIA|\b10de:|^0x10de")


def pci_kind(class_name: str | None, class_code: str | None, device: str) -> str:
    """`gpu`, `nic`, `nvswitch`, `bridge` or `other` from class (name or four hex digits) and device (name or ids)."""
    name = class_name or _CLASS_NAMES.get(class_code or "", "")
    if name in _GPU_CLASSES and _GPU_MAKERS.search(device):
        return "gpu"
    if name in _NIC_CLASSES:
        return "nic"
    if name == "Bridge" and _NVIDIA.search(device):
        return "nvswitch"
    return "bridge" if name == "PCI bridge" else "other"
