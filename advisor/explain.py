"""Looks up what a reader asks about: causes, messages, variables, tools, concepts, guides, rules, fact types.

A topic is asked for by its id, its title, an alias, some words of these, or by a line pasted from a log. Everything
comes from the compiled catalogue; fact types are the exception, they are explained by their own docstrings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import log
from typing import Any

from advisor import data
from advisor.grammar.known_messages import find

# The order in which kinds answer where several know a name.
KINDS = ("cause", "message", "variable", "tool", "concept", "guide", "rule", "fact")
_PAGES = {"variable": "variables", "tool": "tools", "concept": "concepts", "guide": "guides"}

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
# NCCL_IB_DISABLE set by environment to 1.      NCCL_IB_HCA set to mlx5_0      export NCCL_DEBUG=INFO
_SETTING = re.compile(
    r"(?:^|\s)(?P<variable>(?:NCCL|RCCL|TORCH|CUDA|GLOO|UCX|FI|OMP)_[A-Z0-9_]+) set (?:by environment )?to "
    r"(?P<value>\S.*?)\.?\s*$"
)
_ASSIGNMENT = re.compile(r"^\s*(?:export\s+|-x\s+|-e\s+)?(?P<variable>[A-Z][A-Z0-9]*_[A-Z0-9_]+)=(?P<value>\S*)\s*$")
_SHORTEST_LINE = 12  # characters; anything shorter is a name or a word, not a line of a log

_WORD = re.compile(r"[a-z0-9]+")
_EMPTY_WORDS = frozenset(
    _WORD.findall(
        "a an and are as at be by can do does for from how i if in is it its me my no not of on or per should so than "
        "that the then there this to use uses using was what when which while why will with you"
    )
)
# Of what is asked, the share (weighted by rarity) that names, or names and text, must hold to count as an answer.
_ENOUGH = 0.6


@dataclass(slots=True, frozen=True)
class Topic:
    """Something that can be explained: its kind, its id within the kind, and the other names it goes by."""

    kind: str
    id: str
    title: str
    aliases: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Everything it is found under."""
        return (self.id, self.title, *self.aliases)


@dataclass(slots=True, frozen=True)
class Answer:
    """What was found: the topic that fits best, the others that fit, and the values read in a pasted line.

    topic is None where a pasted line sets a variable that has no page.
    """

    topic: Topic | None
    others: tuple[Topic, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)


def page(topic: Topic) -> Mapping[str, Any]:
    """The catalogue's record of a topic."""
    catalogue = data.catalogue()
    if topic.kind in _PAGES:
        found: Mapping[str, Any] = catalogue["pages"][_PAGES[topic.kind]][topic.id]
    else:
        found = catalogue[f"{topic.kind}s"][topic.id]
    return found


@cache
def topics(kind: str) -> tuple[Topic, ...]:
    """All topics of a kind, sorted by id."""
    catalogue = data.catalogue()
    pages = catalogue["pages"][_PAGES[kind]] if kind in _PAGES else catalogue[f"{kind}s"]
    return tuple(
        Topic(kind, name, record["title"], tuple(record.get("aliases", ()))) for name, record in sorted(pages.items())
    )


def all_topics(kinds: Iterable[str] = KINDS) -> Iterator[Topic]:
    """All topics of some kinds, kind by kind."""
    for kind in kinds:
        yield from topics(kind)


def named(name: str) -> Topic | None:
    """The topic that a page refers to by its id."""
    return next((topic for topic in all_topics(KINDS) if topic.id == name), None)


def kind_of(word: str) -> str | None:
    """The kind that a word names, in the singular or the plural."""
    word = word.casefold()
    return next((kind for kind in KINDS if word in (kind, f"{kind}s")), None)


def _squeezed(text: str) -> str:
    """Letters and digits alone, so that case, blanks, hyphens and underscores do not matter."""
    return "".join(_WORD.findall(text.casefold()))


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _words(text: str) -> frozenset[str]:
    return frozenset(_stem(word) for word in _WORD.findall(text.casefold()) if word not in _EMPTY_WORDS)


def _body(topic: Topic) -> frozenset[str]:
    return _words(page(topic).get("text", ""))


def _exact(text: str, kinds: Iterable[str]) -> list[Topic]:
    """Topics that are called so; one whose id is written out comes before all others."""
    wanted = _squeezed(text)
    found = [topic for topic in all_topics(kinds) if any(_squeezed(name) == wanted for name in topic.names)]
    return sorted(found, key=lambda topic: topic.id != text)


