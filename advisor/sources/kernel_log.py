"""The kernel's log (dmesg, journalctl -k, syslog): faults of GPUs, links, PCIe, memory.

Seen: Linux 4.4 to 6.12, dmesg with uptime, -T, -H, -x, --time-format=iso, journalctl short and ISO, raw `<6>`. All
lines of one kind about one device make one fact with their number and times; the order of lines is the order of time.

    >>> SAMPLE = '''[ 8121.441] mlx5_core 0000:1b:00.0 ens9np0: Link down
    ... [ 8124.902] mlx5_core 0000:1b:00.0 ens9np0: Link up
    ... [ 8190.100] mlx5_core 0000:1b:00.0 ens9np0: Link down
    ... [ 9002.007] NVRM: Xid (PCI:0000:43:00): 79, pid=4021, name=python, GPU has fallen off the bus.
    ... '''
    >>> segment = Segment("dmesg.txt", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.kind, f.device, f.code, f.count, f.span_s) for f in parse(segment)]  # doctest: +NORMALIZE_WHITESPACE
    [('link-down', 'ens9np0', None, 2, 68.659), ('link-up', 'ens9np0', None, 1, None),
     ('xid', '0000:43:00.0', '79', 1, None)]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from advisor.facts import Fact, KernelEvent
from advisor.sources.base import Command, Problem, Segment, Source

_PCI = r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?"
_IFACE = r"[a-zA-Z][\w.@-]{0,30}"

# --- what stands before the message ---------------------------------------------------------------------------------

_LEVEL = re.compile(r"^(?:<\d{1,3}>|(?:kern|daemon|user|syslog) {0,4}:\w{2,6} {0,4}: )")
_UPTIME = re.compile(r"^\[ *(\d{1,10}\.\d{1,9})\] ?(?:\[ *[TC]\d{1,8}\] ?)?")
_RELATIVE = re.compile(r"^\[ *\+(\d{1,9}\.\d{1,9})\] ?")
_CTIME = re.compile(r"^\[([A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})\] ?")
_MINUTE = re.compile(r"^\[([A-Z][a-z]{2} ?\d{1,2} \d\d:\d\d)\] ?")  # dmesg -H, once a minute
_ISO = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?) ")
_SYSLOG = re.compile(r"^([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)(\.\d{1,6})? ")  # journalctl -o short-precise: .123456
_FULL = re.compile(r"^[A-Z][a-z]{2} (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?) \S{1,8} ")  # -o short-full
_UNIX = re.compile(r"^(\d{10}\.\d{6}) ")  # -o short-unix
_WRITER = re.compile(r"^(?:([A-Za-z][\w.-]{0,100}) )?kernel(?:\[\d+\])?: ")


@dataclass(slots=True)
class _Stamp:
    """Time and host of a line. seconds: on a clock that all lines of one form share."""

    form: str = ""
    text: str | None = None
    seconds: float | None = None
    host: str | None = None


def _date(text: str, form: str) -> float | None:
    try:
        return datetime.strptime(text, form).replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _iso(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text.replace(",", "."))
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _writer(stamp: _Stamp, text: str) -> str:
    """The text behind `node01 kernel: `, whose host goes into the stamp."""
    writer = _WRITER.match(text)
    if not writer:
        return text
    stamp.host = writer[1].partition(".")[0] if writer[1] else stamp.host
    return text[writer.end() :]


def _stamp(line: str, before: float) -> tuple[_Stamp, str]:
    """The time of a line, and its message; `before` is the time so far, for lines that print the difference."""
    stamp = _Stamp()
    text = _LEVEL.sub("", line, count=1)
    if m := _ISO.match(text):
        stamp = _Stamp("iso", m[1], _iso(m[1]))
    elif m := _SYSLOG.match(text):
        seconds = _date(f"2000 {m[1]}", "%Y %b %d %H:%M:%S")
        stamp = _Stamp("syslog", m[1] + (m[2] or ""), None if seconds is None else seconds + float(m[2] or 0))
    elif m := _FULL.match(text):
        stamp = _Stamp("full", m[1], _iso(m[1]))
    elif m := _UNIX.match(text):
        stamp = _Stamp("unix", m[1], float(m[1]))
    if m:
        text = _writer(stamp, text[m.end() :])
    text = _LEVEL.sub("", text, count=1)
    if m := _UPTIME.match(text):
        stamp = stamp if stamp.text else _Stamp("uptime", m[1], float(m[1]))
    elif m := _RELATIVE.match(text):
        stamp = _Stamp("relative", None, before + float(m[1]))
    elif m := _CTIME.match(text):
        stamp = _Stamp("ctime", m[1], _date(m[1], "%a %b %d %H:%M:%S %Y"))
    elif m := _MINUTE.match(text):
        stamp = _Stamp("relative", m[1], before)
    if m and not text.startswith("<"):
        text = _writer(stamp, text[m.end() :])  # journalctl -o short-monotonic names the host here
    return stamp, _LEVEL.sub("", text, count=1)


# --- messages -------------------------------------------------------------------------------------------------------

_DRIVER = rf"(?:[\w-]{{2,20}} (?P<pci>{_PCI})(?: (?P<iface>{_IFACE}))?(?: \([\w ]{{1,20}}\))?: )?"
_SHORT_PCI = r"(?P<pci>[0-9a-fA-F:.]{5,20})"
_LINK = (
    rf"^{_DRIVER}(?:(?P<name>{_IFACE}):? )?(?:\w{{2,10}}: (?P<name2>{_IFACE}):? )?(?:NIC )?[Ll]ink (?:is )?"
)
_MLX5_CALL = r"\w{1,40}:\d{1,6}:\(pid \d{1,10}\): "  # mlx5 prints function, line and process
# Each with the groups that it has of pci, iface, name, device, code, detail, speed, unit; the first match counts.
_PATTERNS: tuple[tuple[str, str], ...] = (
    ("xid", rf"NVRM: Xid \((?:PCI:)?{_SHORT_PCI}[^)]{{0,40}}\): (?P<code>\d{{1,4}}),? ?(?P<detail>.{{0,400}})"),
    (
        "sxid",
        rf"(?P<device>nvidia-nvswitch\d{{0,3}}): SXid \((?:PCI:)?{_SHORT_PCI}\): (?P<code>\d{{1,6}}),? ?"
        r"(?P<detail>.{0,400})",
    ),
    ("driver-mismatch", r"NVRM: API mismatch: (?P<detail>.{0,300})"),
    (
        "peermem-failed",
        r"(?P<device>nvidia_peermem|nvidia-peermem|nv_peer_mem|ib_core): (?P<detail>(?:Unknown symbol ib_register_peer"
        r"|disagrees about version of symbol ib_register_peer|.{0,80}(?:[Ff]ailed|not supported)).{0,200})",
    ),
    ("pcie-link-down", rf"pcieport (?P<pci>{_PCI}): pciehp: .{{0,40}}(?:Link Down|Card not present)"),
    (
        "module-event",
        rf"{_DRIVER}Port module event(?:\[error\])?: module (?P<detail>\d{{1,3}}), (?P<code>.{{2,100}}?)\s*$",
    ),
    ("high-temperature", rf"{_DRIVER}(?P<detail>High temperature on sensors.{{0,200}})"),
    ("power-low", rf"{_DRIVER}(?P<detail>Detected insufficient power on the PCIe slot.{{0,60}})"),
    (
        "nic-health",
        rf"{_DRIVER}(?P<detail>(?:{_MLX5_CALL})?(?:.{{0,60}}[Hh]ealth compromised|assert_var\[0\]"
        r"|.{0,40}Fatal error \d|poll_health.{0,60}).{0,200})",
    ),
    (
        "nic-command-error",
        rf"{_DRIVER}(?P<detail>(?:mlx5_cmd_out_err|{_MLX5_CALL}\w{{3,40}}\(0x[0-9a-f]+\) op_mod).{{0,200}})",
    ),
    (
        "tx-timeout",
        rf"NETDEV WATCHDOG: (?P<iface>{_IFACE}) \([\w-]{{1,30}}\): (?P<detail>transmit queue.{{0,60}})"
        r"|(?P<detail2>TX timeout detected.{0,60})",
    ),
    ("conntrack-full", r"nf_conntrack: (?:nf_conntrack: )?table full, dropping packet"),
    ("neighbour-table-full", r"(?:neighbour: )?(?P<device>(?:arp|ndisc)_cache): neighbor table overflow"),
    ("syn-flood", r"TCP: (?:\w{1,40}: )?Possible SYN flooding on port (?P<device>\S{1,60}?)\.? "),
    (
        "oom-kill",
        r"(?P<detail>(?:Memory cgroup o|O)ut of memory): Kill(?:ed)? process \d{1,10} \((?P<device>[^)]{1,60})\)",
    ),
    (
        "machine-check",
        r"\[Hardware Error\]: (?P<detail>(?:Machine check|CPU \d|Corrected error|Uncorrected error).{0,200})",
    ),
    ("memory-error", r"EDAC (?P<device>MC\d{1,3}|\w{1,20}): (?:\d{1,9} )?(?P<code>CE|UE)\b(?P<detail>.{0,200})"),
    ("cpu-throttled", r"CPU\d{1,5}: (?P<detail>(?:Core|Package) temperature (?:is )?above threshold.{0,80})"),
    (
        "hung-task",
        r"INFO: task (?P<device>[^\s:]{1,60}):\d{1,10} blocked for more than (?P<code>\d{1,6}) seconds",
    ),
    ("iommu-domain", r"iommu: Default domain type: (?P<code>\w{1,20})"),
    ("iommu-enabled", r"(?P<detail>DMAR: IOMMU enabled|AMD-Vi: (?:AMD IOMMUv2|Interrupt remapping enabled).{0,60})"),
    ("link-down", rf"{_LINK}(?:[Dd]own|DOWN)\b|\(slave (?P<iface2>{_IFACE})\): link status (?:definitely )?down"),
    (
        "link-up",
        rf"{_LINK}(?:[Uu]p|UP)\b(?:.{{0,40}}? (?P<speed>\d{{1,7}}) ?(?P<unit>[GM])b(?:ps|/s|it/s))?"
        rf"|ADDRCONF\(NETDEV_(?:CHANGE|UP)\): (?P<iface2>{_IFACE}): link becomes ready",
    ),
)
_MESSAGES = tuple((kind, re.compile(pattern)) for kind, pattern in _PATTERNS)
_HINTS = re.compile(
    r"Xid|NVRM: API|peer_?-?mem|[Ll]ink |module event|emperature|insufficient power|ealth|assert_var|Fatal error"
    r"|cmd_out_err|op_mod|transmit queue|TX timeout|table full|table overflow|SYN flooding|[Oo]ut of memory"
    r"|Hardware Error|EDAC|blocked for more|domain type|IOMMU|NETDEV_"
)
_SEVERITY = r"(?P<severity>Corrected|Correctable|Uncorrect(?:ed|able) \((?:Non-)?Fatal\))"
_AER_RECEIVED = re.compile(
    rf"(?P<own>{_PCI}): AER: (?:Multiple )?{_SEVERITY} error(?: message)? received:? ?(?:from )?(?P<pci>{_PCI})?"
)
_AER_ERROR = re.compile(
    rf"(?P<pci>{_PCI}): (?:AER: )?PCIe Bus Error: severity={_SEVERITY}, type=(?P<detail>[\w ]{{3,40}})"
)
_AER_BIT = re.compile(
    rf"{_PCI}: {{1,8}}(?:AER: )?\[ ?\d{{1,2}}\] (?P<name>[A-Za-z][\w ]{{1,40}}?)(?: {{2,}}|\s*\(First\)|\s*$)"
)
_AER_NOISE = re.compile(
    r"  device \[[0-9a-f]{4}:[0-9a-f]{4}\] error status/mask=|TLP Header: |broadcast \w+ message|no AER-aware driver"
    r"|AER: can't recover|AER: (?:device|Device) recovery|AER: subordinate device reset|aer_(?:status|mask)"
)
_LIMITED = re.compile(
    rf"(?P<pci>{_PCI})(?: (?P<iface>{_IFACE}))?: (?P<available>[\d.]{{1,10}}) Gb/s available PCIe bandwidth"
    rf"(?:, limited by (?P<detail>[\w./ ]{{4,40}}?) link at (?P<at>{_PCI})"
    r" \(capable of (?P<capable>[\d.]{1,10}) Gb/s)?"
)


@dataclass(slots=True)
class _Group:
    """All lines of one kind about one device."""

    fact: KernelEvent
    lines: list[int]
    stamps: list[_Stamp]
    bits: list[str] = field(default_factory=list)
    announced: int = 0
    shown: int = 0


def _pci(text: str | None) -> str | None:
    """`0000:1b:00.0`, whatever the driver wrote of it."""
    if not text or ":" not in text:
        return None
    address = text.lower()
    if address.count(":") == 1:
        address = "0000:" + address
    domain, _, rest = address.partition(":")
    return f"{int(domain, 16):04x}:{rest if '.' in rest else rest + '.0'}"


def _severity(text: str) -> str:
    if text.startswith("Correct"):
        return "aer-correctable"
    return "aer-nonfatal" if "Non-Fatal" in text else "aer-fatal"


class _Reader:
    """Gathers events by kind and device."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.groups: dict[tuple[str, str | None, str | None, str | None], _Group] = {}
        self.last_aer: _Group | None = None

    def event(self, index: int, stamp: _Stamp, fact: KernelEvent) -> _Group:
        """Add one line to its group."""
        key = (fact.kind, fact.device or fact.pci, fact.code, stamp.host)
        group = self.groups.get(key)
        if group is None:
            fact.host = stamp.host
            fact.text = self.segment.lines[index].strip()[:400]
            group = self.groups[key] = _Group(fact, [], [])
        else:
            group.fact.pci = group.fact.pci or fact.pci
            group.fact.detail = group.fact.detail or fact.detail
            group.fact.speed_gbit_s = fact.speed_gbit_s or group.fact.speed_gbit_s
        group.lines.append(index)
        group.stamps.append(stamp)
        self.segment.skip(index)
        return group

    def line(self, index: int, stamp: _Stamp, text: str) -> bool:
        """Whether the message is one of those that matter."""
        if "AER" in text or "PCIe Bus Error" in text or (self.last_aer and ("[" in text or "message" in text)):
            return self._aer(index, stamp, text)
        if "available PCIe bandwidth" in text and (m := _LIMITED.search(text)):
            self._limited(index, stamp, m)
            return True
        if not _HINTS.search(text):
            return False
        for kind, pattern in _MESSAGES:
            if m := pattern.search(text):
                self.event(index, stamp, _fact(kind, m))
                return True
        return False

    def _aer(self, index: int, stamp: _Stamp, text: str) -> bool:
        if m := _AER_ERROR.search(text):
            device = _pci(m["pci"])
            fact = KernelEvent(kind=_severity(m["severity"]), device=device, pci=device, detail=m["detail"].strip())
            self.last_aer = self.event(index, stamp, fact)
            self.last_aer.shown += 1
        elif m := _AER_RECEIVED.search(text):
            device = _pci(m["pci"] or m["own"])
            group = self.event(index, stamp, KernelEvent(kind=_severity(m["severity"]), device=device, pci=device))
            group.announced += 1
        elif (m := _AER_BIT.search(text)) and self.last_aer:
            if m["name"] not in self.last_aer.bits:
                self.last_aer.bits.append(m["name"])
            self.segment.skip(index)
        elif _AER_NOISE.search(text):
            self.segment.skip(index)
        else:
            return False
        return True

    def _limited(self, index: int, stamp: _Stamp, m: re.Match[str]) -> None:
        available, capable = float(m["available"].strip(".") or 0), m["capable"]
        device = m["iface"] or _pci(m["pci"])
        self.event(index, stamp, KernelEvent(
            kind="pcie-limited" if capable else "pcie-full", device=device, pci=_pci(m["pci"]),
            detail=m["detail"], available_gbit_s=available, at=_pci(m["at"]),
            capable_gbit_s=float(capable.strip(".") or 0) if capable else available,
        ))

    def facts(self) -> Iterator[Fact]:
        """One fact a group, in the order of their first lines."""
        for group in self.groups.values():
            fact, lines, stamps = group.fact, group.lines, group.stamps
            # The kernel announces an AER error and then prints it, so each stands in two lines.
            fact.count = max(group.announced, group.shown) or len(lines)
            if group.bits:
                fact.code = ", ".join(group.bits)
            fact.first_time = next((s.text for s in stamps if s.text), None)
            fact.last_time = next((s.text for s in reversed(stamps) if s.text), None)
            first, last = stamps[0], stamps[-1]
            if fact.count > 1 and first.form == last.form and first.seconds is not None and last.seconds is not None:
                fact.span_s = round(last.seconds - first.seconds, 3) if last.seconds >= first.seconds else None
            fact.origins = tuple(self.segment.origin(index) for index in sorted({*lines[:3], lines[-1]}))
            yield fact


