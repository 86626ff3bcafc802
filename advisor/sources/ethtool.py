"""`ethtool IFACE`: the link of an Ethernet interface.

Seen: ethtool 4 to 6.15, bare metal and virtual interfaces. Speeds are printed in Mb/s; `Unknown!` is unknown. The
other listings of ethtool are not read here; -S is ethtool-stats.

    >>> SAMPLE = '''Settings for ens6f0:
    ... 	Supported link modes:   25000baseCR/Full
    ... 	                        100000baseSR4/Full
    ... 	Link partner advertised link modes:  25000baseCR/Full
    ... 	Speed: 25000Mb/s
    ... 	Duplex: Full
    ... 	Link detected: yes
    ... '''
    >>> segment = Segment("ethtool.txt", SAMPLE.splitlines(), range(1, 99))
    >>> link, interface = parse(segment)
    >>> link.speed_gbit_s, link.max_supported_gbit_s, link.max_partner_gbit_s, link.link_detected
    (25.0, 100.0, 25.0, True)
    >>> interface.name, interface.speed_gbit_s
    ('ens6f0', 25.0)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from advisor.facts import EthernetLink, Fact, NetInterface
from advisor.sources.base import Command, Problem, Segment, Source

_TITLE = re.compile(r"^Settings for ([^\s:]{1,100}(?::[^\s:]{1,20})?):$")
_KEY = re.compile(
    r"^\s{1,16}(Supported ports|Supported link modes|Supported pause frame use|Supports auto-negotiation"
    r"|Supported FEC modes|Advertised link modes|Advertised pause frame use|Advertised auto-negotiation"
    r"|Advertised FEC modes|Link partner advertised [\w -]{4,30}|Speed|Lanes|Duplex|Auto-negotiation|Port|PHYAD"
    r"|Transceiver|MDI-X|Link detected|Supports Wake-on|Wake-on|Current message level|SQI|SecureOn password"
    r"|master-slave [\w ]{1,20}|Rate matching|Link Down Events):(.*)$"
)
_MODE = re.compile(r"(?<![\w.])(\d{1,7})base")
_SPEED = re.compile(r"^(\d{1,10})Mb/s")
_INTERFACE = re.compile(r"\bethtool ([a-zA-Z][\w.@:-]{1,60})(?: *$| *[|;&])")
_UNKNOWN_SPEEDS = (65535, 2**32 - 1)  # what old releases print for -1
_NOISE = re.compile(
    r"^netlink error: |^Cannot get (?:wake-on-lan|link status|device|message level)|^\s{1,60}(?:drv|probe|link|timer"
    r"|ifdown|ifup|rx_err|tx_err|hw|wol)\b[\w ]*$"
)


@dataclass(slots=True)
class _Block:
    """Key and values of one interface; continuation lines add to the values of the key before."""

    first: int
    interface: str | None
    values: dict[str, list[str]] = field(default_factory=dict)
    key: str | None = None


def _fastest(block: _Block, key: str) -> float | None:
    """Gbit/s of the fastest link mode of a list, None where it holds none."""
    speeds = [int(m[1]) for text in block.values.get(key, ()) for m in _MODE.finditer(text[:4000])]
    return max(speeds) / 1000 if speeds else None


def _word(block: _Block, key: str) -> str | None:
    """The value of a key, None where it is missing or unknown."""
    text = " ".join(block.values.get(key, ())).strip()[:200]
    return text if text and not text.startswith("Unknown") else None


def _flag(text: str | None, yes: str, no: str) -> bool | None:
    word = (text or "").split(" ")[0]
    return True if word == yes else False if word == no else None


def _link(segment: Segment, block: _Block) -> Iterator[Fact]:
    m = _SPEED.match(_word(block, "Speed") or "")
    speed = int(m[1]) / 1000 if m and int(m[1]) not in _UNKNOWN_SPEEDS else None
    detected, lanes, duplex = _word(block, "Link detected"), _word(block, "Lanes"), _word(block, "Duplex")
    reason = re.match(r"no \((.{1,150})\)", detected or "")
    link = EthernetLink(
        interface=block.interface, speed_gbit_s=speed,
        max_supported_gbit_s=_fastest(block, "Supported link modes"),
        max_advertised_gbit_s=_fastest(block, "Advertised link modes"),
        max_partner_gbit_s=_fastest(block, "Link partner advertised link modes"),
        duplex=duplex.lower() if duplex in ("Full", "Half") else None,
        link_detected=_flag(detected, "yes", "no"), link_reason=reason[1] if reason else None,
        lanes=int(lanes) if lanes and lanes.isdecimal() else None,
        autoneg=_flag(_word(block, "Auto-negotiation"), "on", "off"), port=_word(block, "Port"),
        origins=(segment.origin(block.first),),
    )
    if not any(getattr(link, name) is not None for name in ("speed_gbit_s", "link_detected", "max_supported_gbit_s")):
        return
    yield link
    if block.interface and (speed is not None or link.link_detected is not None):
        yield NetInterface(
            name=block.interface, speed_gbit_s=speed, carrier=link.link_detected,
            origins=(segment.origin(block.first),),
        )


def _blocks(segment: Segment) -> Iterator[_Block]:
    """One block for each interface; lines without a title belong to the interface that the command names."""
    block: _Block | None = None
    for index, line in enumerate(segment.lines):
        if len(line) > 5000:
            continue
        if m := _TITLE.match(line):
            if block:
                yield block
            block = _Block(index, m[1])
            segment.skip(index)
        elif m := _KEY.match(line):
            if block is None:
                named = _INTERFACE.search(segment.command or "")
                block = _Block(index, named[1] if named else None)
            block.key = m[1]
            block.values[m[1]] = [m[2].strip()]
            segment.skip(index)
        elif block and block.key and line[:1].isspace() and (_MODE.search(line) or _NOISE.match(line)):
            block.values[block.key].append(line.strip())
            segment.skip(index)
        elif _NOISE.match(line):
            segment.skip(index)
        elif block and line.strip():
            yield block
            block = None
    if block:
        yield block


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One link a `Settings for` block, and the interface's speed (Mb/s printed, Gbit/s kept)."""
    for block in _blocks(segment):
        yield from _link(segment, block)


SOURCE = Source(
    id="ethtool",
    title="ethtool (link settings)",
    facts=(EthernetLink, NetInterface),
    needles=("Settings for ", "Speed: ", "Link detected: "),
    signature=re.compile(
        r"^Settings for \S{1,120}:$|^\s{1,16}Speed: (?:\d{1,10}Mb/s|Unknown)|^\s{1,16}Link detected: (?:yes|no)",
        re.MULTILINE,
    ),
    parse=parse,
    commands=(Command(("ethtool", "{interface}")),),
    versions="ethtool 4 to 6.15",
)
