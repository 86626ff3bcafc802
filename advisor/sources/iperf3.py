"""`iperf3`: what one or several streams carry between two hosts.

Seen: 3.0 to 3.21: JSON (`-J`, several objects back to back, `--json-stream`, runs that failed, texts that end early)
and text (client and server, `-R`, `--bidir`, `-u`, `-V`, rows alone). Releases before 3.16 run all streams in one
thread, so the version belongs to the result. Transfer is printed in binary units, Bitrate in decimal ones.

    >>> SAMPLE = '''Connecting to host node09, port 5201
    ... [  5] local 10.9.0.8 port 51000 connected to 10.9.0.9 port 5201
    ... [ ID] Interval           Transfer     Bitrate         Retr  Cwnd
    ... [  5]   0.00-1.00   sec  2.75 GBytes  23.6 Gbits/sec   41   1.87 MBytes
    ... - - - - - - - - - - - - - - - - - - - - - - - - -
    ... [ ID] Interval           Transfer     Bitrate         Retr
    ... [  5]   0.00-1.00   sec  2.75 GBytes  23.6 Gbits/sec   41             sender
    ... [  5]   0.00-1.04   sec  2.74 GBytes  22.7 Gbits/sec                  receiver
    ... '''
    >>> segment = Segment("iperf3.txt", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.peer, f.streams, f.sent_gbit_s, f.received_gbit_s, f.retransmits) for f in parse(segment)]
    [('10.9.0.9', 1, 23.6, 22.7, 41)]
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

from advisor.facts import Fact, TcpTest
from advisor.sources.base import Command, Problem, Segment, Source

_MAX_FAILURES = 20  # objects that do not decode, before the rest of a segment is left alone
_SHORTEST = 0.5  # seconds; the last interval of a run is often a tail of a few milliseconds
_CLIENT_OF = re.compile(r"\biperf3 (?:[^;|&]{0,500} )?(?:-c|--client)[ =]?(\S{1,255})")
_CALL = re.compile(r"\biperf3( [^;|&]{0,600})")
_STREAMS = re.compile(r" (?:-P|--parallel)[ =]?(\d{1,4})\b")
_REVERSED = re.compile(r" (?:-R|--reverse)\b")

# --- JSON -----------------------------------------------------------------------------------------------------------


def _dig(value: Any, *path: str | int) -> Any:
    """`value[path[0]][path[1]]…`, None where anything on the way is missing or of another type."""
    for key in path:
        if isinstance(key, int):
            value = value[key] if isinstance(value, list) and len(value) > key else None
        else:
            value = value.get(key) if isinstance(value, dict) else None
    return value


def _real(value: Any) -> float | None:
    """A number, None for anything else."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _positive(value: Any) -> int | None:
    """A whole number above zero; iperf3 writes 0 for what it did not learn."""
    number = _real(value)
    return int(number) if number is not None and 0 < number < 1e18 else None


def _gbit(value: Any) -> float | None:
    number = _real(value)
    return None if number is None else round(number / 1e9, 6)


def _words(value: Any) -> str | None:
    return value.strip()[:500] or None if isinstance(value, str) else None


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _close(text: str) -> str | None:
    """A JSON text that was cut off, closed behind its last complete value."""
    stack: list[str] = []
    closing, inside, escaped, best = {"{": "}", "[": "]"}, False, False, None
    for place, char in enumerate(text):
        if inside:
            inside = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            inside = True
        elif char in closing:
            stack.append(closing[char])
        elif char in "]}":
            if not stack or stack.pop() != char:
                break
            best = (place + 1, "".join(reversed(stack)))
    return None if best is None else text[: best[0]] + best[1]


@dataclass(slots=True)
class _Object:
    """One JSON object of the segment and the lines it stands on."""

    first: int
    last: int
    data: dict[str, Any]
    damaged: bool = False


