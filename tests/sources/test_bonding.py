"""What capture pairs of bonds cannot show: names from commands, cut and hostile texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from advisor.facts import Bond
from advisor.sources.base import Segment
from advisor.sources.bonding import parse

CAPTURES = sorted(Path("tests/captures/bonding").glob("*.txt"))


def _bonds(text: str, command: str | None = None) -> list[Bond]:
    segment = Segment("x.txt", text.splitlines(), range(1, 10_000), command=command)
    return [fact for fact in parse(segment) if isinstance(fact, Bond)]


def test_the_command_names_one_bond_but_not_several() -> None:
    text = (CAPTURES[0].parent / "8023ad-two-aggregators.txt").read_text()
    assert [bond.bond for bond in _bonds(text, "cat /proc/net/bonding/bond1")] == ["bond1"]
    assert [bond.bond for bond in _bonds(text, "cat /proc/net/bonding/*")] == [None]
    assert [bond.bond for bond in _bonds(text, "cat /proc/net/bonding/a /proc/net/bonding/b")] == [None]


@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_prefixes_of_captures_never_fail(path: Path) -> None:
    text = path.read_text()
    for end in range(0, len(text), 41):
        for bond in _bonds(text[:end]):
            assert not set(bond.up) & set(bond.down)


def test_a_member_without_a_state_is_neither_up_nor_down() -> None:
    [bond] = _bonds("Ethernet Channel Bonding Driver: v6\nBonding Mode: load balancing (xor)\nSlave Interface: eth1\n")
    assert (bond.members, bond.up, bond.down) == (("eth1",), (), ())


def test_a_long_line_costs_no_time() -> None:
    assert _bonds("Ethernet Channel Bonding Driver: v6\n" + "x" * 1_000_000) == []
