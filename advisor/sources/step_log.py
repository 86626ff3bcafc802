"""Step lines of training loops: Megatron-LM, DeepSpeed, tqdm bars (HF Trainer, Lightning), loops of one's own.

There is no standard. A line counts only with the number of a step and a time that carries its unit, or that stands
beside a time for data as in the examples of PyTorch and OpenMMLab, where it is in seconds. The first steps are warm-up
and are left out of the medians. Lines that pair a number of GPUs or nodes with a throughput are a scaling test.

    >>> SAMPLE = '''step 0 loss 2.31 step_time 901.0 ms samples/s 568.2
    ... step 1 loss 2.30 step_time 250.0 ms samples/s 2048.0
    ... step 2 loss 2.29 step_time 252.0 ms samples/s 2031.7
    ... 8 GPUs: 1000 samples/s
    ... 16 GPUs: 1250 samples/s
    ... '''
    >>> segment = Segment("train.rank0.log", SAMPLE.splitlines(), range(1, 99))
    >>> *pair, steps = parse(segment)
    >>> (steps.rank, steps.steps, steps.median_s, steps.max_s, steps.throughput, steps.unit)
    (0, 3, 0.251, 0.252, 2039.85, 'samples/s')
    >>> [(f.gpus, f.rate) for f in pair]
    [(8, 1000.0), (16, 1250.0)]
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from statistics import median

from advisor.facts import Fact, StepTimes, Throughput
from advisor.sources.base import Problem, Segment, Source

_LONGEST_LINE = 2000
_SLOW = 1.5  # times the median
_PERIOD_STEPS = 3  # slow steps that a period needs

_N = r"(\d{1,3}(?:,\d{3}){1,4}(?:\.\d{1,9})?|\d{1,15}(?:\.\d{1,9})?)"
_TIME_UNIT = r"(ms|msec|milliseconds?|us|s|secs?|seconds?)"
_STEP = re.compile(
    r"(?:^|[\s\[|,/])(?:global_?|train(?:ing)?_?)?(?:steps?|iter(?:ation)?s?|batch)\b['\"]?\s{0,3}[:=#\[]?\s{0,12}"
    r"(?P<step>\d{1,12})\b(?![.%]|\s{0,2}(?:ms|s|sec)\b)",
    re.IGNORECASE,
)
# Epoch: [0][ 10/5005] of the ImageNet example; Epoch(train) [1][ 50/1000] of OpenMMLab
_EPOCH_STEP = re.compile(
    r"\bEpoch(?:\(train\))?:?\s{0,3}\[\d{1,6}\]\s{0,3}\[\s{0,9}(?P<step>\d{1,12})/\s{0,9}\d{1,12}\]"
)
_NAMED_TIME = re.compile(
    r"\b(?:(?:step|iter(?:ation)?|batch)[_ ]?time|time[_ ](?:per|/)[_ ]?(?:step|iter(?:ation)?)|"
    r"elapsed time per iteration|train_step_timing in s|time|dt|took|duration)"
    rf"\s?(?:[(\[]{_TIME_UNIT}[)\]])?['\"]?\s{{0,3}}[:=]?\s{{0,3}}{_N}\s?{_TIME_UNIT}?(?![\w/])",
    re.IGNORECASE,
)
_DATA_TIME = re.compile(
    r"\b(?:data(?:[_ ]?(?:load(?:ing)?)?[_ ]?time|[_ ]wait)?|dataload(?:er|ing)?(?:[_ ]time)?)"
    rf"\s?(?:[(\[]{_TIME_UNIT}[)\]])?['\"]?\s{{0,3}}[:=]?\s{{0,3}}(\d{{1,9}}\.\d{{1,9}}|\d{{1,9}}(?=\s?(?:ms|s)\b))"
    rf"\s?{_TIME_UNIT}?(?![\w/])",
    re.IGNORECASE,
)
_BARE_TIME = re.compile(rf"(?P<before>\S{{0,20}}\s{{0,2}})(?<![\d.,]){_N}\s?{_TIME_UNIT}(?![\w/])")
_NOT_A_STEP = re.compile(r"eta|elapsed|total|remain|left|runtime|since|timeout|latency", re.IGNORECASE)
_RATE_NAME = (
    r"(?P<what>samples?|tok(?:en)?s?|images?|imgs?|seq(?:uence)?s?|examples?|TFLOPs?)"
    r"(?:/|_per_| per |_)s(?:ec(?:ond)?)?\b(?P<gpu>(?:/|_per_| per )(?:gpu|device))?"
)
_RATE_BEFORE = re.compile(
    _RATE_NAME + r"\)?['\"]?\s{0,3}[:=]?\s{0,3}(?P<value>[\d,.]{1,20})(?![\w/])(?!\s?(?:ms|s|sec)\b)", re.IGNORECASE
)
_RATE_AFTER = re.compile(r"(?<![\d.,\w])(?P<value>\d[\d,.]{0,20}) ?" + _RATE_NAME, re.IGNORECASE)
_UNITS = {"sam": "samples/s", "tok": "tokens/s", "ima": "images/s", "img": "images/s", "seq": "sequences/s",
          "exa": "samples/s", "tfl": "TFLOP/s"}  # fmt: skip

_MEGATRON = re.compile(r"\biteration\s{1,9}(?P<step>\d{1,12})/\s{0,12}\d{1,12} \|")
_MEGATRON_TIME = re.compile(r"elapsed time per iteration \(ms\): (\d{1,12}(?:\.\d{1,9})?)")
_MEGATRON_RATE = re.compile(r"throughput per GPU \(TFLOP/s/GPU\): (\d{1,9}(?:\.\d{1,9})?)")
_MEGATRON_BATCH = re.compile(r"global batch size:\s{1,12}(\d{1,9})")
_DEEPSPEED = re.compile(
    r"\bsteps: (?P<step>\d{1,12}) loss: \S{1,40} iter time \(s\): (?P<s>\d{1,9}(?:\.\d{1,9})?)"
    r"(?: samples/sec: (?P<rate>\d{1,12}(?:\.\d{1,9})?))?"
)
_DEEPSPEED_RATE = re.compile(
    r"global_step=(?P<step>\d{1,12}), RunningAvgSamplesPerSec=\S{1,30}, "
    r"CurrSamplesPerSec=(?P<rate>\d{1,12}(?:\.\d{1,9})?)"
)
_TQDM = re.compile(
    r"^(?P<what>[^|%]{0,100}?)\s{0,4}\d{1,3}%\|[^|]{0,200}\|\s{0,4}(?P<step>\d{1,12})/(?P<total>\d{1,12}) "
    r"\[[\d:?]{1,12}<[\d:?]{1,12},\s{1,4}(?P<rate>\d{1,9}(?:\.\d{1,9})?)(?P<unit>s/it|it/s)"
)
_TQDM_TRAINS = re.compile(r"^\s{0,9}(?:$|epoch|train|step|iter)", re.IGNORECASE)
_WORLD = re.compile(r"\bworld[_ ]?size\b['\"]?\s{0,3}[:=]?\s{0,3}(\d{1,7})\b", re.IGNORECASE)
_RANK = re.compile(r"\[[Rr]ank[ _]?(\d{1,7})\]|\brank[=: ]{1,2}(\d{1,7})\b")
_RANK_IN_FILE = re.compile(r"rank[._-]?(\d{1,7})(?!\d)", re.IGNORECASE)

_SCALE = re.compile(
    r"^[^\w]{0,9}(?:(?P<n1>\d{1,7}) ?(?P<k1>gpus?|nodes?)|(?P<k2>gpus?|nodes?) ?[:=]? ?(?P<n2>\d{1,7}))\b"
    rf"[^\d\n]{{1,60}}?{_N} ?(?P<what>samples?|tokens?|images?|sequences?|examples?)(?:/| per )s(?:ec(?:ond)?)?\b"
    r"(?P<gpu>(?:/| per )gpu)?",
    re.IGNORECASE,
)
_BATCH_PER_GPU = re.compile(
    r"(?:per[-_ ](?:gpu|device)[-_ ]batch(?:[-_ ]size)?|batch(?:[-_ ]size)? per gpu)\s?[:=]?\s?(\d{1,6})", re.IGNORECASE
)

_HINT = re.compile(r"step|iter|epoch|batch|it/s|s/it|gpu|node|world", re.IGNORECASE)  # a cheap first test of a line
# Begins with one set of letters, so that a search through a long log of something else takes no time.
_SIGNATURE = re.compile(
    r"[SsIiEeBbTt](?:(?:tep|ter|poch|atch)[^\n]{0,200}?\d\s?(?:ms|s|sec|seconds|msec)\b|teration\s{1,9}\d{1,12}/"
    r"|(?:amples?|okens?|ok|mages?|mgs?|equences?|xamples?)(?:/| per |_per_)s|(?:/it|t/s)\b"
    r"|poch(?:\(train\))?:?\s{0,3}\[)"
)


@dataclass(slots=True)
class _Step:
    """One step line: seconds, and what else it says."""

    number: int
    line: int
    seconds: float | None = None
    data: float | None = None
    rate: float | None = None
    unit: str | None = None
    per_gpu: bool | None = None
    total: int | None = None


@dataclass(slots=True)
class _Series:
    """The step lines of one loop."""

    framework: str
    rank: int | None
    steps: list[_Step] = field(default_factory=list)
    global_batch: int | None = None


def _number(text: str) -> float | None:
    text = text.replace(",", "").rstrip(".")
    return float(text) if re.fullmatch(r"\d{1,15}(?:\.\d{1,9})?", text) else None


def _seconds(value: str, unit: str) -> float | None:
    number = _number(value)
    factor = 1e-3 if unit[:2].lower() in ("ms", "mi") else 1e-6 if unit.lower() == "us" else 1.0
    return None if number is None else number * factor


def _times(line: str) -> tuple[float | None, float | None]:
    """Seconds of the step and of waiting for data."""
    data = _DATA_TIME.search(line)
    waited = None
    if data:
        waited = _seconds(data[2], data[1] or data[3] or "s")
        line = line[: data.start()] + line[data.end() :]
    for named in _NAMED_TIME.finditer(line):
        unit = named[1] or named[3] or ("s" if data or "timing in s" in named[0] else None)
        before = line[max(0, named.start() - 20) : named.start()].split()[-1:]
        if unit and not any(map(_NOT_A_STEP.search, before)):
            return _seconds(named[2], unit), waited
    bare = [found for found in _BARE_TIME.finditer(line) if not _NOT_A_STEP.search(found["before"])]
    if len(bare) == 1:
        return _seconds(bare[0][2], bare[0][3]), waited
    return None, waited


def _rate(line: str) -> tuple[float | None, str | None, bool | None]:
    """Throughput, its unit, and whether it is of one GPU."""
    for pattern in (_RATE_BEFORE, _RATE_AFTER):
        found = pattern.search(line)
        value = _number(found["value"]) if found else None
        if found and value is not None:
            key = found["what"][:3].lower()
            return value, _UNITS[key], True if found["gpu"] else None
    return None, None, None


def _known(line: str, index: int) -> tuple[str, _Step] | None:
    """A step line of a framework with a form of its own."""
    if found := _MEGATRON.search(line):
        time, rate = _MEGATRON_TIME.search(line), _MEGATRON_RATE.search(line)
        step = _Step(int(found["step"]), index, float(time[1]) / 1000 if time else None)
        if rate:
            step.rate, step.unit, step.per_gpu = float(rate[1]), "TFLOP/s", True
        return "megatron", step
    if found := _DEEPSPEED.search(line):
        rated = float(found["rate"]) if found["rate"] else None
        step = _Step(int(found["step"]), index, float(found["s"]), rate=rated)
        if rated is not None:
            step.unit, step.per_gpu = "samples/s", False
        return "deepspeed", step
    if found := _DEEPSPEED_RATE.search(line):
        return "deepspeed", _Step(int(found["step"]), index, rate=float(found["rate"]), unit="samples/s", per_gpu=False)
    if (found := _TQDM.search(line)) and _TQDM_TRAINS.match(found["what"]):
        rated = float(found["rate"])
        seconds = rated if found["unit"] == "s/it" else 1 / rated if rated else None
        return "tqdm", _Step(int(found["step"]), index, seconds, total=int(found["total"]))
    return None


def _loop(line: str, index: int) -> _Step | None:
    """A step line of a loop of one's own."""
    found = _EPOCH_STEP.search(line) or _STEP.search(line)
    if found is None:
        return None
    rest = line[: found.start()] + " " + line[found.end() :]
    seconds, data = _times(rest)
    rate, unit, per_gpu = _rate(rest)
    if seconds is None and rate is None:
        return None
    return _Step(int(found["step"]), index, seconds, data, rate, unit, per_gpu)