def _objects(segment: Segment) -> Iterator[_Object]:
    """Objects that begin at the start of a line."""
    text, decoder = segment.text, json.JSONDecoder()
    starts = [0, *accumulate(len(line) + 1 for line in segment.lines)]
    failures, place = 0, 0
    for found in re.finditer(r"^[ \t]{0,20}(?=\{)", text, re.MULTILINE):
        start = found.end()
        if start < place or failures >= _MAX_FAILURES:
            continue
        damaged = False
        try:
            data, place = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            failures += 1
            rest = re.compile(r"^\{", re.MULTILINE).search(text, start + 1)
            place = rest.start() if rest else len(text)
            data, damaged = _repaired(text[start:place]), True
        if isinstance(data, dict):
            last = bisect_right(starts, max(start, place - 1)) - 1
            yield _Object(bisect_right(starts, start) - 1, min(last, len(segment.lines) - 1), data, damaged)
        # Objects that follow on the same line, as when files were joined without a line end.
        while not damaged and text[place : place + 1] == "{":
            begin = place
            try:
                data, place = decoder.raw_decode(text, begin)
            except (ValueError, RecursionError):
                break
            if isinstance(data, dict):
                yield _Object(bisect_right(starts, begin) - 1, bisect_right(starts, place - 1) - 1, data)


def _repaired(text: str) -> dict[str, Any] | None:
    if '"connected"' not in text[:2000] or len(text) > 50_000_000:
        return None
    closed = _close(text)
    try:
        data = json.loads(closed) if closed else None
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) else None


def _is_run(data: dict[str, Any]) -> bool:
    start = data.get("start")
    return isinstance(start, dict) and bool({"connected", "test_start"} & start.keys() or start.get("system_info"))


def _runs(segment: Segment) -> Iterator[_Object]:
    """Whole runs: objects of `-J`, and the events of `--json-stream` put together."""
    stream: _Object | None = None
    seen: set[str] = set()
    for item in _objects(segment):
        event, data = item.data.get("event"), item.data.get("data")
        if isinstance(event, str):
            if event == "start" or stream is None:
                if stream is not None:
                    yield replace(stream, damaged=True)
                stream = _Object(item.first, item.last, {"start": {}, "intervals": [], "end": {}})
            _event(stream, event, data, item.last)
            if event == "end":
                seen.add(str(_dig(stream.data, "start", "cookie")))
                yield stream
                stream = None
        elif _is_run(item.data) and (not seen or str(_dig(item.data, "start", "cookie")) not in seen):
            yield item
        elif _is_run(item.data):
            segment.skip(item.first, item.last)  # the whole of a streamed run, once more
    if stream is not None:
        yield replace(stream, damaged="error" not in stream.data)


def _event(run: _Object, event: str, data: Any, last: int) -> None:
    run.last = last
    if event == "interval":
        run.data["intervals"].append(data)
    elif event in ("start", "end", "error"):
        run.data[event] = data


def _interval_rates(data: dict[str, Any], key: str) -> list[float]:
    """Bits per second of the intervals, without the omitted ones and short tails."""
    sums = [_dig(interval, key) for interval in _dicts(data.get("intervals"))]
    rates = [
        (_real(_dig(total, "seconds")) or 0, _real(_dig(total, "bits_per_second")))
        for total in sums
        if _dig(total, "omitted") is not True
    ]
    return [rate for seconds, rate in rates if seconds >= _SHORTEST and rate is not None]


def _streams(data: dict[str, Any], *, sends: bool) -> Iterator[dict[str, Any]]:
    """The streams of all intervals, those that this end sends or those that it receives."""
    for interval in _dicts(data.get("intervals")):
        for stream in _dicts(interval.get("streams")):
            if stream.get("sender", sends) is sends:
                yield stream


def _largest(items: Iterable[dict[str, Any]], key: str) -> int | None:
    values = [value for item in items if (value := _positive(item.get(key))) is not None]
    return max(values, default=None)


