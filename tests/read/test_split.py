"""Where a text falls apart into the outputs of single commands and hosts."""

from __future__ import annotations

from advisor.read.split import short, split


def parts(text: str) -> list[tuple[str | None, str | None, list[str]]]:
    return [(segment.host, segment.command, segment.lines) for segment in split("f", text)]


def test_a_plain_text_is_one_segment() -> None:
    assert parts("a\nb\n") == [(None, None, ["a", "b"])]


def test_prompts_part_a_session_and_name_host_and_command() -> None:
    text = "[root@node02 ~]# ibstatus mlx5_0\nx\nuser@node03:~/run$ ping -c 1 10.0.0.2\ny\n$ uptime\nz"
    assert parts(text) == [
        ("node02", "ibstatus mlx5_0", ["ibstatus mlx5_0", "x"]),
        ("node03", "ping -c 1 10.0.0.2", ["ping -c 1 10.0.0.2", "y"]),
        ("node03", "uptime", ["uptime", "z"]),
    ]


def test_a_command_over_several_lines_is_joined() -> None:
    (_, command, lines), *_ = parts("$ mpirun -np 2 \\\n>   -x NCCL_DEBUG=INFO \\\n>   ./all_reduce_perf\nout")
    assert command == "mpirun -np 2 -x NCCL_DEBUG=INFO ./all_reduce_perf"
    assert lines == [command, "", "", "out"]


def test_comments_of_tools_are_no_prompts() -> None:
    text = "# nThread 1 nGpus 2\n# Using devices\n#  Rank  0 on node01\n"
    assert len(parts(text)) == 1


def test_banners_name_hosts() -> None:
    text = "----- node01 -----\na\n----- node02 -----\nb\n==========| node3 |==========\nc"
    assert [(host, lines) for host, _, lines in parts(text)] == [
        ("node01", ["a"]), ("node02", ["b"]), ("node3", ["c"]),
    ]  # fmt: skip


def test_pdsh_prefixes_name_hosts_and_keep_line_numbers() -> None:
    text = "node01: a\nnode02: b\nnode01: c\nnode02: d\n"
    segments = list(split("f", text))
    assert [(s.host, s.lines, list(s.numbers)) for s in segments] == [
        ("node01", ["a", "c"], [1, 3]), ("node02", ["b", "d"], [2, 4]),
    ]  # fmt: skip


def test_short_names() -> None:
    assert short("node01.cluster.example") == "node01"
    assert short("10.0.0.1") == "10.0.0.1"
