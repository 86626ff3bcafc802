"""All fact types, by name. A new kind of fact is a class in one of these modules, imported here."""

from advisor.facts.base import Conflict, Fact, Origin, fact_name, field_names
from advisor.facts.devices import GpuFailure, GpuNvlinks, GpuState, PciLink
from advisor.facts.expectation import Assessment, Given, Stage
from advisor.facts.fabric import RdmaAbsent, RdmaCounters, RdmaPort, RoceGid
from advisor.facts.host import EnvVar, Gpu, GpuTopology, NetInterface, TopoPath
from advisor.facts.measurement import CollectiveTest, PingTest, Point, RdmaPoint, RdmaTest, TcpTest
from advisor.facts.nccl import Edge, NcclChoice, NcclGraph, NcclMessage, NcclProcess, NcclRank

from advisor.facts.store import FactStore
from advisor.facts.system import (
    CpuFrequency,
    CpuInfo,
    EthernetLink,
    Filesystem,
    GpuLoad,
    KernelEvent,
    KernelModule,
    Limit,
    ModuleList,
    NicRate,
    NumaNode,
    Sysctl,
    TcpCounters,
    TcpSocket,
)

__all__ = [
    "GpuLoad",
    "NicRate",
    "CpuFrequency",
    "CpuInfo",
    "NumaNode",
    "KernelEvent",
    "TcpCounters",
    "TcpSocket",
    "GpuFailure", "GpuNvlinks", "GpuState", "PciLink",
    "EthernetLink", "Filesystem", "KernelModule", "Limit", "ModuleList", "Sysctl",
    "FactStore", "FACT_TYPES", "Assessment", "Given", "Stage", "CollectiveTest", "Conflict", "Edge", "EnvVar", "Fact", "Gpu", "GpuTopology", "NcclChoice", "NcclGraph", "NcclMessage",
    "NcclProcess", "NcclRank", "NetInterface", "Origin", "PingTest", "Point", "RdmaAbsent", "RdmaCounters", "RdmaPoint", "RdmaPort", "RdmaTest", "RoceGid", "TcpTest",
    "TopoPath", "fact_name", "field_names",
]

FACT_TYPES: dict[str, type[Fact]] = {
    fact_name(kind): kind
    for kind in list(globals().values())
    if isinstance(kind, type) and issubclass(kind, Fact) and kind is not Fact
}