def _window(data: dict[str, Any]) -> tuple[int | None, bool | None]:
    """The largest send window, and whether it is the receiver's; old versions know the congestion window alone."""
    sent = list(_streams(data, sends=True))
    ends = [end for stream in _dicts(_dig(data, "end", "streams")) if isinstance(end := stream.get("sender"), dict)]
    for key, end_key in (("snd_wnd", "max_snd_wnd"), ("snd_cwnd", "max_snd_cwnd")):
        found = [value for value in (_largest(sent, key), _largest(ends, end_key)) if value is not None]
        if found:
            return max(found), key == "snd_wnd"
    return None, None


def _mean_rtt(data: dict[str, Any]) -> float | None:
    ends = [_dig(stream, "sender", "mean_rtt") for stream in _dicts(_dig(data, "end", "streams"))]
    values = [value for end in ends if (value := _positive(end)) is not None]
    if not values:
        values = [v for stream in _streams(data, sends=True) if (v := _positive(stream.get("rtt"))) is not None]
    return round(sum(values) / len(values), 1) if values else None


def _common(run: _Object, segment: Segment) -> TcpTest:
    """What both directions of a run share."""
    data = run.data
    start = data.get("start") if isinstance(data.get("start"), dict) else {}
    test = _dig(start, "test_start")
    server = _dig(start, "accepted_connection") is not None
    name = _words(_dig(start, "connecting_to", "host"))
    peer = _words(_dig(start, "connected", 0, "remote_host")) or _words(_dig(start, "accepted_connection", "host"))
    if peer is None:
        peer, name = name or _from_command(segment), None
    version = re.search(r"iperf (\S{1,40})", str(_dig(start, "version")))
    cpu = _dig(data, "end", "cpu_utilization_percent")
    local, remote = _real(_dig(cpu, "host_total")), _real(_dig(cpu, "remote_total"))
    pmtus = [value for stream in _streams(data, sends=True) if (value := _positive(stream.get("pmtu"))) is not None]
    streams = _positive(_dig(test, "num_streams"))
    target = _positive(_dig(test, "target_bitrate")) or _positive(_dig(start, "target_bitrate"))
    reverse = _real(_dig(test, "reverse"))
    window, granted = _window(data)
    return TcpTest(
        test=segment.at(run.first), tool="iperf3", tool_version=version[1] if version else None,
        role="server" if server else "client", local=_words(_dig(start, "connected", 0, "local_host")), peer=peer,
        peer_name=name if name != peer else None, protocol=_words(_dig(test, "protocol")), streams=streams,
        reverse=None if reverse is None else bool(reverse) != server,
        bidirectional=True if _real(_dig(test, "bidir")) else None,
        target_gbit_s=_gbit(target * (streams or 1)) if target else None,
        mss_bytes=_positive(_dig(start, "tcp_mss")) or _positive(_dig(start, "tcp_mss_default")),
        pmtu_bytes=min(pmtus, default=None), mean_rtt_us=_mean_rtt(data), max_window_bytes=window,
        window_granted=granted,
        cpu_local_share=round(local / 100, 4) if local is not None else None,
        cpu_remote_share=round(remote / 100, 4) if remote is not None else None,
        congestion=_words(_dig(data, "end", "sender_tcp_congestion")), error=_words(data.get("error")),
        origins=(segment.origin(run.first, run.last, _headline(run)),),
    )


def _headline(run: _Object) -> str:
    """What to show of a JSON object in one line."""
    start = run.data.get("start")
    return f"{_words(_dig(start, 'version')) or 'iperf3'} JSON"


def _from_command(segment: Segment) -> str | None:
    m = _CLIENT_OF.search(segment.command or "")
    return m[1] if m else None


