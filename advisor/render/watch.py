"""One reading of `advisor watch`: what the ports carry, what the GPUs do, the verdict with what it rests on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from advisor.data import phrase
from advisor.facts import FactStore, GpuLoad, GpuState, NicRate, PortUse, StepTimes
from advisor.findings import Diagnosis
from advisor.render.text import clean, cut

_BAR = 20
_CAUSES = 3
_LINES = 2  # of evidence for a cause


def record(seconds: float, store: FactStore, diagnosis: Diagnosis, lacks: Sequence[str]) -> dict[str, Any]:
    """The reading as JSON: rates in Gb/s, shares 0 to 1, power in W."""
    limits = {state.index: state.power_limit_w for state in store.of(GpuState)}
    uses = {use.device: use for use in store.of(PortUse)}
    ports = [
        {"device": use.device, "rdma": use.rdma, "gbit_s": use.gbit_s, "line_gbit_s": use.line_gbit_s,
         "share": use.share}
        for use in uses.values()
    ] + [
        {"device": rate.interface, "rdma": False, "gbit_s": rate.busy_gbit_s, "line_gbit_s": None, "share": None}
        for rate in store.of(NicRate) if rate.interface not in uses
    ]  # fmt: skip
    return {
        "seconds": round(seconds, 1),
        "verdict": diagnosis.verdict,
        "summary": diagnosis.summary,
        "causes": [{"id": c.id, "confidence": c.confidence, "title": c.title} for c in diagnosis.causes],
        "evidence": [{"rule": f.id, "text": f.text} for f in diagnosis.findings],
        "ports": ports,
        "gpus": [
            {"index": g.index, "sm_share": g.sm_share, "power_w": g.power_w, "power_limit_w": limits.get(g.index)}
            for g in store.of(GpuLoad)
        ],
        "steps": [
            {"log": s.log, "median_s": s.median_s, "max_s": s.max_s, "throughput": s.throughput, "unit": s.unit}
            for s in store.of(StepTimes)
        ],
        "lacks": [phrase(key) for key in lacks],
    }  # fmt: skip


def as_json(reading: dict[str, Any]) -> str:
    """One line of JSON."""
    return json.dumps(reading, ensure_ascii=False) + "\n"


def _bar(share: float | None) -> str:
    filled = round(min(share or 0.0, 1.0) * _BAR)
    return "#" * filled + "." * (_BAR - filled)


def lines(reading: dict[str, Any], width: int) -> Iterator[str]:
    """The reading as text, the verdict first."""
    yield cut(f"{phrase('report-verdict-' + reading['verdict'])}  {clean(reading['summary'])}", width)
    for cause in reading["causes"][:_CAUSES]:
        yield cut(f"  {cause['id']}, {cause['confidence']}", width)
    for item in reading["evidence"][:_LINES]:
        yield cut(f"  - {clean(item['text'])}", width)
    yield ""
    for port in reading["ports"]:
        line = phrase("watch-line", line=f"{port['line_gbit_s']:g}") if port["line_gbit_s"] else ""
        yield cut(f"{port['device']:<16} {_bar(port['share'])} {port['gbit_s']:8.2f} Gb/s {line}".rstrip(), width)
    for gpu in reading["gpus"]:
        limit = f" / {gpu['power_limit_w']:.0f}" if gpu["power_limit_w"] else ""
        power = f"{gpu['power_w']:.0f}{limit} W" if gpu["power_w"] is not None else ""
        name = phrase("watch-gpu", index=gpu["index"])
        yield cut(f"{name:<16} {_bar(gpu['sm_share'])} {(gpu['sm_share'] or 0):8.0%} {power}", width)
    for step in reading["steps"]:
        rate = f"{step['throughput']:g} {step['unit'] or ''}" if step["throughput"] else ""
        yield cut(phrase("watch-step", log=clean(step["log"]), median=step["median_s"], rate=rate), width)
    for text in reading["lacks"]:
        yield cut(f"({text})", width)
