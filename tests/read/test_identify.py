"""Whose facts they are."""

from __future__ import annotations

from typing import Any

from advisor.facts import CollectiveTest, Fact, NcclProcess, NcclRank, Origin, RdmaPort
from advisor.read.identify import host_of_name, name_hosts, name_runs


def at(file: str, line: int = 1) -> dict[str, Any]:
    return {"origins": (Origin(file, line, line),)}


def test_a_host_in_a_name() -> None:
    assert host_of_name("input-04.node01.txt", []) == "node01"
    assert host_of_name("logs/worker-12/out.log", []) == "worker-12"
    assert host_of_name("login7.ibstat.txt", ["login7"]) == "login7"
    assert host_of_name("rank0.log", []) is None
    assert host_of_name("gpu0.txt", []) is None


def test_an_anonymous_file_joins_the_only_host() -> None:
    facts: list[Fact] = [RdmaPort(host="n1", device="a", port=1, **at("x")), RdmaPort(device="b", port=1, **at("y"))]
    name_hosts(facts)
    assert [fact.host for fact in facts] == ["n1", "n1"]


def test_an_anonymous_file_stays_so_between_two_hosts() -> None:
    facts: list[Fact] = [RdmaPort(host=host, device="a", port=1, **at(host)) for host in ("n1", "n2")]
    facts.append(RdmaPort(device="b", port=1, **at("y")))
    name_hosts(facts)
    assert facts[2].host is None


def nccl(file: str, host: str, pid: int, rank: int, comm_id: str | None, line: int = 1) -> list[Fact]:
    return [
        NcclProcess(host=host, pid=pid, **at(file, line)),
        NcclRank(host=host, pid=pid, rank=rank, nranks=2, comm="0x1", comm_id=comm_id, **at(file, line)),
    ]


def runs(facts: list[Fact]) -> list[str | None]:
    name_runs(facts)
    return [fact.run for fact in facts]


def test_processes_that_share_a_communicator_are_one_run() -> None:
    facts = [*nccl("a", "n1", 1, 0, "0xc"), *nccl("b", "n2", 2, 1, "0xc")]
    assert set(runs(facts)) == {"run-1"}


def test_two_communicators_are_two_runs_and_measurements_go_to_their_own() -> None:
    facts = [*nccl("a", "n1", 1, 0, "0xc", 1), *nccl("a", "n1", 9, 0, "0xd", 50)]
    early = CollectiveTest(test="a:20", tool="t", **at("a", 20))
    late = CollectiveTest(test="a:60", tool="t", **at("a", 60))
    assert runs([*facts, early, late]) == ["run-1", "run-1", "run-2", "run-2", "run-1", "run-2"]


def test_before_communicator_ids_a_rank_that_starts_anew_is_another_run() -> None:
    facts = [*nccl("a", "n1", 1, 0, None, 1), *nccl("a", "n1", 9, 0, None, 50)]
    assert runs(facts) == ["run-1", "run-1", "run-2", "run-2"]


def test_before_communicator_ids_files_with_different_ranks_are_one_run() -> None:
    facts = [*nccl("a", "n1", 1, 0, None), *nccl("b", "n2", 2, 1, None)]
    assert set(runs(facts)) == {"run-1"}


def test_a_measurement_of_its_own_file_joins_the_only_run_if_sizes_agree() -> None:
    fits = CollectiveTest(test="t:1", tool="t", nranks=2, **at("t"))
    other = CollectiveTest(test="u:1", tool="t", nranks=16, **at("u"))
    assert runs([*nccl("a", "n1", 1, 0, "0xc"), fits, other])[2:] == ["run-1", None]
