"""`advisor rules`: for authors of rules."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES = """examples:
  advisor rules check                    every rule, page and table, with the line of a mistake
  advisor rules check my-rules/          a pack of your own
  advisor rules test                     the tests that stand in the rule files
  advisor rules test my-rules/one.yaml
  advisor rules list --cause ib-link-downgrade
  advisor rules show ib-port-below-peers
"""


def register(command: argparse.ArgumentParser) -> None:
    """Declare the command and its four parts."""
    command.description = "For authors of rules: check that they can be loaded, run their tests, list and show them."
    command.epilog = EXAMPLES
    parts = command.add_subparsers(metavar="ACTION", required=True)
    check = parts.add_parser("check", help="load every rule and page and say where a mistake stands")
    check.add_argument("folders", nargs="*", metavar="DIR", help="packs of your own; the advisor's rules if none")
    check.set_defaults(run=_check)
    test = parts.add_parser("test", help="run the tests of the rule files")
    test.add_argument("paths", nargs="*", metavar="DIR|FILE|ID", help="some rules; all of the advisor's if none")
    test.set_defaults(run=_test)
    listing = parts.add_parser("list", help="one line a rule")
    listing.add_argument("--cause", metavar="ID", help="only rules about this cause")
    listing.set_defaults(run=_list)
    show = parts.add_parser("show", help="one rule in full")
    show.add_argument("id", metavar="ID")
    show.set_defaults(run=_show)


def _own_folder() -> Path:
    """The advisor's own rules, in a checkout or in an installed package."""
    from pathlib import Path

    from advisor.data import checkout, folder

    own = folder("rules") or checkout() / "rules"
    return Path(str(own))


def _check(args: argparse.Namespace) -> int:
    from pathlib import Path

    from advisor.compile import compile_catalogue, with_packs
    from advisor.data import catalogue, phrase

    if args.folders:
        data: dict[str, Any] = with_packs(catalogue(), [Path(name) for name in args.folders])
        count = len(data["rules"])
    else:
        own = _own_folder()
        count = len(compile_catalogue(own, own.parent / "knowledge")["rules"])
    print(phrase("rules-checked", count=count))
    return 0


def _rule_paths(names: list[str]) -> list[Path]:
    """Rule files of folders, files and ids. Raises UsageError for an id that no rule has."""
    from pathlib import Path

    from advisor.compile import rule_files
    from advisor.data import phrase
    from advisor.errors import UsageError
    from advisor.infer.conditions import near

    own = {path.stem: path for path in rule_files(_own_folder())}
    if not names:
        return list(own.values())
    paths: list[Path] = []
    for name in names:
        if Path(name).is_dir():
            paths += rule_files(Path(name))
        elif Path(name).is_file():
            paths.append(Path(name))
        elif name in own:
            paths.append(own[name])
        else:
            raise UsageError(phrase("no-such-rule", name=name) + near(name, own))
    return paths


def _test(args: argparse.Namespace) -> int:
    from advisor.compile import with_packs
    from advisor.data import catalogue, phrase
    from advisor.ruletest import run_file

    paths = _rule_paths(args.paths)
    data: dict[str, Any] = catalogue()
    foreign = [path.parent for path in paths if data["rules"].get(path.stem, {}).get("file") is None]
    if foreign:
        data = with_packs(data, list(dict.fromkeys(foreign)))
    failed = total = 0
    for path in paths:
        for result in run_file(path, data):
            total += 1
            if result.problem:
                failed += 1
                print(f"{result.rule}: {result.test}: {result.problem}")
    print(phrase("rules-tested", rules=len(paths), tests=total, failed=failed))
    return int(failed > 0)


def _list(args: argparse.Namespace) -> int:
    from advisor.data import catalogue

    for name, rule in sorted(catalogue()["rules"].items()):
        if args.cause in (None, rule["cause"]):
            print(f"{name:<44} {rule['evidence']:<9} {rule['cause']:<26} {rule['status']}")
    return 0


def _show(args: argparse.Namespace) -> int:
    paths = _rule_paths([args.id])
    sys.stdout.write(paths[0].read_text(encoding="utf-8"))
    return 0
