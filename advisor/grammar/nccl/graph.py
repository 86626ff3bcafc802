"""Reads the lines of subsystem GRAPH: the tree NCCL made of the machine, its path table, the rings it planned.

Ranks of one process print the same tree between each other's lines; since only sets and first values are kept, their
order does not matter. Rows of channels belong to the last `Pattern` line of their thread.
"""

from __future__ import annotations

import re

from advisor.facts import NcclGraph
from advisor.grammar.nccl.grammar import PATHS, RING_PATTERN

_SYSTEM = re.compile(r"=== System : max(?:Bw|Width) ([\d.]{1,15})(?: total(?:Bw|Width) ([\d.]{1,15}))?")
_NODE = re.compile(r"(?:([A-Z0-9]{2,4})\[([\d.]{1,12})\] - )?([A-Z]{3})/(\S{1,24})(?: \(([^)]{0,120})\))?")
_PATH = re.compile(r"([A-Z]{3})/(\S{1,24}) \(\d{1,4}/[\d.]{1,15}/(\w{1,8})\)")
_PATTERN = re.compile(
    r"Pattern (\d{1,2}), crossNic \d, nChannels (\d{1,3}), (?:bw|speed) ([\d.]{1,12})/([\d.]{1,12})"
    r"(?:, type (\w{2,4})/(\w{2,4}))?"
)
_ROW = re.compile(r"\d{1,3} : ")
_ROW_NIC = re.compile(r"NET/(\S{1,24})")
_NO_NUMA = "fffffff"
_VIRTUAL_GBYTE_S = 1000.0  # links of devices without a PCI place are entered with 5000


class GraphReader:
    """Collects the graph lines of one process."""

    def __init__(self) -> None:
        self.lines: list[int] = []
        self._system: tuple[float, float | None] | None = None
        self._nodes: dict[str, set[str]] = {}
        self._widths: dict[str, set[float]] = {}
        self._bridges: set[str] = set()
        self._chips: set[str] = set()
        self._best: dict[str, int] = {}
        self._patterns: dict[int, tuple[int, float, float, str | None, str | None]] = {}
        self._current: dict[int | None, int] = {}
        self._planned: dict[int, set[str]] = {}

    def feed(self, message: str, tid: int | None, index: int) -> bool:
        """Take a line in; False if it is none of the graph's."""
        text = message.strip()
        if text.startswith("=== System"):
            known = self._take_system(text)
        elif text.startswith("Pattern "):
            known = self._take_pattern(text, tid)
        elif text.startswith("===="):
            known = True
        elif _ROW.match(text):
            known = self._take_row(text, tid)
        elif " :" in text:
            known = self._take_paths(text)
        else:
            known = self._take_node(text.removeprefix("+ "))
        if known and len(self.lines) < 2:
            self.lines.append(index)
        elif known:
            self.lines[1] = index
        return known

    def _take_system(self, text: str) -> bool:
        m = _SYSTEM.match(text)
        if m and self._system is None:
            self._system = (float(m[1]), float(m[2]) if m[2] else None)
        return True

    def _take_node(self, text: str) -> bool:
        m = _NODE.match(text)
        if m is None:
            return False
        link, width, kind, name, extra = m.groups()
        self._nodes.setdefault(kind, set()).add(name)
        if link in ("PCI", "NVL", "NET"):
            self._widths.setdefault(link, set()).add(float(width))
        if kind == "PCI" and extra:
            self._bridges.add(extra)
        if kind == "NET" and extra and extra.count("/") >= 2:
            self._chips.add(extra.split("/")[-3])
        return True

    def _take_paths(self, text: str) -> bool:
        """`GPU/0-1b000 :GPU/0-1b000 (0/5000.0/LOC) ... NET/0-0 (3/24.0/PIX)`: the best way from a GPU to any NIC."""
        owner, _, rest = text.partition(" :")
        ways = _PATH.findall(rest)
        if owner.startswith("GPU/"):
            near = [PATHS.index(path) for kind, _, path in ways if kind == "NET" and path in PATHS]
            if near:
                self._best[owner] = min(near)
        return bool(ways) or owner.startswith(("GPU/", "NET/", "GIN/", "DEV/"))

    def _take_pattern(self, text: str, tid: int | None) -> bool:
        m = _PATTERN.match(text)
        if m is None:
            return False
        number, channels = int(m[1]), int(m[2])
        self._current[tid] = number
        known = self._patterns.get(number)
        if known is None or not known[0]:
            self._patterns[number] = (channels, float(m[3]), float(m[4]), m[5], m[6])
        return True

    def _take_row(self, text: str, tid: int | None) -> bool:
        if "GPU/" not in text and "NET/" not in text:
            return False
        self._planned.setdefault(self._current.get(tid, -1), set()).update(_ROW_NIC.findall(text))
        return True

    def fact(self, host: str | None, pid: int | None) -> NcclGraph | None:
        """What was collected, None without any line."""
        if not self.lines:
            return None
        graph = NcclGraph(host=host, pid=pid)
        self._fill_tree(graph)
        self._fill_plan(graph)
        return graph

    def _fill_tree(self, graph: NcclGraph) -> None:
        nodes, widths = self._nodes, self._widths
        if self._system:
            graph.max_gbyte_s, graph.total_gbyte_s = self._system
            # a tree without its head may have lost its first branches too
            graph.gpus, graph.cpus = len(nodes.get("GPU", ())), len(nodes.get("CPU", ()))
        if nodes:
            graph.nics = tuple(sorted(nodes.get("NET", ()), key=lambda name: (len(name), name)))
            graph.nvswitch = "NVS" in nodes
            graph.no_numa = any(_NO_NUMA in name for name in nodes.get("CPU", ()))
            graph.bridges = tuple(sorted(self._bridges))
            graph.nic_gbyte_s = tuple(sorted(widths.get("NET", ())))
            graph.nvlink_gbyte_s = tuple(sorted(widths.get("NVL", ())))
            graph.pci_gbyte_s = tuple(sorted(w for w in widths.get("PCI", ()) if w < _VIRTUAL_GBYTE_S))
        if self._chips:
            graph.nic_chips = len(self._chips)
        if self._best:
            graph.gpu_nic_paths = tuple(PATHS[number] for number in sorted(set(self._best.values())))

    def _fill_plan(self, graph: NcclGraph) -> None:
        found = [number for number, values in sorted(self._patterns.items()) if values[0]]
        chosen = RING_PATTERN if RING_PATTERN in found else next(iter(found), -1)
        nics = self._planned.get(chosen) or set().union(*self._planned.values())
        if self._planned:
            graph.nics_planned = tuple(sorted(nics, key=lambda name: (len(name), name)))
        if chosen >= 0:
            graph.pattern = chosen
            graph.channels, graph.intra_gbyte_s, graph.inter_gbyte_s, graph.intra_path, far = self._patterns[chosen]
            graph.nic_path = far if nics else None
