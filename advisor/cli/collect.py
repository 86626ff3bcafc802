"""`advisor collect`: what hosts say, into a bundle that `advisor diagnose` reads on any machine."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.collect.reach import Reach
    from advisor.collect.remote import Outcome, Target

EXAMPLES = """examples:
  advisor collect                                        this machine
  advisor collect --hosts node[01-64] -o slow.tar.gz     by ssh, with your own ssh configuration
  advisor collect --slurm                                the nodes of the allocation this runs in
  advisor collect --kubectl app=train --namespace ml     running pods
  advisor collect --dry-run                              every command, why, and what it needs
  advisor collect --print-script > collect.sh            to run by hand: sh collect.sh > node01.txt
"""


def add_reach(command: argparse.ArgumentParser) -> None:
    """Declare how hosts are named and reached."""
    group = command.add_argument_group("hosts to collect from (reads only, no traffic, nothing is installed)")
    group.add_argument("--hosts", metavar="NAMES", help="by ssh: node01,node02 or node[01-64]")
    group.add_argument("--hostfile", metavar="FILE", help="by ssh: a name a line; MPI and pdsh forms too")
    group.add_argument("--ssh-config", metavar="FILE", help="for ssh, instead of your own")
    group.add_argument("--slurm", nargs="?", const="", metavar="JOB",
                       help="by srun: this allocation, or a job's nodes")  # fmt: skip
    group.add_argument("--kubectl", metavar="SELECTOR", help="by kubectl exec: the running pods with these labels")
    group.add_argument("--namespace", metavar="NAME", help="of the pods")
    group.add_argument("--limit", type=float, default=120, metavar="SECONDS", help="for the whole of a host (120)")
    group.add_argument("--fanout", type=int, default=64, metavar="N", help="hosts at a time (64)")
    group.add_argument("--dry-run", action="store_true", help="print what would be run, and run nothing")
    group.add_argument("--print-script", action="store_true", help="print the collector as one sh script")


def register(command: argparse.ArgumentParser) -> None:
    """Declare the command."""
    command.description = "Collects what hosts say, by their own tools, into a bundle. Reads only, installs nothing."
    command.epilog = EXAMPLES
    add_reach(command)
    command.add_argument("-o", "--output", metavar="PLACE", default="advisor-bundle.tar.gz",
                         help="folder, or archive by its name (advisor-bundle.tar.gz)")  # fmt: skip
    command.add_argument("--redact", action="store_true",
                         help="rename hosts, addresses, GUIDs, serials, users; the map stays beside it")  # fmt: skip
    command.set_defaults(run=run)


def reach_of(args: argparse.Namespace) -> Reach:
    """What the arguments say of hosts. Raises UsageError for limits that are none."""
    from advisor.collect.reach import Reach
    from advisor.data import phrase
    from advisor.errors import UsageError

    if args.limit < 1 or args.fanout < 1:
        raise UsageError(phrase("collect-wrong-limit"))
    return Reach(args.hosts, args.hostfile, args.ssh_config, args.slurm, args.kubectl, args.namespace)


def show_only(args: argparse.Namespace) -> bool:
    """Print the script or the plan where that is all that is wanted; says whether it was."""
    if not (args.print_script or args.dry_run):
        return False
    import shlex

    from advisor.collect.script import script, steps
    from advisor.data import phrase
    from advisor.sources import load

    if args.print_script:
        print(script(), end="")
    else:
        for target in reach_of(args).targets():
            print(f"{target.name}: {shlex.join(target.argv)}")
        for step in steps():
            command, root = step.command, phrase("answer-yes" if step.command.root else "answer-no")
            print(f"  {shlex.join(command.argv)}")
            title = load(step.source).title
            print("    " + phrase("collect-dry-when", root=root, seconds=f"{command.timeout:g}", title=title))
    return True


class _Progress:
    """Lines on stderr: each host that failed; on a terminal also how far it is."""

    def __init__(self, count: int, limit: float, at_once: int) -> None:
        self._count, self._limit, self._at_once = count, limit, at_once
        self._done = self._failed = 0
        self._live = sys.stderr.isatty()

    def told(self, outcome: Outcome) -> None:
        """A host has ended."""
        from math import ceil

        from advisor.data import phrase
        from advisor.read.collection import reach_text

        self._done += 1
        if outcome.state != "done":
            self._failed += 1
            text = phrase("collect-host", host=outcome.name, text=reach_text(outcome.state, outcome.detail))
            print(f"{self._erase}advisor: {text}", file=sys.stderr)
        if self._live:
            left = self._count - self._done
            seconds = ceil(left / self._at_once) * round(self._limit)
            line = phrase("collect-progress", done=self._done, all=self._count, failed=self._failed,
                          running=min(left, self._at_once), left=seconds)  # fmt: skip
            print(f"{self._erase}{line}", end="\n" if not left else "", file=sys.stderr, flush=True)

    @property
    def _erase(self) -> str:
        return "\r\x1b[K" if self._live else ""


def collect_into(folder: Path, targets: list[Target], args: argparse.Namespace) -> dict[str, Outcome]:
    """Collect from the targets into the folder, with progress on stderr."""
    from advisor.collect import bundle

    progress = _Progress(len(targets), args.limit, args.fanout)
    return bundle.collect(targets, folder, args.limit, args.fanout, progress.told)


def run(args: argparse.Namespace) -> int:
    """Collect, pack, say where it is; 3 when no host gave anything, 130 when interrupted."""
    from advisor.collect import bundle
    from advisor.data import phrase

    if show_only(args):
        return 0
    targets = reach_of(args).targets()
    place = Path(args.output)
    folder = bundle.create(place)
    try:
        outcomes = collect_into(folder, targets, args)
    except KeyboardInterrupt:
        print(f"advisor: {phrase('collect-interrupted', place=folder)}", file=sys.stderr)
        raise
    if args.redact:
        from advisor.collect.redact import redact_bundle

        redact_bundle(folder, place.with_name(f"{folder.name}.map.json"))
    bundle.pack(folder, place)
    done = sum(outcome.state == "done" for outcome in outcomes.values())
    print(f"advisor: {phrase('collect-done', done=done, all=len(targets), place=place)}", file=sys.stderr)
    return 0 if done else 3
