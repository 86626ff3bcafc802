"""`perftest`: `ib_write_bw`, `ib_read_lat`, … as text, and both spellings of its JSON. One `RdmaTest` for each run.

Layouts from the sources up to 2026. The default unit is MiB/s in every release (`MB/sec` until 24.07.0), Gb/sec with
`--report_gbits`; all is turned into 10^9 bit/s. The JSON names no unit: it follows the command line, and where that
is not shown the figure is kept as `printed` only. Before 24.01.0 it was not JSON (no quotes, trailing commas), so
both are read by their keys. The server of a one-way test prints no row: that is no fault.

    >>> SAMPLE = '''                    RDMA_Write BW Test
    ...  Dual-port       : OFF          Device         : mlx5_2
    ...  Number of qps   : 4            Transport type : IB
    ...  TX depth        : 128
    ...  Mtu             : 4096[B]
    ...  Link type       : Ethernet
    ...  GID index       : 3
    ... ---------------------------------------------------------------------------------------
    ...  #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
    ...  65536      5000             23010.10            22998.40             0.367974
    ... '''
    >>> segment = Segment("write.txt", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.tool, f.device, f.qps, f.gid_index, f.size_bytes, f.average_gbit_s, f.is_server) for f in parse(segment)]
    [('ib_write_bw', 'mlx5_2', 4, 3, 65536, 192.925, False)]
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from advisor.facts import Fact, Origin, RdmaPoint, RdmaTest
from advisor.facts.measurement import deciding_rdma_rows, summarise_rdma
from advisor.sources.base import Problem, Segment, Source

_LONGEST_LINE = 1000
_MIB_GBIT = 1048576 * 8 / 1e9  # MiB/s to 10^9 bit/s
_UNITS = {"MB/sec": _MIB_GBIT, "MiB/sec": _MIB_GBIT, "Gb/sec": 1.0}
_OPERATIONS = {"Send": "send", "RDMA_Write": "write", "RDMA_Read": "read", "Atomic": "atomic"}

_BANNER = re.compile(
    r"(?P<op>Send|RDMA_Write|RDMA_Read|Atomic)(?:_imm)?(?:[ _](?:CMP_AND_SWAP|FETCH_AND_ADD))?"
    r"(?P<duplex>[ _]Bidirectional)?(?:[ _]Post[ _]List)?[ _](?P<kind>BW|Latency)"
    r"[ _](?:forwarding[ _]|Multicast[ _]){0,2}Test"
)
_PAIR = re.compile(r"([A-Za-z#][\w*.#-]{0,30}(?: [\w*.#-]{1,20}){0,3}) {0,24}: {0,3}(\S{1,60})")
_HEADER = re.compile(r"#bytes +(?:#sl +)?#iterations ")
_CELL = re.compile(
    r"#\w{1,12}|BW (?:peak|average|Port\d)\[[^\]\s]{1,10}\]|MsgRate(?: Port\d)?\[\w{1,8}\]|CPU_Util\[%\]"
    r"|t_\w{1,10}\[usec\]|99(?:\.9{1,3})?% percentile\[usec\]|tps average"
)
_NUMBERS = re.compile(r"\d{1,20}(?:\s+\d{1,18}(?:\.\d{1,9})?){2,12}")
_ADDRESS = re.compile(r"(local|remote) address: LID ")
_GID = re.compile(r"GID: ((?:\d{2,3}:){15}\d{2,3})$")
_WAITING = re.compile(r"\* Waiting for client to connect\.\.\. \*|Waiting for client rdma_cm QP to connect")
_GPU = re.compile(
    r"initializing CUDA|cuMemAlloc\(\) of |Picking (?:GPU number|device No\.) ?\d|creating CUDA Ctx"
    r"|allocated (?:GPU|\d{1,12} bytes of GPU) buffer|Use (?:ROCm|MUSA) memory : ON|using DMA-BUF for GPU"
)
_CLOCK = re.compile(r"Conflicting CPU frequency values")
_NO_FACT = re.compile(
    r"-{20,}$|\*{20,}$|WARNING: |CPU Frequency is not max|Please run the same command|Finding PCIe BUS"
    r"|Listing all CUDA devices|CUDA device \d|\[pid = \d|making it the current CUDA|destroying current CUDA"
    r"|GID: |NUMA node|#, usec|scnt=|Couldn't set the link|Couldn't get context|Couldn't create IB"
    r"|Unable to open file descriptor|Unable to set up socket|deallocating"
)
# most telling first; where a run prints several, the first of this table counts
_ERRORS = (
    ("port-down", re.compile(r"Port number \d{1,3} state is \w")),
    ("no-device", re.compile(r"Did not detect devices")),
    ("device-not-found", re.compile(r"IB device \S{1,64} not found|Unable to find the Infiniband/RoCE device")),
    ("connect-failed", re.compile(
        r"Couldn't connect to (?P<peer>\S{1,255}):\d{1,5}|Unable to connect \(retries"
        r"|Unable to init the socket connection"
    )),
    ("memory-registration", re.compile(r"Couldn't allocate MR|Cannot allocate memory|[Ff]ailed to create mr")),
    ("qp-setup-failed", re.compile(
        r"Failed to modify QP|Unable to Connect the HCA's through the link|Unable to create QP|Couldn't create QP"
    )),
    ("retry-exceeded", re.compile(r"Failed status(?:-transport retry counter exceeded \(12\)| 12:)")),
    ("completion-error", re.compile(r"Completion with error at (?:client|server)|Failed status[- ]")),
    ("warm-up-failed", re.compile(r"Problems with warm up")),
    ("peer-gone", re.compile(r"(?:\w{1,40}: )?Couldn't read remote address")),
    ("exchange-failed", re.compile(r"Failed to exchange ")),
)  # fmt: skip
_ERROR_RANK = {name: rank for rank, (name, _) in enumerate(_ERRORS)}

_PROGRAM = re.compile(r"\b(?:ib_(?:write|read|send|atomic)|raw_ethernet)_(?:bw|lat|burst_lat)\b")
_VALUE_OPTIONS = frozenset("wypdimsntuSxcqIoMrQAlDfBTLEJjKkXW")  # single letters that take a value
_VALUE_WORDS = frozenset({
    "port", "ib-dev", "ib-port", "mtu", "size", "iters", "tx-depth", "qp-timeout", "sl", "gid-index", "connection",
    "qp", "vector", "inline_size", "outs", "tos", "rx-depth", "cq-mod", "atomic_type", "post_list", "duration",
    "margin", "limit_bw", "limit_msgrate", "pkey_index", "burst_size", "rate_limit", "rate_units", "output",
    "out_json_file", "latency_gap", "flow_label", "retry_count", "use_cuda", "use_cuda_bus_id", "cuda_mem_type",
    "use_rocm", "use_musa", "use_neuron", "use_hl", "use_mlu", "use_opencl", "gpu_touch", "tclass", "recv_post_list",
    "bind_source_ip", "cqe_poll",
})  # fmt: skip
_INFO = re.compile(r'"?test_info"?\s{0,9}:')
_KEY = re.compile(r'"?([A-Za-z][\w.]{0,40})"?\s{0,9}:\s{0,9}(?:"([^"\n]{0,200})"|([-\w.+/]{1,100}))')
_RESULTS = re.compile(r'"?results"?\s{0,9}:\s{0,9}\{')

_SIGNATURE = re.compile(
    rf"^[ \t]{{0,99}}{_BANNER.pattern}[ \t]{{0,99}}$|^[ \t#]{{0,9}}#?bytes +(?:#sl +)?#iterations "
    r'|"?test_info"?\s{0,9}:|\* Waiting for client to connect\.\.\. \*|Couldn\'t connect to \S{1,255}:\d'
    r"|Completion with error at (?:client|server)|^ ?Port number \d{1,3} state is |IB device \S{1,64} not found"
    r"|Unable to find the Infiniband/RoCE device|^ ?Did not detect devices|Couldn't read remote address"
    r"|Conflicting CPU frequency values|Failed status-transport retry|^Couldn't allocate MR",
    re.MULTILINE,
)


@dataclass(slots=True)
class _Run:
    """One run under way; `first` and `last` are indexes of its own lines."""

    first: int
    last: int
    operation: str | None = None
    kind: str | None = None
    bidirectional: bool | None = None
    header: dict[str, str] = field(default_factory=dict)
    side: str = ""
    addresses: dict[str, str] = field(default_factory=dict)
    waiting: bool = False
    gpu: bool = False
    clock_unsteady: bool = False
    columns: tuple[str, ...] = ()
    points: list[RdmaPoint] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)  # of the points
    said: dict[str, int] = field(default_factory=dict)  # line of a name in the header, and of the error
    error: tuple[str, str] | None = None
    peer: str | None = None
    printed: float | None = None
    unit: str | None = None


# --- the command line --------------------------------------------------------------------------------------------


def _arguments(command: str | None) -> list[str] | None:
    """Words behind perftest's program name, None where the command is not shown or is another."""
    m = _PROGRAM.search(command or "")
    if m is None or command is None:
        return None
    return re.split(r"\s\d?>|[|;&>]", command[m.end() :], maxsplit=1)[0].split()


