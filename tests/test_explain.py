"""`advisor explain`: every topic is found, by every name it has; wrong beliefs are found and put right."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from advisor import data
from advisor.cli import main
from advisor.explain import KINDS, Topic, all_topics, look_up, nearest, page, search, topics
from advisor.render.explanation import explanation

PAGE_KINDS = ("variable", "tool", "concept", "guide")
ALL = list(all_topics())
PAGES = list(all_topics(PAGE_KINDS))
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*args: str) -> tuple[int, str, str]:
        code = main(["explain", *args])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


def _key(topic: Topic) -> str:
    return f"{topic.kind}-{topic.id}"


@pytest.mark.parametrize("topic", ALL, ids=_key)
def test_every_topic_is_found_by_its_id_and_title(topic: Topic) -> None:
    for name in (topic.id, topic.title):
        answer = look_up(f"{topic.kind} {name}")
        assert answer is not None
        assert answer.topic == topic


@pytest.mark.parametrize("topic", PAGES, ids=_key)
def test_every_alias_leads_to_its_page(topic: Topic) -> None:
    for alias in topic.aliases:
        answer = look_up(alias)
        assert answer is not None
        assert topic in (answer.topic, *answer.others), alias


@pytest.mark.parametrize("topic", ALL, ids=_key)
def test_every_topic_can_be_written_out(topic: Topic) -> None:
    text = explanation(topic)
    assert text.startswith("# ")
    assert "None" not in text.split("\n")[2]
    assert text.count("```") % 2 == 0


@pytest.mark.parametrize("kind", KINDS)
def test_names_are_unique_within_a_kind(kind: str) -> None:
    squeezed = Counter(
        name for topic in topics(kind) for name in {re.sub(r"[^a-z0-9]", "", name.casefold()) for name in topic.names}
    )
    assert [name for name, count in squeezed.items() if count > 1] == []


def test_every_reference_between_pages_exists() -> None:
    known = {topic.id for topic in all_topics(KINDS[:-1])}
    dead = [(topic.id, name) for topic in PAGES for name in page(topic)["see_also"] if name not in known]
    assert dead == []


@pytest.mark.parametrize("topic", PAGES, ids=_key)
def test_pages_have_text_and_know_their_neighbours(topic: Topic) -> None:
    record = page(topic)
    assert len(record["text"]) > 300
    assert record["see_also"]
    assert not record["text"].startswith("# ")


@pytest.mark.parametrize("topic", topics("tool"), ids=_key)
def test_tool_pages_say_how_to_run_and_read_it_and_what_it_cannot_tell(topic: Topic) -> None:
    headings = re.findall(r"^## (.+)$", page(topic)["text"], re.MULTILINE)
    assert headings == ["Run it", "Read it", "Units", "Traps", "What it cannot tell"]


@pytest.mark.parametrize("topic", topics("variable"), ids=_key)
def test_variable_pages_say_what_when_and_how_to_see_it(topic: Topic) -> None:
    headings = re.findall(r"^## (.+)$", page(topic)["text"], re.MULTILINE)
    assert headings == ["What it does", "Default", "When to set it", "When it is wrong", "See its effect"]
    assert topic.aliases[0] == topic.id.replace("-", "_").upper()


@pytest.mark.parametrize(
    ("asked", "kind", "found", "said"),
    [
        ("NCCL uses TCP by default", "concept", "nccl-transports", "is wrong"),
        ("does nccl use tcp by default?", "concept", "nccl-transports", "is wrong"),
        ("default transport", "concept", "nccl-transports", "TCP is the fallback"),
        ("bandwidth in NCCL_DEBUG=INFO", "tool", "nccl-debug", "NCCL prints no measured bandwidth"),
        ("nccl log bandwidth", "tool", "nccl-debug", "NCCL prints no measured bandwidth"),
        ("NCCL INFO allReduce: 128 MB, 10.2 GB/s", "tool", "nccl-debug", "does not come from NCCL"),
        ("NCCL_DEBUG", "variable", "nccl-debug", "No level prints the bandwidth"),
        ("nsys -t nccl", "tool", "nsys", "is not a value of"),
        ("nsys profile -t nvtx,cuda,nccl", "tool", "nsys", "is not a value of"),
        ("4X", "concept", "link-rates", "normal width"),
        ("4x fault", "concept", "link-rates", "no fault"),
        ("negotiated to 4x", "concept", "link-rates", "does not exist"),
        ("ib_write_bw latency", "tool", "ib-write-lat", "no latency at all"),
        ("measure latency with ib_write_bw", "tool", "ib-write-lat", "no latency at all"),
        ("bandwidth data divided by time", "concept", "busbw-and-algbw", "53 %"),
        ("busbw factor", "concept", "busbw-and-algbw", "2(n-1)/n"),
        ("all_reduce micro benchmark", "tool", "torch-allreduce", "is algbw"),
        ("GPU utilization 100", "concept", "gpu-utilisation", "cannot judge"),
        ("gpu utilisation as the judge", "concept", "gpu-utilisation", "cannot judge"),
        ("communication above 30 percent", "concept", "exposed-communication", "exposed time only"),
        ("ping latency", "tool", "ping", "normal"),
        ("sar", "tool", "sar", "RDMA does not appear here"),
        ("does a pcie switch limit bandwidth", "concept", "numa-and-pcie-paths", "best case"),
        ("NVLink 600 GB/s", "concept", "nvlink-and-nvls", "300 against 12.5"),
        ("iperf3 -P 8", "tool", "iperf3", "share one thread"),
    ],
)
def test_common_beliefs_are_found_by_obvious_words_and_put_right(asked: str, kind: str, found: str, said: str) -> None:
    answer = look_up(asked)
    assert answer is not None
    assert answer.topic is not None
    assert (answer.topic.kind, answer.topic.id) == (kind, found)
    assert said in " ".join(page(answer.topic)["text"].replace("**", "").split())


@pytest.mark.parametrize("written", ["busbw and algbw", "BUSBW-AND-ALGBW", "Busbw_And_Algbw", "busbw"])
def test_case_hyphens_and_blanks_do_not_matter(written: str) -> None:
    answer = look_up(written)
    assert answer is not None
    assert answer.topic == Topic("concept", "busbw-and-algbw", *_rest("concept", "busbw-and-algbw"))


def _rest(kind: str, name: str) -> tuple[str, tuple[str, ...]]:
    topic = next(topic for topic in topics(kind) if topic.id == name)
    return topic.title, topic.aliases


@pytest.mark.parametrize(
    ("typo", "meant"),
    [
        ("NCCL_SOKET_IFNAME", "nccl-socket-ifname"),
        ("iperf4", "iperf3"),
        ("bussbw", "busbw-and-algbw"),
        ("gpudirekt", "gpudirect-rdma"),
        ("ibstattus", "ibstatus"),
    ],
)
def test_a_typo_is_answered_with_near_names(run: Run, typo: str, meant: str) -> None:
    assert meant in [topic.id for topic in nearest(typo)]
    code, out, err = run(typo)
    assert code == 2
    assert out == ""
    assert f'"{typo}"' in err
    assert f"`{meant}`" in err


def test_nothing_near_still_says_what_was_asked(run: Run) -> None:
    code, out, err = run("qqqqqqqqqqqqqqqq")
    assert (code, out) == (2, "")
    assert "qqqqqqqqqqqqqqqq" in err
    assert "--list" in err


@pytest.mark.parametrize(
    ("line", "variable", "value"),
    [
        ("node01:40231:40388 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.", "NCCL_IB_DISABLE", "1"),
        ("NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth0", "NCCL_SOCKET_IFNAME", "eth0"),
        ("node01:1:2 [0] NCCL INFO NCCL_IB_HCA set to mlx5_0,mlx5_1", "NCCL_IB_HCA", "mlx5_0,mlx5_1"),
        ("export NCCL_ALGO=Ring", "NCCL_ALGO", "Ring"),
        ("NCCL_BUFFSIZE=8388608", "NCCL_BUFFSIZE", "8388608"),
    ],
)
def test_a_pasted_setting_gives_the_variable_and_its_value(line: str, variable: str, value: str) -> None:
    answer = look_up(line)
    assert answer is not None
    assert answer.topic is not None
    assert (answer.topic.kind, answer.topic.aliases[0]) == ("variable", variable)
    assert dict(answer.values) == {"variable": variable, "value": value}


def test_a_setting_without_a_page_is_still_read(run: Run) -> None:
    code, out, _ = run("NCCL_SOMETHING_NEW set by environment to 7.")
    assert code == 0
    assert "`NCCL_SOMETHING_NEW` is set to `7`" in out


@pytest.mark.parametrize("topic", topics("message"), ids=_key)
def test_the_example_of_a_message_page_is_recognised_as_a_known_line(topic: Topic) -> None:
    example = page(topic)["example"].strip().splitlines()
    if not example or not page(topic)["patterns"]:
        pytest.skip("the page shows no example, or is for lines that nothing is known about")
    answers = [look_up(line) for line in example if len(line) > 11]
    assert any(answer and answer.topic and answer.topic.kind in ("message", "variable") for answer in answers)


def test_a_pasted_line_shows_the_values_in_it(run: Run) -> None:
    line = "node02:9:9 [0] misc/socket.cc:583 NCCL WARN socketPollConnect: connect to 10.0.0.1<5657> returned " \
        "Connection refused, exceeded error retry count after 4 attempts"  # fmt: skip
    code, out, _ = run(line)
    assert code == 0
    assert out.startswith("Read in the line: address `10.0.0.1`.")


def test_control_characters_of_a_pasted_text_are_not_shown_again(run: Run) -> None:
    _, out, _ = run("\x1b[31mNCCL_ALGO set by environment to `Ring\x1b]0;x\x07\x1b[0m")
    assert "`NCCL_ALGO` is set to `'Ring" in out
    assert "\x1b" not in out
    assert "\x1b" not in run("\x1b[31mqqqqqqqqqq\x1b[0m")[2]


def test_several_lines_from_a_pipe(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "hello\nNCCL INFO NCCL_IB_DISABLE set by environment to 1.\nNCCL INFO NCCL_ALGO set by environment to Ring\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    code, out, _ = run("-")
    assert code == 0
    assert "# NCCL_IB_DISABLE" in out
    assert out.rstrip().endswith("Also: `nccl-algo` (variable).")


def test_the_kind_in_front_decides_between_namesakes(run: Run) -> None:
    assert run("variable", "nccl-debug")[1].startswith("# NCCL_DEBUG:")
    assert run("tool", "nccl-debug")[1].startswith("# NCCL's debug log")
    assert "Also: `nccl-debug` (tool)" in run("nccl-debug")[1]


def test_a_fact_type_shows_fields_sources_and_rules(run: Run) -> None:
    code, out, _ = run("ping-test")
    assert code == 0
    assert "`peer`: str, always known" in out
    assert "`rtt_avg_us`: float\n" in out
    assert "Read from: `ping`." in out
    assert "`ping-above-10us`" in out


def test_a_cause_shows_its_rules_and_front_matter(run: Run) -> None:
    (name, cause), *_ = sorted(data.catalogue()["causes"].items())
    code, out, _ = run("cause", name)
    assert code == 0
    assert f"kind: {cause['kind']}" in out
    for rule in data.catalogue()["rules"].values():
        if rule["cause"] == name:
            assert f"`{rule['id']}`" in out


def test_a_rule_shows_its_conditions(run: Run) -> None:
    code, out, _ = run("ping-above-10us")  # also an alias of a tool's page: an id counts first
    assert code == 0
    assert "Tried for each `ping-test`" in out
    assert '```\n{"' in out


def test_json_holds_the_record(run: Run) -> None:
    code, out, _ = run("busbw", "--json")
    answer = json.loads(out)
    assert code == 0
    assert answer["topic"]["id"] == "busbw-and-algbw"
    assert answer["topic"]["text"]
    assert answer["read"] == {}
    assert json.loads(run("NCCL_ALGO=Ring", "--json")[1])["read"] == {"variable": "NCCL_ALGO", "value": "Ring"}


def test_list_and_search(run: Run) -> None:
    code, out, _ = run("--list", "tools")
    assert code == 0
    assert out.count("\n- ") == len(topics("tool"))
    assert run("--list")[1].count("\n- ") == len(ALL)
    assert {row["kind"] for row in json.loads(run("--list", "concept", "--json")[1])} == {"concept"}
    assert run("--list", "nonsense")[0] == 2
    assert "`iperf3`" in run("--search", "retransmits", "sender")[1]
    assert run("--search", "qqqqqqqq")[0] == 2
    assert search("") == []


def test_no_topic_gives_an_overview(run: Run) -> None:
    code, out, _ = run()
    assert code == 0
    assert all(kind in out for kind in KINDS)


def test_a_look_up_imports_nothing_heavy() -> None:
    program = (
        "import sys; from advisor.cli import main; main(['explain', 'busbw']); "
        "print(sorted({'pydantic', 'rich', 'jinja2', 'ruamel', 'advisor.facts', 'difflib'} & set(sys.modules)))"
    )
    data.catalogue()  # compiled now if a file of the checkout changed
    root = Path(data.__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.splitlines()[-1] == "[]"


def test_on_a_terminal_it_is_rendered(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    code, out, _ = run("units")
    assert code == 0
    assert "| tool | prints |" not in out
    assert "Gb/s" in out


@pytest.mark.parametrize(
    ("words", "title"),
    [
        (["nvidia-smi", "topo", "-m"], "nvidia-smi-topo"),
        (["iperf3", "-P", "8"], "iperf3"),
        (["ping", "-M", "do"], "ping"),
        (["nsys", "-t", "nccl"], "nsys"),
        (["sar", "-n", "DEV"], "sar"),
    ],
)
def test_options_of_a_tool_are_part_of_the_topic(
    words: list[str], title: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *words]) == 0
    assert f"`{title}" in capsys.readouterr().out
