"""The clock of the processors: sysfs cpufreq files, `cpupower frequency-info`, `cpu MHz` of /proc/cpuinfo.

Seen: Linux 4 to 6. sysfs prints kHz. Values alone (`cat .../scaling_governor`) are known only by the command above
them. With intel_pstate, `powersave` is a normal, dynamic mode.

    >>> SAMPLE = '''/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor:powersave
    ... /sys/devices/system/cpu/cpu1/cpufreq/scaling_governor:powersave
    ... /sys/devices/system/cpu/cpu0/cpufreq/scaling_driver:acpi-cpufreq
    ... '''
    >>> segment = Segment("cpufreq.txt", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.governors, f.driver, f.cpus) for f in parse(segment)]
    [(('powersave',), 'acpi-cpufreq', 2)]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from advisor.facts import CpuFrequency, Fact
from advisor.sources.base import Command, Problem, Segment, Source

_GOVERNOR = r"(?:performance|powersave|schedutil|ondemand|conservative|userspace|interactive)"
_FILES = r"(scaling_governor|scaling_driver|scaling_cur_freq|scaling_max_freq|cpuinfo_cur_freq|cpuinfo_max_freq)"
_SYSFS = re.compile(
    rf"^/sys/devices/system/cpu/(?:cpu(\d{{1,5}})/cpufreq|cpufreq/policy(\d{{1,5}}))/{_FILES}:(\S{{1,40}})$"
)
_ALONE = re.compile(rf"^ *(?:\d{{1,5}} )?({_GOVERNOR}) *$")
_CLOCK = re.compile(r"^cpu MHz\s+: (\d{1,5}(?:\.\d{1,6})?)$")
_CPUPOWER = (
    ("driver", re.compile(r"^ +driver: (\S{1,40})$")),
    ("governor", re.compile(rf'^ +The governor "({_GOVERNOR})" may decide')),
    ("hardware", re.compile(r"^ +hardware limits: [\d.]+ [GM]Hz - ([\d.]{1,8} [GM]Hz)")),
    ("limit", re.compile(r"^ +current policy: frequency should be within [\d.]+ [GM]Hz and ([\d.]{1,8} [GM]Hz)")),
    ("clock", re.compile(r"^ +current CPU frequency: ([\d.]{1,8} [GM]Hz)")),
)
_ANALYZING = re.compile(r"^analyzing CPUs? \d")
_NO_DRIVER = re.compile(r"no or unknown cpufreq driver is active")
_NOISE = re.compile(
    r"^ +(?:CPUs which |maximum transition|available |within this range|current CPU frequency: Unable"
    r"|boost state|Supported:|Active:|AMD PSTATE|\d+ MHz (?:max )?turbo|energy performance|Amount of|Not Available"
    r"|hardware limits: Not)"
)


@dataclass(slots=True)
class _Found:
    """What the lines of a segment say together. All clocks in MHz."""

    governors: set[str] = field(default_factory=set)
    drivers: set[str] = field(default_factory=set)
    cpus: set[str] = field(default_factory=set)
    counted: int = 0
    clocks: list[float] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    hardware: list[float] = field(default_factory=list)
    absent: bool = False
    lines: list[int] = field(default_factory=list)


def _mhz(text: str) -> float | None:
    """`3.80 GHz` -> 3800.0."""
    number, _, unit = text.partition(" ")
    try:
        return round(float(number) * (1000 if unit == "GHz" else 1), 3)
    except ValueError:
        return None


def _sysfs(found: _Found, cpu: str, file: str, value: str) -> None:
    found.cpus.add(cpu)
    if file == "scaling_governor":
        found.governors.add(value)
    elif file == "scaling_driver":
        found.drivers.add(value)
    elif value.isdecimal():
        clocks = found.hardware if file == "cpuinfo_max_freq" else found.limits if "max" in file else found.clocks
        clocks.append(int(value) / 1000)


def _cpupower(found: _Found, line: str) -> bool:
    """Whether it is a line of `cpupower frequency-info`."""
    for name, pattern in _CPUPOWER:
        m = pattern.match(line)
        if not m:
            continue
        clock = _mhz(m[1])
        if name == "driver":
            found.drivers.add(m[1])
        elif name == "governor":
            found.governors.add(m[1])
        elif clock is not None:
            {"hardware": found.hardware, "limit": found.limits, "clock": found.clocks}[name].append(clock)
        return True
    if _ANALYZING.match(line):
        found.counted += 1
        return True
    if _NO_DRIVER.search(line):
        found.absent = True
        return True
    return False


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact for all lines (kHz or MHz printed, MHz kept)."""
    found = _Found()
    by_command = "scaling_governor" in (segment.command or "")
    cpupower = "analyzing CPU" in segment.text
    for index, line in enumerate(segment.lines):
        if len(line) > 300:
            continue
        if m := _SYSFS.match(line):
            _sysfs(found, m[1] or m[2], m[3], m[4])
        elif m := _CLOCK.match(line):
            found.clocks.append(float(m[1]))
            found.counted += 1
        elif by_command and (m := _ALONE.match(line)):
            found.governors.add(m[1])
            count = line.split()[0]
            found.counted += int(count) if count.isdecimal() else 1
        elif cpupower and _NOISE.match(line):
            segment.skip(index)
            continue
        elif not (cpupower and _cpupower(found, line)):
            continue
        found.lines.append(index)
        segment.skip(index)
    if not found.lines:
        return
    cpus = len(found.cpus) or found.counted
    yield CpuFrequency(
        sample=segment.at(found.lines[0]), governors=tuple(sorted(found.governors)) or None,
        driver=",".join(sorted(found.drivers)) or None, cpus=cpus or None,
        min_mhz=min(found.clocks, default=None), max_mhz=max(found.clocks, default=None),
        limit_mhz=max(found.limits, default=None), hardware_mhz=max(found.hardware, default=None),
        absent=found.absent or None, origins=(segment.origin(found.lines[0]),),
    )


SOURCE = Source(
    id="cpufreq",
    title="CPU frequency (cpufreq, cpupower)",
    facts=(CpuFrequency,),
    needles=("scaling_", "analyzing CPU", "cpu MHz", "cpuinfo_"),
    signature=re.compile(
        r"^/sys/devices/system/cpu/\S{1,40}/(?:scaling|cpuinfo)_\w+:|^analyzing CPUs? \d|^cpu MHz\s+: \d"
        r"|^.{0,200}scaling_governor",
        re.MULTILINE,
    ),
    parse=parse,
    commands=(Command(("grep", "-H", ".", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),),
    versions="Linux 4 to 6, cpupower 4 to 6",
)
