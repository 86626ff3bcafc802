"""The diagnosis for other programs: the contract of `advisor/findings.py` as JSON, and its published schema."""

from __future__ import annotations

import json
from typing import Any

from advisor.findings import Diagnosis


def _plain(value: Any) -> Any:
    """The same value with lone surrogates (from file names that are not UTF-8) replaced: they are not valid Unicode."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def render(diagnosis: Diagnosis) -> str:
    """The object in the order of the contract. ASCII with escapes, so that it survives every locale.

    Raises ValueError for a figure that is not finite, which JSON cannot say.
    """
    return json.dumps(_plain(diagnosis.model_dump(by_alias=True)), indent=2, allow_nan=False) + "\n"


def schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of what `render` gives."""
    made = Diagnosis.model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}
