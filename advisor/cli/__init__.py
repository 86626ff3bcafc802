"""The command line. Only this package prints and decides exit codes.

Each command is one module with `register(command)`, which declares its arguments, and `run(args)`. Only the module of
the command that was asked for is imported, and it imports what it needs when it runs: most commands take less time
than the imports of the others would.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from advisor import __version__
from advisor.errors import AdvisorError

COMMANDS = {
    "diagnose": "find the cause in logs, tool output or on this machine",
    "collect": "collect what hosts say into a bundle, reading only",
    "explain": "explain a cause, a message, a variable, a tool or a concept",
    "expect": "say what this hardware should reach, and how to measure it",
    "facts": "show what was understood of some inputs",
    "watch": "say what limits a running job, again and again",
    "bench": "measure all_reduce with PyTorch alone",
    "rules": "check, test, list and show rules",
}
EXIT_CODES = """exit codes: 0 nothing at or above --fail-on, 1 found, 2 wrong use or a catalogue that cannot be loaded,
3 no usable input, 130 interrupted"""


def parser(wanted: Sequence[str] = tuple(COMMANDS)) -> argparse.ArgumentParser:
    """The command line, with the arguments of the wanted commands."""
    top = argparse.ArgumentParser(
        prog="advisor",
        description="Says why multi-node GPU training is slow, how sure that is, what it costs, and what to do.",
        epilog=EXIT_CODES,
    )
    top.add_argument("--version", action="version", version=f"advisor {__version__}")
    subparsers = top.add_subparsers(metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        command = subparsers.add_parser(name, help=text, formatter_class=argparse.RawDescriptionHelpFormatter)
        if name in wanted:
            import_module(f"{__name__}.{name}").register(command)
    return top


def _parse(words: Sequence[str]) -> argparse.Namespace:
    """The arguments; to `explain`, options of another tool are words of the topic: `explain ping -M do`."""
    top = parser(words[:1])
    args, unknown = top.parse_known_args(words)
    if unknown and getattr(args, "topic", None):
        args.topic = [word for word in words[1:] if word in unknown or word in args.topic]
    elif unknown:
        top.error(f"unrecognized arguments: {' '.join(unknown)}")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code. Errors a user can cause end as one message on stderr."""
    words = sys.argv[1:] if argv is None else list(argv)
    args = _parse(words)
    code = 0
    try:
        code = args.run(args)
        sys.stdout.flush()
    except AdvisorError as error:
        print(f"advisor: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of the pipe has gone (`| head`): nothing is left to say, and no second complaint at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code
