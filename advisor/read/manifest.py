"""A manifest: a JSON file that says of the files beside it which command gave them, and on which host.

    {"runs": {"df-node02.txt": {"host": "node02", "command": "df -h /dev/shm", "exit": 0}}}

Collections write one; any that names files with their commands in this form is understood.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from advisor.read.unpack import Document

_REMOTE = re.compile(r"\b(?:ssh|srun|kubectl) ")


def _runs(document: Document) -> dict[str, Any]:
    """Entries of a manifest by file name; empty for any other document."""
    if not document.name.endswith(".json") or '"runs"' not in document.text[:100_000]:
        return {}
    try:
        runs = json.loads(document.text)["runs"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return runs if isinstance(runs, dict) and all(isinstance(run, dict) for run in runs.values()) else {}


def apply_manifests(documents: Sequence[Document]) -> None:
    """Give documents the host and command that a manifest in their folder names; the manifest itself is then read.

    A host that the command reaches by ssh, srun or kubectl is not the one it ran on, so it is left to the file's name.
    """
    by_name = {document.name: document for document in documents}
    for manifest in documents:
        folder = PurePosixPath(manifest.name).parent
        for name, run in _runs(manifest).items():
            manifest.manifest = True
            target = by_name.get((folder / name).as_posix())
            command, host = run.get("command"), run.get("host")
            if target is None or not isinstance(command, str):
                continue
            target.command = target.command or command
            if isinstance(host, str) and target.host is None and not _REMOTE.search(command):
                target.host = host