def _server_name(arguments: list[str]) -> str | None:
    """The one word that is neither an option nor its value: the server, on the client's command line."""
    words = iter(arguments)
    for word in words:
        letter = word[1] if len(word) == 2 and word[0] == "-" else ""
        if letter in _VALUE_OPTIONS or (word.startswith("--") and word[2:] in _VALUE_WORDS):
            next(words, None)
        elif not word.startswith("-"):
            return word
    return None


def _gpu_memory(run: _Run, arguments: list[str] | None) -> bool | None:
    if run.gpu or run.header.get("cuda_device") or run.header.get("musa_device"):
        return True
    if any(run.header.get(name) == "ON" for name in ("Use_ROCm_memory", "Use_MUSA_memory")):
        return True
    return None if arguments is None else any(re.match(r"--use_(?!ib|exp|res|old)", word) for word in arguments)


def _is_server(run: _Run, arguments: list[str] | None) -> bool | None:
    if run.waiting:
        return True
    if arguments is not None:
        return _server_name(arguments) is None
    complete = "Link type" in run.header or "Link_type" in run.header
    if not complete or run.bidirectional:
        return None
    return not {"TX depth", "TX_depth"} & run.header.keys()


# --- a run as a fact ---------------------------------------------------------------------------------------------


def _whole(text: str | None) -> int | None:
    m = re.match(r"\d{1,9}", text or "")
    return int(m[0]) if m else None


