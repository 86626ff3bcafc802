r"""`ip route`, `ip route get`: over which interface and gateway this host sends, as text or as JSON (-j).

iproute2 3.x to 6.x. An answer of `ip route get` carries `uid` or is followed by its `cache` line, where the kernel
shows the path MTU that it has learned.

>>> from advisor.sources.base import Segment
>>> SAMPLE = '''\
... default via 172.20.1.1 dev eno1 proto dhcp src 172.20.1.31 metric 100
... 10.60.0.0/16 dev ens8f0 proto kernel scope link src 10.60.4.2 linkdown
... 10.61.0.9 via 172.20.1.1 dev eno1 src 172.20.1.31 uid 0
...     cache expires 412sec mtu 1400
... '''
>>> for f in parse(Segment("routes.txt", SAMPLE.splitlines(), range(1, 99))):
...     print(f.destination, f.asked, f.gateway, f.interface, f.source_address, f.link_down, f.mtu_bytes)
default False 172.20.1.1 eno1 172.20.1.31 None None
10.60.0.0/16 False None ens8f0 10.60.4.2 True None
10.61.0.9 True 172.20.1.1 eno1 172.20.1.31 None 1400
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from advisor.facts import Fact, Route
from advisor.sources.base import Command, Problem, Segment, Source

_LONGEST = 1000
_LONGEST_JSON = 2_000_000
_REFUSING = ("unreachable", "blackhole", "prohibit", "throw")
_KINDS = ("unicast", "local", "broadcast", "multicast", "anycast", *_REFUSING)
_WITH_VALUE = {
    "via", "dev", "src", "from", "proto", "scope", "metric", "table", "mtu", "weight", "uid", "pref", "expires",
    "hoplimit", "advmss", "window", "rtt", "rttvar", "ssthresh", "cwnd", "initcwnd", "initrwnd", "rto_min", "realms",
    "tos", "error", "iif", "nhid", "congctl", "features", "quickack",
}  # fmt: skip
_DOWN = {"linkdown", "dead"}
_FLAGS = {"onlink", "pervasive", "offload", "trap", "offload_failed", "rt_offload", "cache", *_DOWN}
_NEXTHOP = re.compile(r"\s*nexthop\s+(\S.*)")
_CACHE = re.compile(r"\s+cache\b(.*)")
_CACHED_MTU = re.compile(r"\bmtu (?:lock )?(\d{1,6})\b")
_NO_ROUTE = re.compile(r"\s*RTNETLINK answers: (?:Network is unreachable|No route to host)\s*")
_GET = re.compile(r"\bip\s(?:-\S{1,20}\s+){0,5}r(?:o|ou|out|oute)?\s+get\s+(?:to\s+)?([0-9A-Fa-f.:]{2,45})(?!\S)")
_ANY = r"(?:default|[0-9A-Fa-f]{0,4}[.:][0-9A-Fa-f.:]{0,44}|\d{1,3}\.[\d.]{3,11})(?:/\d{1,3})?"
_ROW = rf"^(?:(?:{'|'.join(_KINDS)})[ \t]+)?{_ANY}"


def _address(text: str) -> str | None:
    """The text if it is `default`, an address or a network, else None."""
    try:
        if text != "default":
            ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
    return text


def _options(words: Sequence[str]) -> tuple[dict[str, str], bool]:
    """Keys with their values (flags with none) of what follows the destination, and whether all words were known."""
    found: dict[str, str] = {}
    rest = [word for word in words if word not in ("lock", "inet", "inet6")]
    i = 0
    while i < len(rest):
        if rest[i] in _WITH_VALUE and i + 1 < len(rest):
            found.setdefault(rest[i], rest[i + 1])
            i += 2
        elif rest[i] in _FLAGS:
            found[rest[i]] = ""
            i += 1
        else:
            return found, False
    return found, True


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) < 12 else None


def _route(destination: str, kind: str, options: dict[str, str]) -> Route:
    return Route(
        destination=destination, kind=kind, asked="uid" in options, gateway=options.get("via"),
        interface=options.get("dev"), source_address=options.get("src"), metric=_whole(options.get("metric")),
        table=options.get("table"), mtu_bytes=_whole(options.get("mtu")),
        link_down=None if _DOWN.isdisjoint(options) else True,
    )  # fmt: skip


def _row(line: str) -> Route | None:
    """The route of one line; without gateway and interface it is the head of several next hops."""
    words = line.split()
    kind = words.pop(0) if words and words[0] in _KINDS else "unicast"
    destination = _address(words[0]) if words else None
    if destination is None:
        return None
    options, known = _options(words[1:])
    if kind == "unicast" and not options.keys() & {"via", "dev", "proto", "scope", "metric"}:
        return None
    if "via" in options and not _address(options["via"]):
        return None
    if not known and destination == "default" and "via" not in options:
        return None  # `default dev branch of ...` is prose
    return _route(destination, kind, options)


def _nexthops(segment: Segment, i: int, head: Route) -> list[Route]:
    """A route for each line `nexthop via A dev B weight 1` below line `i`."""
    hops: list[Route] = []
    for k in range(i + 1, len(segment.lines)):
        line = segment.lines[k]
        match = _NEXTHOP.fullmatch(line) if len(line) < _LONGEST else None
        if not match:
            break
        options, _ = _options(match[1].split())
        hop = _route(head.destination, head.kind, options)
        hops.append(replace(
            hop, metric=head.metric, table=head.table, mtu_bytes=head.mtu_bytes, source_address=head.source_address,
            asked=head.asked, origins=(segment.origin(k),),
        ))  # fmt: skip
    return hops


def _cache(segment: Segment, i: int, route: Route) -> None:
    """Take over the `cache` line below an answer of `ip route get`."""
    line = segment.lines[i + 1] if i + 1 < len(segment.lines) else ""
    match = _CACHE.fullmatch(line) if len(line) < _LONGEST else None
    if not match:
        return
    route.asked = True
    if mtu := _CACHED_MTU.search(match[1]):
        route.mtu_bytes = int(mtu[1])
        route.said_at["mtu_bytes"] = segment.origin(i + 1)
    segment.skip(i + 1)


def _json(segment: Segment, i: int) -> Iterator[Route | Problem]:
    """Routes of an array on one line, as `ip -j route` prints it."""
    try:
        items = json.loads(segment.lines[i])
    except (ValueError, RecursionError):
        yield Problem(segment.numbers[i], "the JSON array of routes is cut off")
        return
    for item in items if isinstance(items, list) else ():
        if not isinstance(item, dict) or not isinstance(item.get("dst"), str) or not _address(item["dst"]):
            continue
        flags = item.get("flags")
        hops = item.get("nexthops")
        for hop in hops if isinstance(hops, list) and hops else [item]:
            if not isinstance(hop, dict):
                continue
            both = {**item, **hop}
            options = {"via": "gateway", "dev": "dev", "src": "prefsrc", "metric": "metric", "table": "table"}
            values = {key: str(both[name]) for key, name in options.items() if isinstance(both.get(name), str | int)}
            values |= {"uid": ""} if "uid" in item or "cache" in item else {}
            values |= {flag: "" for flag in flags if flag in _DOWN} if isinstance(flags, list) else {}
            kind = item.get("type")
            route = _route(item["dst"], kind if kind in _KINDS else "unicast", values)
            route.origins = (segment.origin(i, text=f"{item['dst']} …"),)
            yield route


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """A fact for each route, for each of its next hops where it has several, and for each answer of `get`."""
    asked = _GET.findall(segment.command or "")
    for i, line in enumerate(segment.lines):
        if line.startswith("[") and '"dst"' in line[:_LONGEST] and len(line) < _LONGEST_JSON:
            yield from _json(segment, i)
        if len(line) > _LONGEST:
            continue
        if _NO_ROUTE.fullmatch(line) and len(asked) == 1:
            yield Route(destination=asked[0], kind="unreachable", asked=True, origins=(segment.origin(i),))
        route = _row(line) if line and not line[0].isspace() else None
        if not route:
            continue
        hops = _nexthops(segment, i, route)
        if hops:
            segment.skip(i)
            yield from hops
        elif route.interface or route.gateway or route.kind in _REFUSING:
            route.origins = (segment.origin(i),)
            _cache(segment, i, route)
            yield route


SOURCE = Source(
    id="ip-route",
    title="ip route",
    facts=(Route,),
    needles=(" dev ", " via ", '"dst"', "RTNETLINK answers"),
    signature=re.compile(
        rf"{_ROW}[ \t]+(?:from[ \t]\S{{2,45}}[ \t]+)?(?:dev[ \t]\S|via[ \t])|^[ \t]*nexthop[ \t]+(?:via|dev)[ \t]"
        r'|^\[\{"(?:type":"\w{1,20}",")?dst":"|^RTNETLINK answers: (?:Network is unreachable|No route to host)',
        re.M,
    ),
    parse=parse,
    commands=(Command(("ip", "route")),),
    versions="iproute2 3.x to 6.x",
)