def _rank_of(segment: Segment, line: str) -> int | None:
    found = _RANK.search(line[:200])
    if found:
        return int(found[1] or found[2])
    named = _RANK_IN_FILE.search(segment.file.rpartition("/")[2])
    return int(named[1]) if named else None


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """A StepTimes for each loop and rank, a Throughput for each line of a scaling test."""
    series: list[_Series] = []
    world: int | None = None
    for index, full in enumerate(segment.lines):
        line = full[:_LONGEST_LINE]
        if " NCCL INFO " in line or not _HINT.search(line):
            continue
        if world is None and (found := _WORLD.search(line)):
            world = int(found[1])
        if scale := _SCALE.match(line):
            yield from _throughput(segment, index, line, scale)
            continue
        known = _known(line, index) or (("loop", step) if (step := _loop(line, index)) else None)
        if known:
            one = _series_of(series, known[0], _rank_of(segment, line), known[1])
            if batch := _MEGATRON_BATCH.search(line):
                one.global_batch = int(batch[1])
    for one in series:
        if len(one.steps) > 1 or one.framework == "megatron":
            yield _summary(segment, one, world)


def _series_of(series: list[_Series], framework: str, rank: int | None, step: _Step) -> _Series:
    """The loop a step belongs to: another one begins where the count starts anew, or a bar has another length."""
    for one in reversed(series):
        if one.framework == framework and one.rank == rank and one.steps[-1].total == step.total:
            if framework != "loop" or step.number + 2 >= one.steps[-1].number or step.number > one.steps[0].number:
                one.steps.append(step)
                return one
            break
    made = _Series(framework, rank, [step])
    series.append(made)
    return made


