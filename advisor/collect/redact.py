"""Rename what names machines and people in a bundle: hosts, addresses, GUIDs, UUIDs, serial numbers, users.

The same name becomes the same other name throughout, and addresses that share a prefix still share it, so that
reasoning over hosts and subnets works as before. The map back is kept beside the bundle, never in it.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import re
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path

from advisor.read.collection import LISTING, collections
from advisor.read.decode import decode

_IPV4 = r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.]*\d)"
_UUID = r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
_MAC = r"(?<![0-9a-f:])(?:[0-9a-f]{2}:){5,19}[0-9a-f]{2}(?![0-9a-f:])"  # 20 bytes: of IP over InfiniBand
_GUID = r"(?<![0-9a-f:])(?:[0-9a-f]{4}:){3}[0-9a-f]{4}(?![0-9a-f:])|\b0x[0-9a-f]{16}\b"
_IPV6 = r"(?<![0-9a-f:.])(?=[0-9a-f:]*::|(?:[0-9a-f]{1,4}:){7})(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![0-9a-f:])"
_SERIAL = r"(?P<before>\b(?:board )?serial(?: number| no\.?)?\s*[:=]\s*)(?P<serial>[\w-]{4,64})"
_ALL = re.compile(
    rf"(?P<ipv4>{_IPV4})|(?P<uuid>{_UUID})|(?P<mac>{_MAC})|(?P<guid>{_GUID})|(?P<ipv6>{_IPV6})|(?P<sn>{_SERIAL})", re.I
)
_USER = re.compile(r"(?:^(?:USER|LOGNAME)=|/home/|\buser[ =:]+)([A-Za-z_][\w.-]{0,31})", re.MULTILINE)
_NO_USER = {"root", "user", "unknown", "nobody"}
_SECRET = re.compile(r"^(\w*(?:TOKEN|SECRET|PASSW|API_?KEY|ACCESS_?KEY|CREDENTIAL)\w*=).*$", re.I | re.MULTILINE)
# Their first part says what kind of address it is, which diagnosis needs and which names nobody.
_KEPT_BITS = {"10.0.0.0/8": 8, "172.16.0.0/12": 12, "192.168.0.0/16": 16, "0.0.0.0/0": 0}
_KEPT_WHOLE = tuple(map(ipaddress.ip_network, ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")))


class Redactor:
    """Renames consistently; one for a bundle. map: other name by name."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)
        self.map: dict[str, str] = {}
        self._words: re.Pattern[str] | None = None

    def names(self, hosts: Iterable[str], users: Iterable[str]) -> None:
        """Tell the names that are to be found as words; a host's domain goes with it."""
        for kind, words in (("host", hosts), ("user", users)):
            for i, word in enumerate(sorted(set(words)), 1):
                self.map.setdefault(word, f"{kind}{i:03d}")
        longest = sorted((re.escape(word) for word in self.map), key=len, reverse=True)
        domain = r"(?:(?:\.[A-Za-z][\w-]{0,62}){1,8}(?!\w))?"
        self._words = re.compile(rf"(?<![A-Za-z0-9])({'|'.join(longest)}){domain}(?![A-Za-z0-9])") if longest else None

    def text(self, text: str) -> str:
        """The text with everything renamed."""
        text = _SECRET.sub(r"\1REDACTED", text)
        if self._words is not None:
            text = self._words.sub(lambda m: self.map[m[1]], text)
        return _ALL.sub(self._other, text)

    def _other(self, match: re.Match[str]) -> str:
        if match["sn"]:
            return match["before"] + self._known(match["serial"], self._hex)
        renamed = self._ipv4 if match["ipv4"] else self._hex if match["uuid"] else self._groups
        return self._known(match[0], renamed)

    def _known(self, word: str, renamed: Callable[[str], str]) -> str:
        if word not in self.map:
            self.map[word] = renamed(word)
        return self.map[word]

    def _digest(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()

    def _hex(self, word: str) -> str:
        """Other letters and digits, the punctuation as it was."""
        digits = iter(self._digest(word.lower()) * 2)
        return "".join(next(digits) if char.isalnum() else char for char in word)

    def _groups(self, word: str) -> str:
        """Each group by all groups up to it, so that a shared prefix stays shared; those that say nothing stay."""
        prefix, parts = "", []
        if word.lower().startswith("0x"):
            return word if not word[2:].strip("0f") else word[:2] + self._digest(word.lower())[:16]
        for group in word.lower().split(":"):
            prefix += f":{group}"
            plain = not group.strip("0") or group in ("fe80", "ff", "ffff", "1")
            parts.append(group if plain else self._digest(prefix)[: len(group)])
        return ":".join(parts)

    def _ipv4(self, word: str) -> str:
        """Another address: bit by bit, each turned or not by what stands before it, so that subnets stay subnets."""
        try:
            address = ipaddress.IPv4Address(word)
        except ValueError:
            return word  # a version such as 1.2.300.4
        if any(address in network for network in _KEPT_WHOLE):
            return word
        kept = next(bits for network, bits in _KEPT_BITS.items() if address in ipaddress.ip_network(network))
        bits = f"{int(address):032b}"
        turned = (
            bit if i < kept else str(int(bit) ^ int(self._digest(bits[:i])[0], 16) & 1) for i, bit in enumerate(bits)
        )
        return str(ipaddress.IPv4Address(int("".join(turned), 2)))


def redact_bundle(folder: Path, map_file: Path) -> None:
    """Rename in all files of a bundle that is a folder, file names included; the map goes to `map_file`.

    The map is readable for its owner only.
    """
    files = sorted(path for path in folder.iterdir() if path.is_file())
    texts = {path: decode(path.read_bytes()) for path in files}
    redactor = Redactor()
    hosts = {path.stem for path in files if path.name != LISTING} - {"localhost"}
    hosts |= {found.host for text in texts.values() for found in collections(text)}
    hosts |= set(json.loads(texts[folder / LISTING])["hosts"]) - {"localhost"}
    users = {name for text in texts.values() for name in _USER.findall(text)} - _NO_USER
    redactor.names(hosts, users)
    for path, text in texts.items():
        path.write_text(redactor.text(text), encoding="utf-8")
        if path.name != LISTING:
            path.rename(folder / f"{redactor.text(path.stem)}.txt")
    map_file.touch(mode=0o600)
    map_file.write_text(json.dumps(redactor.map, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