def _by_words(text: str, kinds: Iterable[str]) -> list[Topic]:
    """Topics with all the words in one of their names; the name with the fewest other words first within a kind."""
    wanted = _words(text)
    if not wanted:
        return []
    found = []
    for topic in all_topics(kinds):
        spare = [len(words - wanted) for words in map(_words, topic.names) if wanted <= words]
        if spare:
            found.append((KINDS.index(topic.kind), min(spare), topic.id, topic))
    return [entry[-1] for entry in sorted(found, key=lambda entry: entry[:-1])]


def _by_weight(text: str, kinds: Iterable[str]) -> list[Topic]:
    """Topics with some of the words in their names and most of them in names and text.

    A word counts the more, the fewer topics have it in a name; a word in a name counts twice.
    """
    wanted = _words(text)
    candidates = [(topic, _words(" ".join(topic.names)) & wanted) for topic in all_topics(kinds)]
    held = {word: sum(word in names for _, names in candidates) for word in wanted}
    weight = {word: log(1 + len(candidates) / (1 + count)) for word, count in held.items()}
    whole = sum(weight.values())
    scored = []
    for topic, names in candidates:
        if names:
            in_names = sum(weight[word] for word in names)
            in_all = sum(weight[word] for word in wanted & (names | _body(topic)))
            if in_all >= _ENOUGH * whole:
                scored.append((-(in_names + in_all), KINDS.index(topic.kind), topic.id, topic))
    return [entry[-1] for entry in sorted(scored, key=lambda entry: entry[:-1])]


def _message_in(line: str) -> tuple[Topic, dict[str, str]] | None:
    """The page of the message in a line, with the values it names."""
    found = find(line)
    if found is None:
        return None
    return next(topic for topic in topics("message") if topic.id == found.message.id), found.names


def _line(line: str) -> Answer | None:
    """What a line pasted from a log or a script says."""
    setting = _SETTING.search(line) or _ASSIGNMENT.match(line)
    if setting:
        page_found = _exact(setting["variable"], ("variable",))
        return Answer(page_found[0] if page_found else None, (), setting.groupdict())
    found = _message_in(line) if " " in line and len(line) >= _SHORTEST_LINE else None
    return Answer(found[0], (), found[1]) if found else None


def _pasted(text: str) -> Answer | None:
    """What the first known line says; the topics of the other known lines as further ones."""
    answers = [answer for answer in map(_line, text.splitlines()) if answer]
    if not answers:
        return None
    first, *rest = answers
    others = dict.fromkeys(answer.topic for answer in rest if answer.topic and answer.topic != first.topic)
    return Answer(first.topic, tuple(others), first.values)


def plain(text: str) -> str:
    """What was asked without colours, other control characters and backticks: it is shown again in answers."""
    text = _ESCAPE.sub("", text)
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text).replace("`", "'").strip()


def look_up(text: str) -> Answer | None:
    """The answer to what was asked, None where nothing fits.

    Names count before lines, lines before words.
    """
    text = plain(text)
    first, _, rest = text.partition(" ")
    kind = kind_of(first) if rest else None
    if kind:
        within = _exact(rest, (kind,)) or _by_words(rest, (kind,))
        if within:
            return Answer(within[0], tuple(within[1:]))
    found = _exact(text, KINDS)
    pasted = None if found else _pasted(text)
    if pasted:
        return pasted
    found = found or _by_words(text, KINDS) or _by_weight(text, KINDS)
    return Answer(found[0], tuple(found[1:])) if found else None


def nearest(text: str, count: int = 5) -> list[Topic]:
    """Topics whose names look like what was asked, the likest first."""
    from difflib import get_close_matches  # noqa: PLC0415 (only after a miss)

    by_name: dict[str, Topic] = {}
    for topic in all_topics():
        for name in topic.names:
            by_name.setdefault(_squeezed(name), topic)
    tries = [_squeezed(text), *map(_squeezed, text.split())]
    close = [name for tried in tries for name in get_close_matches(tried, by_name, n=count, cutoff=0.7)]
    return list(dict.fromkeys(by_name[name] for name in close))[:count]


def search(text: str) -> list[Topic]:
    """All topics with every word in their names or text; those with all of them in a name first."""
    wanted = _words(text)
    if not wanted:
        return []
    by_name = _by_words(text, KINDS)
    in_text = [
        topic
        for topic in all_topics()
        if topic not in by_name and wanted <= _words(" ".join(topic.names)) | _body(topic)
    ]
    return by_name + in_text
