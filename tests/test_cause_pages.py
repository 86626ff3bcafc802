"""Cause pages: one for each id of the list, complete, with commands that can be pasted and taken back."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from advisor.compile import front_matter
from advisor.facts import FACT_TYPES
from advisor.infer.schema import Cause, Fix

ROOT = Path(__file__).parent.parent
PAGES = {path.stem: front_matter(path, Cause) for path in sorted((ROOT / "knowledge" / "causes").glob("*.md"))}
LISTED = YAML(typ="safe").load((ROOT / "knowledge" / "reference" / "causes.yaml").read_text(encoding="utf-8"))
RULE_CAUSE = {
    path.stem: match[1]
    for path in (ROOT / "rules").rglob("*.yaml")
    if (match := re.search(r"^cause: (\S+)", path.read_text(encoding="utf-8"), re.MULTILINE))
}
TOPICS = {path.stem for path in (ROOT / "knowledge").rglob("*.md")}

HEADINGS = [
    "What it is", "What you see", ("Why it slows training", "What it does to the job"), "How to confirm",
    "How to fix", "Often mistaken for", "Further reading",
]  # fmt: skip
# What rules bind. An open one prints as <name>, so any other would never be filled.
PLACEHOLDERS = {
    "variable", "value", "interface", "device", "port", "host", "peer", "address", "mtu", "path", "size", "version",
    "network", "lid", "bdf", "pid",
}  # fmt: skip
RISKS = ("safe", "restart-job", "needs-drain", "needs-reboot", "physical", "fabric-admin", "provider")
WHO = {"job owner", "node admin", "fabric admin", "datacentre technician", "cloud provider"}
# Settings that many healthy machines have: without their effect they are only possible.
COMMON = {
    "gpu-nic-cross-socket", "gpu-nic-no-shared-switch", "iommu-enabled", "relaxed-ordering-off", "p2p-across-cpu",
    "numa-misaffinity", "cpu-governor", "persistence-off", "sharp-missing", "mtu-not-jumbo", "roce-no-pfc-ecn",
    "ecmp-low-entropy", "heterogeneous-nodes", "bond-slave-down",
}  # fmt: skip
NEEDS_ROOT = re.compile(
    r"(?:modprobe|rmmod|mlxlink|mlxconfig|setpci|grubby|dmesg|sminfo|ibtracert|iblinkinfo|ibqueryerrors|ibdiagnet|opensm"
    r"|nft|iptables|firewall-cmd|mlnx_qos|cma_roce_tos|dmidecode|mount -o|sysctl -[wp]|systemctl (?:--?\S+ )*(?:enable|"
    r"disable|start|stop|restart|reboot)|ip (?:link set|rule add|rule del|route add|route flush)|lspci -vv+"
    r"|ethtool -[sGLm] |ethtool --set-\S+|cpupower frequency-set|nvidia-smi .*-(?:r|rgc|rac|pl|pm)\b)"
)
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def _lines(fix: Fix) -> Iterator[str]:
    yield from (*fix.commands, *fix.undo, *fix.verify)


def _commands(page: Cause) -> list[str]:
    return [line for fix in page.fixes for line in _lines(fix)] + [check.command for check in page.checks]


def _prose(text: str) -> str:
    return re.sub(r"(?s)```.*?```", "", text)


@pytest.fixture(params=PAGES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def page(name: str) -> Cause:
    return PAGES[name][0]


@pytest.fixture
def text(name: str) -> str:
    return PAGES[name][1]


def test_every_listed_cause_has_a_page_and_every_page_is_listed() -> None:
    assert set(PAGES) == set(LISTED)
    assert {name for name, (page, _) in PAGES.items() if page.kind != LISTED[name]["kind"]} == set()


def test_settings_common_on_healthy_machines_are_marked() -> None:
    assert {name for name, (page, _) in PAGES.items() if page.common_when_healthy} == COMMON


def test_causes_bring_each_other_about_without_circles() -> None:
    order = list(TopologicalSorter({name: page.parents for name, (page, _) in PAGES.items()}).static_order())
    assert set(order) == set(PAGES)


def test_headings_stand_in_their_order(text: str) -> None:
    found = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert len(found) == len(HEADINGS)
    assert all(here == wanted or here in wanted for here, wanted in zip(found, HEADINGS, strict=True))


def test_each_section_says_something_and_a_sample_is_shown(text: str) -> None:
    sections = re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]
    assert all(section.strip() for section in sections)
    assert "```" in sections[1]
    assert 150 <= len(_prose(text).split()) <= 350


def test_lines_fit_and_topics_named_exist(text: str) -> None:
    assert max(map(len, _prose(text).splitlines())) <= 120
    assert set(re.findall(r"`advisor explain ([a-z0-9-]+)`", text)) <= TOPICS


def test_names_of_other_causes_exist(name: str, page: Cause, text: str) -> None:
    named = {*page.parents, *page.mistaken_for}
    assert named <= set(LISTED)
    assert name not in named
    assert set(re.findall(r"\(([a-z0-9]+(?:-[a-z0-9]+){2,})\)", text)) <= set(LISTED)


def test_placeholders_are_those_that_rules_bind(page: Cause) -> None:
    prose = [part for fix in page.fixes for part in (fix.title, fix.persistence, fix.danger, fix.expect)]
    for line in (*_commands(page), *prose):
        assert set(_PLACEHOLDER.findall(line)) <= PLACEHOLDERS, line
        assert not set(_PLACEHOLDER.sub("", line)) & set("{}"), line


def test_commands_are_correct_shell(page: Cause) -> None:
    script = "\n".join(re.sub(r"<[^<>|&;]+>", "X", _PLACEHOLDER.sub("X", line)) for line in _commands(page))
    run = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert run.stderr == ""


def test_actions_of_root_say_so(page: Cause) -> None:
    parts = [part.strip() for line in _commands(page) for part in re.split(r"[|;&]", line)]
    assert [part for part in parts if NEEDS_ROOT.match(part)] == []
    assert [check.command for check in page.checks if "sudo " in check.command and not check.root] == []


def test_what_is_changed_can_be_taken_back(page: Cause) -> None:
    for fix in page.fixes:
        nothing_to_undo = "Nothing" in fix.persistence or "No undo" in fix.danger
        assert fix.undo or fix.risk == "physical" or nothing_to_undo, fix.title
        stored = " ".join(fix.commands)
        for used in re.findall(r"[\w{}./-]+\.old[\w.]*", " ".join(fix.undo)):
            assert used in stored, (fix.title, used)


def test_cards_are_complete_and_the_least_risk_stands_first(page: Cause) -> None:
    for fix in page.fixes:
        assert fix.who in WHO
        assert fix.verify, fix.title
        assert fix.expect, fix.title
        assert fix.persistence, fix.title
    general = [RISKS.index(fix.risk) for fix in page.fixes if not fix.rules]
    assert general == sorted(general)


def test_cards_for_certain_findings_name_rules_of_this_cause(name: str, page: Cause) -> None:
    assert [rule for fix in page.fixes for rule in fix.rules if RULE_CAUSE.get(rule) != name] == []


def test_checks_name_fact_types_and_sources_are_given(page: Cause) -> None:
    assert page.checks
    assert {fact for check in page.checks for fact in check.gives} <= set(FACT_TYPES)
    assert all(check.why for check in page.checks)
    assert page.references
    assert page.aliases


def test_reasons_of_checks_hold_no_placeholder(page: Cause) -> None:
    assert [check.why for check in page.checks if _PLACEHOLDER.search(check.why)] == []
