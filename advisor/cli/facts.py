"""`advisor facts`: what was understood of the inputs, fact by fact."""

from __future__ import annotations

import argparse
import sys

EXAMPLES = """examples:
  advisor facts logs/                     every fact, with file and line
  advisor facts nccl.log --type nccl-rank --json
"""


def register(command: argparse.ArgumentParser) -> None:
    """Declare the command."""
    command.description = "Shows the facts that were read from the inputs and derived from them, with file and line."
    command.epilog = EXAMPLES
    command.add_argument("paths", nargs="+", metavar="PATH", help="files or folders; - for standard input")
    command.add_argument("--type", metavar="FACT", help="only facts of this type")
    command.add_argument("--json", action="store_true", help="one JSON object a line")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the facts, then what was not understood on stderr."""
    import json
    from dataclasses import asdict

    from advisor.data import phrase
    from advisor.diagnosis import facts_of
    from advisor.errors import UsageError
    from advisor.facts import FACT_TYPES, fact_name
    from advisor.infer.conditions import near
    from advisor.read.unpack import documents

    if args.type and args.type not in FACT_TYPES:
        raise UsageError(phrase("unknown-fact-type", name=args.type) + near(args.type, FACT_TYPES))
    store, reading = facts_of(documents(args.paths))
    for fact in store:
        name = fact_name(type(fact))
        if args.type and name != args.type:
            continue
        values = {key: value for key, value in asdict(fact).items() if value is not None}
        del values["origins"], values["said_at"]
        places = [f"{origin.file}:{origin.line}" for origin in fact.origins]
        if args.json:
            print(json.dumps({"fact": name, **values, "origins": places}, ensure_ascii=False))
        else:
            shown = "  ".join(f"{key}={value}" for key, value in values.items() if value not in ((), ""))
            print(f"{name}  {shown}  [{', '.join(places[:3])}{', …' if len(places) > 3 else ''}]")
    for report in reading.documents:
        for problem in report.problems:
            print(f"advisor: {report.file}: {problem}", file=sys.stderr)
    return 0 if reading.usable else 3
