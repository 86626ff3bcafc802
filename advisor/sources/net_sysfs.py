"""Link state of network interfaces from `/sys/class/net` (Linux), as `grep . FILE...` prints it.

`carrier_changes` counts each loss and each return of the link since the interface came to be; a single reading has no
time base, so it is compared with peers or with a second reading.

    >>> SAMPLE = '''/sys/class/net/eth2/carrier:1
    ... /sys/class/net/eth2/carrier_changes:15
    ... /sys/class/net/eth2/speed:100000
    ... '''
    >>> segment = Segment("carrier.txt", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.interface, f.carrier, f.carrier_changes, f.speed_gbit_s) for f in parse(segment)]
    [('eth2', True, 15, 100.0)]
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.facts import Fact, LinkCarrier
from advisor.sources.base import Command, Problem, Segment, Source

_LINE = re.compile(
    r"^(?:/sys/class/net/(?P<name>[^/\s:]{1,32})/)?"
    r"(?P<file>carrier|carrier_changes|carrier_up_count|carrier_down_count|mtu|operstate|speed|duplex):(?P<value>\S{0,20})$"
)
_FOLDER = re.compile(r"/sys/class/net/([^/\s;&|]{1,32})")


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact an interface. Of files named without their folder the interface is that of the command, else unknown."""
    folder = _FOLDER.search(segment.command or "")
    made: dict[str | None, LinkCarrier] = {}
    for index, line in enumerate(segment.lines):
        m = _LINE.match(line)
        if m is None:
            continue
        name = m["name"] or (folder[1] if folder and "*" not in folder[1] else None)
        origin = segment.origin(index)
        fact = made.setdefault(name, LinkCarrier(interface=name, origins=(origin,)))
        value = m["value"]
        if m["file"] == "carrier":
            fact.carrier = {"1": True, "0": False}.get(value)
        elif m["file"] == "carrier_changes" and value.isdecimal():
            fact.carrier_changes = int(value)
            fact.said_at["carrier_changes"] = origin
        elif m["file"] == "speed" and value.isdecimal() and int(value) > 0:
            fact.speed_gbit_s = int(value) / 1000
    yield from (fact for fact in made.values() if fact.carrier_changes is not None)


SOURCE = Source(
    id="net-sysfs",
    title="/sys/class/net (carrier changes)",
    facts=(LinkCarrier,),
    needles=("carrier_changes:",),
    signature=re.compile(r"^(?:/sys/class/net/[^/\s:]{1,32}/)?carrier_changes:\d", re.MULTILINE),
    parse=parse,
    commands=(Command(("find", "/sys/class/net/", "-maxdepth", "1", "-exec", "grep", "-sH", ".",
                       "{}/carrier", "{}/carrier_changes", "{}/speed", ";")),),
    versions="Linux 3.15 and newer",
)  # fmt: skip