def _tool(run: _Run, segment: Segment) -> str:
    m = _PROGRAM.search(segment.command or "")
    if m:
        return m[0]
    suffix = {"bandwidth": "bw", "latency": "lat"}.get(run.kind or "")
    if run.operation is None or suffix is None:
        return "perftest"
    raw = run.header.get("Connection type", run.header.get("Connection_type")) == "RawEth"
    return f"raw_ethernet_{suffix}" if raw else f"ib_{run.operation}_{suffix}"


_SAID = {
    "Mtu": "mtu_bytes", "GID index": "gid_index", "Number of qps": "qps", "Link type": "link_type", "Device": "device",
    "PCIe relax order": "relaxed_ordering", "error": "error",
}  # fmt: skip


def _said_at(run: _Run, segment: Segment) -> dict[str, Origin]:
    lines = {name: run.lines[at] for name, at in deciding_rdma_rows(run.points).items() if run.lines}
    lines |= {_SAID[name]: line for name, line in run.said.items() if name in _SAID}
    return {name: segment.origin(line) for name, line in lines.items()}


def _fact(run: _Run, segment: Segment) -> RdmaTest:
    arguments = _arguments(segment.command)
    server = _is_server(run, arguments)
    tool = _tool(run, segment)

    def said(name: str) -> str | None:
        return run.header.get(name, run.header.get(name.replace(" ", "_")))

    ordering = said("PCIe relax order")
    operation = run.operation or next((op for op in _OPERATIONS.values() if f"_{op}_" in tool), None)
    peer = run.addresses.get("remote") or run.peer
    if peer is None and arguments is not None:
        peer = _server_name(arguments)
    fields: dict[str, Any] = summarise_rdma(run.points)
    if run.printed is not None and run.points:
        fields.setdefault("size_bytes", run.points[0].size_bytes)
    return RdmaTest(
        test=segment.at(run.first), tool=tool, operation=operation, kind=run.kind,
        device=said("Device"), local=run.addresses.get("local"), peer=peer, transport=said("Transport type"),
        connection=said("Connection type"), link_type=said("Link type"), mtu_bytes=_whole(said("Mtu")),
        gid_index=_whole(said("GID index")), qps=_whole(said("Number of qps")), printed=run.printed, unit=run.unit,
        round_trip=operation in ("read", "atomic") if run.kind == "latency" and operation else None,
        is_server=server, gpu_memory=_gpu_memory(run, arguments), bidirectional=run.bidirectional,
        relaxed_ordering={"ON": True, "OFF": False}.get(ordering or ""),
        clock_unsteady=True if run.clock_unsteady else None,
        error=run.error[0] if run.error else None, error_text=run.error[1] if run.error else None,
        origins=(replace(segment.origin(run.first), end=segment.numbers[run.last]),),
        said_at=_said_at(run, segment), **fields,
    )  # fmt: skip


# --- text --------------------------------------------------------------------------------------------------------


