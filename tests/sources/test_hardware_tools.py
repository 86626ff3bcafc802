"""Sources of GPUs, RDMA ports, interfaces and PCI devices: what capture pairs cannot show."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from advisor.facts import (
    Conflict,
    Fact,
    GpuFailure,
    GpuState,
    NetInterface,
    PciLink,
    RdmaAbsent,
    RdmaCounters,
    RdmaPort,
    TopoPath,
)
from advisor.facts.store import FactStore
from advisor.sources import all_sources
from advisor.sources.base import Problem, Segment, Source
from tests.capture_tools import CAPTURES, segment_of

IDS = (
    "nvidia-smi-topo", "ibstatus", "ibstat", "ip-link", "ibv-devinfo", "show-gids", "rdma-counters", "perfquery",
    "nvidia-smi-q", "nvidia-smi-nvlink", "nvidia-smi", "nvidia-smi-query", "lspci", "pci-sysfs",
)
SOURCES = {source.id: source for source in all_sources() if source.id in IDS}
TEXTS = sorted(path for name in IDS for path in (CAPTURES / name).glob("*") if path.suffix != ".json")


def read(name: str, text: str, command: str | None = None) -> list[Fact | Problem]:
    lines = text.split("\n")
    return list(SOURCES[name].parse(Segment("input.txt", lines, range(1, len(lines) + 1), command=command)))


def capture(name: str, file: str) -> list[Fact]:
    segment = segment_of(CAPTURES / name / file)
    segment.source, segment.file = name, f"{name}/{file}"
    return [item for item in SOURCES[name].parse(segment) if isinstance(item, Fact)]


def test_all_sources_are_there() -> None:
    assert set(SOURCES) == set(IDS)


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: f"{p.parent.name}-{p.name}")
def test_every_prefix_of_a_capture_is_read_without_exception(path: Path) -> None:
    segment = segment_of(path)
    source = SOURCES[path.parent.name]
    text = segment.text
    step = max(1, len(text) // 60)
    for end in range(0, len(text), step):
        lines = text[:end].split("\n")
        cut = Segment("cut.txt", lines, range(1, len(lines) + 1))
        source.recognises(cut)
        for item in source.parse(cut):
            assert isinstance(item, Fact | Problem)


@pytest.mark.parametrize("source", SOURCES.values(), ids=lambda s: s.id)
def test_every_source_reads_the_text_of_all_others(source: Source) -> None:
    lines = [line for path in TEXTS for line in segment_of(path).lines]
    for mixed in (lines, lines[::-1], lines[::3]):
        list(source.parse(Segment("mixed.txt", mixed, range(1, len(mixed) + 1))))


HOSTILE = {
    "blanks": " " * 300_000,
    "tabs": "\t" * 300_000,
    "empty lines": "\n" * 100_000,
    "one token": "GPU0" * 50_000,
    "many tokens": "GPU0 X " * 30_000,
    "headers": "\tGPU0\tGPU1\tCPU Affinity\n" * 3_000,
    "open arrays": '[{"ifname": "eth0"},\n' * 2_000,
    "nested": "[" * 50_000 + '"ifname"',
    "bars": "|" * 200_000,
    "links": "1: eth0: <UP> mtu 1500 " * 10_000,
    "headings": "Infiniband device 'mlx5_0' port 1 status:\n" * 5_000,
    "gpus": "GPU 00000000:1B:00.0\n" * 5_000,
    "deep": "\n".join(" " * depth + "Key : value" for depth in range(390)) * 5,
    "commas": "index, " * 30_000,
    "addresses": "1b:00.0 " * 30_000,
    "paths": "/sys/class/infiniband/mlx5_0/ports/1/counters/" * 5_000,
    "dots": "PortXmitData:" + "." * 200_000,
    "gids": "GID[  0]: " + "fe80:" * 40_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("source", SOURCES.values(), ids=lambda s: s.id)
def test_hostile_text_costs_neither_an_exception_nor_much_time(source: Source, text: str) -> None:
    lines = text.split("\n")
    start = time.process_time()
    segment = Segment("hostile.txt", lines, range(1, len(lines) + 1))
    source.recognises(segment)
    list(source.parse(segment))
    assert time.process_time() - start < 2


def test_three_tools_about_one_port_make_one_fact() -> None:
    ibstatus = """\
