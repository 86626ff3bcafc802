"""All fact types, by name. A new kind of fact is a class in one of these modules, imported here."""

from advisor.facts.base import Conflict, Fact, Origin, fact_name, field_names
from advisor.facts.devices import GpuFailure, GpuNvlinks, GpuState, PciLink
from advisor.facts.expectation import Assessment, Given, GpuNicUse, LinkDelivery, NicCard, Stage, TcpPath
from advisor.facts.fabric import LinkCarrier, RdmaAbsent, RdmaCounters, RdmaPort, RoceGid
from advisor.facts.hang import (
    CollectiveTimeout,
    FlightEntry,
    FlightRecord,
    HangSummary,
    RankFailure,
    RasProblem,
    RasReport,
)
from advisor.facts.host import EnvVar, Gpu, GpuTopology, NetInterface, TopoPath
from advisor.facts.measurement import CollectiveTest, PingTest, Point, RdmaPoint, RdmaTest, TcpTest
from advisor.facts.nccl import Edge, NcclChoice, NcclGraph, NcclMessage, NcclProcess, NcclRank
from advisor.facts.store import FactStore
from advisor.facts.system import (
    Bond,
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
    Service,
    Sysctl,
    TcpCounters,
    TcpSocket,
)
from advisor.facts.training import (
    Collective,
    InspectorCollective,
    LoadSummary,
    ScalingPair,
    StepTimes,
    Throughput,
    TrainingSummary,
    TrainingTrace,
)

__all__ = [
    "FACT_TYPES",
    "Assessment",
    "Bond",
    "Collective",
    "CollectiveTest",
    "CollectiveTimeout",
    "Conflict",
    "CpuFrequency",
    "CpuInfo",
    "Edge",
    "EnvVar",
    "EthernetLink",
    "Fact",
    "FactStore",
    "Filesystem",
    "FlightEntry",
    "FlightRecord",
    "Given",
    "Gpu",
    "GpuFailure",
    "GpuLoad",
    "GpuNicUse",
    "GpuNvlinks",
    "GpuState",
    "GpuTopology",
    "HangSummary",
    "InspectorCollective",
    "KernelEvent",
    "KernelModule",
    "Limit",
    "LinkCarrier",
    "LinkDelivery",
    "LoadSummary",
    "ModuleList",
    "NcclChoice",
    "NcclGraph",
    "NcclMessage",
    "NcclProcess",
    "NcclRank",
    "NetInterface",
    "NicCard",
    "NicRate",
    "NumaNode",
    "Origin",
    "PciLink",
    "PingTest",
    "Point",
    "RankFailure",
    "RasProblem",
    "RasReport",
    "RdmaAbsent",
    "RdmaCounters",
    "RdmaPoint",
    "RdmaPort",
    "RdmaTest",
    "RoceGid",
    "ScalingPair",
    "Service",
    "Stage",
    "StepTimes",
    "Sysctl",
    "TcpCounters",
    "TcpPath",
    "TcpSocket",
    "TcpTest",
    "Throughput",
    "TopoPath",
    "TrainingSummary",
    "TrainingTrace",
    "fact_name",
    "field_names",
]

FACT_TYPES: dict[str, type[Fact]] = {
    fact_name(kind): kind
    for kind in list(globals().values())
    if isinstance(kind, type) and issubclass(kind, Fact) and kind is not Fact
}
