"""Files, folders, standard input; and what cannot be used."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from advisor.errors import UsageError
from advisor.read.unpack import documents


def names(paths: list[str]) -> list[tuple[str, str | None]]:
    return [(doc.name, doc.problem) for doc in documents(paths)]


def test_a_folder_gives_its_files_by_relative_name_sorted(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "two.txt").write_text("2")
    (tmp_path / "one.txt").write_text("1")
    (tmp_path / ".hidden").write_text("x")
    assert names([str(tmp_path)]) == [("b/two.txt", None), ("one.txt", None)]


def test_order_and_repetition_do_not_matter(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(name)
    a, b = str(tmp_path / "a.txt"), str(tmp_path / "b.txt")
    assert documents([a, b]) == documents([b, a, a]) == documents([str(tmp_path)])


def test_gzip_is_told_by_content(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(gzip.compress(b"hello\n"))
    assert documents([str(tmp_path)])[0].text == "hello\n"


@pytest.mark.parametrize(
    ("data", "problem"),
    [(b"", "empty"), (b" \n", "empty"), (b"\x7fELF\0\0", "binary"), (b"\x1f\x8b\x08 broken", "gzip")],
)
def test_an_unusable_file_is_a_problem_of_that_file(tmp_path: Path, data: bytes, problem: str) -> None:
    (tmp_path / "bad").write_bytes(data)
    (tmp_path / "good").write_text("x")
    read = {doc.name: doc for doc in documents([str(tmp_path)])}
    assert problem in (read["bad"].problem or "")
    assert read["good"].problem is None


def test_a_bomb_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("advisor.read.unpack.MAX_BYTES", 1000)
    (tmp_path / "bomb").write_bytes(gzip.compress(b"x" * 100_000))
    assert "larger than" in (documents([str(tmp_path)])[0].problem or "")


def test_links_out_of_a_folder_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "secret")
    assert names([str(folder)]) == []


def test_a_path_that_does_not_exist_is_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        documents([str(tmp_path / "missing")])


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stdin:
        buffer = io.BytesIO(b"piped\n")

    monkeypatch.setattr("sys.stdin", Stdin)
    assert [(doc.name, doc.text) for doc in documents(["-"])] == [("-", "piped\n")]
