r"""`mlxlink`, `mstlink`: the physical link of a port as the adapter's firmware sees it.

MFT 4.1x and later, mstflint. The output does not name its device: that is known from the command, or from a line
just above (`echo mlx5_0; mlxlink -d mlx5_0`). A bit error rate of `15E-255` means that no error was seen.

>>> from advisor.sources.base import Segment
>>> SAMPLE = '''\
... Operational Info
... ----------------
... State                              : Active
... Physical state                     : LinkUp
... Speed                              : IB-EDR
... Width                              : 4x
... FEC                                : No FEC
...
... Supported Info
... --------------
... Enabled Link Speed                 : 0x00000061 (HDR,EDR,SDR)
... Supported Cable Speed              : 0x00000021 (EDR,SDR)
...
... Troubleshooting Info
... --------------------
... Recommendation                     : No issue was observed
... '''
>>> [link] = parse(Segment("mlxlink.txt", SAMPLE.splitlines(), range(1, 99), command="mlxlink -d mlx5_3"))
>>> link.device, link.state, link.speed, link.width, link.rate_gbit_s
('mlx5_3', 'Active', 'IB-EDR', 4, 100.0)
>>> link.max_enabled_gbit_s, link.max_cable_gbit_s, link.recommendation
(200.0, 100.0, 'No issue was observed')
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from advisor.facts import Fact, Origin, PhysicalLink
from advisor.grammar.hardware import integer, pci_address, value
from advisor.sources.base import Problem, Segment, Source

_TITLE = re.compile(r"\s*Operational Info\s*")
_RULER = re.compile(r"\s*-{4,}\s*")
_ROW = re.compile(r"\s{0,8}([A-Z][A-Za-z0-9 .()\[\]/_-]{1,60}?) {0,60}:(?: (.*))?")
_EXTENDED = re.compile(r" \(Ext\.\)$")
_DEVICE_OPTION = re.compile(r"\b(?:mlxlink|mstlink)\b[^;|&]{0,200}? (?:-d|--device)[ =]?(\S{3,64})")
_PORT_OPTION = re.compile(r"\b(?:mlxlink|mstlink)\b[^;|&]{0,200}? (?:-p|--port)[ =]?(\d{1,3})\b")
_DEVICE_ABOVE = re.compile(r"\b(?:mlx5_\w{1,16}|mt\d{4,6}_pci(?:conf|_cr)\d{1,3}(?:\.\d)?)")
_CALL = re.compile(r"\b(?:mlxlink|mstlink)\b")
_WIDTH = re.compile(r"(\d{1,2})x", re.I)
_MODES = re.compile(r"\(([\w,+. -]{1,400})\)")
_ETHERNET = re.compile(r"(\d{1,4}(?:\.\d)?)G(?:b?E)?(?:[_-].{0,20})?")
_LANE_GBIT_S = {
    "SDR": 2.5, "DDR": 5, "QDR": 10, "FDR10": 10, "FDR": 14, "EDR": 25, "HDR": 50, "NDR": 100, "XDR": 200,
}  # fmt: skip
_NO_ERROR_BELOW = 1e-200  # the firmware prints 15E-255 where it saw none
_ROWS = {
    "State": "state", "Physical state": "phys_state", "Speed": "speed", "Width": "width", "FEC": "fec",
    "Enabled Link Speed": "enabled_speeds", "Supported Cable Speed": "cable_speeds",
    "Status Opcode": "status_opcode", "Recommendation": "recommendation",
    "Time Since Last Clear [Min]": "minutes_counted", "Symbol Errors": "symbol_errors", "Symbol BER": "symbol_ber",
    "Effective Physical Errors": "effective_errors", "Effective Physical BER": "effective_ber",
    "Raw Physical BER": "raw_ber", "Link Down Counter": "link_downs",
    "Link Error Recovery Counter": "link_error_recoveries", "Cable Type": "cable_type",
}  # fmt: skip


@dataclass(slots=True)
class _Block:
    """One output while its lines come in. rows, places: value and line of each field."""

    first: int
    last: int
    rows: dict[str, str] = field(default_factory=dict)
    places: dict[str, int] = field(default_factory=dict)


def _blocks(segment: Segment) -> Iterator[_Block]:
    block: _Block | None = None
    joined = False  # nothing of other tools since the last line of the block
    for i, line in enumerate(segment.lines):
        if _TITLE.fullmatch(line):
            if block:
                yield block
            block, joined = _Block(i, i), True
            segment.skip(i)
        elif block and line.strip():
            joined = _take(segment, block, i, joined)
    if block:
        yield block


def _take(segment: Segment, block: _Block, i: int, joined: bool) -> bool:
    """Read line `i` into the block; whether it belongs to it."""
    line = segment.lines[i]
    row = _ROW.fullmatch(line)
    name = _ROWS.get(_EXTENDED.sub("", row[1])) if row else None
    below = segment.lines[i + 1] if i + 1 < len(segment.lines) else ""
    if row and name and name not in block.rows:
        block.rows[name], block.places[name] = (row[2] or "").strip(), i
    elif not joined or not (row or _RULER.fullmatch(line) or _RULER.fullmatch(below)):
        return False
    segment.skip(i)
    block.last = i
    return True


def _device(segment: Segment, block: _Block, alone: bool) -> str | None:
    """The device that a line above names, or the command where it asks for one."""
    for i in range(block.first - 1, max(block.first - 3, -1), -1):
        above = segment.lines[i]
        names = set(_DEVICE_ABOVE.findall(above)) if len(above) < 80 else set()
        if len(names) == 1:
            segment.skip(i)
            return str(names.pop())
        if above.strip():
            break
    command = segment.command or ""
    named = _DEVICE_OPTION.search(command)
    if not alone or not named or "$" in named[1] or len(_CALL.findall(command)) > 1:
        return None
    return named[1].strip("'\"").removeprefix("/dev/mst/")


def _count(text: str | None) -> int | None:
    return integer(text or "")


def _decimal(text: str | None) -> float | None:
    try:
        return float(text or "") if len(text or "") < 30 else None
    except ValueError:
        return None


def _ber(text: str | None) -> float | None:
    """A bit error rate, 0 where the firmware saw no error."""
    rate = _decimal(text)
    if rate is None or not 0 <= rate <= 1:
        return None
    return 0.0 if rate < _NO_ERROR_BELOW else rate


def _gbit_s(speed: str, width: int | None) -> float | None:
    """Rate of a speed as printed (`IB-HDR`, `400G_4X`, `25GbE`); InfiniBand names are per lane."""
    lane = _LANE_GBIT_S.get(speed.removeprefix("IB-").upper())
    if lane is not None:
        return float(lane * width) if width else None
    ethernet = _ETHERNET.fullmatch(speed)
    return float(ethernet[1]) if ethernet else None


def _speeds(text: str | None) -> tuple[str, ...] | None:
    """Names in the parentheses of `0x00000075 (HDR,EDR,FDR,QDR,SDR)`."""
    match = _MODES.search(text or "")
    return tuple(name.strip() for name in match[1].split(",") if name.strip()) if match else None


def _fastest(speeds: tuple[str, ...] | None, width: int | None) -> float | None:
    rates = [rate for rate in (_gbit_s(speed, width) for speed in speeds or ()) if rate is not None]
    return max(rates, default=None)


def _fact(segment: Segment, block: _Block, alone: bool) -> PhysicalLink:
    shown = {name: text for name, row in block.rows.items() if (text := value(row)) is not None}
    lanes = _WIDTH.fullmatch(shown.get("width", ""))
    width = int(lanes[1]) or None if lanes else None
    speed = shown.get("speed")
    enabled, cable = _speeds(shown.get("enabled_speeds")), _speeds(shown.get("cable_speeds"))
    device = _device(segment, block, alone)
    port = _PORT_OPTION.search(segment.command or "") if alone else None
    said: dict[str, Origin] = {name: segment.origin(i) for name, i in block.places.items() if name in shown}
    for rate, of in (
        ("rate_gbit_s", "speed"), ("max_enabled_gbit_s", "enabled_speeds"), ("max_cable_gbit_s", "cable_speeds"),
    ):  # fmt: skip
        if of in said:
            said[rate] = said[of]
    return PhysicalLink(
        origins=(replace(segment.origin(block.first), end=segment.numbers[block.last]),), said_at=said,
        device=device, pci=pci_address(device) if device else None, port=int(port[1]) if port else None,
        reading=segment.at(block.first), state=shown.get("state"), phys_state=shown.get("phys_state"),
        speed=speed, width=width, rate_gbit_s=_gbit_s(speed, width) if speed else None,
        fec=shown.get("fec"), enabled_speeds=enabled, cable_speeds=cable,
        max_enabled_gbit_s=_fastest(enabled, width), max_cable_gbit_s=_fastest(cable, width),
        status_opcode=_count(shown.get("status_opcode")), recommendation=shown.get("recommendation"),
        minutes_counted=_decimal(shown.get("minutes_counted")),
        symbol_errors=_count(shown.get("symbol_errors")), symbol_ber=_ber(shown.get("symbol_ber")),
        effective_errors=_count(shown.get("effective_errors")), effective_ber=_ber(shown.get("effective_ber")),
        raw_ber=_ber(shown.get("raw_ber")), link_downs=_count(shown.get("link_downs")),
        link_error_recoveries=_count(shown.get("link_error_recoveries")), cable_type=shown.get("cable_type"),
    )  # fmt: skip


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """A fact for each output."""
    blocks = list(_blocks(segment))
    for block in blocks:
        yield _fact(segment, block, len(blocks) == 1)
        if not {"state", "speed", "width"} <= block.rows.keys():
            yield Problem(segment.numbers[block.last], "the output of mlxlink is cut off")


SOURCE = Source(
    id="mlxlink",
    title="mlxlink",
    facts=(PhysicalLink,),
    needles=("Operational Info",),
    signature=re.compile(r"^[ \t]*Operational Info[ \t]*$", re.M),
    parse=parse,
    versions="MFT 4.1x and later, mstflint 4.x",
)
