"""`advisor diagnose`: what is slow, why, how sure, and what to do."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from advisor.cli.collect import add_reach, reach_of, show_only

if TYPE_CHECKING:
    from collections.abc import Mapping

    from advisor.collect.reach import Reach
    from advisor.diagnosis import Outcome
    from advisor.facts import Fact
    from advisor.findings import Diagnosis
    from advisor.read.unpack import Document

FORMATS = ("terminal", "markdown", "json")
LEVELS = {"fault": ("fault",), "suspect": ("fault", "suspect"), "never": ()}
EXAMPLES = """examples:
  advisor diagnose logs/                     a folder of anything: logs, tool output, mixed
  kubectl logs job-0 | advisor diagnose -    from a pipe
  advisor diagnose --collect                 look at this machine (reads only, makes no traffic)
  advisor diagnose --hosts node[01-16]       look at these by ssh (reads only, makes no traffic)
  advisor diagnose job.log --format markdown -o report.md
  advisor diagnose logs/ --why mtu-mismatch   the proof, down to file and line; --why-not for what was not named
  advisor diagnose nccl-tests.txt --given nodes=2,gpus_per_node=8,nics=8x400
"""


def _collected(args: argparse.Namespace, reach: Reach) -> list[Document]:
    """What the hosts named and this machine say; what became of each is on stderr and in the inventory."""
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from advisor.cli.collect import collect_into
    from advisor.collect.remote import local
    from advisor.read.unpack import documents

    targets = [*(reach.targets() if reach.any else []), *([local()] if args.collect else [])]
    with TemporaryDirectory(prefix="advisor-") as folder:
        collect_into(Path(folder), targets, args)
        return documents([folder])


def register(command: argparse.ArgumentParser) -> None:
    """Declare the command."""
    command.description = "Reads whatever you have; names the cause, how sure and why, and what to do or run next."
    command.epilog = EXAMPLES
    command.add_argument("paths", nargs="*", metavar="PATH", help="files or folders; - for standard input")
    command.add_argument("--collect", action="store_true", help="add what this machine says; reads only, no traffic")
    add_reach(command)
    command.add_argument("--given", action="append", default=[], metavar="KEY=VALUE,...",
                         help="what the files do not say: nodes, gpus_per_node, nics (8x400), gpu, fabric")  # fmt: skip
    command.add_argument("--format", choices=FORMATS, default="terminal")
    command.add_argument("--json", action="store_true", help="the same as --format json")
    command.add_argument("-o", "--output", metavar="FILE", help="write there instead of to standard output")
    command.add_argument("--rules", action="append", default=[], metavar="DIR", help="add or override rules from there")
    command.add_argument("--fail-on", choices=LEVELS, default="fault", help="what exits with 1 (default: fault)")
    why = command.add_mutually_exclusive_group()
    why.add_argument("--why", metavar="CAUSE", help="instead of the report: the rules that named it, with their proof")
    why.add_argument("--why-not", metavar="CAUSE", help="the rules that did not, and the condition or fact they lack")
    command.add_argument("-v", "--verbose", action="store_true", help="show everything, nothing folded")
    command.set_defaults(run=run)


def parse_given(texts: list[str]) -> list[Fact]:
    """`nodes=2,gpus_per_node=8,nics=8x200` as a fact. Raises UsageError that names the wrong part."""
    from advisor.data import phrase
    from advisor.errors import UsageError
    from advisor.facts import Given, Origin

    if not texts:
        return []
    origin = Origin("--given", 0, 0, ",".join(texts), "given")
    given = Given(origins=(origin,))
    for part in ",".join(texts).split(","):
        key, _, value = part.strip().partition("=")
        try:
            if key == "nics":
                count, _, rate = value.partition("x")
                given.nics, given.nic_gbit_s = int(count), float(rate) if rate else None
            elif key in ("nodes", "gpus_per_node"):
                setattr(given, key, int(value))
            elif key in ("gpu", "fabric"):
                setattr(given, key, value.lower())
            else:
                raise ValueError(key)
        except ValueError:
            raise UsageError(phrase("given-wrong", part=part), remedy=phrase("given-remedy")) from None
    return [given]


def _report(diagnosis: Diagnosis, args: argparse.Namespace) -> str:
    """The report as text."""
    if args.json or args.format == "json":
        from advisor.render import json as as_json

        return as_json.render(diagnosis)
    if args.format == "markdown":
        from advisor.render import markdown

        return markdown.render(diagnosis)
    from advisor.render import terminal

    return terminal.text(diagnosis, to_file=bool(args.output), verbose=args.verbose)


def _print(text: str, output: str | None) -> None:
    """Write to a file or to standard output, whose reader may be gone by then. Raises UsageError."""
    from contextlib import suppress
    from pathlib import Path

    from advisor.data import phrase
    from advisor.errors import UsageError

    if not output:
        with suppress(BrokenPipeError):
            sys.stdout.write(text)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(phrase("output-failed", reason=reason), place=output, remedy=phrase("output-remedy")) from None


def _reasons(outcome: Outcome, data: Mapping[str, Any], args: argparse.Namespace) -> str:
    """The answer to --why or --why-not. Raises UsageError for a cause that does not exist."""
    import json

    from advisor.data import phrase
    from advisor.diagnosis import compiled_rules
    from advisor.errors import UsageError
    from advisor.infer.conditions import near
    from advisor.render.reasons import lines
    from advisor.why import as_record, reasons

    cause = args.why or args.why_not
    if cause not in data["causes"]:
        remedy = phrase("why-unknown-cause-remedy", near=near(cause, data["causes"]))
        raise UsageError(phrase("why-unknown-cause", cause=cause), remedy=remedy)
    found = reasons(outcome, compiled_rules(data), cause)
    if args.json or args.format == "json":
        return json.dumps({"cause": cause, "reasons": [as_record(reason) for reason in found]}, indent=1) + "\n"
    named = next((c.confidence for c in outcome.diagnosis.causes if c.id == cause), None)
    return "\n".join(lines(cause, named, "why" if args.why else "why-not", found)).rstrip() + "\n"


def run(args: argparse.Namespace) -> int:
    """Read, diagnose, print; the exit code says what was found."""
    from pathlib import Path

    from advisor.data import catalogue, phrase
    from advisor.diagnosis import diagnose
    from advisor.errors import UsageError
    from advisor.read.unpack import documents

    if show_only(args):
        return 0
    reach = reach_of(args)
    if not args.paths and not args.collect and not args.given and not reach.any:
        raise UsageError(phrase("nothing-given"), remedy=phrase("nothing-given-remedy"))
    inputs = documents(args.paths)
    if reach.any or args.collect:
        inputs = [*inputs, *_collected(args, reach)]
    data = catalogue()
    if args.rules:
        from advisor.compile import with_packs

        data = with_packs(data, [Path(folder) for folder in args.rules])
    outcome = diagnose(inputs, parse_given(args.given), data)
    for problem in outcome.inference.problems:
        print(f"advisor: {problem}", file=sys.stderr)
    text = _reasons(outcome, data, args) if args.why or args.why_not else _report(outcome.diagnosis, args)
    _print(text, args.output)
    if not outcome.usable:
        print(f"advisor: {phrase('no-usable-input')}", file=sys.stderr)
        return 3
    return int(outcome.diagnosis.verdict in LEVELS[args.fail_on])
