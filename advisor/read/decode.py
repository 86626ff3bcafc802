"""From bytes to text: encodings, line ends, terminal escapes."""

from __future__ import annotations

import codecs
import re

# CSI sequences, OSC sequences (titles, links) and the other two-character escapes.
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
# What is left of colour codes when a terminal's text was pasted without its escape characters.
_PASTED_COLOUR = re.compile(r"\[(?:0|1|4|7|22|24|3[0-7]|9[0-7]|0;3[0-7]|1;3[0-7])m")
# /proc/PID/environ: NAME=value, each ended by a NUL; three of them are no accident.
_ENVIRON = re.compile(rb"(?:[A-Za-z_]\w{0,200}=[^\0]{0,100000}\0){3}")
_CONTROL = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 127], None)
_SPACES = str.maketrans({"\u00a0": " ", "\u2007": " ", "\u202f": " ", "\u200b": None, "\u200c": None, "\ufeff": None})
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def is_binary(data: bytes) -> bool:
    """Whether the bytes are no text: a NUL in the first 8 KiB that neither an encoding nor an environment explains."""
    if b"\0" not in data[:8192] or data.startswith(tuple(bom for bom, _ in _BOMS)):
        return False
    return _ENVIRON.match(data) is None


def decode(data: bytes) -> str:
    """Text with LF line ends, without escapes or control characters; bytes that are no UTF-8 become U+FFFD.

    A lone CR (a progress bar drawing over itself) starts a new line.
    """
    encoding = "utf-8"
    if b"\0" in data[:8192] and _ENVIRON.match(data):
        data = data.replace(b"\0", b"\n")
    for bom, name in _BOMS:
        if data.startswith(bom):
            data, encoding = data[len(bom) :], name
            break
    text = data.decode(encoding, errors="replace")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    if "m" in text and "[" in text:
        text = _PASTED_COLOUR.sub("", text)
    if not text.isascii():
        text = text.translate(_SPACES)
    return text.translate(_CONTROL) if not text.isprintable() else text
