"""Lines of NCCL's network layer and of network plugins: `NET/NAME : ...`, `NET/NAME: ...`."""

from __future__ import annotations

import re

from advisor.facts import RdmaPort
from advisor.grammar.nccl.grammar import parse_ib_devices, parse_interfaces
from advisor.grammar.nccl.state import ProcessState

_THREADS = re.compile(r"Using (\d{1,4}) threads and (\d{1,4}) sockets per thread")
_HCA = re.compile(r"GPU Direct RDMA (Enabled|Disabled) for HCA \w{1,8} '([^']{1,80})'")
_UNOPENED = re.compile(r"Unable to open device ([\w.-]{1,64})")
_PORT = re.compile(r"NET/IB ?: \[\d{1,3}\] ?([\w.-]{1,64}?):(?:\w{1,20}:)?(\d{1,3})/(\w{1,16})")
_SPEED = re.compile(r" speed=(\d{1,9})\b")
_QP = re.compile(r"Port \d{1,3} (?:qpn|qp_num) \d{1,10} mtu (\d)")
_GID = re.compile(r" GID (\d{1,4}) ")
_PROVIDER = re.compile(r"Selected [Pp]rovider is (\w{1,20})")
_NICS = re.compile(r"\(found (\d{1,4}) nics?\)")
_PLUGIN = re.compile(r"Loaded (?:net|collnet) plugin (.{1,80}?)(?: \(v\d{1,3}\))?$")

_LAYERS = {"IB": "InfiniBand", "RoCE": "Ethernet"}
_BUILT_IN = ("NET/IB", "NET/Socket", "NET/FastSocket")


def read_network(process: ProcessState, message: str, index: int) -> RdmaPort | None:
    """Take a line into the process; the port it describes, if it is such a line (2.27+)."""
    word, _, rest = message.partition(" ")
    word = word.rstrip(":")
    if word in _BUILT_IN and (m := _PORT.match(message)):
        return _read_port(process, m, message, index)
    if word in _BUILT_IN:
        _read_devices(process, word, rest, index)
    if m := _HCA.search(message):
        process.subsystems.add("NET")
        if word != "NET/Socket":  # sockets never have it
            process.add("gdr_disabled", [m[2]] if m[1] == "Disabled" else [], index)
    elif m := _QP.search(message):
        _read_connection(process, int(m[1]), message, index)
    elif word == "NET/OFI":
        _read_libfabric(process, rest, index)
    elif m := _PLUGIN.search(message):
        process.set("net_plugin", m[1], index)
    return None


def _read_port(process: ProcessState, m: re.Match[str], message: str, index: int) -> RdmaPort | None:
    """`NET/IB: [0] mlx5_0:uverbs0:1/IB provider=Mlx5 speed=400000 ...` (2.27+), the bare list in 2.3.

    NCCL passes ports over that are not active.
    """
    process.subsystems.add("NET")
    speed = _SPEED.search(message)
    if speed is None:
        process.add("ib_devices", [f"{m[1]}:{m[2]}/{m[3]}"], index)
        return None
    return RdmaPort(
        host=process.host, device=m[1], port=int(m[2]), state="ACTIVE", link_layer=_LAYERS.get(m[3]),
        rate_gbit_s=int(speed[1]) / 1000,
    )


def _read_devices(process: ProcessState, word: str, rest: str, index: int) -> None:
    """What the built-in networks found: the list behind `Using` is empty where nothing was."""
    if word == "NET/IB" and "Using [" in rest:
        process.add("ib_devices", parse_ib_devices(rest), index)
        process.values["relaxed"] = process.values.get("relaxed", False) or "[RO]" in rest
    elif "Using [" in rest:
        found = parse_interfaces(rest)
        process.add("socket_interfaces", [name for name, _ in found], index)
        process.add("socket_addresses", [address for _, address in found if address], index)
    elif word == "NET/IB" and "No device found" in rest:
        process.add("ib_devices", [], index)
    elif m := _THREADS.search(rest):
        process.set("socket_threads", int(m[1]), index)
        process.set("sockets_per_thread", int(m[2]), index)
    elif m := _UNOPENED.search(rest):
        process.add("ib_unopened", [m[1]], index)


def _read_connection(process: ProcessState, mtu: int, message: str, index: int) -> None:
    """`NET/IB: Dev 0 Port 1 qpn 1234 mtu 5 GID 3 (..)`: mtu is the number of the verbs, 5 is 4096 bytes."""
    process.subsystems.add("NET")
    size = 128 << mtu
    if process.values.get("ib_mtu_bytes", size + 1) > size:
        process.values["ib_mtu_bytes"] = size
        process.note(index, "ib_mtu_bytes")
    if m := _GID.search(message):
        process.set("gid_index", int(m[1]), index)


def _read_libfabric(process: ProcessState, rest: str, index: int) -> None:
    """aws-ofi-nccl: its version, the provider it took and how many NICs that has."""
    if rest.startswith("Initializing aws-ofi-nccl"):
        process.set("net_plugin", rest.partition("Initializing ")[2][:80], index)
    elif m := _PROVIDER.search(rest):
        nics = _NICS.search(rest)
        process.set("provider", m[1], index)
        process.set("provider_nics", int(nics[1]) if nics else None, index)
