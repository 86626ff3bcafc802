"""Finds rules/ and knowledge/ and gives the compiled catalogue.

A wheel (also one read as a zip) carries everything below `advisor/_bundled`, the catalogue compiled to JSON at build
time. In a checkout the folders stand beside the package; there the catalogue is compiled when a file is newer than the
cached one, so that an edit of a rule is seen at once.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

CATALOGUE = "catalogue.json"


@cache
def _bundled() -> Traversable | None:
    folder = files("advisor").joinpath("_bundled")
    return folder if folder.joinpath(CATALOGUE).is_file() else None


def folder(name: str) -> Traversable | None:
    """`rules` or `knowledge` of an installed package; None in a checkout."""
    bundled = _bundled()
    return None if bundled is None else bundled.joinpath(name)


def checkout() -> Path:
    """The folder above the package, which holds rules/ and knowledge/ in a checkout."""
    return Path(__file__).resolve().parent.parent


def _stamp(root: Path) -> str:
    """Changes whenever a file that the catalogue is made from changes, comes or goes."""
    here = Path(__file__).parent
    sources = [here / "compile.py"]
    for part in ("facts", "grammar", "infer", "sources"):
        sources += here.glob(f"{part}/*.py")
    for folder in ("rules", "knowledge"):
        sources += [Path(at, name) for at, _, names in os.walk(root / folder) for name in names]
    return ";".join(f"{path}:{(s := path.stat()).st_size}:{s.st_mtime_ns}" for path in sorted(sources))


def _from_checkout() -> dict[str, Any]:
    root = checkout()
    cached = root / ".cache" / CATALOGUE
    stamp = _stamp(root)
    try:
        known: dict[str, Any] = json.loads(cached.read_text(encoding="utf-8"))
        if known.get("stamp") == stamp:
            return known
    except (OSError, ValueError):
        pass
    from advisor.compile import compile_catalogue  # noqa: PLC0415 (YAML and pydantic, only when something changed)

    made = compile_catalogue(root / "rules", root / "knowledge")
    made["stamp"] = stamp
    try:
        cached.parent.mkdir(exist_ok=True)
        fresh = cached.with_suffix(f".{os.getpid()}")
        fresh.write_text(json.dumps(made, ensure_ascii=False), encoding="utf-8")
        fresh.replace(cached)
    except OSError:
        pass  # a read-only checkout compiles each time
    return made


@cache
def catalogue() -> dict[str, Any]:
    """The compiled catalogue: `rules`, `causes`, `messages`, `pages`, `thresholds`, `tables`, `phrases`.

    Raises CatalogueError, with file and line, if a file of a checkout is wrong.
    """
    bundled = _bundled()
    if bundled is None:
        return _from_checkout()
    loaded: dict[str, Any] = json.loads(bundled.joinpath(CATALOGUE).read_text(encoding="utf-8"))
    return loaded


@dataclass(slots=True, frozen=True)
class Message:
    """A known line of a log: its page's id, the patterns that find it (regular expressions), and how bad it is."""

    id: str
    patterns: tuple[str, ...]
    severity: str


@cache
def messages() -> tuple[Message, ...]:
    """All known messages, sorted by id."""
    return tuple(
        Message(name, tuple(page["patterns"]), page["severity"])
        for name, page in sorted(catalogue()["messages"].items())
    )


def threshold(name: str) -> float:
    """The value of a line of the tables of thresholds (`knowledge/reference/thresholds.yaml`)."""
    return float(catalogue()["thresholds"][name]["value"])


def table(name: str) -> Any:
    """A table of reference data, `knowledge/reference/NAME.yaml`."""
    return catalogue()["tables"][name]


def phrase(key: str, /, **values: object) -> str:
    """A sentence of `knowledge/phrases.yaml` with its named fields filled in."""
    return str(catalogue()["phrases"][key]).format(**values)
