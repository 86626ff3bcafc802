"""Capture pairs: raw tool text beside the facts it gives.

    python -m tests.capture_tools write tests/captures/ping/lost.txt ...

writes the `.json` beside each text from what the source reads today. Read it before you keep it: it must be the
truth about the text, not merely what the code does.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from advisor.facts import Fact, fact_name
from advisor.read.clean import clean_lines
from advisor.read.decode import decode
from advisor.sources import all_sources
from advisor.sources.base import Problem, Segment

CAPTURES = Path(__file__).parent / "captures"


def segment_of(path: Path) -> Segment:
    """The whole file as one cleaned segment, as the reader would make it."""
    lines, numbers = clean_lines(decode(path.read_bytes()).split("\n"))
    return Segment(path.name, lines, numbers)


def _plain(item: Fact | Problem) -> dict[str, Any]:
    if isinstance(item, Problem):
        return {"problem": item.text, "line": item.line}
    values = {name: value for name, value in asdict(item).items() if value is not None}
    del values["origins"], values["said_at"]
    lines = sorted({origin.line for origin in item.origins})
    return {"fact": fact_name(type(item)), **json.loads(json.dumps(values)), "lines": lines}


def read_capture(path: Path) -> dict[str, Any]:
    """What the source named by the folder reads: whether it recognised the text, facts, lines not understood."""
    source = {s.id: s for s in all_sources()}[path.parent.name]
    segment = segment_of(path)
    segment.source = source.id
    recognised = source.recognises(segment)
    facts = [_plain(item) for item in source.parse(segment)]
    unread = [n for i, n in enumerate(segment.numbers) if i not in segment.understood and segment.lines[i].strip()]
    return {"recognised": recognised, "facts": facts, "not_understood": unread}


def main(arguments: list[str]) -> None:
    for name in arguments:
        path = Path(name)
        text = json.dumps(read_capture(path), indent=1, ensure_ascii=False)
        path.with_suffix(".json").write_text(text + "\n")


if __name__ == "__main__":
    main(sys.argv[2:] if sys.argv[1:2] == ["write"] else sys.argv[1:])
