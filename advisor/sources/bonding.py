r"""`/proc/net/bonding/*`: bonds, their mode and their members. Linux 3.10 to 6.12.

The text does not name the bond: the name comes from the command, from the `==> FILE <==` of `tail` and `head`, or from
`grep`'s prefix. The state of a member is its `MII Status`; in 802.3ad mode a member of another aggregator carries
nothing either.

    >>> SAMPLE = '''Ethernet Channel Bonding Driver: v6.1.0
    ...
    ... Bonding Mode: IEEE 802.3ad Dynamic link aggregation
    ... Transmit Hash Policy: layer2 (0)
    ... MII Status: up
    ... Active Aggregator Info:
    ... 	Aggregator ID: 1
    ... 	Number of ports: 1
    ...
    ... Slave Interface: ens3f0
    ... MII Status: up
    ... Speed: 25000 Mbps
    ... Aggregator ID: 1
    ...
    ... Slave Interface: ens3f1
    ... MII Status: down
    ... Speed: Unknown
    ... Aggregator ID: 2
    ... '''
    >>> segment = Segment("bond.txt", SAMPLE.splitlines(), range(1, 99), command="cat /proc/net/bonding/bond0")
    >>> bond, *members = parse(segment)
    >>> bond.bond, bond.mode, bond.spreads, bond.hash_policy, bond.up, bond.down, bond.aggregators
    ('bond0', '802.3ad', True, 'layer2', ('ens3f0',), ('ens3f1',), (1, 2))
    >>> [(m.name, m.master, m.speed_gbit_s) for m in members]
    [('ens3f0', 'bond0', 25.0), ('ens3f1', 'bond0', None)]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from advisor.facts import Bond, Fact, NetInterface
from advisor.sources.base import Command, Problem, Segment, Source

# `Bonding Mode` as printed, and the name that the module's option has.
_MODES = {
    "load balancing (round-robin)": "balance-rr",
    "fault-tolerance (active-backup)": "active-backup",
    "load balancing (xor)": "balance-xor",
    "fault-tolerance (broadcast)": "broadcast",
    "IEEE 802.3ad Dynamic link aggregation": "802.3ad",
    "transmit load balancing": "balance-tlb",
    "adaptive load balancing": "balance-alb",
}
_SPREADING = ("balance-rr", "balance-xor", "802.3ad", "balance-tlb", "balance-alb")
_PREFIX = re.compile(r"^(?:/\S{1,60})?/net/bonding/([\w.-]{1,30})[:-](.*)$")
_FILE = re.compile(r"^==> (?:/\S{1,60})?/net/bonding/([\w.-]{1,30}) <==$")
_BEGIN = re.compile(r"^Ethernet Channel Bonding Driver: ")
_PAIR = re.compile(r"^\s{0,12}([A-Za-z0-9][\w ().-]{1,60}?)\s?:(?: (.*)|)$")
_NAMED = re.compile(r"/net/bonding/([\w.-]{1,30})")
_SPEED = re.compile(r"^(\d{1,7}) Mbps$")
_WIDEST = 300


@dataclass(slots=True)
class _Member:
    """One `Slave Interface` block."""

    name: str
    line: int
    values: dict[str, str] = field(default_factory=dict)

    @property
    def up(self) -> bool | None:
        """By its MII Status, None where that was not printed. `going down` and `going back` still count as before."""
        word = self.values.get("MII Status", "")
        return {"up": True, "going down": True, "down": False, "going back": False}.get(word)

    @property
    def aggregator(self) -> int | None:
        """The 802.3ad aggregator it was given."""
        number = self.values.get("Aggregator ID", "")
        return int(number) if number.isdecimal() and len(number) < 6 else None

    @property
    def speed_gbit_s(self) -> float | None:
        """Negotiated speed."""
        match = _SPEED.match(self.values.get("Speed", ""))
        return int(match[1]) / 1000 if match else None


@dataclass(slots=True)
class _Block:
    """One bond: its own pairs, then its members."""

    name: str | None
    first: int
    last: int
    values: dict[str, str] = field(default_factory=dict)
    members: list[_Member] = field(default_factory=list)

    def take(self, key: str, text: str, line: int) -> None:
        """A `key: text` line; the first of a key counts, later ones are details of the LACP frames."""
        if key == "Slave Interface":
            self.members.append(_Member(text, line))
        else:
            (self.members[-1].values if self.members else self.values).setdefault(key, text)
        self.last = line


def _blocks(segment: Segment) -> Iterator[_Block]:
    named = set(_NAMED.findall(segment.command or ""))
    only = named.pop() if len(named) == 1 else None
    block: _Block | None = None
    name: str | None = only
    for i, line in enumerate(segment.lines):
        if len(line) > _WIDEST:
            continue
        if title := _FILE.match(line):
            name = title[1]
            segment.skip(i)
            continue
        prefix = _PREFIX.match(line)
        text = prefix[2] if prefix else line
        if _BEGIN.match(text):
            if block:
                yield block
            block, name = _Block(prefix[1] if prefix else name, i, i), only
            segment.skip(i)
        elif block and (pair := _PAIR.match(text)):
            block.take(pair[1], (pair[2] or "").strip(), i)
            segment.skip(i)
        elif block and text.strip() in ("", "802.3ad info"):
            segment.skip(i)
        elif block:
            yield block
            block = None
    if block:
        yield block


def _bond(segment: Segment, block: _Block) -> Bond:
    words = block.values.get("Transmit Hash Policy", "").split()
    mode = _MODES.get(re.sub(r" \(fail_over_mac \w{1,10}\)$", "", block.values.get("Bonding Mode", "")))
    aggregators = {member.aggregator for member in block.members} - {None}
    speeds = [member.speed_gbit_s for member in block.members if member.up and member.speed_gbit_s]
    active = block.values.get("Currently Active Slave", "None")
    origin = replace(segment.origin(block.first), end=segment.numbers[block.last])
    down = [member for member in block.members if member.up is False]
    return Bond(
        bond=block.name, mode=mode, spreads=None if mode is None else mode in _SPREADING,
        hash_policy=words[0] if words else None, members=tuple(member.name for member in block.members),
        up=tuple(member.name for member in block.members if member.up), down=tuple(member.name for member in down),
        aggregators=tuple(sorted(number for number in aggregators if number is not None)),
        split=len(aggregators) > 1 if mode == "802.3ad" and aggregators else None,
        active=None if active == "None" else active,
        slowest_gbit_s=min(speeds, default=None), fastest_gbit_s=max(speeds, default=None), origins=(origin,),
        said_at={"down": segment.origin(down[0].line)} if down else {},
    )  # fmt: skip


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """The bonds (speeds printed in Mb/s, kept in Gbit/s), then their members as interfaces."""
    for block in _blocks(segment):
        if "Bonding Mode" not in block.values:
            yield Problem(segment.numbers[block.first], "a bond without its mode: the text ends or was cut")
            if not block.members:
                continue
        yield _bond(segment, block)
        for member in block.members:
            yield NetInterface(
                name=member.name, master=block.name, speed_gbit_s=member.speed_gbit_s,
                origins=(segment.origin(member.line),),
            )  # fmt: skip


SOURCE = Source(
    id="bonding",
    title="/proc/net/bonding (bonds and their members)",
    facts=(Bond, NetInterface),
    needles=("Channel Bonding Driver",),
    signature=re.compile(r"^(?:\S{0,80}/net/bonding/[\w.-]{1,30}:)?Ethernet Channel Bonding Driver: ", re.MULTILINE),
    parse=parse,
    commands=(Command(("find", "/proc/net/bonding", "-type", "f", "-exec", "tail", "-v", "-n", "+1", "{}", "+")),),
    versions="Linux 3.10 to 6.12",
)