def _name_of(cell: str) -> str:
    """`BW average[MB/sec]` -> `BW average`, `99% percentile[usec]` -> `99% percentile`."""
    return cell.split("[", 1)[0]


def _point(columns: tuple[str, ...], line: str) -> RdmaPoint | None:
    cells = line.split()
    if len(cells) != len(columns) or not _NUMBERS.fullmatch(line.strip()):
        return None
    values = {_name_of(column): float(cell) for column, cell in zip(columns, cells, strict=True)}
    unit = next((column[column.index("[") + 1 : -1] for column in columns if column.startswith("BW average[")), "")
    factor = _UNITS.get(unit)

    def rate(name: str) -> float | None:
        return round(values[name] * factor, 3 if values[name] >= 0.1 else 6) if factor and name in values else None

    return RdmaPoint(
        int(values["#bytes"]), rate("BW average"), rate("BW peak") or None, values.get("t_min"),
        values.get("t_typical"), values.get("t_avg"), values.get("t_max"), values.get("99% percentile"),
    )  # fmt: skip


def _address(gid: str) -> str | None:
    """IPv4 address of a GID printed in decimal bytes, `00:…:00:255:255:10:00:00:01`; None for other GIDs."""
    parts = [int(part) for part in gid.split(":")]
    if parts[:10] == [0] * 10 and parts[10:12] == [255, 255]:
        return ".".join(map(str, parts[12:]))
    return None


