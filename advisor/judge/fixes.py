"""Fix cards with this cluster's own names in them. They are printed, never run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from advisor.findings import FixCard
from advisor.infer.engine import Proof

_NAME = re.compile(r"\{(\w+)\}")
_PLAIN = re.compile(r"[\w./:@%+=,^-]+")


def bindings(proofs: Sequence[Proof]) -> dict[str, str]:
    """Placeholders that the proofs can fill; one that two proofs fill differently stays open, never a guess."""
    values: dict[str, set[str]] = {}
    for proof in proofs:
        for name, value in proof.bound().items():
            values.setdefault(name, set()).add(value)
    return {name: next(iter(found)) for name, found in values.items() if len(found) == 1}


def fill(text: str, values: Mapping[str, str], *, command: bool = False) -> str:
    """`{name}` replaced by its value, by `<name>` where it is unknown; values are quoted for the shell in commands."""

    def value(match: re.Match[str]) -> str:
        found = values.get(match[1])
        if found is None:
            return f"<{match[1]}>"
        return found if not command or _PLAIN.fullmatch(found) else shlex.quote(found)

    return _NAME.sub(value, text)


def cards(page: Mapping[str, Any], proofs: Sequence[Proof]) -> list[FixCard]:
    """The cause page's cards that fit what was found."""
    values = bindings(proofs)
    rules = {proof.rule.id for proof in proofs}
    fitting = [fix for fix in page["fixes"] if not fix["rules"] or rules & set(fix["rules"])]
    return [
        FixCard(
            title=fill(fix["title"], values), risk=fix["risk"], who=fix["who"],
            commands=[fill(line, values, command=True) for line in fix["commands"]],
            undo=[fill(line, values, command=True) for line in fix["undo"]],
            persistence=fill(fix["persistence"], values), danger=fill(fix["danger"], values),
            verify=[fill(line, values, command=True) for line in fix["verify"]], expect=fill(fix["expect"], values),
        )
        for fix in fitting
    ]  # fmt: skip
