"""The files inside an archive, in memory: nothing is ever written, so no name in it can lead anywhere.

What an archive may cost is limited: bytes in all, number of files, archives within archives. A link, a device or an
encrypted file is passed over; a damaged archive gives what stands before the damage.
"""

from __future__ import annotations

import bz2
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

MOST_FILES = 20_000
_MEMORY = 128 * 1024 * 1024  # for the dictionary of xz
_GZIP, _BZIP, _XZ, _ZSTD, _ZIP = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"PK\x03\x04"


class ArchiveError(Exception):
    """Why an archive, or the rest of it, is not read: `bad-gzip`, `bad-archive`, `too-large`, `zstd`, `too-many`."""


@dataclass(slots=True)
class Member:
    """A file of an archive: its name as printed, harmless; its bytes."""

    name: str
    data: bytes


class Budget:
    """The bytes and files that all archives of one input may still unpack to."""

    def __init__(self, most_bytes: int, most_files: int = MOST_FILES) -> None:
        self.bytes, self.files = most_bytes, most_files

    def take(self, data: bytes) -> bytes:
        """The data, paid for. Raises ArchiveError."""
        self.bytes -= len(data)
        self.files -= 1
        if self.bytes < 0:
            raise ArchiveError("too-large")
        if self.files < 0:
            raise ArchiveError("too-many")
        return data


def _gunzip(data: bytes, most: int) -> bytes:
    """All members of a gzip file, which may follow each other."""
    out = bytearray()
    while data.startswith(_GZIP):
        unpacker = zlib.decompressobj(wbits=31)
        out += unpacker.decompress(data, most - len(out) + 1)
        if len(out) > most:
            raise ArchiveError("too-large")
        data = unpacker.unused_data
    return bytes(out)


def _inflate(make: Callable[[], bz2.BZ2Decompressor | lzma.LZMADecompressor]) -> Callable[[bytes, int], bytes]:
    def inflate(data: bytes, most: int) -> bytes:
        out = make().decompress(data, most + 1)
        if len(out) > most:
            raise ArchiveError("too-large")
        return out

    return inflate


_COMPRESSED: dict[bytes, Callable[[bytes, int], bytes]] = {
    _GZIP: _gunzip,
    _BZIP: _inflate(bz2.BZ2Decompressor),
    _XZ: _inflate(lambda: lzma.LZMADecompressor(memlimit=_MEMORY)),
}


def decompress(data: bytes, most: int) -> bytes:
    """The data without its compression (gzip, bzip2, xz); as it is where it has none.

    most: bytes it may become. Raises ArchiveError.
    """
    for magic, inflate in _COMPRESSED.items():
        if data.startswith(magic):
            try:
                return inflate(data, most)
            except (zlib.error, OSError, EOFError, lzma.LZMAError) as error:
                raise ArchiveError("bad-gzip" if magic == _GZIP else "bad-archive") from error
    if data.startswith(_ZSTD):
        raise ArchiveError("zstd")
    return data


def is_archive(data: bytes) -> bool:
    """Whether the bytes are a tar or zip archive."""
    return data.startswith(_ZIP) or data[257:262] == b"ustar"


def _harmless(name: str) -> str:
    """A name to show: no root, no way up, no empty parts."""
    return "/".join(part for part in name.replace("\\", "/").split("/") if part not in ("", ".", ".."))


def members(data: bytes, budget: Budget) -> Iterator[Member]:
    """The files of a tar or zip archive, in its order.

    Raises ArchiveError after the files that could be read.
    """
    yield from (_zip if data.startswith(_ZIP) else _tar)(data, budget)


def _tar(data: bytes, budget: Budget) -> Iterator[Member]:
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for info in archive:
                if info.isreg():
                    if info.size > budget.bytes:
                        raise ArchiveError("too-large")
                    file = archive.extractfile(info)
                    content = file.read() if file is not None else b""
                    yield Member(_harmless(info.name), budget.take(content))
    except (tarfile.TarError, OSError, ValueError, EOFError) as error:
        raise ArchiveError("bad-archive") from error


def _zip(data: bytes, budget: Budget) -> Iterator[Member]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for info in archive.infolist():
                if info.is_dir() or info.flag_bits & 1:
                    continue
                with archive.open(info) as file:
                    # The size in the header is the archive's word only; what is read is counted.
                    content = file.read(budget.bytes + 1)
                yield Member(_harmless(info.filename), budget.take(content))
    except (zipfile.BadZipFile, OSError, ValueError, EOFError, zlib.error, NotImplementedError) as error:
        raise ArchiveError("bad-archive") from error