def _warm_up(count: int) -> int:
    """First steps to leave out: memory is allocated, connections are made, kernels are compiled."""
    return 3 if count >= 8 else 1 if count >= 3 else 0


def _summary(segment: Segment, of: _Series, world: int | None) -> StepTimes:
    first, last = of.steps[0], of.steps[-1]
    fact = StepTimes(
        log=segment.at(first.line), framework=of.framework, rank=of.rank, steps=len(of.steps),
        global_batch=of.global_batch, nranks=world,
    )  # fmt: skip
    fact.origins = (segment.origin(first.line), segment.origin(last.line))
    for step in of.steps:
        segment.skip(step.line)
    fact.warm_up = _warm_up(len(of.steps))
    kept = of.steps[fact.warm_up :]
    _time_fields(fact, [step for step in kept if step.seconds])
    waits = [step.data for step in kept if step.data is not None]
    if waits:
        fact.data_time_s = round(median(waits), 6)
        if fact.median_s:
            fact.data_share = round(min(1.0, fact.data_time_s / fact.median_s), 3)
    rates = [step for step in kept if step.rate is not None and step.unit == kept[-1].unit]
    if rates:
        fact.throughput = round(median(step.rate for step in rates if step.rate is not None), 3)
        fact.unit, fact.per_gpu = rates[-1].unit, rates[-1].per_gpu
    return fact


