"""An expected bandwidth for a reader: the stages with their ceilings, the band, how to measure it soundly."""

from __future__ import annotations

import json
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from advisor.data import phrase
from advisor.expect import Band, ClusterShape

_MIB = 1 << 20
_UNSOUND = ("size", "average", "algbw", "wrong", "mpi", "traffic")


def record(shape: ClusterShape, collective: str, size_bytes: int | None, band: Band) -> dict[str, Any]:
    """The expectation as plain data: bandwidths in GB/s (10^9), sizes in bytes."""
    largest = max(size_bytes or 0, 4 * band.size_bytes, 1024 * _MIB) // _MIB
    unsound = [phrase(f"expectation-unsound-{name}", size=f"{band.size_bytes // _MIB}M") for name in _UNSOUND]
    if shape.nodes == 2 and collective == "all_reduce" and shape.gpus_per_node > 1:
        unsound.append(phrase("expectation-unsound-two-nodes"))
    fields = {"ranks": shape.ranks, "gpus": shape.gpus_per_node, "nodes": shape.nodes, "size": f"{largest}M",
              "collective": collective}  # fmt: skip
    commands = [phrase("expectation-nccl-tests", **fields)]
    if collective == "all_reduce":
        commands.append(phrase("expectation-bench" if shape.nodes > 1 else "expectation-bench-one", **fields))
    return {
        "collective": collective, "nodes": shape.nodes, "gpus_per_node": shape.gpus_per_node,
        "size_bytes": size_bytes, "unit": "GB/s", "binding_stage": band.stage,
        "stages": [{"name": c.name, "ceiling_gbyte_s": c.gbyte_s, "why": c.why} for c in band.ceilings],
        "low": round(band.low, 2), "typical": round(band.typical, 2), "fine": round(band.fine, 2),
        "high": round(band.high, 2), "algorithms": list(band.algorithms), "why": list(band.why),
        "assumed": list(band.assumed), "unsound": unsound, "commands": commands,
    }  # fmt: skip


def as_json(found: dict[str, Any]) -> str:
    """One JSON object."""
    return json.dumps(found, ensure_ascii=False, indent=1) + "\n"


def _sections(found: dict[str, Any]) -> list[tuple[str, list[str]]]:
    names = ("why", "assumed", "unsound")
    return [(phrase(f"expectation-{name}"), found[name]) for name in names if found[name]]


def _answer(found: dict[str, Any]) -> list[str]:
    figures = {name: f"{found[name]:.3g}" for name in ("low", "fine", "high")}
    return [
        phrase("expectation-band", collective=found["collective"], nodes=found["nodes"],
               gpus=found["gpus_per_node"], **figures),
        phrase("expectation-binding", stage=found["binding_stage"]),
    ]  # fmt: skip


def markdown(found: dict[str, Any]) -> str:
    """The expectation as Markdown."""
    lines = [*_answer(found), "", "| {} | GB/s | {} |".format(*_columns()), "|---|---|---|"]
    lines += [f"| {s['name']} | {s['ceiling_gbyte_s']:.4g} | {s['why']} |" for s in found["stages"]]
    for title, items in _sections(found):
        lines += ["", f"## {title}", "", *(f"- {item}" for item in items)]
    lines += ["", f"## {phrase('expectation-measure')}", "", "```sh", *found["commands"], "```"]
    return "\n".join(lines) + "\n"


def _columns() -> tuple[str, str]:
    return phrase("expectation-stage"), phrase("expectation-reason")


def terminal(found: dict[str, Any], console: Console) -> None:
    """The expectation on a terminal; commands are never broken, so that they can be copied."""
    for line in _answer(found):
        console.print(line, markup=False, highlight=False)
    stage, reason = _columns()
    table = Table(box=None, pad_edge=False)
    table.add_column(stage)
    table.add_column("GB/s", justify="right")
    table.add_column(reason)
    for row in found["stages"]:
        table.add_row(escape(row["name"]), f"{row['ceiling_gbyte_s']:.4g}", escape(row["why"]))
    console.print()
    console.print(table)
    for title, items in _sections(found):
        console.print(f"\n{title}", style="bold", markup=False, highlight=False)
        for item in items:
            console.print(f"  - {item}", markup=False, highlight=False)
    console.print(f"\n{phrase('expectation-measure')}", style="bold", markup=False, highlight=False)
    for command in found["commands"]:
        console.print(f"  {command}", markup=False, highlight=False, soft_wrap=True)