def _rates(fact: TcpTest, data: dict[str, Any], suffix: str) -> None:
    """Fill in what differs between the directions; `suffix` is that of the sums at the end."""
    end = data.get("end")
    sent, received = _dig(end, "sum_sent" + suffix), _dig(end, "sum_received" + suffix)
    fact.sent_gbit_s = _gbit(_dig(sent, "bits_per_second"))
    fact.received_gbit_s = _gbit(_dig(received, "bits_per_second"))
    fact.duration_s = _real(_dig(sent, "seconds")) or _real(_dig(received, "seconds")) or None
    retransmits = _real(_dig(sent, "retransmits"))
    fact.retransmits = int(retransmits) if retransmits is not None and retransmits >= 0 else None
    total = _dig(end, "sum") if not suffix else None
    if fact.protocol == "UDP" and total is not None:
        _udp(fact, total)
    intervals = _interval_rates(data, "sum" + suffix)
    if intervals:
        fact.slowest_interval_gbit_s, fact.fastest_interval_gbit_s = _gbit(min(intervals)), _gbit(max(intervals))
    _one_sided(fact, end, sum(intervals) / len(intervals) if intervals else None)
    bytes_sent = _real(_dig(sent, "bytes"))
    if fact.retransmits is not None and bytes_sent and fact.mss_bytes:
        fact.retransmit_share = round(fact.retransmits / (bytes_sent / fact.mss_bytes + 1), 6)


def _one_sided(fact: TcpTest, end: Any, mean: float | None) -> None:
    """The server knows only its own side (the other one reads 0); a run that was cut has only its intervals."""
    if fact.role == "server" and fact.reverse and fact.sent_gbit_s == 0:
        fact.sent_gbit_s = fact.retransmits = None
    elif fact.role == "server" and fact.reverse is False and fact.received_gbit_s == 0:
        fact.received_gbit_s = None
    if not end and mean is not None:
        if fact.reverse:
            fact.received_gbit_s = _gbit(mean)
        else:
            fact.sent_gbit_s = _gbit(mean)


def _udp(fact: TcpTest, total: Any) -> None:
    """Old releases give one sum: the sender's rate beside the receiver's losses."""
    lost, packets = _real(_dig(total, "lost_packets")), _real(_dig(total, "packets"))
    if lost is not None and packets:
        fact.lost_share = round(min(1.0, max(0.0, lost / packets)), 6)
    rate = _gbit(_dig(total, "bits_per_second"))
    fact.duration_s = fact.duration_s or _real(_dig(total, "seconds"))
    if rate is None:
        return
    if _dig(total, "sender") is not False and fact.sent_gbit_s is None:
        fact.sent_gbit_s = rate
    if fact.received_gbit_s is None and fact.lost_share is not None:
        fact.received_gbit_s = round(rate * (1 - fact.lost_share), 6)


def _parse_json(segment: Segment) -> Iterator[Fact | Problem]:
    for run in _runs(segment):
        fact = _common(run, segment)
        _rates(fact, run.data, "")
        yield fact
        if fact.bidirectional:
            second = replace(_common(run, segment), test=fact.test + " reverse", reverse=not fact.reverse)
            second.mean_rtt_us = second.max_window_bytes = second.pmtu_bytes = None  # of the other direction
            second.window_granted = None
            _rates(second, run.data, "_bidir_reverse")
            yield second
        if run.damaged:
            yield Problem(segment.numbers[run.last], "iperf3 JSON ends before its end")


# --- text -----------------------------------------------------------------------------------------------------------

