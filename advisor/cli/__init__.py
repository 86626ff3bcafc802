"""The command line. Only this package prints and decides exit codes.

Each command is one module with `register(subparsers)`, which declares it, and `run(args)`, which imports what it
needs: most commands take less time than the imports of the others would.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from advisor import __version__
from advisor.cli import diagnose, explain, facts, rules
from advisor.errors import AdvisorError

COMMANDS = (diagnose, explain, facts, rules)
EXIT_CODES = """exit codes: 0 nothing at or above --fail-on, 1 found, 2 wrong use or a catalogue that cannot be loaded,
3 no usable input, 130 interrupted"""


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="advisor",
        description="Says why multi-node GPU training is slow, how sure that is, what it costs, and what to do.",
        epilog=EXIT_CODES,
    )
    top.add_argument("--version", action="version", version=f"advisor {__version__}")
    subparsers = top.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.register(subparsers)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code. Errors a user can cause end as one message on stderr."""
    args = parser().parse_args(argv)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except AdvisorError as error:
        print(f"advisor: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of the pipe has gone (`| head`): nothing is left to say, and no second complaint at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code
