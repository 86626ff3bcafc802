"""The diagnosis for other programs: the contract of `advisor/findings.py` as JSON, its published schema, and back."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

from advisor.findings import Diagnosis, contract_name


def _plain(value: Any) -> Any:
    """A value as JSON has it; lone surrogates (from file names that are not UTF-8) are replaced: no valid Unicode."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if is_dataclass(value):
        return {contract_name(f.name): _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def render(diagnosis: Diagnosis) -> str:
    """The object in the order of the contract. ASCII with escapes, so that it survives every locale.

    Raises ValueError for a figure that is not finite, which JSON cannot say.
    """
    return json.dumps(_plain(diagnosis), indent=2, allow_nan=False) + "\n"


def schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of what `render` gives."""
    from pydantic import TypeAdapter  # noqa: PLC0415 (a diagnosis that is only made needs none of it)

    made = TypeAdapter(Diagnosis).json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def load(text: str) -> Diagnosis:
    """A diagnosis from what `render` gave. Raises pydantic.ValidationError, which says where, on anything else."""
    from pydantic import TypeAdapter  # noqa: PLC0415

    return TypeAdapter(Diagnosis).validate_json(text)