_CONNECTING = re.compile(r"Connecting to host (\S{1,255}), port \d+")
_ACCEPTED = re.compile(r"Accepted connection from (\S{1,255}), port \d+")
_CONNECTED = re.compile(
    r"\[ *\d+\](?:\[[TR]X-[CS]\])? local (\S{1,100}) port \d+ connected to (\S{1,100}) port \d+"
)
# iperf2: its rows look alike, but its first lines do not.
_FOREIGN = re.compile(
    r"Client connecting to |Server listening on (?:TCP|UDP) port|\] local \S{1,100} port \d+ connected with "
)
_OURS = re.compile(r"Server listening on \d|^iperf 3\.|iperf3: ")
_ROW = re.compile(
    r"\[ *(?P<id>\d+|SUM)\](?:\[(?P<role>[TR]X-[CS])\])? +(?P<from>\d+\.\d\d)- ?(?P<to>\d+\.\d\d) +sec +"
    r"[\d.]{1,12} [KMGT]?Bytes +(?P<rate>[\d.]{1,12}) (?P<unit>[KMGT]?)(?P<kind>bits|Bytes)/sec(?P<rest>.{0,200})$"
)
_HEADER = re.compile(r"\[ ID\](?:\[Role\])? Interval +Transfer +(?:Bitrate|Bandwidth)(?P<rest>.{0,200})$")
_RETR = re.compile(r"^ +(\d{1,12})(?= |$)(?: +([\d.]{1,12}) ([KMGT]?)Bytes)?")
_LOSS = re.compile(r"[\d.]{1,12} ms +(\d{1,15})/(\d{1,15})")
_ERROR = re.compile(r"^(?:.{1,60} )?iperf3: (?:error|interrupt) - (?P<text>.{1,400})$")
_CPU = re.compile(
    r"^CPU Utilization: local/\w+ (?P<local>[\d.]{1,12})%.{0,60}?, remote/\w+ (?P<remote>[\d.]{1,12})%"
)
_VERBOSE = re.compile(r"Starting Test: protocol: (?P<protocol>\w{1,10}), (?P<streams>\d{1,6}) streams")
_VERSION = re.compile(r"^iperf (3\.\S{1,40})")
_MSS = re.compile(r"(?:TCP MSS:|Control connection MSS) (\d{1,6})")
_CONGESTION = re.compile(r"^snd_tcp_congestion (\w{1,20})")
_REVERSE = re.compile(r"Reverse mode, remote host \S{1,255} is sending")
_RULER = re.compile(r"^(?:.{1,60} )?(?:- ){10,}-?\s*$")
_NOISE = re.compile(
    r"Test Complete\. Summary Results|^Time: |Cookie: |^rcv_tcp_congestion |^\[ *\d+\] Sent \d+ datagrams"
    r"|^iperf3: (?:getsockopt|OUT OF ORDER)|^warning: |^Linux \S{1,255} \d"
)
_SCALE = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(slots=True)
class _Row:
    """One row. end: `sender`, `receiver`, empty for an interval."""

    stream: str
    role: str
    seconds: tuple[float, float]
    gbit_s: float
    end: str
    retransmits: int | None
    window: int | None
    lost: tuple[int, int] | None


@dataclass(slots=True)
class _Text:
    """One run of a text while its lines come in."""

    first: int
    last: int
    fact: TcpTest
    rows: list[_Row] = field(default_factory=list)
    closing: bool = False
    ended: bool = False

    @property
    def summed(self) -> bool:
        """Its summary began."""
        return any(row.end for row in self.rows)

    def complete(self, row: _Row) -> bool:
        """Nothing more can follow, so the row belongs to another run: its own kind was seen, or the sums were."""
        ends = [(old.stream, old.end) for old in self.rows if old.end and old.role == row.role]
        sums = row.stream != "SUM" and any(stream == "SUM" for stream, _ in ends)
        return bool(ends) and (not row.end or sums or (row.stream, row.end) in ends)


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _row(m: re.Match[str], closing: bool) -> _Row | None:
    """A row from its match; None for the seconds that -O leaves out."""
    rest, rate = m["rest"], _float(m["rate"])
    if "(omitted)" in rest:
        return None
    gbit = rate * _SCALE[m["unit"]] / 1e9 if m["kind"] == "bits" else rate * _BINARY[m["unit"]] * 8 / 1e9
    loss = _LOSS.search(rest)
    retr = None if loss else _RETR.match(rest)
    end = "sender" if rest.rstrip().endswith("sender") else "receiver" if rest.rstrip().endswith("receiver") else ""
    if not end and closing and loss:
        end = "both"  # UDP before 3.2: one row, sent rate beside the losses
    window = int(_float(retr[2]) * _BINARY[retr[3]]) if retr and retr[2] else None
    return _Row(
        m["id"], m["role"] or "", (_float(m["from"]), _float(m["to"])), round(gbit, 6), end,
        int(retr[1]) if retr and (end == "sender" or retr[2]) else None, window or None,
        (int(loss[1]), int(loss[2])) if loss else None,
    )


