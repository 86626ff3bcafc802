"""Golden reports: a diagnosis beside what each renderer makes of it.

    python -m tests.golden_tools write

rewrites `NAME.80.txt`, `NAME.120.txt` and `NAME.md` beside every `tests/golden/NAME.json`, and the published schema of
the diagnosis. Read what changed before you keep it.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

from rich.console import Console

from advisor.findings import Diagnosis
from advisor.render import json as as_json
from advisor.render import markdown, terminal

GOLDEN = Path(__file__).parent / "golden"
SCHEMA = Path(terminal.__file__).with_name("diagnosis.schema.json")
WIDTHS = (80, 120)


def inputs() -> list[Path]:
    """The diagnoses, sorted."""
    return sorted(GOLDEN.glob("*.json"))


def load(path: Path) -> Diagnosis:
    """A diagnosis as `advisor diagnose --json` writes it."""
    return as_json.load(path.read_text(encoding="utf-8"))


def on_terminal(diagnosis: Diagnosis, width: int, *, encoding: str = "utf-8", verbose: bool = False) -> str:
    """What a pipe of that width and encoding gets."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    terminal.render(diagnosis, Console(file=stream, width=width, force_terminal=False), verbose=verbose)
    stream.flush()
    return raw.getvalue().decode(encoding)


def rendered(path: Path) -> dict[Path, str]:
    """The golden files of one diagnosis with what they should hold."""
    diagnosis = load(path)
    texts = {path.with_suffix(f".{width}.txt"): on_terminal(diagnosis, width) for width in WIDTHS}
    return {**texts, path.with_suffix(".md"): markdown.render(diagnosis)}


def main(arguments: list[str]) -> int:
    if arguments != ["write"]:
        sys.stderr.write(__doc__ or "")
        return 2
    SCHEMA.write_text(json.dumps(as_json.schema(), indent=2) + "\n", encoding="utf-8")
    for path in inputs():
        for golden, text in rendered(path).items():
            golden.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
