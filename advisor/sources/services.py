r"""State of system services: `systemctl status`, `systemctl is-active`, the journal of the NVIDIA services.

Seen: systemd 219 to 257. The bare word of `is-active` needs the command line beside it. In a journal the last word of
systemd on a service counts; the service's own last complaint says why. The fabric manager serves NVSwitches only and
ends with `NV_WARN_NOTHING_TO_DO` where there is none.

    >>> SAMPLE = '''Mar 02 07:10:05 gpu9 systemd[1]: Starting NVIDIA fabric manager service...
    ... Mar 02 07:10:05 gpu9 nv-fabricmanager[812]: fabric manager NVIDIA GPU driver interface version 550.54.14 don't \
    ... match with driver version 550.90.07. Please update with matching NVIDIA driver package.
    ... Mar 02 07:10:05 gpu9 systemd[1]: nvidia-fabricmanager.service: Failed with result 'exit-code'.
    ... '''
    >>> segment = Segment("journal.txt", SAMPLE.splitlines(), range(1, 99))
    >>> [(s.host, s.name, s.state, s.reason) for s in parse(segment)]
    [('gpu9', 'nvidia-fabricmanager', 'failed', 'version-mismatch')]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from advisor.facts import Fact, Service
from advisor.sources.base import Command, Problem, Segment, Source

_STATES = "active|inactive|failed|activating|deactivating|reloading|unknown"
_UNIT = re.compile(r"^[●×○↻*] ([\w@.-]{1,80})\.service(?: - .{0,200})?$")
_ACTIVE = re.compile(rf"^\s{{1,12}}Active: ({_STATES})(?: \(([\w :-]{{1,40}})\))?(?: .*|)$")
_LOADED = re.compile(r"^\s{1,12}Loaded: ([\w-]{1,20})(?: .*|)$")
_ABSENT = re.compile(r"^Unit ([\w@.-]{1,80}?)(?:\.service)? could not be found\.$")
_ASKED = re.compile(r"\bsystemctl(?: --?[\w=-]+)* is-active(?: --?[\w=-]+)*((?: [\w@.-]{1,80}){1,12}) *$")
_WORD = re.compile(rf"^({_STATES})$")
_JOURNAL = re.compile(
    r"^(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.,+Z-]{8,24}) ([\w.-]{1,80}) "
    r"([\w.-]{1,40})(?:\[\d{1,10}\])?: (.*)$"
)
_ABOUT = re.compile(r"^([\w@.-]{1,80})\.service: (.*)$")
_TITLES = {
    "NVIDIA fabric manager service": "nvidia-fabricmanager",
    "NVIDIA IMEX service": "nvidia-imex",
    "NVIDIA Persistence Daemon": "nvidia-persistenced",
}
_TITLE = re.compile(
    r"^(Starting|Started|Failed to start|Stopping|Stopped) (?:([\w@-]{1,80})\.service - )?(.{1,80}?)(?:\.\.\.|\.|)$"
)
_MORE = re.compile(r"^\s{1,12}(?:Main PID|Process|Tasks|Memory|CPU|CGroup|Docs|Drop-In|TriggeredBy): ")
_SAID = (
    ("failed", re.compile(r"^Failed with result|process exited, code=\w{1,12}, status=(?!0/)|^Failed at step")),
    ("inactive", re.compile(r"^(?:Succeeded|Deactivated successfully|Unit inactive)")),
)
_OF_TITLE = {"Started": "active", "Failed to start": "failed", "Stopped": "inactive"}
_WRITERS = {"nv-fabricmanager": "nvidia-fabricmanager", "nvidia-imex": "nvidia-imex"}
_REASONS = (
    ("nothing-to-manage", re.compile(r"NV_WARN_NOTHING_TO_DO")),
    ("version-mismatch", re.compile(r"version \S{1,30} don'?t match with driver version|version mismatch", re.I)),
)
_WIDEST = 2000


@dataclass(slots=True)
class _Unit:
    """What a text says of one service so far."""

    name: str
    first: int
    last: int
    host: str | None = None
    state: str | None = None
    detail: str | None = None
    reason: str | None = None


class _Reader:
    """Collects the services of a segment, by host and name."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.units: dict[tuple[str | None, str], _Unit] = {}
        self.current: _Unit | None = None

    def unit(self, name: str, index: int, host: str | None = None) -> _Unit:
        """The service of that name; the line is marked as understood."""
        self.segment.skip(index)
        unit = self.units.setdefault((host, name.removesuffix(".service")), _Unit(name, index, index, host))
        unit.last = index
        return unit

    def status(self, line: str, index: int) -> bool:
        """A line of `systemctl status`, before its journal."""
        if title := _UNIT.match(line):
            self.current = self.unit(title[1], index)
        elif absent := _ABSENT.match(line):
            self.unit(absent[1], index).state = "not-found"
        elif self.current and (loaded := _LOADED.match(line)):
            self.unit(self.current.name, index)
            if loaded[1] in ("not-found", "masked"):
                self.current.state = loaded[1]
        elif self.current and (active := _ACTIVE.match(line)):
            self.unit(self.current.name, index)
            self.current.state = self.current.state or active[1]
            self.current.detail = active[2]
        elif self.current and _MORE.match(line):
            self.segment.skip(index)
        else:
            return False
        return True

    def journal(self, line: str, index: int) -> None:
        """A line of the journal, if it is systemd's about a service or one of the services we know."""
        entry = _JOURNAL.match(line)
        if not entry:
            return
        host, writer, text = entry[1].partition(".")[0], entry[2], entry[3]
        if writer in _WRITERS:
            self._complaint(self._known(_WRITERS[writer], index, host), text)
        elif writer == "systemd" and (about := _ABOUT.match(text)):
            self._systemd(self._known(about[1], index, host), about[2])
        elif writer == "systemd" and (title := _TITLE.match(text)) and (name := title[2] or _TITLES.get(title[3])):
            self._settle(self._known(name, index, host), _OF_TITLE.get(title[1]))

    def _known(self, name: str, index: int, host: str) -> _Unit:
        """The unit of a journal line: below a `systemctl status` it is that unit."""
        if self.current and self.current.name == name:
            return self.unit(name, index)
        return self.unit(name, index, host)

    def _systemd(self, unit: _Unit, text: str) -> None:
        self._settle(unit, next((state for state, pattern in _SAID if pattern.search(text)), None))

    def _settle(self, unit: _Unit, state: str | None) -> None:
        if state is not None and unit is not self.current:  # the status line above a journal is the newer word
            unit.state = state
            unit.reason = None if state == "active" else unit.reason

    def _complaint(self, unit: _Unit, text: str) -> None:
        unit.reason = next((reason for reason, pattern in _REASONS if pattern.search(text)), unit.reason)

    def words(self) -> None:
        """The answers of `systemctl is-active A B`, in that order."""
        asked = _ASKED.search(self.segment.command or "")
        lines = [(i, line.strip()) for i, line in enumerate(self.segment.lines[:50]) if line.strip()]
        if not asked or not lines or not all(_WORD.match(line) for _, line in lines):
            return
        for name, (i, line) in zip(asked[1].split(), lines, strict=False):
            self.unit(name, i).state = line


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact for each service with a known state or reason."""
    reader = _Reader(segment)
    reader.words()
    for index, line in enumerate(segment.lines):
        if len(line) < _WIDEST and not reader.status(line, index):
            reader.journal(line, index)
    for unit in reader.units.values():
        if unit.state is None and unit.reason is None:
            continue
        origin = replace(segment.origin(unit.first), end=segment.numbers[unit.last])
        yield Service(
            host=unit.host, name=unit.name.removesuffix(".service"), state=unit.state, detail=unit.detail,
            reason=unit.reason, origins=(origin,),
        )  # fmt: skip


SOURCE = Source(
    id="services",
    title="system services (systemctl, journal)",
    facts=(Service,),
    needles=(".service", "nv-fabricmanager", "nvidia-imex", "active", "failed", "NVIDIA fabric manager"),
    signature=re.compile(
        rf"^[●×○↻*] [\w@.-]{{1,80}}\.service|^Unit [\w@.-]{{1,80}} could not be found\."
        rf"|^\s{{1,12}}Active: (?:{_STATES})| nv-fabricmanager\[\d"
        rf"|systemd\[\d{{1,7}}\]: (?:[\w@.-]{{1,80}}\.service: |\w+ NVIDIA )|\A\s*(?:{_STATES})$",
        re.MULTILINE,
    ),
    parse=parse,
    commands=(Command(("systemctl", "status", "nvidia-fabricmanager", "--no-pager", "-n", "20")),),
    versions="systemd 219 to 257",
)
