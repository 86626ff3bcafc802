"""`fi_info`, also with `-p efa`: the providers of libfabric and their devices.

UNVERIFIED in part: layouts of libfabric 1.8 to 1.22 from its manual. A provider that is asked for and not there gives
`fi_getinfo: -61`, which is the finding on an EFA machine. A domain is one device with one kind of endpoint.

    >>> SAMPLE = '''provider: efa
    ...     fabric: efa
    ...     domain: rdmap0s6-rdm
    ...     version: 122.0
    ...     type: FI_EP_RDM
    ...     protocol: FI_PROTO_EFA
    ... provider: efa
    ...     fabric: efa
    ...     domain: rdmap0s6-dgrm
    ...     version: 122.0
    ...     type: FI_EP_DGRAM
    ...     protocol: FI_PROTO_EFA
    ... '''
    >>> [efa] = parse(Segment("fi.txt", SAMPLE.splitlines(), range(1, 99)))
    >>> efa.provider, efa.domains, efa.devices, efa.endpoints
    ('efa', ('rdmap0s6',), 1, ('FI_EP_DGRAM', 'FI_EP_RDM'))
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from advisor.facts import Fact, LibfabricProvider
from advisor.sources.base import Command, Problem, Segment, Source

_PROVIDER = re.compile(r"provider: ([\w;.-]{1,60})\s*")
_FIELD = re.compile(r"\s{1,8}(fabric|domain|version|type|protocol): (\S{1,200})\s*")
_NONE = re.compile(r"fi_getinfo: -61(?: \(No data available\))?\s*|fi_getinfo\(?\)?: .{0,40}No data available.{0,20}")
_ASKED = re.compile(r"fi_info\b[^|;&]{0,200}? (?:-p ?|--provider[= ])([\w;.-]{1,60})")
_SUFFIX = re.compile(r"-(?:rdm|dgrm|dgram)$")


@dataclass(slots=True)
class _Provider:
    first: int
    last: int
    domains: set[str] = field(default_factory=set)
    endpoints: set[str] = field(default_factory=set)


def _asked(segment: Segment) -> str:
    asked = _ASKED.search((segment.command or "")[:1000])
    return asked[1] if asked else "any"


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact for each provider, or for the one that was not found."""
    providers: dict[str, _Provider] = {}
    current: _Provider | None = None
    for i, line in enumerate(segment.lines):
        if len(line) > 300:
            current = None
        elif named := _PROVIDER.fullmatch(line):
            current = providers.setdefault(named[1], _Provider(i, i))
            current.last = i
            segment.skip(i)
        elif current and (said := _FIELD.fullmatch(line)):
            if said[1] == "domain":
                current.domains.add(_SUFFIX.sub("", said[2]))
            elif said[1] == "type":
                current.endpoints.add(said[2])
            current.last = i
            segment.skip(i)
        elif _NONE.fullmatch(line):
            yield LibfabricProvider(origins=(segment.origin(i),), provider=_asked(segment), available=False)
    for name, found in providers.items():
        yield LibfabricProvider(
            origins=(segment.origin(found.first),), provider=name, available=True, domains=tuple(sorted(found.domains)),
            devices=len(found.domains), endpoints=tuple(sorted(found.endpoints)),
        )


SOURCE = Source(
    id="fi-info",
    title="fi_info",
    facts=(LibfabricProvider,),
    needles=("provider: ", "fi_getinfo"),
    signature=re.compile(r"^provider: [\w;.-]{1,60}[ \t]*\n[ \t]{1,8}fabric: |^fi_getinfo(?:\(\))?: ", re.M),
    parse=parse,
    commands=(Command(("fi_info", "-p", "efa"), seconds=1, timeout=15, stderr=True),),
    versions="UNVERIFIED: libfabric 1.8 to 1.22",
)
