"""Data flows one way: a module imports only from its own layer or the ones below."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "advisor"
LAYERS = (
    {"cli", "__main__"},
    {"render", "explain", "ruletest"},
    {"diagnosis", "why"},
    {"judge"},
    {"collect", "bench"},
    {"read"},
    {"compile"},
    {"infer", "expect", "sources"},
    {"grammar"},
    {"findings", "data"},
    {"facts", "errors"},
)
# The catalogue of a checkout is compiled when a file is newer: the one place that reaches up, inside a function.
ALLOWED = {("data", "compile")}
# `infer` and `sources` meet in facts only.
FORBIDDEN = {
    ("infer", "sources"),
    ("sources", "infer"),
    ("infer", "expect"),
    ("expect", "sources"),
    ("expect", "infer"),
}
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def layer(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("advisor"):
            module = node.module.removeprefix("advisor").lstrip(".")
            found |= {module.split(".")[0]} if module else {alias.name for alias in node.names}
    return found & set(LEVEL)


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down(path: Path) -> None:
    own = layer(path)
    if own == "__init__":
        return
    assert own in LEVEL, f"{own} stands in no layer"
    for other in imports(path) - {own}:
        allowed = LEVEL[other] >= LEVEL[own] and (own, other) not in FORBIDDEN
        assert allowed or (own, other) in ALLOWED, f"{own} imports {other}"


def test_only_commands_print_or_exit() -> None:
    for path in ROOT.rglob("*.py"):
        if layer(path) in ("cli", "__main__"):
            continue
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        names = {func.id for func in calls if isinstance(func, ast.Name)}
        assert not names & {"print", "exit", "quit"}, path
