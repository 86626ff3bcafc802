"""`dcgmi diag`, as table and with `-j`: the tests of DCGM and which GPUs failed.

UNVERIFIED in part: layouts of DCGM 2.x to 4.x as NVIDIA's manual shows them. `Pass - All` speaks of all GPUs, `Fail -
GPU: 3` of one; GPU numbers are DCGM's, which are those of nvidia-smi unless GPUs were hidden from it.

    >>> SAMPLE = '''+---------------------------+------------------------------------------------+
    ... | Diagnostic                | Result                                         |
    ... +===========================+================================================+
    ... |-----  Integration  -------+------------------------------------------------|
    ... | PCIe                      | Fail - GPU: 3                                  |
    ... | Warning                   | GPU 3 Detected 12 PCIe replays.                |
    ... +---------------------------+------------------------------------------------+
    ... '''
    >>> [test] = parse(Segment("diag.txt", SAMPLE.splitlines(), range(1, 99)))
    >>> test.test, test.category, test.status, test.failed_gpus, test.message
    ('pcie', 'integration', 'fail', (3,), 'GPU 3 Detected 12 PCIe replays.')
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from advisor.facts import Fact, GpuDiagnostic
from advisor.sources.base import Command, Problem, Segment, Source

_LONGEST_LINE = 400
_LONGEST_MESSAGE = 400
_ROOTS = ("DCGM GPU Diagnostic", "DCGM Diagnostic")
_WORST_FIRST = ("fail", "warn", "pass", "skip")
_TITLE = re.compile(r"\|\s{1,4}Diagnostic\s+\|\s{1,4}Result\s+\|\s*")
_SECTION = re.compile(r"[|+]-{3,8} {1,3}([A-Z][\w ]{1,30}?) {1,3}-{1,60}\+-{1,200}[|+]\s*")
_RULER = re.compile(r"[+|][-=+]{5,300}[+|]\s*")
_RESULT = re.compile(r"(?:GPUs?\s?(\d{1,3}): )?(Pass|Fail|Warn|Skip)(?:ed)?(?: - (.{0,200}))?\s*", re.I)
_GPUS = re.compile(r"GPUs?:? ([\d, ]{1,200})")


@dataclass(slots=True)
class _Test:
    """One test under way; `statuses` by GPU, None where the text speaks of all or of the host."""

    name: str
    category: str | None
    first: int
    last: int
    statuses: list[tuple[str, int | None]] = field(default_factory=list)
    message: str = ""

    def fact(self, segment: Segment) -> GpuDiagnostic:
        said = {status for status, _ in self.statuses}
        worst = next((status for status in _WORST_FIRST if status in said), None)
        failed = {gpu for status, gpu in self.statuses if gpu is not None and status in ("fail", "warn")}
        return GpuDiagnostic(
            origins=(segment.origin(self.first, self.last),), test=self.name.lower(), category=self.category,
            status=worst, failed=None if worst is None else worst == "fail", failed_gpus=tuple(sorted(failed)),
            message=self.message[:_LONGEST_MESSAGE].strip() or None,
        )


def _results(text: str) -> list[tuple[str, int | None]]:
    """`Pass - All` -> one for all; `Fail - GPUs: 1, 3` -> one each; `GPU0: Pass` -> one."""
    result = _RESULT.fullmatch(text)
    if not result:
        return []
    status = result[2].lower()
    if result[1]:
        return [(status, int(result[1]))]
    named = _GPUS.search(result[3] or "")
    gpus = [int(number) for number in re.findall(r"\d{1,3}", named[1])] if named else []
    return [(status, gpu) for gpu in gpus] or [(status, None)]


def _table(segment: Segment) -> Iterator[_Test]:
    category: str | None = None
    test: _Test | None = None
    in_table = warned = False
    for i, line in enumerate(segment.lines):
        if len(line) > _LONGEST_LINE:
            continue
        section = _SECTION.fullmatch(line)
        if _TITLE.fullmatch(line):
            in_table, test, category = True, None, None
            segment.skip(i)
        elif in_table and section:
            category, test = section[1].strip().lower(), None
            segment.skip(i)
        elif _RULER.fullmatch(line) and in_table:
            segment.skip(i)
        elif in_table and line.startswith("|") and line.count("|") >= 3:
            segment.skip(i)
            name, _, text = (part.strip() for part in line.strip(" |").partition("|"))
            if line.strip(" |") and not line.strip()[1:].partition("|")[0].strip():
                name, text = "", line.strip(" |")
            results = _results(text)
            if name in ("Warning", "Error") and test:
                warned = not test.message
                test.message = text if warned else test.message
                test.last = i
            elif name and name != "Info" and results and category != "metadata":
                test = _Test(name, category, i, i, results)
                warned = False
                yield test
            elif not name and test:
                test.statuses.extend(results)
                test.message += f" {text}" if warned and not results else ""
                test.last = i
            else:
                warned = False
        elif line.strip():
            in_table = False


def _messages(result: dict[str, Any]) -> list[str]:
    """The warnings of a result: a string, a list of strings, or of objects (4.x)."""
    warnings = result.get("warnings") or []
    listed = warnings if isinstance(warnings, list) else [warnings]
    return [str(w.get("warning", "")) if isinstance(w, dict) else str(w) for w in listed]


def _gpus(result: dict[str, Any]) -> list[int | None]:
    if "entity_id" in result:
        numbers = [str(result["entity_id"])] if result.get("entity_group") == "GPU" else []
    else:
        numbers = re.findall(r"\d{1,3}", str(result.get("gpu_id", result.get("gpu_ids", ""))))
    return [int(number) for number in numbers if number.isdigit()] or [None]


def _from_json(segment: Segment, first: int) -> Iterator[_Test]:
    """The tests of a JSON document; raises what a document of another shape makes it raise."""
    document, _ = json.JSONDecoder().raw_decode("\n".join(segment.lines[first:]).lstrip())
    root = next(document[name] for name in _ROOTS if name in document)
    last = len(segment.lines) - 1
    for category in root["test_categories"]:
        for entry in category["tests"]:
            test = _Test(str(entry["name"]), str(category["category"]).lower(), first, last)
            for result in entry["results"]:
                status = str(result["status"]).lower()
                test.statuses += [(status, gpu) for gpu in _gpus(result)]
                test.message = test.message or next(iter(_messages(result)), "")
            yield test


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact for each test of the run."""
    if any(f'"{root}"' in segment.text for root in _ROOTS):
        first = next((i for i, line in enumerate(segment.lines) if line.startswith("{")), 0)
        try:
            tests = list(_from_json(segment, first))
        except (ValueError, KeyError, TypeError, AttributeError, StopIteration, RecursionError):
            last = max(i for i, line in enumerate(segment.lines) if line.strip())
            yield Problem(segment.numbers[last], "the JSON is cut or damaged")
            return
    else:
        tests = list(_table(segment))
    for test in tests:
        yield test.fact(segment)


SOURCE = Source(
    id="dcgmi-diag",
    title="dcgmi diag",
    facts=(GpuDiagnostic,),
    needles=("| Diagnostic ", "DCGM GPU Diagnostic", "DCGM Diagnostic"),
    signature=re.compile(r'^\| Diagnostic +\| Result |"DCGM (?:GPU )?Diagnostic"\s{0,9}:', re.M),
    parse=parse,
    commands=(Command(("dcgmi", "diag", "-r", "1", "-j"), seconds=10, timeout=120, disturbs=True),),
    versions="UNVERIFIED: DCGM 2.x to 4.x",
)
