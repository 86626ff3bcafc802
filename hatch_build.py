"""Build hook: the wheel carries the catalogue compiled, so that nobody parses YAML at run time."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CatalogueHook(BuildHookInterface[Any]):
    """Compiles rules/ and knowledge/ into `advisor/_bundled/catalogue.json` of the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """An editable install reads the checkout itself and needs no compiled copy."""
        if version == "editable":
            return
        root = Path(self.root)
        sys.path.insert(0, str(root))
        from advisor.compile import compile_catalogue  # noqa: PLC0415 (importable only from here on)

        compiled = compile_catalogue(root / "rules", root / "knowledge")
        target = Path(tempfile.mkdtemp()) / "catalogue.json"
        target.write_text(json.dumps(compiled, ensure_ascii=False), encoding="utf-8")
        build_data["force_include"][str(target)] = "advisor/_bundled/catalogue.json"