class _Reader:
    """Reads lines into runs."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.runs: list[_Run] = []

    def read(self, index: int, line: str) -> None:
        if len(line) > _LONGEST_LINE:
            return
        text = line.strip()
        banner = _BANNER.fullmatch(text)
        if banner:
            self._banner(index, banner)
        elif _WAITING.search(text):
            run = self._new_after(index, used=True)
            run.waiting = True
        elif _HEADER.match(text):
            self._header(index, text)
        elif not self._error(index, text) and not self._gpu(index, text):
            self._inside(index, text)

    def _new_after(self, index: int, *, used: bool) -> _Run:
        """The current run; a new one where there is none or it is `used` up (has its own banner, rows or an error)."""
        run = self.runs[-1] if self.runs else None
        if run is None or (used and (run.operation or run.points or run.error)):
            run = _Run(index, index)
            self.runs.append(run)
        return self._touch(index, run)

    def _touch(self, index: int, run: _Run) -> _Run:
        run.last = index
        self.segment.skip(index)
        return run

    def _banner(self, index: int, m: re.Match[str]) -> None:
        run = self._new_after(index, used=True)
        run.operation = _OPERATIONS[m["op"]]
        run.kind = "bandwidth" if m["kind"] == "BW" else "latency"
        run.bidirectional = m["duplex"] is not None

    def _header(self, index: int, text: str) -> None:
        run = self.runs[-1] if self.runs else None
        run = self._new_after(index, used=run is not None and bool(run.points))
        run.columns = tuple(_CELL.findall(text))
        units = [cell for cell in run.columns if cell.startswith("BW average[")]
        run.unit = units[0][len("BW average[") : -1] if units else None
        run.kind = run.kind or ("bandwidth" if units else "latency")

    def _error(self, index: int, text: str) -> bool:
        for name, pattern in _ERRORS:
            m = pattern.search(text)
            if m is None:
                continue
            run = self._new_after(index, used=False)
            if run.error is None or _ERROR_RANK[name] < _ERROR_RANK[run.error[0]]:
                run.error = (name, text[:300])
                run.said["error"] = index
            if name == "connect-failed" and m["peer"]:
                run.peer = m["peer"]
            return True
        if _CLOCK.search(text):
            self._new_after(index, used=False).clock_unsteady = True
            return True
        return False

    def _gpu(self, index: int, text: str) -> bool:
        """Lines of the set-up of GPU memory; they come before the banner."""
        if not _GPU.search(text):
            return False
        run = self.runs[-1] if self.runs else None
        inside = run is not None and not run.points
        self._new_after(index, used=not inside).gpu = True
        return True

    def _inside(self, index: int, text: str) -> None:
        run = self.runs[-1] if self.runs else None
        if run is None:
            if _NO_FACT.match(text) and re.match(r"-{87}$|\*{36}$", text):
                self.segment.skip(index)
            return
        side, gid = _ADDRESS.search(text), _GID.search(text)
        point = _point(run.columns, text) if run.columns else None
        if point is not None:
            run.points.append(point)
            run.lines.append(index)
            self._touch(index, run)
        elif side:
            run.side = side[1]
            self._touch(index, run)
        elif gid:
            address = _address(gid[1])
            if address and run.side:
                run.addresses.setdefault(run.side, address)
            self._touch(index, run)
        elif _NO_FACT.match(text):
            self.segment.skip(index)
        elif run.operation and not run.columns:
            self._pairs(index, text, run)

    def _pairs(self, index: int, text: str, run: _Run) -> None:
        """`Dual-port : OFF   Device : mlx5_0`: two names to a line, whose set depends on the release."""
        found = {" ".join(m[1].split()): m[2] for m in _PAIR.finditer(text.replace("\t", "  "))}
        if found:
            run.header |= found
            run.said |= dict.fromkeys(found, index)
            self._touch(index, run)


# --- JSON --------------------------------------------------------------------------------------------------------


def _json_unit(arguments: list[str] | None) -> str | None:
    if arguments is None:
        return None
    return "Gb/sec" if any(word.startswith("--report_gbit") for word in arguments) else "MiB/sec"


def _json_point(values: dict[str, str], unit: str | None) -> RdmaPoint | None:
    def number(*names: str) -> float | None:
        for name in names:
            if re.fullmatch(r"\d{1,18}(?:\.\d{1,9})?", values.get(name, "")):
                return float(values[name])
        return None

    size = number("MsgSize")
    if not size:
        return None
    factor = _UNITS.get(unit or "")
    average, peak = number("BW_average", "bw_avg"), number("BW_peak")
    return RdmaPoint(
        int(size), None if average is None or factor is None else round(average * factor, 3),
        None if not peak or factor is None else round(peak * factor, 3), number("t_min"), number("t_typical"),
        number("t_avg"), number("t_max"), number("percentile_99", "p99"),
    )  # fmt: skip


def _json(segment: Segment, taken: set[int]) -> Iterator[Fact | Problem]:
    """Runs of the JSON objects in the text; the indexes of their lines go into `taken`."""
    text = segment.text
    starts = [m.start() for m in _INFO.finditer(text)]
    line_ends = [m.start() for m in re.finditer("\n", text)]
    arguments = _arguments(segment.command)
    for start, following in zip(starts, [*starts[1:], len(text)], strict=True):
        results = _RESULTS.search(text, start, following)
        end = text.find("}", results.end(), following) if results else -1
        stop = end if end >= 0 else start + len(text[start:following].rstrip()) - 1
        first, last = bisect_left(line_ends, start), bisect_left(line_ends, stop)
        if first and segment.lines[first - 1].strip() == "{":
            first -= 1
        if last + 1 < len(segment.lines) and segment.lines[last + 1].strip() == "}":
            last += 1
        run = _Run(first, last)
        for m in _KEY.finditer(text, start, stop):
            run.header.setdefault(m[1], m[3] if m[2] is None else m[2])
        banner = _BANNER.fullmatch(run.header.get("test", ""))
        if banner:
            run.operation = _OPERATIONS[banner["op"]]
            run.kind = "bandwidth" if banner["kind"] == "BW" else "latency"
            run.bidirectional = banner["duplex"] is not None
        run.unit = _json_unit(arguments) if run.kind == "bandwidth" else None
        point = _json_point(run.header, run.unit)
        if point is not None:
            run.points.append(point)
        printed = run.header.get("BW_average", run.header.get("bw_avg", ""))
        run.printed = float(printed) if re.fullmatch(r"\d{1,18}(?:\.\d{1,9})?", printed) else None
        segment.skip(first, last)
        taken.update(range(first, last + 1))
        yield _fact(run, segment)
        if end < 0:
            yield Problem(segment.numbers[first], "The JSON object ends before its results do.")


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One `RdmaTest` for each run, also for one that failed or whose server side printed no row."""
    taken: set[int] = set()
    if _INFO.search(segment.text):
        yield from _json(segment, taken)
    reader = _Reader(segment)
    for index, line in enumerate(segment.lines):
        if index not in taken:
            reader.read(index, line)
    for run in reader.runs:
        yield _fact(run, segment)


SOURCE = Source(
    id="perftest",
    title="perftest (ib_write_bw, ib_read_lat, …)",
    facts=(RdmaTest,),
    needles=(
        " Test", "#iterations", "test_info", "Waiting for client", "Couldn't", "Completion with error",
        "Port number", "IB device", "Unable to find", "Did not detect", "Conflicting CPU", "Failed status",
    ),
    signature=_SIGNATURE,
    parse=parse,
    versions="releases to 2026, text and JSON",
)  # fmt: skip
