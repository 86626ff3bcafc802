"""Benchmark sources against text that capture pairs cannot show: cut, mixed and hostile input, command lines."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from advisor.facts import CollectiveTest, EnvVar, Fact, Point, RdmaTest, TcpTest
from advisor.facts.measurement import deciding_rows, summarise
from advisor.sources import iperf2, nccl_tests, osu, perftest, torch_allreduce, ucx_perftest
from advisor.sources.base import Problem, Segment, Source
from tests.capture_tools import CAPTURES, segment_of

SOURCES = [module.SOURCE for module in (nccl_tests, torch_allreduce, perftest, iperf2, ucx_perftest, osu)]
IDS = [source.id for source in SOURCES]
HEADER = "size count type redop root time algbw busbw #wrong time algbw busbw #wrong"
ROW = "{size} {count} float sum -1 {time} {algbw} {busbw} 0 {time} {algbw} {busbw} 0"


def read(source: Source, text: str, command: str | None = None, file: str = "a.txt") -> list[Fact | Problem]:
    lines = text.split("\n")
    segment = Segment(file, lines, range(1, len(lines) + 1), command=command, source=source.id)
    source.recognises(segment)
    return list(source.parse(segment))


def one_test(text: str, command: str | None = None, file: str = "a.txt") -> CollectiveTest:
    found = [item for item in read(nccl_tests.SOURCE, text, command, file) if isinstance(item, CollectiveTest)]
    assert len(found) == 1
    return found[0]


def one_rdma(text: str, command: str | None = None) -> RdmaTest:
    found = [item for item in read(perftest.SOURCE, text, command) if isinstance(item, RdmaTest)]
    assert len(found) == 1
    return found[0]


def captures(source: Source) -> Iterator[str]:
    for path in sorted((CAPTURES / source.id).glob("*.txt")):
        yield "\n".join(segment_of(path).lines)


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
def test_any_prefix_of_any_capture_is_read(source: Source) -> None:
    for text in captures(source):
        for end in range(0, len(text), max(1, len(text) // 40)):
            read(source, text[:end])
            read(source, text[end:])


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
def test_damaged_text_never_raises(source: Source) -> None:
    chance = random.Random(7)  # noqa: S311 - repeatable damage, no secret
    alphabet = " \t#:.,0123456789-+eE[]{}()|/\"'NA²٣"
    for text in captures(source):
        for _ in range(15):
            damaged = list(text)
            for _ in range(1 + len(damaged) // 60):
                damaged[chance.randrange(len(damaged))] = chance.choice(alphabet)
            read(source, "".join(damaged))
        lines = text.split("\n")
        chance.shuffle(lines)
        read(source, "\n".join(lines))


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
@pytest.mark.parametrize(
    "text",
    [
        " " * 500_000,
        "#" * 500_000,
        "1 " * 250_000,
        "8 2 float " + "1.0 " * 100_000,
        "busbw" * 100_000,
        "algbw (" * 70_000,
        "{" * 300_000,
        '{"bus_bw":' * 50_000,
        '"test_info":' * 40_000,
        "\n{" * 100_000 + '"average_bus_bandwidth"',
        "[  1] " * 80_000,
        "# OSU MPI " * 50_000,
        "| API: " * 70_000,
        "a: " * 150_000,
        "Rank 0 on " * 50_000,
        "\n".join(["#bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]"] * 3000),
        "\n".join([HEADER] * 3000),
    ],
    ids=range(17),
)
def test_hostile_text_is_read_in_linear_time(source: Source, text: str) -> None:
    start = time.perf_counter()
    read(source, text)
    read(source, f"# nThread 1 nGpus 1\n{text}\nTraceback")
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
def test_every_capture_is_recognised_by_its_own_source(source: Source) -> None:
    for path in sorted((CAPTURES / source.id).glob("*.txt")):
        foreign = "not-ours" in path.name
        assert source.recognises(segment_of(path)) is not foreign, path.name


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
def test_lines_that_another_source_has_marked_are_read_too(source: Source) -> None:
    for path in sorted((CAPTURES / source.id).glob("*.txt")):
        fresh, marked = segment_of(path), segment_of(path)
        marked.skip(0, len(marked.lines) - 1)
        assert list(source.parse(marked)) == list(source.parse(fresh)), path.name


# --- nccl-tests ---


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("mpirun -np 16 --hostfile h ./build/all_reduce_perf -b 8 -n 20", ("all_reduce", 16)),
        ("srun -N 2 --ntasks-per-node=8 alltoall_perf -g 1", ("alltoall", 16)),
        ("srun -n32 /opt/sendrecv_perf -n 5", ("sendrecv", 32)),
        ("./reduce_scatter_perf -g 8 -n 20", ("reduce_scatter", None)),
        ("mpirun --hostfile h ./x", (None, None)),
        (None, (None, None)),
    ],
)
def test_the_command_names_program_and_processes(command: str | None, expected: tuple[str | None, int | None]) -> None:
    fact = one_test(f"{HEADER}\n" + ROW.format(size=8, count=2, time=10.0, algbw=0.00, busbw=0.00), command)
    assert (fact.collective, fact.launched) == expected


def test_the_file_name_may_name_the_program() -> None:
    row = ROW.format(size=8, count=2, time=10.0, algbw=0.00, busbw=0.00)
    assert one_test(row, file="logs/node1-all_gather_perf.out").collective == "all_gather"


@pytest.mark.parametrize("nranks", [3, 4, 8, 12, 16, 24, 64])
def test_ranks_and_collective_follow_from_the_factor(nranks: int) -> None:
    factor = 2 * (nranks - 1) / nranks
    fact = one_test(ROW.format(size=1 << 30, count=1 << 28, time=1.0, algbw=180.0, busbw=round(180.0 * factor, 2)))
    assert fact.collective == "all_reduce"
    assert fact.nranks == nranks


def test_a_factor_that_fits_no_number_of_ranks_names_nothing() -> None:
    fact = one_test(ROW.format(size=1 << 30, count=1 << 28, time=1.0, algbw=480.0, busbw=373.33))
    assert (fact.collective, fact.nranks) == (None, None)


def test_secrets_of_the_environment_are_not_kept() -> None:
    text = next(t for t in captures(nccl_tests.SOURCE) if "SLURM_JWT" in t)
    items = read(nccl_tests.SOURCE, text)
    assert any(isinstance(item, EnvVar) for item in items)
    assert "secret" not in repr(items)


def test_own_lines_only_are_marked() -> None:
    path = CAPTURES / "nccl-tests" / "h200x2-trace-coll-first-200-lines.txt"
    segment = segment_of(path)
    list(nccl_tests.SOURCE.parse(segment))
    assert segment.understood
    assert not any("NCCL INFO" in segment.lines[index] for index in segment.understood)


# --- derived fields ---


def test_rising_is_judged_per_doubling() -> None:
    flat = [Point(1 << 20, busbw_gbyte_s=100.0), Point(1 << 24, busbw_gbyte_s=130.0)]
    rising = [Point(1 << 20, busbw_gbyte_s=100.0), Point(1 << 21, busbw_gbyte_s=111.0)]
    assert summarise(flat)["still_rising"] is False
    assert summarise(rising)["still_rising"] is True
    assert summarise(rising[:1])["still_rising"] is None


def test_the_better_half_of_the_largest_row_counts() -> None:
    points = [
        Point(1 << 20, 10.0, 100.0, 150.0, 9.0, 110.0, 165.0, 0),
        Point(1 << 30, 90.0, 80.0, 120.0, 80.0, 90.0, 135.0, 2),
    ]
    fields = summarise(points)
    assert (fields["busbw_gbyte_s"], fields["algbw_gbyte_s"], fields["wrong"]) == (135.0, 90.0, 2)
    assert (fields["peak_busbw_gbyte_s"], fields["peak_size_bytes"]) == (165.0, 1 << 20)
    assert deciding_rows(points) == {
        "size_bytes": 1, "busbw_gbyte_s": 1, "algbw_gbyte_s": 1, "zero_busbw": 1, "still_rising": 1, "time_us": 0,
        "peak_busbw_gbyte_s": 0, "peak_size_bytes": 0, "wrong": 1,
    }  # fmt: skip


def test_rounded_zeros_of_small_sizes_are_not_zero_busbw() -> None:
    assert summarise([Point(8, 20.0, 0.01, 0.0)])["zero_busbw"] is None
    assert summarise([Point(1 << 20, 20.0, 50.0, 0.0)])["zero_busbw"] is True


# --- perftest ---


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ib_write_bw -d mlx5_0 -x 3 -F -a --report_gbits node01", ("node01", False, False, 389.72)),
        ("ib_write_bw node02 -d mlx5_1 2>&1 | tail -3", ("node02", False, False, 3.269)),
        ("ib_write_bw --use_cuda=0 -d mlx5_0 --report_gbits", (None, True, True, 389.72)),
        ("numactl -N 1 ib_write_bw --use_rocm 2 -q 4 10.0.0.7 > out", ("10.0.0.7", False, True, 3.269)),
    ],
)
def test_the_command_gives_peer_side_memory_and_unit(command: str, expected: tuple[object, ...]) -> None:
    text = (
        '"test_info": {"test": "RDMA_Write_BW_Test", "Link_type": "IB"}, '
        '"results": {"MsgSize": 65536, "BW_average": 389.72}'
    )
    fact = one_rdma(text, command)
    assert (fact.peer, fact.is_server, fact.gpu_memory, fact.average_gbit_s) == expected


def test_a_full_link_in_mib_is_a_full_link() -> None:
    text = "#bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]\n65536 5000 11650.0 11600.0 0.18"
    fact = one_rdma(text)
    assert fact.average_gbit_s is not None
    assert 97 < fact.average_gbit_s < 98


def test_the_command_names_the_test_of_ucx() -> None:
    text = next(t for t in captures(ucx_perftest.SOURCE) if t.startswith("iterations"))
    command = "ucx_perftest node01 -t tag_bw -m cuda -s 1048576 -n 1000"
    (fact,) = read(ucx_perftest.SOURCE, text, command)
    assert isinstance(fact, RdmaTest)
    assert (fact.operation, fact.peer, fact.gpu_memory, fact.size_bytes) == ("tag_bw", "node01", True, 1048576)


def test_iperf3_is_not_taken_for_iperf2() -> None:
    for path in sorted((CAPTURES / "iperf3").glob("*")):
        if path.suffix != ".json":
            segment = segment_of(path)
            assert not [fact for fact in iperf2.SOURCE.parse(segment) if isinstance(fact, TcpTest)], path.name
