"""A bundle: a folder, or a tar.gz of it, with what each host printed (`HOST.txt`) and how reaching it went.

`collection.json` is written anew as each host ends, so that a crash leaves a bundle that can be read.
"""

from __future__ import annotations

import json
import tarfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from advisor import __version__
from advisor.collect.remote import Fanout, Outcome, Target
from advisor.collect.script import script
from advisor.data import phrase
from advisor.errors import UsageError
from advisor.read.collection import LISTING

_ARCHIVES = (".tar.gz", ".tgz")


def folder_of(place: Path) -> Path:
    """Where a bundle is written: the folder itself; for an archive the folder that is packed at the end."""
    return place.with_name(place.name.removesuffix(".tgz").removesuffix(".tar.gz"))


def create(place: Path) -> Path:
    """The new, empty folder of a bundle. Raises UsageError where there is something already."""
    folder = folder_of(place)
    for path in {place, folder}:
        if path.exists():
            raise UsageError(phrase("collect-exists"), place=str(path), remedy=phrase("collect-exists-remedy"))
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UsageError(error.strerror or str(error), place=str(folder)) from None
    return folder


def _write_listing(folder: Path, began: float, outcomes: dict[str, Outcome]) -> None:
    hosts = {
        name: {"state": outcome.state, "detail": outcome.detail, "seconds": round(outcome.seconds, 1)}
        for name, outcome in sorted(outcomes.items())
    }
    content = {"advisor_collection": 1, "version": __version__, "started": int(began), "hosts": hosts}
    fresh = folder / f".{LISTING}"
    fresh.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    fresh.replace(folder / LISTING)


def collect(
    targets: Sequence[Target], folder: Path, limit: float, at_once: int, told: Callable[[Outcome], None]
) -> dict[str, Outcome]:
    """Collect from the targets into the folder; what became of each, by name.

    limit: seconds for the whole of one host. Raises KeyboardInterrupt with the bundle as far as it came.
    """
    began = time.time()
    outcomes: dict[str, Outcome] = {}

    def ended(outcome: Outcome) -> None:
        outcomes[outcome.name] = outcome
        _write_listing(folder, began, outcomes)
        told(outcome)

    Fanout(script(max(1, int(limit) - 5)), folder, limit, at_once).run(targets, ended)
    return outcomes


def pack(folder: Path, place: Path) -> None:
    """The folder as an archive at `place`, which takes its place; nothing to do for a bundle that is a folder."""
    if not place.name.endswith(_ARCHIVES):
        return
    fresh = place.with_name(f".{place.name}")
    with tarfile.open(fresh, "w:gz") as archive:
        archive.add(folder, folder.name)
    fresh.replace(place)
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
