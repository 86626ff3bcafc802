"""Explanations as Markdown: one function for each kind of topic, all sentences from `knowledge/phrases.yaml`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from advisor.data import catalogue, phrase
from advisor.explain import KINDS, Answer, Topic, named, page, topics

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def label(topic: Topic) -> str:
    """`id (kind)`, as lists of topics show it."""
    return f"`{topic.id}` ({phrase(f'explain-kind-{topic.kind}')})"


def _names(ids: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in ids)


def _open(text: str) -> str:
    """Placeholders of a fix card, for which nothing is known here, as `<name>`."""
    return _PLACEHOLDER.sub(r"<\1>", text)


def _block(lines: Sequence[str]) -> str:
    return "\n".join(("```", *lines, "```"))


def _section(title: str, parts: Iterable[str]) -> Iterator[str]:
    """A heading and its parts, nothing where there is none."""
    made = [part for part in parts if part]
    if made:
        yield f"## {phrase(title)}"
        yield from made


def _bullets(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _sentence(name: str, ids: Iterable[str]) -> Iterator[str]:
    listed = _names(ids)
    if listed:
        yield phrase(name, names=listed)


def _head(topic: Topic, notes: Iterable[str] = ()) -> Iterator[str]:
    yield f"# {topic.title}"
    yield " · ".join((label(topic), *notes))


def _references(record: Mapping[str, Any]) -> Iterator[str]:
    yield from _section("explain-references", [_bullets(record.get("references", ()))])


def _fix(number: int, fix: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {number}. {_open(fix['title'])}"
    yield phrase("explain-fix-terms", risk=fix["risk"], who=fix["who"])
    if fix["danger"]:
        yield phrase("explain-fix-danger", text=_open(fix["danger"]))
    yield from _sentence("explain-fix-rules", fix["rules"])
    if fix["commands"]:
        yield _block([_open(line) for line in fix["commands"]])
    if fix["undo"]:
        yield phrase("explain-fix-undo")
        yield _block([_open(line) for line in fix["undo"]])
    if fix["persistence"]:
        yield phrase("explain-fix-persistence", text=_open(fix["persistence"]))
    if fix["verify"]:
        yield phrase("explain-fix-verify")
        yield _block([_open(line) for line in fix["verify"]])
    if fix["expect"]:
        yield phrase("explain-fix-expect", text=_open(fix["expect"]))


def _check(check: Mapping[str, Any]) -> str:
    terms = "".join(phrase(f"explain-check-{name}") for name in ("root", "traffic") if check[name])
    why = phrase("explain-check", why=check["why"], seconds=check["seconds"], terms=terms)
    return f"`{_open(check['command'])}`: {why}"


def _cause(topic: Topic, record: Mapping[str, Any]) -> Iterator[str]:
    notes = [phrase("explain-cause-kind", kind=record["kind"])]
    if record["stage"] != "none":
        notes.append(phrase("explain-cause-stage", stage=record["stage"]))
    loss = record["largest_loss"]
    if loss:
        percent = f"{loss['share'] * 100:g}"
        notes.append(phrase("explain-cause-loss", percent=percent, tag=loss["tag"], source=loss["source"]))
    yield from _head(topic, notes)
    yield record["text"]
    fixes = (part for number, fix in enumerate(record["fixes"], 1) for part in _fix(number, fix))
    yield from _section("explain-fixes", fixes)
    yield from _section("explain-checks", [_bullets(map(_check, record["checks"]))])
    rules = [rule for rule in catalogue()["rules"].values() if rule["cause"] == topic.id]
    lines = [f"`{rule['id']}` ({rule['evidence']}): {rule['title']}" for rule in rules]
    yield from _section("explain-cause-rules", [_bullets(lines)])
    messages = catalogue()["messages"].items()
    yield from _sentence("explain-cause-messages", (name for name, other in messages if topic.id in other["causes"]))
    yield from _sentence("explain-parents", record["parents"])
    yield from _sentence("explain-mistaken", record["mistaken_for"])
    yield from _references(record)


def _message(topic: Topic, record: Mapping[str, Any]) -> Iterator[str]:
    notes = [phrase("explain-severity", severity=record["severity"])]
    if record["versions"]:
        notes.append(phrase("explain-versions", versions=record["versions"]))
    yield from _head(topic, notes)
    if record["example"]:
        yield phrase("explain-example")
        yield _block(record["example"].strip().splitlines())
    yield record["text"]
    yield from _sentence("explain-message-causes", record["causes"])
    yield from _references(record)


def _page(topic: Topic, record: Mapping[str, Any]) -> Iterator[str]:
    yield from _head(topic)
    yield record["text"]
    related = filter(None, map(named, record["see_also"]))
    listed = ", ".join(map(label, related))
    if listed:
        yield phrase("explain-see-also", names=listed)
    yield from _references(record)


def _conditions(conditions: Sequence[Mapping[str, Any]]) -> str:
    import json  # noqa: PLC0415

    return _block([json.dumps(condition, ensure_ascii=False) for condition in conditions])


def _rule(topic: Topic, record: Mapping[str, Any]) -> Iterator[str]:
    yield from _head(topic, [phrase("explain-rule-status", status=record["status"], since=record["since"])])
    evidence = phrase(f"explain-rule-evidence-{record['evidence']}", cause=f"`{record['cause']}`")
    yield f"{evidence} {phrase('explain-rule-unverified')}" if record["unverified"] else evidence
    yield phrase("explain-rule-says", message=record["message"])
    (fact,) = record["each"].values()
    yield phrase("explain-rule-when", fact=f"`{fact}`")
    yield _conditions(record["when"])
    if record["effect"]:
        yield phrase("explain-rule-effect")
        yield _conditions(record["effect"])
    yield from _sentence("explain-rule-explains", record["explains"])
    yield from _section("explain-rule-false", [_bullets(record["false_positives"])])
    yield from _references(record)


def _reads(part: object, fact: str) -> bool:
    """Whether a rule, or a part of it, speaks of a fact type."""
    if isinstance(part, Mapping):
        return any(_reads(value, fact) for value in part.values())
    return any(_reads(item, fact) for item in part) if isinstance(part, list) else part == fact


def _field(name: str, kind: str) -> str:
    optional = kind.endswith(" | None")
    return f"`{name}`: {kind.removesuffix(' | None') if optional else phrase('explain-fact-known', type=kind)}"


def _fact(topic: Topic, record: Mapping[str, Any]) -> Iterator[str]:
    yield from _head(topic)
    yield record["text"].partition("\n")[2].strip()
    fields = record["fields"].items()
    yield from _section("explain-fact-fields", [_bullets(_field(name, kind) for name, kind in fields)])
    sources = record["sources"]
    yield from _sentence("explain-fact-sources", sources) if sources else (phrase("explain-fact-derived"),)
    check = catalogue()["tables"].get("checks", {}).get(topic.id)
    if check:
        yield phrase("explain-fact-command", command=check["command"], why=check["why"])
    rules = catalogue()["rules"].values()
    parts = ("each", "needs", "when", "effect")
    reading = (rule["id"] for rule in rules if any(_reads(rule[part], topic.id) for part in parts))
    yield from _sentence("explain-fact-rules", reading)


_WRITERS = {"cause": _cause, "message": _message, "rule": _rule, "fact": _fact}


def explanation(topic: Topic) -> str:
    """A topic in full."""
    writer = _WRITERS.get(topic.kind, _page)
    return "\n\n".join(part for part in writer(topic, page(topic)) if part) + "\n"


def _values(answer: Answer) -> str:
    """What was read in a pasted line, in a sentence."""
    values = answer.values
    if "variable" in values:
        name = "explain-line-variable" if answer.topic else "explain-line-unlisted"
        return phrase(name, variable=f"`{values['variable']}`", value=f"`{values['value']}`")
    return phrase("explain-line", values=", ".join(f"{name} `{value}`" for name, value in values.items()))


def answer_text(answer: Answer, most_others: int = 8) -> str:
    """The whole answer: what was read in the line, the topic, and the others in one line."""
    parts = [_values(answer)] if answer.values else []
    if answer.topic:
        parts.append(explanation(answer.topic).rstrip())
    if answer.others:
        names = ", ".join(map(label, answer.others[:most_others]))
        parts.append(phrase("explain-others", names=names + (", …" if len(answer.others) > most_others else "")))
    return "\n\n".join(parts) + "\n"


def overview() -> str:
    """What can be asked, with how much there is of it."""
    return phrase("explain-overview", count=sum(len(topics(kind)) for kind in KINDS), kinds=", ".join(KINDS))


def listing(found: Iterable[Topic]) -> str:
    """Topics, a line each, under their kinds."""
    lines: list[str] = []
    kind = None
    for topic in found:
        if topic.kind != kind:
            lines += [""] * (kind is not None) + [f"## {phrase(f'explain-kind-{topic.kind}')}", ""]
            kind = topic.kind
        lines.append(f"- `{topic.id}`: {topic.title}")
    return "\n".join(lines) + "\n"
