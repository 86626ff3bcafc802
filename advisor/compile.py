"""Compiles rules/ and knowledge/ to one JSON catalogue, and says where each mistake stands.

Only this module and `advisor rules` parse YAML; every other command reads the compiled catalogue.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from advisor.errors import CatalogueError, UsageError
from advisor.facts import FACT_TYPES, field_names
from advisor.infer.conditions import ConditionError, mentions, near
from advisor.infer.engine import compile_rule
from advisor.infer.schema import Cause, MessagePage, Page, Rule, RuleTests, Threshold
from advisor.sources import all_sources
from advisor.sources.base import Source

M = TypeVar("M", bound=BaseModel)
PAGES = ("tools", "variables", "concepts", "guides")
_FRONT = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
_PLACEHOLDER = re.compile(r"\{(\w+\.\w+)\}")


def _line(text: str, path: tuple[str | int, ...], offset: int) -> int:
    """The line of a path inside a YAML text; parsed again with positions, only when there is something to say."""
    node: Any = next(iter(YAML(typ="rt").load_all(text)), None)
    line = 0
    for key in path:
        try:
            line = int(node.lc.value(key)[0]) if isinstance(key, int) else int(node.lc.key(key)[0])
            node = node[key]
        except (AttributeError, KeyError, IndexError, TypeError):
            break
    return line + 1 + offset


def _load(text: str, place: str, offset: int = 0) -> list[Any]:
    try:
        return list(YAML(typ="safe").load_all(text))
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = (mark.line if mark else 0) + 1 + offset
        problem = getattr(error, "problem", None) or "not YAML"
        raise CatalogueError(str(problem), place=f"{place}:{line}", remedy="check indentation and quotes") from None


def _validate(model: type[M], data: object, text: str, place: str, offset: int = 0) -> M:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        path = tuple(first["loc"])
        line = _line(text, path, offset)
        message = str(first["msg"])
        if first["type"] == "extra_forbidden":
            message = f"unknown field {path[-1]}{near(str(path[-1]), model.model_fields)}"
        elif first["type"] == "missing":
            message = f"the field {path[-1]} is missing"
        else:
            message = f"{'.'.join(map(str, path))}: {message}"
        raise CatalogueError(message, place=f"{place}:{line}") from None


def front_matter(path: Path, model: type[M]) -> tuple[M, str]:
    """A page's front matter, checked, and its text below."""
    text = path.read_text(encoding="utf-8")
    match = _FRONT.match(text)
    if match is None:
        raise CatalogueError("a page begins with its front matter between two --- lines", place=f"{path}:1")
    documents = _load(match[1], str(path), 1)
    return _validate(model, documents[0] if documents else {}, match[1], str(path), 1), text[match.end() :].strip()


def thresholds(knowledge: Path) -> dict[str, dict[str, Any]]:
    """The figures that rules compare with."""
    path = knowledge / "reference" / "thresholds.yaml"
    text = path.read_text(encoding="utf-8")
    rows = _load(text, str(path))[0]
    return {name: _validate(Threshold, row, text, f"{path} ({name})").model_dump() for name, row in rows.items()}


def _check_names(rule: Rule, compiled_variables: Mapping[str, str]) -> None:
    """Fields named in the message and in `bind` exist on the facts that are bound."""
    named: list[tuple[tuple[str | int, ...], str]] = [(("message",), m[1]) for m in _PLACEHOLDER.finditer(rule.message)]
    named += [(("bind", name), source) for name, source in rule.bind.items()]
    for path, source in named:
        variable, _, field_name = source.partition(".")
        kind = compiled_variables.get(variable)
        if kind is None:
            raise ConditionError(path, f"unknown variable {variable}{near(variable, compiled_variables)}")
        fields = field_names(FACT_TYPES[kind])
        if field_name not in fields:
            raise ConditionError(path, f"{kind} has no field {field_name}{near(field_name, fields)}")


def _variables(conditions: object) -> Iterator[tuple[str, str]]:
    """Every variable that a quantifier binds, with its fact type."""
    if isinstance(conditions, dict):
        for key, value in conditions.items():
            if key in ("exists", "count", "none") and isinstance(value, dict):
                yield from ((str(k), str(v)) for k, v in value.items() if isinstance(v, str) and v in FACT_TYPES)
            yield from _variables(value)
    elif isinstance(conditions, list):
        for item in conditions:
            yield from _variables(item)


def compile_rule_file(path: Path, figures: Mapping[str, float]) -> dict[str, Any]:
    """One rule, checked down to the last name. Raises CatalogueError with file and line."""
    text = path.read_text(encoding="utf-8")
    documents = _load(text, str(path))
    rule = _validate(Rule, documents[0] if documents else {}, text, str(path))
    if rule.id != path.stem:
        raise CatalogueError(f"the id {rule.id} is not the file's name", place=f"{path}:{_line(text, ('id',), 0)}")
    data = rule.model_dump()
    data["chained"] = mentions(data["when"], "finding") or mentions(data["effect"], "finding")
    try:
        for name in rule.needs:
            if name not in FACT_TYPES:
                raise ConditionError(("needs",), f"unknown fact type {name}{near(name, FACT_TYPES)}")
        compile_rule(data, figures)
        bound = {**dict(_variables(data["when"])), **dict(_variables(data["effect"])), **rule.each}
        _check_names(rule, bound)
    except ConditionError as error:
        raise CatalogueError(error.message, place=f"{path}:{_line(text, error.path, 0)}") from None
    return data


