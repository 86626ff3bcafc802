"""Healthy clusters, with the oddities of healthy machines, are accused of nothing."""

from __future__ import annotations

import pytest

from advisor.diagnosis import diagnose
from advisor.read.unpack import Document
from tests.healthy import KINDS, Kind, cluster


@pytest.mark.parametrize("hosts", [1, 2, 8])
@pytest.mark.parametrize("measured", [True, False], ids=["measured", "not-measured"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_nothing_is_wrong(kind: Kind, measured: bool, hosts: int) -> None:
    if hosts == 1 and measured:
        pytest.skip("the busbw of the table is that of several nodes")
    inputs = [Document(name, text) for name, text in cluster(kind, hosts, measured)]
    diagnosis = diagnose(inputs).diagnosis
    assert [
        (c.id, c.confidence, [f.text for f in diagnosis.findings if f.explained_by == c.id]) for c in diagnosis.causes
    ] == []
    assert diagnosis.verdict == ("fine" if measured else "cannot-tell")
    unread = {row.file for row in diagnosis.inventory if row.source is None}
    assert not unread
