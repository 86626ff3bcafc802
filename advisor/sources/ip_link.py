r"""`ip link` and `ip addr`: interfaces of a host, as text (plain, -d, -s, -o, -br) or JSON. iproute2 3.x to 6.x seen.

Names of counters differ by version (`overrun` became `missed`) and are read from the heading. `ip link` shows no
addresses, so they are unknown there; an interface that `ip addr` shows without any has none.

>>> from advisor.sources.base import Segment
>>> SAMPLE = '''\
... 3: eth1@if9: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 8896 qdisc mq state UP group default qlen 1000
...     link/ether 42:01:0a:00:00:05 brd ff:ff:ff:ff:ff:ff
...     inet 10.4.0.5/32 scope global eth1
...        valid_lft forever preferred_lft forever
... '''
>>> [eth1] = parse(Segment("ip.txt", SAMPLE.splitlines(), range(1, 99)))
>>> eth1.name, eth1.mtu_bytes, eth1.admin_up, eth1.carrier, eth1.oper_state, eth1.addresses, eth1.virtual
('eth1', 8896, True, True, 'UP', ('10.4.0.5/32',), False)
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from advisor.facts import Fact, NetInterface
from advisor.grammar.hardware import pci_address
from advisor.sources.base import Command, Problem, Segment, Source

_NAME = r"[^\s:@<>\\]{1,64}"
_HEADER = re.compile(rf"(?:\d{{1,7}}: )?({_NAME})(?:@[^\s:]{{1,64}})?: <([A-Z0-9_,-]*)> mtu (\d{{1,9}})\b(.*)")
_ONE_ADDRESS = re.compile(
    rf"(?:\d{{1,7}}: )?({_NAME})(?:@[^\s:]{{1,64}})?\s+(inet6? [0-9A-Fa-f.:]{{2,45}}(?: peer [0-9A-Fa-f.:]{{2,45}})?"
    r"/\d{1,3} .*\bscope\b.*)"
)
_STATE = r"UP|DOWN|UNKNOWN|LOWERLAYERDOWN|DORMANT|TESTING|NOTPRESENT"
_BRIEF = re.compile(rf"({_NAME})(?:@\S{{1,64}})?\s+({_STATE})(?:\s+(\S.*?))?\s*")
_BRIEF_LINK = re.compile(r"(?:(?:[0-9a-f]{2}:){3,19}[0-9a-f]{2}|[\d.]+|[0-9a-f:]+)?\s*<([A-Z0-9_,-]*)>")
_ADDRESS = re.compile(r"[0-9A-Fa-f.:]{2,45}/\d{1,3}")
_INET = re.compile(r"inet6? ([0-9A-Fa-f.:]{2,45})(?: peer [0-9A-Fa-f.:]{2,45})?(/\d{1,3})?\b")
_LINK = re.compile(r"link/(\w{1,20})\b")
_PARENT = re.compile(r"\bparentbus pci parentdev (\S{7,20})")
_MAX_MTU = re.compile(r"\bmaxmtu (\d{1,9})\b")
_COUNTERS = re.compile(r"([RT]X): +([a-z ]+?)\s*")
_OWN = re.compile(r"(?:link/|inet6? |valid_lft |altname |[RT]X:|[RT]X errors:|vf \d|alias )")
_KINDS = {
    "bond", "bridge", "can", "dummy", "erspan", "geneve", "gre", "gretap", "ifb", "ip6gre", "ip6tnl", "ipip", "ipoib",
    "ipvlan", "macsec", "macvlan", "macvtap", "netdevsim", "sit", "team", "tun", "veth", "vlan", "vrf", "vti", "vxcan",
    "vxlan", "wireguard",
}
_VIRTUAL_KINDS = {
    "dummy", "erspan", "geneve", "gre", "gretap", "ifb", "ip6gre", "ip6tnl", "ipip", "sit", "tun", "vti", "vxlan",
    "wireguard",
}
_VIRTUAL_LINKS = {"loopback", "gre", "gre6", "ipip", "sit", "tunnel6", "none"}
_BRIDGE_NAME = re.compile(r"docker\d+|docker_gwbridge|virbr\d.*|br-[0-9a-f]{12}|lxdbr\d+|cni\d+|(?:cni-)?podman\d+")
_VIRTUAL_NAME = re.compile(
    r"lo|veth.+|vnet\d+|cali.*|flannel.*|cilium.*|lxc.*|weave.*|kube-.*|nodelocaldns|ovs-.*|tun\d*|tap.*|tunl\d+"
    r"|vxlan.*|genev.*|gre\d+|gretap\d+|erspan\d+|ip6tnl\d+|sit\d+|dummy\d+|ifb\d+|wg\d+|tailscale\d+"
)
_DATA_NAME = re.compile(r"eth\d|en[opsxP]|em\d|ib[a-z]?\d|ibp|ibs|bond|team|hsn\d|net\d|rail|roce|rdma|p\d+p\d")
_MOST_BROKEN = 20  # JSON arrays that do not parse, before the rest is left alone


@dataclass(slots=True)
class _Interface:
    """What is known of one interface before the others have been read."""

    fact: NetInterface
    lines: set[int] = field(default_factory=set)


def _flags(fact: NetInterface, flags: Iterable[str]) -> None:
    names = set(flags)
    fact.admin_up = "UP" in names
    if "LOWER_UP" in names:
        fact.carrier = True
    elif "UP" in names or "NO-CARRIER" in names:
        fact.carrier = False  # an interface that is administratively down says nothing about its cable


def _word_after(text: str, key: str) -> str | None:
    match = re.search(rf"(?:^| ){key} (\S{{1,64}})", text)
    return match[1] if match else None


def _from_header(match: re.Match[str]) -> NetInterface:
    name, flags, mtu, rest = match.groups()
    fact = NetInterface(name=name, mtu_bytes=int(mtu))
    _flags(fact, flags.split(","))
    fact.oper_state = _word_after(rest, "state")
    fact.master = _word_after(rest, "master")
    if " mode " not in rest and fact.oper_state:
        fact.addresses = ()  # `ip addr`: the lines that follow would show them
    return fact


def _counters(fact: NetInterface, heading: re.Match[str], line: str) -> bool:
    """Errors and drops of the line below a heading `RX: bytes packets errors ...`."""
    names, numbers = heading[2].split(), line.split()
    if not numbers or not all(number.isdigit() and len(number) < 21 for number in numbers):
        return False
    counts = dict(zip(names, map(int, numbers), strict=False))
    errors, dropped = counts.get("errors"), counts.get("dropped")
    if heading[1] == "RX":
        fact.rx_errors, fact.rx_dropped = errors, dropped
    else:
        fact.tx_errors, fact.tx_dropped = errors, dropped
    return True


def _detail(fact: NetInterface, line: str) -> None:
    """Take over what one line below the header says."""
    words = line.split(maxsplit=1)
    if inet := _INET.match(line):
        own = (fact.addresses or ()) + (inet[1] + (inet[2] or ""),)
        fact.addresses = own
        return
    if link := _LINK.match(line):
        fact.kind = link[1]
    elif words[0] in _KINDS and fact.device_kind is None:
        fact.device_kind = words[0]
    if parent := _PARENT.search(line):
        fact.pci = pci_address(parent[1])
    if (most := _MAX_MTU.search(line)) and int(most[1]) > 0:
        fact.max_mtu_bytes = int(most[1])


def _below(segment: Segment, start: int, interface: _Interface) -> None:
    """Read the lines that belong to the header at line `start`."""
    heading: re.Match[str] | None = None
    for i in range(start + 1, len(segment.lines)):
        line = segment.lines[i]
        text = line.strip()
        if not text:
            continue
        if _HEADER.match(line) or not (line[0].isspace() or _OWN.match(text) or heading):
            return
        if heading and _counters(interface.fact, heading, text):
            heading = None
        else:
            heading = _COUNTERS.fullmatch(text)
            if not heading:
                _detail(interface.fact, text)
        interface.lines.add(i)


def _text_interfaces(segment: Segment) -> Iterator[_Interface]:
    for i, line in enumerate(segment.lines):
        if "> mtu " not in line:
            continue
        head, *parts = line.split("\\")  # -o: one line, parts divided by backslashes
        match = _HEADER.match(head)
        if not match:
            continue
        interface = _Interface(_from_header(match), {i})
        for part in filter(str.strip, parts):
            _detail(interface.fact, part.strip())
        if not parts:
            _below(segment, i, interface)
        yield interface


def _one_line_addresses(segment: Segment) -> Iterator[_Interface]:
    """`ip -o addr`: a line for each address."""
    found: dict[str, _Interface] = {}
    for i, line in enumerate(segment.lines):
        match = _ONE_ADDRESS.match(line) if " inet" in line else None
        if match:
            interface = found.setdefault(match[1], _Interface(NetInterface(name=match[1])))
            interface.lines.add(i)
            _detail(interface.fact, match[2])
    yield from found.values()


def _brief(line: str) -> tuple[NetInterface, bool] | None:
    """An interface of `ip -br`, and whether its line could be nothing else."""
    match = _BRIEF.fullmatch(line) if len(line) < 20_000 else None
    if not match:
        return None
    name, state, rest = match.groups()
    fact = NetInterface(name=name, oper_state=state)
    if rest is None:
        return fact, False
    link = _BRIEF_LINK.fullmatch(rest)
    if link:
        _flags(fact, link[1].split(","))
        return fact, True
    addresses = [word for word in rest.split() if _ADDRESS.fullmatch(word)]
    if not addresses or not _ADDRESS.fullmatch(rest.split()[0]):
        return None
    fact.addresses = tuple(addresses)
    return fact, True


def _brief_interfaces(segment: Segment) -> Iterator[_Interface]:
    """Lines of `ip -br`; a line of name and state alone counts only beside one that is beyond doubt."""
    block: list[tuple[int, NetInterface, bool]] = []
    for i, line in enumerate([*segment.lines, ""]):
        read = _brief(line) if line else None
        if read:
            block.append((i, *read))
        elif block:
            if any(sure for _, _, sure in block):
                shows_addresses = any(fact.addresses for _, fact, _ in block)
                for place, fact, sure in block:
                    if not sure and shows_addresses:
                        fact.addresses = ()
                    yield _Interface(fact, {place})
            block = []


# -------------------------------------------------------------------------------------------------------------- JSON


def _text(item: object) -> str | None:
    return item if isinstance(item, str) else None


def _count(item: object) -> int | None:
    return item if isinstance(item, int) and not isinstance(item, bool) else None


def _mapping(item: object) -> dict[str, Any]:
    return item if isinstance(item, dict) else {}


def _json_addresses(items: object) -> tuple[str, ...] | None:
    if not isinstance(items, list):
        return None
    out = []
    for item in map(_mapping, items):
        if isinstance(item.get("local"), str):
            length = _count(item.get("prefixlen"))
            out.append(item["local"] + (f"/{length}" if length is not None else ""))
    return tuple(out)


def _from_json(item: dict[str, Any]) -> NetInterface:
    fact = NetInterface(
        name=str(item["ifname"]).partition("@")[0], kind=_text(item.get("link_type")),
        mtu_bytes=_count(item.get("mtu")), max_mtu_bytes=_count(item.get("max_mtu")) or None,
        oper_state=_text(item.get("operstate")), master=_text(item.get("master")),
        addresses=_json_addresses(item.get("addr_info")),
        device_kind=_text(_mapping(item.get("linkinfo")).get("info_kind")),
    )
    if isinstance(item.get("flags"), list):
        _flags(fact, map(str, item["flags"]))
    if item.get("parentbus") == "pci":
        fact.pci = pci_address(str(item.get("parentdev")))
    stats = _mapping(item.get("stats64")) or _mapping(item.get("stats"))
    received, sent = _mapping(stats.get("rx")), _mapping(stats.get("tx"))
    fact.rx_errors, fact.rx_dropped = _count(received.get("errors")), _count(received.get("dropped"))
    fact.tx_errors, fact.tx_dropped = _count(sent.get("errors")), _count(sent.get("dropped"))
    return fact


def _json_array(text: str, start: int) -> tuple[list[tuple[int, int, dict[str, Any]]], int, bool]:
    """Objects (from, to, value) of an array that begins at `start`, where it ends, and whether it is whole."""
    decoder, at = json.JSONDecoder(), start + 1
    found: list[tuple[int, int, dict[str, Any]]] = []
    space = re.compile(r"[\s,]*")
    while True:
        at = space.match(text, at).end()  # type: ignore[union-attr]
        if text[at : at + 1] == "]":
            return found, at, True
        try:
            if text[at : at + 1] != "{":
                return found, at, False
            item, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return found, at, False
        if item and "ifname" not in item:
            return found, at, True  # some other tool's array
        if item:
            found.append((at, end - 1, item))
        at = end


def _json_interfaces(segment: Segment) -> Iterator[_Interface | Problem]:
    if '"ifname"' not in segment.text:
        return
    starts, place = [], 0
    for line in segment.lines:
        starts.append(place)
        place += len(line) + 1
    done, broken = -1, 0
    for i, line in enumerate(segment.lines):
        if starts[i] <= done or broken >= _MOST_BROKEN or not line.lstrip().startswith("["):
            continue
        found, end, whole = _json_array(segment.text, starts[i] + line.index("["))
        broken += not whole
        for first, last, item in found:
            lines = set(range(bisect_right(starts, first) - 1, bisect_right(starts, last)))
            yield _Interface(_from_json(item), lines)
        if found:
            done = end
            segment.skip(bisect_right(starts, end) - 1)
            segment.skip(i)
            if not whole:
                yield Problem(segment.numbers[bisect_right(starts, end) - 1], "the JSON array of interfaces is cut off")


# ------------------------------------------------------------------------------------------------- virtual interfaces


def _is_virtual(fact: NetInterface, members: Iterable[NetInterface]) -> bool | None:
    """Whether no data network is behind an interface: loopback, tunnels, and bridges without an uplink."""
    if fact.device_kind == "bridge" or _BRIDGE_NAME.fullmatch(fact.name):
        return all(_VIRTUAL_NAME.fullmatch(m.name) or m.device_kind in ("veth", "tun") for m in members)
    if _VIRTUAL_NAME.fullmatch(fact.name) or fact.device_kind in _VIRTUAL_KINDS or fact.kind in _VIRTUAL_LINKS:
        return True
    if fact.device_kind == "veth" and fact.master is not None:
        return True
    return False if fact.device_kind or fact.pci or _DATA_NAME.match(fact.name) else None


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """A fact for each interface of each listing."""
    found: list[_Interface] = []
    for item in _json_interfaces(segment):
        if isinstance(item, Problem):
            yield item
        else:
            found.append(item)
    found += _text_interfaces(segment)
    found += _one_line_addresses(segment)
    found += _brief_interfaces(segment)
    members: dict[str, list[NetInterface]] = {}
    for interface in found:
        if interface.fact.master:
            members.setdefault(interface.fact.master, []).append(interface.fact)
    for interface in found:
        fact = interface.fact
        fact.virtual = _is_virtual(fact, members.get(fact.name, ()))
        for i in interface.lines:
            segment.skip(i)
        origin = segment.origin(min(interface.lines))
        fact.origins = (replace(origin, end=segment.numbers[max(interface.lines)]),)
        yield fact


SOURCE = Source(
    id="ip-link",
    title="ip link, ip addr",
    facts=(NetInterface,),
    needles=("> mtu ", '"ifname"', " inet", " UP", " UNKNOWN", " DOWN"),
    signature=re.compile(
        rf"^(?:\d{{1,7}}: )?{_NAME}(?:@[^\s:]{{1,64}})?: <[A-Z0-9_,-]*> mtu \d"
        rf"|^(?:\d{{1,7}}: )?{_NAME}(?:@[^\s:]{{1,64}})?[ \t]+inet6? [0-9A-Fa-f.:/]{{2,50}} .{{0,200}}\bscope "
        rf"|^{_NAME}(?:@\S{{1,64}})?[ \t]+(?:{_STATE})[ \t]+(?:[0-9A-Fa-f.:]{{2,60}}/\d|[0-9a-f:.]{{0,60}}[ \t]*<[A-Z])"
        r'|"ifname"\s*:',
        re.M,
    ),
    parse=parse,
    commands=(Command(("ip", "-j", "-d", "-s", "addr")),),
    versions="iproute2 3.x to 6.x",
)
