"""How sure: one line of the definition, one test."""

from __future__ import annotations

from typing import Any

from advisor.facts import Fact, NetInterface, Origin, PingTest, RdmaPort, fact_name
from advisor.infer.engine import Proof, compile_rule
from advisor.judge.confidence import judge

PAGES: dict[str, dict[str, Any]] = {"c": {"common_when_healthy": False}, "common": {"common_when_healthy": True}}


def port(host: str | None = "a", device: str = "mlx5_0") -> RdmaPort:
    return RdmaPort(host=host, device=device, port=1, origins=(Origin("f", 1, 1, "", "ibstatus"),))


def ping(host: str | None = "a") -> PingTest:
    return PingTest(host=host, test="f:1", peer="10.0.0.1", origins=(Origin("g", 1, 1, "", "ping"),))


def interface(name: str = "eth0") -> NetInterface:
    return NetInterface(host="a", name=name, origins=(Origin("h", 1, 1, "", "ibstatus"),))


def proof(
    evidence: str, subject: Fact, effect: bool | None = True, *, name: str = "r", cause: str = "c",
    unverified: bool = False, needs_effect: bool = False,
) -> Proof:  # fmt: skip
    kind = fact_name(type(subject))
    known = [{"s.host": {"known": True}}]
    data = {
        "id": name, "cause": cause, "evidence": evidence, "unverified": unverified, "each": {"s": kind}, "when": known,
        "effect": known if needs_effect else [], "message": "", "bind": {},
    }  # fmt: skip
    return Proof(compile_rule(data, {}), {"s": subject}, effect)


def level(*proofs: Proof, cause: str = "c") -> tuple[str, str] | None:
    standing, _ = judge(proofs, PAGES)
    return next(((item.confidence, item.reason) for item in standing if item.id == cause), None)


def test_a_proof_confirms() -> None:
    assert level(proof("proves", port())) == ("confirmed", "proved")


def test_a_setting_needs_its_effect() -> None:
    assert level(proof("proves", port(), True, needs_effect=True)) == ("confirmed", "proved-with-effect")
    assert level(proof("proves", port(), None, needs_effect=True)) == ("likely", "effect-unknown")
    assert level(proof("proves", port(), False, needs_effect=True)) is None


def test_settings_of_healthy_machines_are_possible_without_effect() -> None:
    assert level(proof("proves", port(), None, cause="common", needs_effect=True), cause="common") == (
        "possible", "common-setting",
    )  # fmt: skip


def test_experience_alone_gives_possible() -> None:
    assert level(proof("proves", port(), unverified=True)) == ("possible", "experience-only")


def test_one_sign_is_possible_two_from_different_tools_are_likely() -> None:
    one = proof("suggests", port(), name="one")
    assert level(one) == ("possible", "one-sign")
    assert level(one, proof("suggests", ping(), name="two")) == ("likely", "two-signs")
    assert level(one, proof("suggests", interface(), name="two")) == ("possible", "one-sign")  # the same tool
    assert level(one, proof("suggests", ping("b"), name="two")) == ("possible", "one-sign")  # another host
    assert level(one, proof("suggests", ping(), name="two", unverified=True)) == ("possible", "one-sign")


def test_a_refutation_removes_signs_and_rules_out() -> None:
    standing, ruled_out = judge([proof("suggests", port()), proof("refutes", ping(), name="no")], PAGES)
    assert standing == []
    assert [item.id for item in ruled_out] == ["c"]


def test_a_refutation_against_a_proof_is_a_contradiction() -> None:
    standing, _ = judge([proof("proves", port()), proof("refutes", ping(), name="no")], PAGES)
    assert (standing[0].confidence, standing[0].contradicted) == ("possible", True)


def test_a_refutation_holds_for_its_own_host_and_device_only() -> None:
    assert level(proof("suggests", port()), proof("refutes", ping("b"), name="no")) == ("possible", "one-sign")
    other_port = proof("refutes", port(device="mlx5_1"), name="no")
    assert level(proof("suggests", port()), other_port) == ("possible", "one-sign")


def test_the_best_host_counts_and_is_named() -> None:
    standing, _ = judge([proof("suggests", port("a")), proof("proves", port("b"), name="two")], PAGES)
    assert (standing[0].confidence, standing[0].hosts) == ("confirmed", ["b"])
