"""Published and own results of healthy clusters lie in the band, known slow ones under it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from advisor.data import table
from advisor.expect import ClusterShape, expected_busbw
from advisor.expect.collectives import all_reduce_factor, busbw_factor, collectives
from advisor.expect.latency import half_size_bytes, share_at_size, smallest_message_us
from advisor.expect.products import product

GIB = 1 << 30
A100, H100, H200, B200 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA B200"


def rdma(nodes: int, gpus: int, gpu: str, count: int, gbit_s: float, fabric: str = "ib") -> ClusterShape:
    return ClusterShape(
        nodes=nodes, gpus_per_node=gpus, gpu=gpu, gpus_in_box=8, fabric=fabric, nics=((count, gbit_s),), gdr=True,
        gpu_nic_path="PXB",
    )  # fmt: skip


def tcp(gbit_s: float, nodes: int = 2, gpus: int = 1, sockets: int | None = None, frame: int = 9000) -> ClusterShape:
    return ClusterShape(
        nodes=nodes, gpus_per_node=gpus, fabric="tcp", nics=((1, gbit_s),), sockets=sockets, frame_bytes=frame
    )


DGX_A100 = rdma(4, 8, A100, 8, 200)
P4D = rdma(4, 8, A100, 4, 100, "efa")
H100_PAIR = rdma(2, 8, H100, 8, 400)
V100_EDR = replace(rdma(2, 8, "Tesla V100-SXM2-16GB", 1, 100), gpus_in_box=8, nvlinks=1)

PUBLISHED = [
    ("DGX A100", DGX_A100, None, 192, "in-band"),
    ("OCI A100 near its 1600 Gb/s, 64 nodes", rdma(64, 8, A100, 8, 200, "roce"), None, 185, "in-band"),
    ("4x200G A100 GDR", rdma(4, 8, A100, 4, 200), None, 93, "in-band"),
    ("4x200G A100 GDR off", rdma(4, 8, A100, 4, 200), None, 33, "low"),
    ("H100 2 nodes NVLSTree", H100_PAIR, None, 470, "in-band"),
    ("H100 2 nodes Ring lower", H100_PAIR, "Ring", 340, "in-band"),
    ("H100 2 nodes Ring upper", H100_PAIR, "Ring", 390, "in-band"),
    ("H100 2 nodes, Ring or half a Tree", H100_PAIR, None, 345, "inconclusive"),
    ("H100 2 nodes, half the NICs by Ring", H100_PAIR, None, 190, "low"),
    ("H100 2 nodes, one of 8 NICs", H100_PAIR, None, 46, "low"),
    ("p4d 2 nodes", replace(P4D, nodes=2), None, 57.2, "inconclusive"),
    ("p4d 3 nodes", replace(P4D, nodes=3), None, 31.8, "low"),
    ("p4d 4 nodes", P4D, None, 29.6, "low"),
    ("p4d healthy, lower", P4D, None, 38, "in-band"),
    ("p4d healthy, upper", P4D, None, 43, "in-band"),
    ("p5", rdma(4, 8, H100, 32, 100, "efa"), None, 300, "in-band"),
    ("p5en", rdma(4, 8, H200, 16, 200, "efa"), "Ring", 364.9, "in-band"),
    ("p6 lower", rdma(4, 8, B200, 8, 400, "efa"), None, 377, "in-band"),
    ("p6 upper", rdma(4, 8, B200, 8, 400, "efa"), None, 382, "in-band"),
    ("EDR, one NIC", V100_EDR, None, 12.2, "in-band"),
    ("EDR, one NIC, lower", replace(V100_EDR, nodes=4), None, 10.6, "in-band"),
    ("HDR, one NIC, lower", rdma(4, 8, A100, 1, 200), None, 21.2, "in-band"),
    ("10GbE lower", tcp(10), None, 1.0, "in-band"),
    ("10GbE upper", tcp(10), None, 1.15, "in-band"),
    ("25GbE upper", tcp(25), None, 2.9, "in-band"),
    ("100GbE default, fast thread", tcp(100), None, 4.4, "in-band"),
    ("100GbE tuned upper", tcp(100, sockets=16), None, 10.5, "in-band"),
    ("DGX A100 lower", DGX_A100, None, 170, "in-band"),
    ("DGX A100 upper", DGX_A100, None, 195, "in-band"),
    ("DGX A100 2 nodes, Ring or Tree", replace(DGX_A100, nodes=2), None, 170, "inconclusive"),
    ("DGX A100 2 nodes upper", replace(DGX_A100, nodes=2), None, 230, "in-band"),
    ("4x200G lower", rdma(4, 8, A100, 4, 200), None, 85, "in-band"),
    ("4x200G upper", rdma(4, 8, A100, 4, 200), None, 96, "in-band"),
    ("4x200G 2 nodes", rdma(2, 8, A100, 4, 200), None, 180, "in-band"),
    ("EDR, one NIC, upper", replace(V100_EDR, nodes=4), None, 12.0, "in-band"),
    ("EDR, one NIC, 2 nodes", V100_EDR, None, 22, "in-band"),
    ("HDR, one NIC, upper", rdma(4, 8, A100, 1, 200), None, 24, "in-band"),
    ("HDR, one NIC, 2 nodes", rdma(2, 8, A100, 1, 200), None, 45, "in-band"),
    ("p5 2 nodes lower", rdma(2, 8, H100, 32, 100, "efa"), None, 440, "in-band"),
    ("p5 2 nodes upper", rdma(2, 8, H100, 32, 100, "efa"), None, 480, "in-band"),
    ("p5en lower", rdma(4, 8, H200, 16, 200, "efa"), None, 340, "in-band"),
    ("p5en upper", rdma(4, 8, H200, 16, 200, "efa"), None, 370, "in-band"),
    ("p6 lowest", rdma(4, 8, B200, 8, 400, "efa"), None, 350, "in-band"),
    ("H100 4 nodes lower", rdma(4, 8, H100, 8, 400), None, 340, "in-band"),
    ("H100 4 nodes upper", rdma(4, 8, H100, 8, 400), None, 390, "in-band"),
    ("B300 lower", rdma(4, 8, "NVIDIA B300", 8, 800), None, 680, "in-band"),
    ("B300 upper", rdma(4, 8, "NVIDIA B300", 8, 800), None, 760, "in-band"),
    ("B300 2 nodes", rdma(2, 8, "NVIDIA B300", 8, 800), None, 845, "in-band"),
]
NEVER_LOW = [
    ("25GbE lower", tcp(25), 2.2),
    ("100GbE default, slow thread", tcp(100), 1.9),
    ("100GbE default, standard frames", tcp(100, frame=1500), 0.7),
    ("100GbE tuned lower", tcp(100, sockets=16), 7.0),
    ("8x400G Tree or Ring", H100_PAIR, 320),
    ("V100 without GDR known", replace(V100_EDR, gdr=None, gpu_nic_path=None), 6.5),
    ("4 NICs at PHB by design", replace(rdma(4, 4, A100, 4, 200), gpu_nic_path="PHB", gdr=False), 45),
    ("PCIe GPUs", replace(rdma(4, 8, "NVIDIA L40S", 4, 200), gpu_nic_path="PIX"), 6),
    ("unknown GPUs", replace(rdma(4, 8, "NVIDIA X1", 8, 400), gpu_nic_path="PIX"), 6),
]


@pytest.mark.parametrize(("name", "shape", "algorithm", "busbw", "standing"), PUBLISHED, ids=[p[0] for p in PUBLISHED])
def test_published(name: str, shape: ClusterShape, algorithm: str | None, busbw: float, standing: str) -> None:
    band = expected_busbw(shape, "all_reduce", algorithm, 4 * GIB)
    assert band is not None
    assert band.low <= band.fine <= band.high
    assert band.standing(busbw, 1.03) == standing, band
    if standing != "low":
        assert band.low <= busbw <= band.high


@pytest.mark.parametrize(("name", "shape", "busbw"), NEVER_LOW, ids=[p[0] for p in NEVER_LOW])
def test_never_low(name: str, shape: ClusterShape, busbw: float) -> None:
    band = expected_busbw(shape, "all_reduce", None, GIB)
    assert band is not None
    assert band.standing(busbw, 1.03) != "low", band


INTRA = [
    ("A100 floor", A100, 228, "in-band"),
    ("H100 floor", H100, 460, "in-band"),
    ("H200 floor", H200, 431, "in-band"),
    ("H200 best", H200, 482, "in-band"),
    ("B200 best", B200, 846, "in-band"),
    ("A100 low", A100, 150, "low"),
    ("H100, NVLS or not", H100, 365, "inconclusive"),
]


@pytest.mark.parametrize(("name", "gpu", "busbw", "standing"), INTRA, ids=[p[0] for p in INTRA])
def test_full_boards(name: str, gpu: str, busbw: float, standing: str) -> None:
    band = expected_busbw(ClusterShape(nodes=1, gpus_per_node=8, gpu=gpu), size_bytes=16 * GIB)
    assert band is not None
    assert band.standing(busbw, 1.03) == standing, band


def test_pair_of_a_board_without_table() -> None:
    """Two GPUs of a product that comes on boards with and without NVSwitch: a wide band."""
    band = expected_busbw(ClusterShape(nodes=1, gpus_per_node=2, gpu=H200), size_bytes=GIB)
    assert band is not None
    assert (band.standing(316, 1.03), band.standing(123, 1.03), band.standing(27.5, 1.03)) == (
        "in-band", "inconclusive", "low",
    )  # fmt: skip


@pytest.mark.parametrize(
    "shape",
    [
        ClusterShape(nodes=1, gpus_per_node=8, gpu="NVIDIA L40S"),
        ClusterShape(nodes=1, gpus_per_node=8),
        ClusterShape(nodes=1, gpus_per_node=4, gpu="Tesla V100-SXM2-16GB", nvlinks=1),
        ClusterShape(nodes=1, gpus_per_node=2, gpu="NVIDIA H100 PCIe", nvlinks=0),
        ClusterShape(nodes=2, gpus_per_node=8, gpu=H100, fabric="ib"),
        ClusterShape(nodes=2, gpus_per_node=8, gpu=H100, fabric="tcp"),
    ],
)
def test_no_expectation(shape: ClusterShape) -> None:
    assert expected_busbw(shape) is None


def test_every_collective_is_answered() -> None:
    for collective in collectives():
        assert busbw_factor(collective, 16)
        intra = expected_busbw(ClusterShape(nodes=1, gpus_per_node=8, gpu=H200), collective)
        inter = expected_busbw(H100_PAIR, collective)
        modelled = collective not in ("gather", "scatter", "alltoallv", "hypercube")
        assert (intra is not None, inter is not None) == (modelled, modelled)


def test_alltoall_and_sendrecv_are_not_compared_with_the_ring_line() -> None:
    alltoall, sendrecv = (expected_busbw(H100_PAIR, name) for name in ("alltoall", "sendrecv"))
    assert alltoall is not None
    assert 0.15 * 400 < alltoall.fine < alltoall.high < 0.24 * 400
    assert sendrecv is not None
    assert sendrecv.standing(48, 1.03) == "in-band"


@pytest.mark.parametrize(
    ("algorithm", "nodes", "gpus", "factor"),
    [
        ("Ring", 2, 8, 1), ("Tree", 2, 8, 1.875), ("Tree", 2, 1, 1), ("Tree", 3, 8, 1.278), ("Tree", 3, 1, 0.889),
        ("Tree", 4, 8, 0.969), ("Tree", 4, 1, 0.75), ("CollNet", 4, 8, 1.9375),
    ],
)  # fmt: skip
def test_all_reduce_factor(algorithm: str, nodes: int, gpus: int, factor: float) -> None:
    assert all_reduce_factor(algorithm, nodes, gpus).high == pytest.approx(factor, abs=1e-3)


def test_size_model() -> None:
    half = half_size_bytes(1.875, 12.5, 100)
    assert share_at_size(int(half), 1.875, 12.5, 100) == pytest.approx(0.5, abs=1e-3)
    assert share_at_size(64 * int(half), 1.875, 12.5, 100) > 0.98


@pytest.mark.parametrize(
    ("shape", "measured"),
    [(ClusterShape(nodes=1, gpus_per_node=8), 12.9), (H100_PAIR, 57), (replace(P4D, nodes=2), 165), (tcp(100), 150)],
)
def test_smallest_message(shape: ClusterShape, measured: float) -> None:
    bounds = smallest_message_us(shape)
    assert bounds is not None
    assert bounds.low <= measured <= bounds.high


@pytest.mark.parametrize(
    ("name", "found", "one_way"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm", 450), ("NVIDIA H100 NVL", "h100-nvl", 300),
        ("NVIDIA H100 PCIe", "h100-pcie", 300), ("NVIDIA H200", "h200", 450), ("NVIDIA H20", "h20", 450),
        ("NVIDIA H200 NVL", "h200-nvl", 450), ("NVIDIA GH200 480GB", "gh200", 450), ("NVIDIA B200", "b200", 900),
        ("NVIDIA GB200", "gb200", 900), ("NVIDIA A100-SXM4-40GB", "a100-sxm", 300),
        ("NVIDIA A100 80GB PCIe", "a100-pcie", 300), ("NVIDIA A100-PCIE-40GB", "a100-pcie", 300),
        ("Tesla V100-SXM2-16GB", "v100-sxm2", 150), ("Tesla V100-PCIE-16GB", "pcie-only", 0),
        ("NVIDIA A10G", "pcie-only", 0), ("NVIDIA L40S", "pcie-only", 0), ("NVIDIA A40", "a40", 56),
        ("NVIDIA GeForce RTX 3090", "rtx-3090", 56), ("NVIDIA GeForce RTX 4090", "pcie-only", 0),
    ],
)  # fmt: skip
def test_products(name: str, found: str, one_way: float) -> None:
    card = product(name)
    assert card is not None
    assert (card.id, card.nvlink_gbyte_s) == (found, one_way)


def test_every_figure_names_its_source() -> None:
    def rows(node: object) -> list[dict[str, object]]:
        if isinstance(node, list):
            return [row for item in node for row in rows(item)]
        if not isinstance(node, dict):
            return []
        if any(not isinstance(value, dict | list) for value in node.values()):
            return [node]
        return [row for item in node.values() for row in rows(item)]

    for name in ("products", "link_rates", "pcie", "rdma", "algorithms", "tcp", "bands"):
        for row in rows(table(name)):
            assert row.get("tag") in ("measured", "documented", "computed", "experience"), (name, row)
            assert row.get("source"), (name, row)
