"""`sar -n DEV,EDEV,TCP,ETCP` and `sadf -j`, `sadf -d`: what interfaces carried, as means and maxima.

Seen: sysstat 10 to 12.7, 12- and 24-hour clocks, decimal commas, translated `Average:`. 1 kB is 1024 bytes. `%ifutil`
is 0 where the kernel knows no speed. RDMA traffic is not in these numbers.

    >>> SAMPLE = '''Linux 6.8.0 (gpu11) 	01/14/26 	_x86_64_	(64 CPU)
    ...
    ... 09:12:44        IFACE   rxpck/s   txpck/s    rxkB/s    txkB/s   rxcmp/s   txcmp/s  rxmcst/s   %ifutil
    ... 09:12:45         ens3   1000.00    900.00 1220703.13  61035.16      0.00      0.00      0.00     40.00
    ... 09:12:46         ens3   1000.00    900.00      0.00      0.00      0.00      0.00      0.00      0.00
    ... '''
    >>> segment = Segment("sar.txt", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.host, f.interface, f.readings, f.rx_gbit_s, f.rx_max_gbit_s, f.busy_share) for f in parse(segment)]
    [('gpu11', 'ens3', 2, 5.0, 10.0, 0.5)]
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from advisor.facts import Fact, NicRate, TcpCounters
from advisor.sources.base import Command, Problem, Segment, Source

_GBIT = 1024 * 8 / 1e9  # of one kB/s
_LEAST = 0.1  # Gbit/s; below that there is no traffic whose shape could say anything
_FEWEST = 100.0  # segments a second, below which a share of retransmissions says nothing
_BANNER = re.compile(r"^Linux \S{1,100} \(([^\s()]{1,100})\)\s+\S{1,20}\s+_\S{1,20}_\s+\(\d+ CPU\)")
_HEADER = re.compile(
    r"^(?P<time>\d\d:\d\d:\d\d(?: [AP]M)?|[^\W\d]\S{2,20}:) +"
    r"(?P<names>(?:IFACE|CPU|active/s|atmptf/s|irec/s|idgm/s|proc/s|runq-sz|kbmemfree|cswch/s|DEV|tps|pgpgin/s"
    r"|INTR|totsck|total/s|irqsegoff|ihdrerr/s|pswpin/s|kbhugfree|dentunusd)(?: +[%A-Za-z][\w%/.-]*)*) *$"
)
_ROW = re.compile(r"^(?P<time>\d\d:\d\d:\d\d(?: [AP]M)?|[^\W\d]\S{2,20}:) +(?P<cells>\S.{0,1000})$")
_RESTART = re.compile(r"^\d\d:\d\d:\d\d(?: [AP]M)? +LINUX RESTART")
_DB_HEADER = re.compile(r"^# hostname;interval;timestamp;(?P<names>[\w/%;\[\].-]{3,1000})$")
_JSON_DEV = re.compile(
    r'\{"iface": ?"([^"]{1,40})", ?"rxpck"[^{}]{0,100}?"rxkB": ?([\d.]{1,20}), ?"txkB": ?([\d.]{1,20})'
)


@dataclass(slots=True)
class _Nic:
    """Readings of one interface, by column; averages apart."""

    first: int
    readings: list[dict[str, float]] = field(default_factory=list)
    errors: list[dict[str, float]] = field(default_factory=list)
    averages: dict[str, float] = field(default_factory=dict)

    def mean(self, *names: str, errors: bool = False) -> float | None:
        """Mean of the sum of some columns over the readings, else of the printed averages."""
        rows = (self.errors if errors else self.readings) or [self.averages]
        sums = [sum(row[name] for name in names) for row in rows if all(name in row for name in names)]
        return sum(sums) / len(sums) if sums else None


@dataclass(slots=True)
class _Found:
    """Everything a segment says, by host: interfaces, and the segments a second of TCP."""

    nics: dict[tuple[str | None, str], _Nic] = field(default_factory=dict)
    tcp: dict[str | None, dict[str, list[float]]] = field(default_factory=dict)
    tcp_line: dict[str | None, int] = field(default_factory=dict)

    def row(self, host: str | None, index: int, cells: dict[str, str], *, average: bool) -> None:
        """Add one row of any table; tables that give no fact are dropped."""
        name = cells.get("IFACE")
        numbers = {key.removesuffix("/s"): _number(text) for key, text in cells.items()}
        values = {key: number for key, number in numbers.items() if number is not None}
        if name is not None:
            nic = self.nics.setdefault((host, name), _Nic(index))
            if average:
                nic.averages |= values
            else:
                (nic.errors if "rxdrop" in values else nic.readings).append(values)
        elif not average:
            for key in ("oseg", "retrans"):
                if key in values:
                    self.tcp.setdefault(host, {}).setdefault(key, []).append(values[key])
                    self.tcp_line.setdefault(host, index)


def _number(text: str) -> float | None:
    try:
        value = float(text.replace(",", "."))
    except ValueError:
        return None
    return value if 0 <= value < 1e15 else None


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def _fact(segment: Segment, host: str | None, name: str, nic: _Nic) -> NicRate:
    rx, tx = nic.mean("rxkB"), nic.mean("txkB")
    fact = NicRate(
        host=host, interface=name, sample=segment.at(nic.first), readings=len(nic.readings),
        rx_gbit_s=None if rx is None else round(rx * _GBIT, 6), tx_gbit_s=None if tx is None else round(tx * _GBIT, 6),
        errors_per_s=_round(nic.mean("rxerr", "txerr", errors=True)),
        drops_per_s=_round(nic.mean("rxdrop", "txdrop", errors=True)), origins=(segment.origin(nic.first),),
    )
    rates = [(row["rxkB"] * _GBIT, row["txkB"] * _GBIT) for row in nic.readings if "rxkB" in row and "txkB" in row]
    if rates:
        fact.rx_max_gbit_s = round(max(rate for rate, _ in rates), 6)
        fact.tx_max_gbit_s = round(max(rate for _, rate in rates), 6)
        _shape(fact, [max(pair) for pair in rates])
    uses = [row["%ifutil"] / 100 for row in nic.readings or [nic.averages] if "%ifutil" in row]
    if any(uses):  # without a known speed it is always 0
        fact.use_share, fact.use_max_share = round(sum(uses) / len(uses), 4), round(max(uses), 4)
    return fact


def _shape(fact: NicRate, rates: list[float]) -> None:
    """How often the interface was busy, and at which level."""
    top = max(rates)
    if top < _LEAST:
        return
    busy = [rate for rate in rates if rate >= top / 10]
    fact.busy_share, fact.busy_gbit_s = round(len(busy) / len(rates), 4), round(median(busy), 6)


def _text(segment: Segment, found: _Found) -> None:
    """Tables of sar: a header with the names of the columns, then rows until the next one."""
    host: str | None = None
    names: list[str] = []
    for index, line in enumerate(segment.lines):
        if len(line) > 1500 or not line.strip():
            continue
        if m := _BANNER.match(line):
            host = m[1].partition(".")[0]
        elif m := _HEADER.match(line):
            names = m["names"].split()
        elif _RESTART.match(line):
            names = []
        elif names and (m := _ROW.match(line)) and len(cells := m["cells"].split()) == len(names):
            average = not m["time"][0].isdigit()
            found.row(host, index, dict(zip(names, cells, strict=True)), average=average)
        else:
            continue
        segment.skip(index)


def _database(segment: Segment, found: _Found) -> None:
    """`sadf -d`: fields between semicolons."""
    names: list[str] = []
    for index, line in enumerate(segment.lines):
        if ";" not in line or len(line) > 2000:
            continue
        if m := _DB_HEADER.match(line):
            names = m["names"].split(";")
            segment.skip(index)
        elif names and len(cells := line.split(";")) == len(names) + 3:
            host = cells[0].partition(".")[0]
            found.row(host, index, dict(zip(names, cells[3:], strict=True)), average=False)
            segment.skip(index)


def _dig(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _cells(item: dict[str, Any]) -> dict[str, str]:
    """A row of `sadf -j` under the names of the text form."""
    renamed = {"iface": "IFACE", "ifutil-percent": "%ifutil"}
    return {renamed.get(name, name): str(value) for name, value in item.items()}


def _json(segment: Segment, found: _Found) -> Iterator[Problem]:
    """`sadf -j`: one object."""
    text = segment.text
    start = text.rfind("{", 0, text.find('"sysstat"'))
    first = text.count("\n", 0, max(0, start))
    try:
        data, end = json.JSONDecoder().raw_decode(text, max(0, start))
    except (ValueError, RecursionError):
        yield Problem(segment.numbers[-1], "sadf JSON ends before its end")
        name = re.search(r'"nodename": ?"([^"]{1,100})"', text)
        host = name[1].partition(".")[0] if name else None
        for m in _JSON_DEV.finditer(text):
            index = text.count("\n", 0, m.start()) if len(text) < 1_000_000 else first
            found.row(host, index, {"IFACE": m[1], "rxkB": m[2], "txkB": m[3]}, average=False)
        segment.skip(first, len(segment.lines) - 1)
        return
    segment.skip(first, text.count("\n", 0, end))
    for machine in _dicts(_dig(data, "sysstat", "hosts")):
        host = str(machine.get("nodename") or "").partition(".")[0] or None
        for reading in _dicts(machine.get("statistics")):
            network = reading.get("network")
            for family in ("net-dev", "net-edev"):
                for item in _dicts(_dig(network, family)):
                    found.row(host, first, _cells(item), average=False)
            for family in ("net-tcp", "net-etcp"):
                found.row(host, first, _cells(_dig(network, family) or {}), average=False)


def _tcp(segment: Segment, found: _Found) -> Iterator[Fact]:
    """The share of retransmitted segments, where both tables were printed."""
    for host, columns in found.tcp.items():
        sent, again = columns.get("oseg", []), columns.get("retrans", [])
        if sent and again and sum(sent) / len(sent) >= _FEWEST:
            share = (sum(again) / len(again)) / (sum(sent) / len(sent))
            line = found.tcp_line[host]
            yield TcpCounters(
                host=host, sample=segment.at(line), is_delta=True, retransmit_share=round(min(1.0, share), 6),
                origins=(segment.origin(line),),
            )


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact an interface (kB/s of 1024 bytes printed, Gbit/s kept)."""
    found = _Found()
    if '"sysstat"' in segment.text:
        yield from _json(segment, found)
    else:
        _text(segment, found)
        _database(segment, found)
    for (host, name), nic in found.nics.items():
        yield _fact(segment, host, name, nic)
    yield from _tcp(segment, found)


SOURCE = Source(
    id="sar",
    title="sar, sadf (network)",
    facts=(NicRate, TcpCounters),
    needles=("IFACE", "net-dev", "retrans/s", "net-etcp"),
    signature=re.compile(
        r'^(?:\d\d:\d\d:\d\d(?: [AP]M)?|[^\W\d]\S{2,20}:) +(?:IFACE +rx|atmptf/s )|"net-(?:dev|etcp)"'
        r"|^# hostname;interval;.{1,40}IFACE",
        re.MULTILINE,
    ),
    parse=parse,
    commands=(Command(("sar", "-n", "DEV,EDEV", "1", "5"), 6, 20),),
    versions="sysstat 10 to 12.7",
)