def _fact(kind: str, m: re.Match[str]) -> KernelEvent:
    """The event of a message, from the groups that its pattern has."""
    parts = m.groupdict()

    def first(*names: str) -> str | None:
        return next((parts[name].strip() for name in names if parts.get(name)), None)

    pci = _pci(parts.get("pci"))
    speed = parts.get("speed")
    return KernelEvent(
        kind=kind, device=first("iface", "iface2", "name2", "name", "device") or pci, pci=pci, code=first("code"),
        detail=first("detail", "detail2"),
        speed_gbit_s=int(speed) / (1 if parts["unit"] == "G" else 1000) if speed else None,
    )


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact a kind of event and device (Gb/s as printed; times as printed)."""
    reader = _Reader(segment)
    now = 0.0
    for index, line in enumerate(segment.lines):
        if len(line) > 2000 or not line:
            continue
        stamp, text = _stamp(line, now)
        if stamp.form == "relative" and stamp.seconds is not None:
            now = stamp.seconds
        known = reader.line(index, stamp, text)
        if not known and stamp.form in ("uptime", "relative", "ctime"):
            segment.skip(index)  # a line of the kernel that says nothing of these matters
    yield from reader.facts()


SOURCE = Source(
    id="kernel-log",
    title="kernel log (dmesg, journalctl -k)",
    facts=(KernelEvent,),
    needles=(
        "Xid", "PCIe Bus Error", "AER: ", "ink down", "ink up", "ink is ", "ink Down", "module event", "PCIe bandwidth",
        "ut of memory", "Hardware Error", "EDAC", "NETDEV", "kernel: ", "mlx5_core", "Linux version", "peer_mem",
        "peermem", "pcieport", "nf_conntrack", "IOMMU", "iommu: ", "NVRM: ", "blocked for more", "link status",
    ),
    signature=re.compile(
        r"NVRM: (?:Xid|API)|SXid \(|PCIe Bus Error: |AER: .{0,40}error.{0,12} received|Port module event"
        r"|available PCIe bandwidth|ut of memory: Kill|\[Hardware Error\]|EDAC \w|NETDEV WATCHDOG"
        r"|NETDEV_(?:CHANGE|UP)\)"
        rf"|{_PCI}(?: {_IFACE})?: (?:NIC )?[Ll]ink (?:is )?(?:up|down|Up|Down)|NIC Link is (?:Up|Down)"
        r"|\] (?:Linux version|Command line: )|kernel: \S|nf_conntrack: .{0,20}table full|neighbor table overflow"
        r"|Unknown symbol ib_register_peer|DMAR: IOMMU|iommu: Default domain|blocked for more than \d+ seconds"
        r"|pciehp: |link status definitely|^\[ *\d{1,7}\.\d{6}\] \w",
        re.MULTILINE,
    ),
    parse=parse,
    commands=(Command(("dmesg", "-T"), root=True), Command(("journalctl", "-k", "-b", "--no-pager"), 3, 20, root=True)),
    versions="Linux 4.4 to 6.12",
)
