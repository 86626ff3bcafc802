"""Archives: what is inside is read, nothing is written, and no archive costs more than its budget."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from advisor.diagnosis import diagnose
from advisor.read import archive, unpack
from advisor.read.archive import ArchiveError, Budget, decompress, members

IBSTATUS = b"""Infiniband device 'mlx5_0' port 1 status:
\tstate:\t\t 4: ACTIVE
\trate:\t\t 100 Gb/sec (4X EDR)
\tlink_layer:\t InfiniBand
"""


def tar(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as made:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            made.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zipped(files: Mapping[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in files.items():
            made.writestr(name, data)
    return out.getvalue()


@pytest.mark.parametrize("squeeze", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_tar_in_every_compression(squeeze: Callable[[bytes], bytes]) -> None:
    data = squeeze(tar({"node01/ibstatus.txt": IBSTATUS, "node02/ibstatus.txt": IBSTATUS, "node01/.hidden": b"x"}))
    found = unpack.unpack("bundle", data)
    assert [doc.name for doc in found] == ["bundle/node01/ibstatus.txt", "bundle/node02/ibstatus.txt"]
    assert {doc.problem for doc in found} == {None}


def test_zip_is_read_through_to_facts() -> None:
    outcome = diagnose(unpack.unpack("heap.zip", zipped({"node01/ibstatus.txt": IBSTATUS})))
    assert outcome.diagnosis.inventory[0].source == "ibstatus"


def test_names_cannot_lead_anywhere() -> None:
    data = tar({"../../etc/cron.d/x": b"a", "/root/y": b"b"})
    assert [m.name for m in members(data, Budget(100))] == ["etc/cron.d/x", "root/y"]


def test_links_and_devices_are_passed_over() -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as made:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
            info = tarfile.TarInfo("x")
            info.type, info.linkname = kind, "/etc/passwd"
            made.addfile(info)
    assert list(members(out.getvalue(), Budget(100))) == []


@pytest.mark.parametrize("make", [tar, zipped])
def test_a_bomb_stops_at_its_budget(make: Callable[[Mapping[str, bytes]], bytes]) -> None:
    data = make({"a": b"small", "b": bytes(1 << 20)})
    with pytest.raises(ArchiveError, match="too-large"):
        list(members(data, Budget(1000)))
    with pytest.raises(ArchiveError, match="too-many"):
        list(members(data, Budget(1 << 24, most_files=1)))


@pytest.mark.parametrize("squeeze", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_bomb_stops_at_its_limit(squeeze: Callable[[bytes], bytes]) -> None:
    with pytest.raises(ArchiveError, match="too-large"):
        decompress(squeeze(bytes(1 << 20)), 1000)


def test_archives_within_archives_end(monkeypatch: pytest.MonkeyPatch) -> None:
    data = tar({"x.txt": b"text\n"})
    for _ in range(5):
        data = tar({"inner.tar": data})
    (only,) = unpack.unpack("deep.tar", data)
    assert only.problem is not None


def test_what_stands_before_the_damage_is_kept() -> None:
    data = tar({"a.txt": IBSTATUS, "b.txt": b"x" * 5000})
    found = unpack.unpack("cut.tar", data[:3000])
    assert found[0].name == "cut.tar/a.txt"
    assert found[-1].problem is not None


@pytest.mark.parametrize("data", [b"PK\x03\x04junk", b"BZhjunk", b"\xfd7zXZ\x00junk", b"\x28\xb5\x2f\xfdjunk"])
def test_damaged_archives_are_one_problem(data: bytes) -> None:
    (only,) = unpack.unpack("bad", data)
    assert only.problem


def test_all_archives_of_one_input_share_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "MAX_BYTES", 40_000)
    inner = gzip.compress(tar({"big": bytes(15_000)}))
    found = unpack.unpack("many.tar", tar({f"{i}.tgz": inner for i in range(4)}))
    assert any(doc.problem and "larger" in doc.problem for doc in found)


def test_a_file_path_with_an_archive(tmp_path: Path) -> None:
    (tmp_path / "b.tgz").write_bytes(gzip.compress(tar({"n1/x.txt": IBSTATUS})))
    assert [doc.name for doc in unpack.documents([str(tmp_path)])] == ["b.tgz/n1/x.txt"]
    assert archive.is_archive(tar({"a": b""}))