def rule_tests(path: Path) -> RuleTests:
    """The second document of a rule's file."""
    text = path.read_text(encoding="utf-8")
    documents = _load(text, str(path))
    if len(documents) < 2:
        raise CatalogueError("the second document with its tests is missing", place=str(path))
    return _validate(RuleTests, documents[1], text, str(path))


def rule_files(folder: Path) -> list[Path]:
    """All rule files below a folder, sorted by id."""
    return sorted(folder.rglob("*.yaml"), key=lambda path: path.stem)


def compile_rules(folder: Path, figures: Mapping[str, float]) -> dict[str, dict[str, Any]]:
    """All rules of a pack by id."""
    compiled: dict[str, dict[str, Any]] = {}
    for path in rule_files(folder):
        data = compile_rule_file(path, figures)
        if data["id"] in compiled:
            raise CatalogueError(f"a second rule with the id {data['id']}", place=str(path))
        data["file"] = path.relative_to(folder.parent).as_posix()
        compiled[data["id"]] = data
    return compiled


def _pages(folder: Path, model: type[BaseModel]) -> dict[str, dict[str, Any]]:
    pages = {}
    for path in sorted(folder.glob("*.md")):
        matter, text = front_matter(path, model)
        pages[path.stem] = {**matter.model_dump(), "text": text}
    return pages


def check_links(rules: Mapping[str, Any], known: Mapping[str, Any], causes: Mapping[str, Any], folder: Path) -> None:
    """Every cause that one of the rules names has a page, and every rule that one explains is known."""
    for rule in rules.values():
        place = f"{folder.parent}/{rule['file']}"
        if rule["cause"] not in causes:
            hint = near(rule["cause"], causes)
            raise CatalogueError(f"no page for the cause {rule['cause']}{hint}", place=place)
        for other in rule["explains"]:
            if other not in known:
                raise CatalogueError(f"explains the unknown rule {other}{near(other, known)}", place=place)


def _check_patterns(pages: Mapping[str, Any], folder: Path) -> None:
    for name, page in pages.items():
        for pattern in page["patterns"]:
            try:
                re.compile(pattern)
            except re.error as error:
                raise CatalogueError(f"{pattern}: {error}", place=f"{folder / name}.md") from None


def _fact_pages(sources: Sequence[Source]) -> dict[str, dict[str, Any]]:
    """What each fact type means, which fields it has and which tools give it."""
    return {
        name: {
            "title": inspect.cleandoc(kind.__doc__ or name).split("\n", 1)[0].rstrip("."),
            "text": inspect.cleandoc(kind.__doc__ or ""),
            "aliases": [kind.__name__],
            "fields": {f.name: str(f.type) for f in fields(kind) if f.name in field_names(kind)},
            "sources": [source.title for source in sources if kind in source.facts],
        }
        for name, kind in sorted(FACT_TYPES.items())
    }


def compile_catalogue(rules: Path, knowledge: Path) -> dict[str, Any]:
    """Everything the commands need, as plain data."""
    figures = thresholds(knowledge)
    values = {name: row["value"] for name, row in figures.items()}
    tables = (p for p in sorted((knowledge / "reference").glob("*.yaml")) if p.stem != "thresholds")
    sources = all_sources()
    catalogue: dict[str, Any] = {
        "facts": _fact_pages(sources),
        "sources": {s.id: {"needles": list(s.needles), "in_nccl_lines": s.in_nccl_lines} for s in sources},
        "rules": compile_rules(rules, values),
        "causes": _pages(knowledge / "causes", Cause),
        "messages": _pages(knowledge / "messages", MessagePage),
        "pages": {kind: _pages(knowledge / kind, Page) for kind in PAGES},
        "thresholds": figures,
        "tables": {p.stem: _load(p.read_text(encoding="utf-8"), str(p))[0] for p in tables},
        "phrases": _load((knowledge / "phrases.yaml").read_text(encoding="utf-8"), "phrases.yaml")[0],
    }
    check_links(catalogue["rules"], catalogue["rules"], catalogue["causes"], rules)
    _check_patterns(catalogue["messages"], knowledge / "messages")
    return catalogue


def with_packs(catalogue: Mapping[str, Any], folders: Sequence[Path]) -> dict[str, Any]:
    """The catalogue with the user's own rules; one with a known id replaces the known one.

    Raises UsageError for a folder that is none, CatalogueError with file and line for a wrong rule.
    """
    figures = {name: row["value"] for name, row in catalogue["thresholds"].items()}
    rules = dict(catalogue["rules"])
    for folder in folders:
        if not folder.is_dir():
            raise UsageError("not a folder of rules", place=str(folder))
        added = compile_rules(folder, figures)
        rules.update(added)
        check_links(added, rules, catalogue["causes"], folder)
    return {**catalogue, "rules": rules}