def _total(rows: list[_Row]) -> list[_Row]:
    """The SUM rows where there are some, else those of the streams."""
    sums = [row for row in rows if row.stream == "SUM"]
    return sums or rows


def _by_interval(rows: list[_Row]) -> list[float]:
    """Gbit/s of each interval of half a second or more, over all streams."""
    sums: dict[tuple[float, float], float] = {}
    for row in _total([row for row in rows if not row.end]):
        if row.seconds[1] - row.seconds[0] >= _SHORTEST:
            sums[row.seconds] = sums.get(row.seconds, 0.0) + row.gbit_s
    return [round(rate, 6) for rate in sums.values()]


def _known(fact: TcpTest, rows: list[_Row], end: str) -> list[_Row]:
    """Rows of one end; the server prints zeros for the other one."""
    found = _total([row for row in rows if row.end in (end, "both")])
    other = fact.role == "server" and fact.reverse is not None and fact.reverse == (end == "sender")
    return [] if other and not any(row.gbit_s for row in found) else found


def _fill(fact: TcpTest, rows: list[_Row]) -> None:
    """The numbers of one direction."""
    sender, receiver = _known(fact, rows, "sender"), _known(fact, rows, "receiver")
    if sender:
        fact.sent_gbit_s = round(sum(row.gbit_s for row in sender), 6)
        counts = [row.retransmits for row in sender if row.retransmits is not None]
        fact.retransmits = sum(counts) if counts else None
    if receiver:
        fact.received_gbit_s = round(sum(row.gbit_s for row in receiver), 6)
    ends = sender or receiver
    if ends:
        fact.duration_s = round(ends[0].seconds[1] - ends[0].seconds[0], 2)
    losses = [row.lost for row in receiver or sender if row.lost]
    packets = sum(total for _, total in losses)
    if packets:
        fact.lost_share = round(min(1.0, sum(lost for lost, _ in losses) / packets), 6)
        if all(row.end == "both" for row in ends) and fact.sent_gbit_s is not None:
            fact.received_gbit_s = round(fact.sent_gbit_s * (1 - fact.lost_share), 6)
    intervals = _by_interval(rows)
    if intervals:
        fact.slowest_interval_gbit_s, fact.fastest_interval_gbit_s = min(intervals), max(intervals)
    if not ends and intervals:
        mean = round(sum(intervals) / len(intervals), 6)
        if any(row.window for row in rows) or not fact.reverse:
            fact.sent_gbit_s = mean
        else:
            fact.received_gbit_s = mean
    fact.max_window_bytes = max((row.window for row in rows if row.window), default=None)
    fact.window_granted = False if fact.max_window_bytes else None  # the column is Cwnd
    _share(fact)


def _share(fact: TcpTest) -> None:
    if fact.retransmits is None or not (fact.mss_bytes and fact.sent_gbit_s and fact.duration_s):
        return
    segments = fact.sent_gbit_s * 1e9 / 8 * fact.duration_s / fact.mss_bytes
    fact.retransmit_share = round(fact.retransmits / (segments + 1), 6)


