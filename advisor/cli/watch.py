"""`advisor watch`: during training, the running verdict of this machine."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

_LEAST, _MOST = 2, 3600
EXAMPLES = """examples:
  advisor watch --log train.log           until Ctrl-C
  advisor watch --once --json             one reading for a script
"""


def _seconds(text: str) -> int:
    value = int(text)
    if not _LEAST <= value <= _MOST:
        raise argparse.ArgumentTypeError(f"between {_LEAST} and {_MOST}")
    return value


def register(command: argparse.ArgumentParser) -> None:
    """Declare the command."""
    command.description = (
        "Reads network ports, GPUs and a log of this machine again and again and says what limits the job. Reads only."
    )
    command.epilog = EXAMPLES
    command.add_argument("--interval", type=_seconds, default=10, metavar="SECONDS", help="of a reading (default: 10)")
    command.add_argument("--log", metavar="FILE", help="the training log, for the time of a step")
    command.add_argument("--once", action="store_true", help="one reading, then end")
    command.add_argument("--json", action="store_true", help="one JSON object a line instead of text")
    command.set_defaults(run=run)


def _reading(interval: int, log: Path | None) -> dict[str, Any]:
    from advisor.collect.live import watch_window
    from advisor.diagnosis import diagnose
    from advisor.render.watch import record

    window = watch_window(interval, log)
    outcome = diagnose(window.documents, window.facts)
    return record(window.seconds, outcome.store, outcome.diagnosis, window.lacks)


def run(args: argparse.Namespace) -> int:
    """Read and show until interrupted; 0, or 1 where the last reading names a fault. Raises UsageError."""
    from pathlib import Path

    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from advisor.data import phrase
    from advisor.errors import UsageError
    from advisor.render.watch import as_json, lines

    log = Path(args.log) if args.log else None
    if log is not None and not log.is_file():
        raise UsageError(phrase("no-such-path"), place=args.log, remedy=phrase("no-such-path-remedy"))
    console = Console()
    if args.json or args.once or not console.is_terminal:
        while True:
            reading = _reading(args.interval, log)
            text = as_json(reading) if args.json else "\n".join(lines(reading, console.width)) + "\n"
            sys.stdout.write(text)
            sys.stdout.flush()
            if args.once:
                return int(reading["verdict"] == "fault")
    with Live(Text(phrase("watch-first", seconds=args.interval)), console=console, auto_refresh=False) as live:
        while True:
            reading = _reading(args.interval, log)
            live.update(Text("\n".join(lines(reading, console.width))), refresh=True)
