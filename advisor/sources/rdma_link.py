r"""`rdma link` (iproute2): state of the RDMA ports.

Seen: iproute2 5 and 6, and the older form that begins with an index.

    >>> SAMPLE = '''link mlx5_0/1 lid 31 sm_lid 2 lmc 0 state ACTIVE physical_state LINK_UP
    ... link mlx5_4/1 state DOWN physical_state DISABLED netdev ens6f0
    ... '''
    >>> segment = Segment("rdma.txt", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.device, f.port, f.state, f.phys_state, f.sm_lid) for f in parse(segment)]
    [('mlx5_0', 1, 'ACTIVE', 'LinkUp', 2), ('mlx5_4', 1, 'DOWN', 'Disabled', None)]
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from advisor.facts import Fact, RdmaPort
from advisor.sources.base import Command, Problem, Segment, Source

_LINE = re.compile(r"^(?:link |\d{1,4}/\d{1,4}: )([\w.-]{1,60})/(\d{1,4}):? ([a-z_]{2,20} .{0,400})$")
_PAIR = re.compile(r"\b(state|physical_state|sm_lid) (\w{1,40})")
_STATES = {"ACTIVE", "DOWN", "INIT", "ARMED"}
_PHYS_STATES = {"LINK_UP": "LinkUp", "POLLING": "Polling", "DISABLED": "Disabled", "SLEEP": "Sleep",
                "LINK_ERROR_RECOVERY": "LinkErrorRecovery",
                "PORT_CONFIGURATION_TRAINING": "PortConfigurationTraining"}  # fmt: skip


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One port a line; it has neither rate nor width."""
    for index, line in enumerate(segment.lines):
        if len(line) > 600 or not (m := _LINE.match(line.strip())):
            continue
        values = dict(_PAIR.findall(m[3]))
        state, sm_lid = values.get("state"), values.get("sm_lid", "")
        if state not in _STATES:
            segment.skip(index)
            yield Problem(segment.numbers[index], "a port whose state is cut off or not known")
            continue
        yield RdmaPort(
            device=m[1], port=int(m[2]), state=state,
            phys_state=_PHYS_STATES.get(values.get("physical_state", "")),
            sm_lid=int(sm_lid) if sm_lid.isdecimal() else None, origins=(segment.origin(index),),
        )  # fmt: skip


SOURCE = Source(
    id="rdma-link",
    title="rdma link",
    facts=(RdmaPort,),
    needles=(" state ",),
    signature=re.compile(r"^(?:link |\d{1,4}/\d{1,4}: )[\w.-]{1,60}/\d{1,4}:? .{0,200}\bstate \w", re.MULTILINE),
    parse=parse,
    commands=(Command(("rdma", "link")),),
    versions="iproute2 5, 6",
)
