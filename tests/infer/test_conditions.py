"""Three-valued conditions: what holds, what does not, what is not known."""

from __future__ import annotations

from typing import Any

import pytest

from advisor.facts import EnvVar, Fact, NetInterface, Origin, RdmaPort
from advisor.infer.conditions import Builder, ConditionError, Context

FIGURES = {"peers-needed": 2.0, "two": 2.0, "half": 0.5}


def port(host: str | None, device: str = "mlx5_0", **values: Any) -> RdmaPort:
    return RdmaPort(host=host, device=device, port=1, origins=(Origin("f", 1),), **values)


def ask(spec: list[dict[str, Any]], subject: Fact, facts: list[Fact], kind: str = "rdma-port") -> bool | None:
    builder = Builder(FIGURES, {"p": kind}, "p")
    return builder.all(spec, ("when",)).test({"p": subject}, Context(facts))


ACTIVE = port("a", state="ACTIVE", rate_gbit_s=200.0)
UNKNOWN = port("a")


@pytest.mark.parametrize(
    ("spec", "subject", "truth"),
    [
        ({"p.state": "ACTIVE"}, ACTIVE, True),
        ({"p.state": "DOWN"}, ACTIVE, False),
        ({"p.state": "ACTIVE"}, UNKNOWN, None),
        ({"p.state": ["DOWN", "ACTIVE"]}, ACTIVE, True),
        ({"p.rate_gbit_s": {"at_least": "$two"}}, ACTIVE, True),
        ({"p.rate_gbit_s": {"below": "$two"}}, UNKNOWN, None),
        ({"p.rate_gbit_s": {"known": False}}, UNKNOWN, True),
        ({"p.rate_gbit_s": {"above": {"share": "$half", "of": "p.rate_gbit_s"}}}, ACTIVE, True),
        ({"not": {"p.state": "DOWN"}}, ACTIVE, True),
        ({"not": {"p.state": "DOWN"}}, UNKNOWN, None),
        ({"not_shown": {"p.state": "DOWN"}}, UNKNOWN, True),
        ({"any": [{"p.state": "DOWN"}, {"p.rate_gbit_s": {"known": True}}]}, ACTIVE, True),
        ({"any": [{"p.state": "DOWN"}, {"p.link_layer": "Ethernet"}]}, ACTIVE, None),
        ({"all": [{"p.state": "DOWN"}, {"p.link_layer": "Ethernet"}]}, ACTIVE, False),
    ],
)
def test_kleene(spec: dict[str, Any], subject: RdmaPort, truth: bool | None) -> None:
    assert ask([spec], subject, [subject]) is truth


def exists(word: str = "exists", **extra: Any) -> list[dict[str, Any]]:
    return [{word: {"i": "net-interface", "within": "host", "where": [{"i.mtu_bytes": {"above": "$two"}}], **extra}}]


def test_no_fact_of_a_type_is_unknown_not_absent() -> None:
    assert ask(exists(), ACTIVE, [ACTIVE]) is None
    assert ask(exists("none"), ACTIVE, [ACTIVE]) is None
    elsewhere = NetInterface(host="b", name="eth0", mtu_bytes=9000)
    assert ask(exists(), ACTIVE, [ACTIVE, elsewhere]) is None
    small = NetInterface(host="a", name="eth0", mtu_bytes=1)
    assert ask(exists(), ACTIVE, [ACTIVE, small]) is False
    assert ask(exists("none"), ACTIVE, [ACTIVE, small]) is True


def test_an_anonymous_fact_could_be_this_hosts() -> None:
    anonymous = NetInterface(name="eth0", mtu_bytes=9000)
    small = NetInterface(host="a", name="eth1", mtu_bytes=1)
    assert ask(exists(), ACTIVE, [ACTIVE, small, anonymous]) is None
    assert ask(exists(), port(None, state="ACTIVE"), [anonymous]) is True


def test_a_field_that_is_unknown_leaves_a_quantifier_open() -> None:
    unclear = NetInterface(host="a", name="eth0")
    assert ask(exists(), ACTIVE, [ACTIVE, unclear]) is None
    assert ask(exists("none"), ACTIVE, [ACTIVE, unclear]) is None


def test_count_is_decided_only_when_the_unknown_ones_cannot_turn_it() -> None:
    def facts(*mtus: int | None) -> list[Fact]:
        return [NetInterface(host="a", name=f"eth{i}", mtu_bytes=mtu) for i, mtu in enumerate(mtus)]

    at_least_two = exists("count") and [
        {"count": {"i": "net-interface", "within": "host", "where": [{"i.mtu_bytes": {"above": "$two"}}],
                   "is": {"at_least": "$two"}}}
    ]  # fmt: skip
    assert ask(at_least_two, ACTIVE, facts(9000, 9000, None)) is True
    assert ask(at_least_two, ACTIVE, facts(9000, None)) is None
    assert ask(at_least_two, ACTIVE, facts(9000, 1)) is False


def test_peers_need_two() -> None:
    spec = [{"peers": {"of": "p.rate_gbit_s", "same": ["device", "port"], "is": "below-all"}}]
    slow = port("a", rate_gbit_s=100.0)
    fast = [port(host, rate_gbit_s=200.0) for host in ("b", "c")]
    assert ask(spec, slow, [slow, fast[0]]) is None
    assert ask(spec, slow, [slow, *fast]) is True
    assert ask(spec, fast[0], [slow, *fast]) is False


def test_a_list_names_whole_devices() -> None:
    def named(value: str) -> bool | None:
        setting = EnvVar(host="a", name="NCCL_IB_HCA", value=value, where="log")
        spec = [{"exists": {"s": "env-var", "where": [{"s.value": {"lists": {"field": "p.device"}}}]}}]
        return ask(spec, port("a", device="mlx5_1"), [setting])

    assert named("=mlx5_0:1,mlx5_1:1") is True
    assert named("mlx5_10") is False
    assert named("^mlx5_1") is False


@pytest.mark.parametrize(
    ("spec", "message", "path"),
    [
        ([{"p.sate": "ACTIVE"}], "did you mean state", ("when", 0, "p.sate")),
        ([{"q.state": "ACTIVE"}], "unknown variable q", ("when", 0, "q.state")),
        ([{"p.rate_gbit_s": {"below": 100}}], "bare number", ("when", 0, "p.rate_gbit_s", "below")),
        ([{"p.rate_gbit_s": {"below": "$hafl"}}], "did you mean half", ("when", 0, "p.rate_gbit_s", "below")),
        ([{"p.state": {"iss": "UP"}}], "unknown operator iss", ("when", 0, "p.state", "iss")),
        ([{"exists": {"i": "net-interfaces"}}], "did you mean net-interface", ("when", 0, "exists", "i")),
        ([{"not": {"finding": {"rule": "x"}}}], "cannot be negated", ("when", 0, "not")),
        ([{"p.state": {"matches": "["}}], "regular expression", ("when", 0, "p.state", "matches")),
    ],
)
def test_mistakes_are_located(spec: list[dict[str, Any]], message: str, path: tuple[Any, ...]) -> None:
    with pytest.raises(ConditionError, match=message) as error:
        ask(spec, ACTIVE, [])
    assert error.value.path == path
