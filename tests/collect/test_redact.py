"""Planted names are gone, and reasoning over hosts and subnets still works."""

from __future__ import annotations

import json
from pathlib import Path

from advisor.collect.redact import Redactor, redact_bundle

PLANTED = ("gpuhost7", "secretlab", "alice", "10.20.30.41", "192.0.2.77", "MT2222X00001", "b8:3f:d2:11:22:33",
           "b83f:d203:0011:2233", "0xb83fd20300112233", "GPU-8a1b2c3d", "2001:db8:77::9", "hunter2")  # fmt: skip
TEXT = """@advisor.1.2 open 1 gpuhost7.secretlab.example 1
@advisor.1.2 run environment 1 1 'env'
USER=alice
HOME=/home/alice
WANDB_API_KEY=hunter2
MASTER_ADDR=gpuhost7.secretlab.example
inet 10.20.30.41/24 peer 10.20.30.42 brd 10.20.30.255 scope global; net 192.0.2.77; lo 127.0.0.1
link/ether b8:3f:d2:11:22:33 inet6 2001:db8:77::9/64 fe80::ba3f:d2ff:fe11:2233
GUID b83f:d203:0011:2233 0xb83fd20300112233 at 12:34:56 on 0000:3b:00.0
Serial Number : MT2222X00001  GPU UUID: GPU-8a1b2c3d-0000-1111-2222-333344445555
@advisor.1.2 exit 0 1
@advisor.1.2 close 2
"""


def test_nothing_planted_is_left_and_the_map_is_outside(tmp_path: Path) -> None:
    folder = tmp_path / "b"
    folder.mkdir()
    (folder / "gpuhost7.txt").write_text(TEXT)
    listing = {"advisor_collection": 1, "hosts": {"gpuhost7": {"state": "done", "detail": ""}}}
    (folder / "collection.json").write_text(json.dumps(listing))
    redact_bundle(folder, tmp_path / "b.map.json")
    left = "\n".join(f"{path.name}\n{path.read_text()}" for path in folder.iterdir())
    assert [word for word in PLANTED if word.lower() in left.lower()] == []
    assert "127.0.0.1" in left
    assert "12:34:56 on 0000:3b:00.0" in left
    assert (folder / "host001.txt").exists()
    assert (tmp_path / "b.map.json").stat().st_mode & 0o77 == 0
    assert json.loads((tmp_path / "b.map.json").read_text())["gpuhost7"] == "host001"


def test_the_same_stays_the_same_and_subnets_stay_subnets() -> None:
    redactor = Redactor(b"key")
    a, b, far = (redactor.text(address) for address in ("10.1.2.3", "10.1.2.77", "10.9.2.3"))
    assert redactor.text("10.1.2.3") == a != b
    assert a.rsplit(".", 1)[0] == b.rsplit(".", 1)[0]
    assert far.split(".")[1] != a.split(".")[1]
    assert a.startswith("10.")
