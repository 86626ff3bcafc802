"""The engine: conclusions, notes, what is open, chains, and that order does not matter."""

from __future__ import annotations

import itertools
from typing import Any

from advisor.facts import Fact, Origin, RdmaPort
from advisor.infer.engine import CompiledRule, compile_rule, infer

FIGURES = {"peers-needed": 2.0}


def rule(name: str, when: list[dict[str, Any]], cause: str = "c", **extra: Any) -> CompiledRule:
    data = {
        "id": name, "cause": cause, "title": name, "evidence": "proves", "unverified": False,
        "each": {"p": "rdma-port"}, "needs": [], "when": when, "effect": [], "message": "{p.device} is {p.state}",
        "bind": {"device": "p.device"}, "chained": "finding" in str(when),
    }  # fmt: skip
    return compile_rule({**data, **extra}, FIGURES)


def port(host: str, state: str | None, device: str = "mlx5_0") -> RdmaPort:
    return RdmaPort(host=host, device=device, port=1, state=state, origins=(Origin(f"{host}.txt", 1),))


DOWN = rule("down", [{"p.state": "DOWN"}])


def names(facts: list[Fact], rules: list[CompiledRule]) -> set[tuple[str, str | None]]:
    return {(proof.rule.id, proof.subject.host) for proof in infer(facts, rules).proofs}


def test_a_rule_is_tried_on_every_fact_and_says_what_it_saw() -> None:
    result = infer([port("a", "DOWN"), port("b", "ACTIVE"), port("c", None)], [DOWN])
    assert [proof.text() for proof in result.proofs] == ["mlx5_0 is DOWN"]
    assert result.proofs[0].bound() == {"device": "mlx5_0"}
    assert [item.missing for item in result.open] == [frozenset({"rdma-port.state"})]


def test_without_facts_of_its_type_a_rule_is_open() -> None:
    assert [item.missing for item in infer([], [DOWN]).open] == [frozenset({"rdma-port"})]


def test_an_absent_effect_makes_a_note_and_an_unknown_one_is_kept_apart() -> None:
    effect = [{"exists": {"i": "net-interface", "within": "host", "where": [{"i.name": "eth0"}]}}]
    tested = rule("down", [{"p.state": "DOWN"}], effect=effect)
    assert infer([port("a", "DOWN")], [tested]).proofs[0].effect is None


def test_chains_run_to_a_fixed_point_in_any_order() -> None:
    first = rule("first", [{"p.state": "DOWN"}])
    second = rule("second", [{"finding": {"rule": "first", "within": "host"}}])
    third = rule("third", [{"finding": {"rule": "second", "within": "host"}}])
    facts: list[Fact] = [port("a", "DOWN"), port("b", "ACTIVE")]
    expected = {("first", "a"), ("second", "a"), ("third", "a")}
    for rules in itertools.permutations([first, second, third]):
        assert names(facts, list(rules)) == expected
        assert names(facts[::-1], list(rules)) == expected


def test_a_rule_that_crashes_costs_only_itself() -> None:
    broken = rule("broken", [{"p.state": {"has": "x"}}])
    wrong = RdmaPort(host="a", device="d", port=1, state=3)  # type: ignore[arg-type]
    result = infer([wrong], [broken, rule("any", [{"p.device": "d"}])])
    assert [proof.rule.id for proof in result.proofs] == ["any"]
    assert len(result.problems) == 1
    assert result.problems[0].startswith("broken: TypeError")


def test_an_unknown_value_prints_as_its_name() -> None:
    told = rule("any", [{"p.device": "mlx5_0"}])
    assert infer([port("a", None)], [told]).proofs[0].text() == "mlx5_0 is <state>"