def _from_options(fact: TcpTest, command: str | None) -> None:
    """What a cut text does not say, from the options of the command above it."""
    calls = _CALL.findall(command or "")
    if len(calls) != 1:
        return
    options = calls[0]
    client, streams = _CLIENT_OF.search(command or ""), _STREAMS.search(options)
    if client and fact.role is None:
        fact.role, fact.peer = "client", fact.peer or client[1]
        fact.reverse = bool(_REVERSED.search(options)) if fact.reverse is None else fact.reverse
    if fact.streams is None and streams:
        fact.streams = int(streams[1])


def _finish(segment: Segment, run: _Text) -> Iterator[Fact | Problem]:
    fact, rows = run.fact, run.rows
    _from_options(fact, segment.command)
    end = segment.numbers[run.last]
    fact.origins = (replace(segment.origin(run.first), end=end),)
    streams = {row.stream for row in rows if row.stream != "SUM"}
    if fact.streams is None and streams and any(row.stream == "SUM" for row in rows) <= (len(streams) > 1):
        fact.streams = len(streams)
    if fact.protocol is None and any(row.retransmits is not None for row in rows):
        fact.protocol = "TCP"
    both = {row.role[:2] for row in rows if row.role} == {"TX", "RX"}
    if both:
        fact.bidirectional, fact.streams = True, max(1, (fact.streams or 2) // 2)
        second = replace(fact, test=fact.test + " reverse", reverse=True)
        fact.reverse = False
        _fill(second, [row for row in rows if row.role.startswith("RX")])
        rows = [row for row in rows if row.role.startswith("TX")]
        _fill(fact, rows)
        yield fact
        yield second
    else:
        _fill(fact, rows)
        yield fact
    if not run.summed and not fact.error and len(rows) > 1:
        yield Problem(end, "iperf3 output ends before its summary")


class _Reader:
    """Reads the text of a segment; lines of other tools between are passed over."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.runs: list[_Text] = []
        self.version: str | None = None
        self.mss: int | None = None
        self.foreign = False  # inside a block of iperf2

    @property
    def run(self) -> _Text | None:
        """The run that lines now belong to."""
        return self.runs[-1] if self.runs and not self.runs[-1].ended else None

    def read(self) -> None:
        """Reads all lines."""
        for index, line in enumerate(self.segment.lines):
            self._line(index, line[:1000].rstrip())

    def _open(self, index: int, *, role: str | None = None) -> _Text:
        fact = TcpTest(
            test=self.segment.at(index), tool="iperf3", tool_version=self.version, role=role, mss_bytes=self.mss,
        )
        run = _Text(index, index, fact)
        self.runs.append(run)
        return run

    def _take(self, index: int, run: _Text | None = None) -> None:
        if run is not None:
            run.last = index
        self.segment.skip(index)

    def _line(self, index: int, line: str) -> None:
        if _FOREIGN.search(line):
            self.foreign = True
            if self.run is not None:
                self.run.ended = True
        elif any(first.search(line) for first in (_CONNECTED, _CONNECTING, _ACCEPTED, _OURS)):
            self.foreign = False
        if not self.foreign:
            self._own(index, line)

    def _own(self, index: int, line: str) -> None:
        if m := _ROW.search(line):
            self._row(index, m)
        elif m := _CONNECTED.search(line):
            self._connected(index, m)
        elif m := _CONNECTING.search(line):
            run = self._open(index, role="client")
            run.fact.peer, run.fact.reverse = m[1], False
            self._take(index, run)
        elif m := _ACCEPTED.search(line):
            run = self._open(index, role="server")
            run.fact.peer, run.fact.reverse = m[1], True
            self._take(index, run)
        elif m := _ERROR.match(line):
            self._error(index, m["text"])
        elif m := _VERSION.match(line):
            self.version = m[1]
            self.segment.skip(index)
        elif not self._detail(index, line):
            self._noise(index, line)

    def _noise(self, index: int, line: str) -> None:
        """Lines without facts, and those before a verbose run begins."""
        if line.endswith("iperf Done.") and self.run is not None:
            self.run.ended = True
        elif line.startswith("Server listening on "):
            lines = self.segment.lines
            for near in (index - 1, index + 1):
                if 0 <= near < len(lines) and lines[near].startswith("-----"):
                    self.segment.skip(near)
        elif self.version and self.run is None and (m := _MSS.search(line)):
            self.mss = int(m[1]) or None
        elif not _NOISE.search(line) or (self.run is None and not self.version):
            return
        self.segment.skip(index)

    def _row(self, index: int, m: re.Match[str]) -> None:
        run = self.run
        if run is None:
            run = self._open(index)
        row = _row(m, run.closing)
        if row is not None and run.complete(row):
            run = self._open(index)  # rows of a run whose first lines are missing
        if row is not None:
            run.rows.append(row)
        self._take(index, run)

    def _connected(self, index: int, m: re.Match[str]) -> None:
        run = self.run
        if run is None or run.rows:
            run = self._open(index)
        fact = run.fact
        if fact.peer is not None and fact.peer != m[2] and fact.local is None:
            fact.peer_name = fact.peer if fact.role == "client" else None
        fact.local, fact.peer = m[1], m[2]
        self._take(index, run)

    def _error(self, index: int, text: str) -> None:
        run = self.run
        if run is None or (run.summed and "unable to" in text):
            run = self._open(index)
            run.fact.peer = _from_command(self.segment)
        run.fact.error = text.strip()
        run.ended = True
        self._take(index, run)

    def _detail(self, index: int, line: str) -> bool:
        """Lines that say more about the run; whether this is one."""
        run = self.run
        if m := _HEADER.search(line):
            if run is not None:
                run.fact.protocol = "UDP" if "Datagrams" in m["rest"] else run.fact.protocol or "TCP"
        elif run is None:
            return False
        elif m := _VERBOSE.search(line):
            run.fact.protocol, run.fact.streams = m["protocol"], int(m["streams"])
        elif m := _MSS.search(line):
            run.fact.mss_bytes = int(m[1]) or None
        elif m := _CONGESTION.match(line):
            run.fact.congestion = m[1]
        elif m := _CPU.match(line):
            run.fact.cpu_local_share = round(_float(m["local"]) / 100, 4)
            run.fact.cpu_remote_share = round(_float(m["remote"]) / 100, 4)
        elif _REVERSE.search(line):
            run.fact.reverse = True
        elif _RULER.match(line):
            run.closing = True
        else:
            return False
        self._take(index, run)
        return True


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact a run and direction (iperf3 JSON: bits/s and bytes; text: decimal bits, binary bytes)."""
    if '"start"' in segment.text or '"event"' in segment.text:
        yield from _parse_json(segment)
    reader = _Reader(segment)
    reader.read()
    for run in reader.runs:
        yield from _finish(segment, run)


SOURCE = Source(
    id="iperf3",
    title="iperf3",
    facts=(TcpTest,),
    needles=("iperf", "bits/sec", "Bytes/sec", "] Interval", '"connected"', '"test_start"', "Connecting to host"),
    signature=re.compile(
        r"\[ ID\](?:\[Role\])? Interval +Transfer +B|iperf3: (?:error|interrupt) - |Server listening on \d"
        r"|Connecting to host \S+, port \d|\] +\d+\.\d\d- ?\d+\.\d\d +sec +[\d.]+ [KMGT]?Bytes +[\d.]+ "
        r'|"(?:connected|test_start|connecting_to)"\s*:|"event"\s*:\s*"(?:start|interval)"'
    ),
    parse=parse,
    commands=(
        Command(("iperf3", "-J", "-c", "{peer}", "-P", "1", "-t", "5"), 6, 30, traffic=True, disturbs=True),
        Command(("iperf3", "-J", "-c", "{peer}", "-P", "8", "-t", "5"), 6, 30, traffic=True, disturbs=True),
    ),
    versions="3.0 to 3.21",
)
