"""A manifest beside files names their commands and hosts."""

from __future__ import annotations

import json

from advisor.read.manifest import apply_manifests
from advisor.read.unpack import Document


def manifest(name: str, **runs: dict[str, object]) -> Document:
    return Document(name, json.dumps({"runs": {f"{key}.txt": run for key, run in runs.items()}}))


def test_files_of_its_folder_get_command_and_host() -> None:
    inside, outside = Document("a/limits.txt", "64\n"), Document("limits.txt", "64\n")
    listing = manifest("a/runs.json", limits={"host": "node02", "command": "ulimit -l"})
    apply_manifests([listing, inside, outside])
    assert (inside.command, inside.host, listing.manifest) == ("ulimit -l", "node02", True)
    assert (outside.command, outside.host) == (None, None)


def test_the_host_that_ran_ssh_is_not_whose_output_it_is() -> None:
    file = Document("out.txt", "64\n")
    apply_manifests([manifest("runs.json", out={"host": "head", "command": "timeout 9 ssh node02 'ulimit -l'"}), file])
    assert file.host is None


def test_other_json_is_no_manifest() -> None:
    for text in ('{"runs": [1]}', '{"runs": {"a": 1}}', '{"runs"', "[]"):
        document = Document("runs.json", text)
        apply_manifests([document])
        assert not document.manifest
