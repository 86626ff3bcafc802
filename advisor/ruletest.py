"""Runs the tests that stand in the second document of a rule's file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from advisor.compile import rule_tests
from advisor.diagnosis import compiled_rules, facts_of
from advisor.infer.engine import Inference, infer
from advisor.infer.schema import RuleTest
from advisor.judge.confidence import judge
from advisor.read.unpack import Document, document


@dataclass(slots=True)
class Result:
    """How one test came out. problem: what was wrong, None where nothing was."""

    rule: str
    test: str
    expected: str
    problem: str | None


def _outcome(rule: str, inference: Inference) -> str:
    if any(proof.rule.id == rule and proof.effect is not False for proof in inference.proofs):
        return "fires"
    return "unknown" if any(item.rule.id == rule for item in inference.open) else "silent"


def _documents(test: RuleTest) -> list[Document]:
    return [document(name, text.encode()) for name, text in sorted(test.files.items())]


def run_test(rule: str, test: RuleTest, catalogue: Mapping[str, Any]) -> Result:
    """One test: its files are read as a user's would be, all rules run, the answer of this rule is compared."""
    store, _ = facts_of(_documents(test))
    inference = infer(store, compiled_rules(catalogue))
    got = _outcome(rule, inference)
    problem = None if got == test.expect else f"expected {test.expect}, got {got}"
    if problem is None and test.confidence is not None:
        cause = catalogue["rules"][rule]["cause"]
        standing, _ = judge(inference.proofs, catalogue["causes"])
        sure = next((item.confidence for item in standing if item.id == cause), "none")
        problem = None if sure == test.confidence else f"expected {cause} {test.confidence}, got {sure}"
    if test.known_gap is not None:
        problem = None if problem else "a known gap that is closed: remove known_gap"
    return Result(rule, test.name, test.expect, problem)


def run_file(path: Path, catalogue: Mapping[str, Any]) -> list[Result]:
    """All tests of one rule file, and what is missing of the three kinds each rule must have."""
    tests = rule_tests(path).tests
    results = [run_test(path.stem, test, catalogue) for test in tests]
    absent = {"fires", "silent", "unknown"} - {test.expect for test in tests}
    return results + [Result(path.stem, "-", kind, f"no test that expects {kind}") for kind in sorted(absent)]