def _time_fields(fact: StepTimes, steps: Sequence[_Step]) -> None:
    times = [step.seconds for step in steps if step.seconds is not None]
    if not times:
        return
    usual = median(times)
    fact.median_s, fact.max_s = round(usual, 6), round(max(times), 6)
    fact.p95_s = round(sorted(times)[ceil(0.95 * len(times)) - 1], 6)
    if fact.framework == "tqdm":
        return  # a running average, which hides single steps
    slow = [step for step in steps if step.seconds is not None and step.seconds > _SLOW * usual]
    fact.slow_steps = tuple(step.number for step in slow)
    lost = sum(step.seconds - usual for step in slow if step.seconds is not None)
    fact.slow_share = round(lost / sum(times), 3)
    gaps = {b.number - a.number for a, b in pairwise(slow)}
    if len(slow) >= _PERIOD_STEPS and len(gaps) == 1 and min(gaps) > 1:
        fact.slow_period = gaps.pop()


def _throughput(segment: Segment, index: int, line: str, found: re.Match[str]) -> Iterator[Throughput]:
    count, kind = int(found["n1"] or found["n2"]), (found["k1"] or found["k2"]).lower()
    rate = _number(found[5])
    if rate is None or not count:
        return
    batch = _BATCH_PER_GPU.search(line)
    fact = Throughput(rate=rate, unit=_UNITS[found["what"][:3].lower()], per_gpu=found["gpu"] is not None)
    if kind.startswith("gpu"):
        fact.gpus = count
    else:
        fact.nodes = count
    fact.batch_per_gpu = float(batch[1]) if batch else None
    fact.origins = (segment.origin(index),)
    yield fact


SOURCE = Source(
    id="step-log",
    title="step lines of a training loop",
    facts=(StepTimes, Throughput),
    needles=("step", "Step", "iter", "Iter", "Epoch", "epoch", "batch", "s/it", "it/s", "samples/s", "GPU", "node"),
    signature=_SIGNATURE,
    parse=parse,
    versions="Megatron-LM core_r0.4.0 and later, DeepSpeed, tqdm",
)
