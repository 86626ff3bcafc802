"""`advisor explain`: what a cause, a message, a variable, a tool, an idea, a rule or a fact means."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from advisor.explain import Answer, Topic

EXAMPLES = """examples:
  advisor explain busbw                                   an idea
  advisor explain NCCL_IB_HCA                             a variable
  advisor explain is ping latency enough                  some words
  advisor explain "NET/IB : No device found."             a line of a log
  tail -1 nccl.log | advisor explain -                    the same from a pipe
  advisor explain --list tool
"""
_LIST_ALL = "all"
_LONGEST_TOPIC = 100_000  # characters read from standard input: some lines, not a whole log


def register(command: argparse.ArgumentParser) -> None:
    """Declare the command."""
    command.description = "Explains one topic, named by its id, its title, some words, or a line pasted from a log."
    command.epilog = EXAMPLES
    command.add_argument("topic", nargs="*", metavar="TOPIC", help="what to explain; - reads it from standard input")
    command.add_argument("--list", nargs="?", const=_LIST_ALL, metavar="KIND", help="list all topics, or one kind")
    command.add_argument("--search", nargs="+", metavar="WORD", help="list the topics whose text holds these words")
    command.add_argument("--json", action="store_true", help="one JSON object instead of text")
    command.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the explanation or the list; 0 if there is one, 2 if the topic is unknown."""
    from advisor.data import phrase
    from advisor.explain import KINDS, all_topics, kind_of, look_up, search
    from advisor.render.explanation import answer_text, overview

    if args.list:
        kind = kind_of(args.list)
        if kind is None and args.list != _LIST_ALL:
            return _unknown(phrase("explain-unknown-kind", kind=args.list, kinds=", ".join(KINDS)))
        return _show_list(list(all_topics((kind,) if kind else KINDS)), as_json=args.json)
    if args.search:
        words = " ".join(args.search)
        found = search(words)
        return _show_list(found, as_json=args.json) if found else _unknown(phrase("explain-search-empty", words=words))
    asked = sys.stdin.read(_LONGEST_TOPIC) if args.topic == ["-"] else " ".join(args.topic)
    if not asked.strip():
        _show(overview())
        return 0
    answer = look_up(asked)
    if answer is None:
        return _unknown(_not_found(asked))
    if args.json:
        _print_json(_record(answer))
    else:
        _show(answer_text(answer))
    return 0


def _show(markdown: str) -> None:
    """Rendered on a terminal, plain Markdown into a pipe."""
    if not sys.stdout.isatty():
        sys.stdout.write(markdown)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(markdown))


def _unknown(message: str) -> int:
    print(f"advisor: {message}", file=sys.stderr)
    return 2


def _not_found(asked: str) -> str:
    from advisor.data import phrase
    from advisor.explain import nearest, plain, search
    from advisor.render.explanation import label

    topic = " ".join(plain(asked).split())[:80]
    near = nearest(topic) or search(topic)[:5]
    known = [phrase("explain-nearest", names=", ".join(map(label, near)))] if near else []
    return "\n".join((phrase("explain-unknown", topic=topic), *known, phrase("explain-try")))


def _show_list(found: list[Topic], *, as_json: bool) -> int:
    from advisor.render.explanation import listing

    if as_json:
        _print_json([_brief(topic) for topic in found])
    else:
        _show(listing(found))
    return 0


def _brief(topic: Topic) -> dict[str, Any]:
    return {"kind": topic.kind, "id": topic.id, "title": topic.title, "aliases": list(topic.aliases)}


def _record(answer: Answer) -> dict[str, Any]:
    """The answer with all that the catalogue holds on its topic."""
    from advisor.explain import page

    topic = {**_brief(answer.topic), **page(answer.topic)} if answer.topic else None
    return {"topic": topic, "read": dict(answer.values), "others": [_brief(other) for other in answer.others]}


def _print_json(value: object) -> None:
    import json

    print(json.dumps(value, ensure_ascii=False, indent=2))