Infiniband device 'mlx5_0' port 1 status:
\tsm lid:\t\t 0x7
\tstate:\t\t 4: ACTIVE
\tphys state:\t 5: LinkUp
\trate:\t\t 200 Gb/sec (4X HDR)
\tlink_layer:\t InfiniBand
"""
    ibstat = """\
CA 'mlx5_0'
\tCA type: MT4123
\tNumber of ports: 1
\tFirmware version: 20.41.1000
\tNode GUID: 0x1070FD0300C00001
\tPort 1:
\t\tState: Active
\t\tPhysical state: LinkUp
\t\tRate: 200
\t\tSM lid: 7
\t\tLink layer: InfiniBand
"""
    devinfo = """\
hca_id:\tmlx5_0
\tfw_ver:\t\t\t\t20.41.1000
\tnode_guid:\t\t\t1070:fd03:00c0:0001
\tvendor_id:\t\t\t0x02c9
\tvendor_part_id:\t\t\t4123
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tactive_mtu:\t\t4096 (5)
\t\t\tsm_lid:\t\t\t7
\t\t\tlink_layer:\t\tInfiniBand
\t\t\tactive_width:\t\t4X (2)
\t\t\tactive_speed:\t\t50.0 Gbps (64)
\t\t\tphys_state:\t\tLINK_UP (5)
"""
    read_all = read("ibstatus", ibstatus) + read("ibstat", ibstat) + read("ibv-devinfo", devinfo)
    store = FactStore(item for item in read_all if isinstance(item, Fact))
    [port] = store.of(RdmaPort)
    assert not store.of(Conflict)
    assert (port.rate_gbit_s, port.width, port.speed, port.board) == (200.0, 4, "HDR", "MT4123")
    assert (port.sm_lid, port.node_guid, port.active_mtu_bytes) == (7, "1070fd0300c00001", 4096)
    assert len(port.origins) == 3


def test_lspci_and_sysfs_about_one_device_make_one_fact() -> None:
    listing = "1b:00.0 Infiniband controller: Mellanox Technologies MT2910\n\t\tLnkSta:\tSpeed 16GT/s, Width x8\n"
    files = "/sys/bus/pci/devices/0000:1b:00.0/current_link_speed:16.0 GT/s PCIe\n" \
        "/sys/bus/pci/devices/0000:1b:00.0/current_link_width:8\n" \
        "/sys/bus/pci/devices/0000:1b:00.0/max_link_width:16\n"
    store = FactStore(item for item in read("lspci", listing) + read("pci-sysfs", files) if isinstance(item, Fact))
    [link] = store.of(PciLink)
    assert (link.speed_gt_s, link.width, link.max_width, link.kind) == (16.0, 8, 16, "nic")


def test_the_same_interface_as_text_and_as_json_makes_one_fact() -> None:
    text = (
        "2: eth0@if7: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP mode DEFAULT group default\n"
        "    link/ether 02:4d:00:00:00:01 brd ff:ff:ff:ff:ff:ff promiscuity 0 minmtu 68 maxmtu 65535\n"
        "    veth addrgenmode eui64 numtxqueues 2\n"
    )
    json_text = (
        '[{"ifindex":2,"ifname":"eth0","flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],"mtu":9000,"operstate":"UP",'
        '"link_type":"ether","max_mtu":65535,"linkinfo":{"info_kind":"veth"},'
        '"addr_info":[{"family":"inet","local":"10.1.2.3","prefixlen":16}]}]'
    )
    brief = "eth0@if7         UP             10.1.2.3/16 \n"
    items = read("ip-link", text) + read("ip-link", json_text) + read("ip-link", brief)
    store = FactStore(item for item in items if isinstance(item, Fact))
    [interface] = store.of(NetInterface)
    assert not store.of(Conflict)
    assert interface.addresses == ("10.1.2.3/16",)
    assert interface.device_kind == "veth"


def test_topo_mp_gives_no_path_between_gpus() -> None:
    table = "\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\nGPU0\t X \tSYS\tPIX\t0-7\nGPU1\tSYS\t X \tSYS\t8-15\n"
    plain = [f for f in read("nvidia-smi-topo", table) if isinstance(f, TopoPath)]
    pcie = [f for f in read("nvidia-smi-topo", table, "nvidia-smi topo -mp") if isinstance(f, TopoPath)]
    assert {f.kind for f in plain} == {"gpu-gpu", "gpu-nic"}
    assert {f.kind for f in pcie} == {"gpu-nic"}


def test_command_of_counters_gives_the_interval() -> None:
    path = "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/np_cnp_sent"
    text = f"{path}:10\n{path}:250\n"
    [counters] = read("rdma-counters", text, f"grep -H . {path}; sleep 60; grep -H . {path}")
    assert isinstance(counters, RdmaCounters)
    assert (counters.np_cnp_sent_delta, counters.interval_s) == (240, 60.0)
    [once] = read("rdma-counters", f"{path}:10\n", "sleep 60")
    assert isinstance(once, RdmaCounters)
    assert (once.np_cnp_sent_delta, once.interval_s) == (None, None)


def test_command_of_perfquery_names_the_device() -> None:
    text = "# Port extended counters: Lid 5 port 1 (CapMask: 0x5A00)\nPortXmitData:....................25\n"
    [counters] = read("perfquery", text, "perfquery -x -C mlx5_4 -P 1")
    assert isinstance(counters, RdmaCounters)
    assert (counters.device, counters.port, counters.xmit_bytes) == ("mlx5_4", 1, 100)


def test_command_of_nvidia_smi_q_names_the_gpu() -> None:
    text = "Attached GPUs                             : 8\nGPU 00000000:BA:00.0\n    Performance State      : P0\n"
    states = [f for f in read("nvidia-smi-q", text, "nvidia-smi -q -i 5") if isinstance(f, GpuState)]
    assert [state.index for state in states] == [5]
    assert [f.index for f in read("nvidia-smi-q", text) if isinstance(f, GpuState)] == [None]


def test_query_without_heading_takes_the_fields_from_the_command() -> None:
    command = "nvidia-smi --query-gpu=index,pcie.link.width.current,pstate --format=csv,noheader,nounits"
    items = read("nvidia-smi-query", f"{command}\n0, 16, P0\n1, 8, P0\n", command)
    states = [item for item in items if isinstance(item, GpuState)]
    assert [(state.index, state.pcie_width) for state in states] == [(0, 16), (1, 8)]
    assert not read("nvidia-smi-query", "0, 16, P0\n1, 8, P0\n")


def test_lspci_of_one_device_takes_the_address_from_the_command() -> None:
    [link] = read("lspci", "\t\tLnkSta:\tSpeed 8GT/s, Width x4\n", "sudo lspci -vv -s 1b:00.0 | grep LnkSta:")
    assert isinstance(link, PciLink)
    assert (link.bdf, link.speed_gt_s, link.width) == ("0000:1b:00.0", 8.0, 4)
    assert not read("lspci", "\t\tLnkSta:\tSpeed 8GT/s, Width x4\n")


def test_ibv_devices_without_driver_is_named_as_the_tool() -> None:
    text = "Failed to get IB devices list: Function not implemented"
    [absent] = read("ibv-devinfo", text, "ibv_devices")
    assert isinstance(absent, RdmaAbsent)
    assert absent.tool == "ibv_devices"


def test_failure_beside_a_table_is_seen() -> None:
    table = (CAPTURES / "nvidia-smi" / "h200x2-580.txt").read_text()
    items = read("nvidia-smi", table + "Unable to determine the device handle for GPU0000:03:00.0: Unknown Error\n")
    assert [f.bus_id for f in items if isinstance(f, GpuFailure)] == ["0000:03:00.0"]
    assert len([f for f in items if isinstance(f, GpuState)]) == 2


def test_readings_of_two_moments_do_not_contradict() -> None:
    first = capture("nvidia-smi", "h200x2-580.txt")
    second = capture("nvidia-smi-q", "h200x2-580.txt")
    store = FactStore([*first, *second])
    assert not store.of(Conflict)
    assert len(store.of(GpuState)) == 4
