"""`advisor expect`: what this hardware should reach, why, and how to measure it soundly."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from advisor.expect import ClusterShape

FABRICS = ("ib", "roce", "tcp", "efa")
EXAMPLES = """examples:
  advisor expect --nodes 16 --gpus-per-node 8 --gpu h100 --nics 8x400 --fabric ib
  advisor expect --nodes 4 --gpus-per-node 8 --gpu a100-sxm4 --nics 8x200 --collective all_gather --size 4G
  advisor expect --gpus-per-node 8 --gpu h200                    one node, over NVLink
"""


def register(command: argparse.ArgumentParser) -> None:
    """Declare the command."""
    command.description = "Works out the bandwidth a healthy cluster of this shape shows, by stage. Reads nothing."
    command.epilog = EXAMPLES
    command.add_argument("--nodes", type=_count, default=1, metavar="N", help="nodes of the job (default: 1)")
    command.add_argument("--gpus-per-node", type=_count, default=8, metavar="N", help="ranks a node (default: 8)")
    command.add_argument("--gpu", metavar="PRODUCT", help="h100, a100-sxm4, ... as nvidia-smi names it")
    command.add_argument("--nics", type=_nics, default=(), metavar="COUNTxGBIT", help="NICs of a node, such as 8x400")
    command.add_argument("--fabric", choices=FABRICS, default="ib", help="network of the job (default: ib)")
    command.add_argument("--collective", default="all_reduce", metavar="NAME", help="as nccl-tests names it")
    command.add_argument("--size", type=_size, metavar="BYTES", help="message size: 512M, 4G (powers of two)")
    command.add_argument("--format", choices=("terminal", "markdown", "json"), default="terminal")
    command.add_argument("--json", action="store_true", help="the same as --format json")
    command.set_defaults(run=run)


def _count(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value


def _nics(text: str) -> tuple[tuple[int, float], ...]:
    count, _, rate = text.partition("x")
    if int(count) < 1 or not 0 < float(rate) < float("inf"):
        raise argparse.ArgumentTypeError("count and rate in Gb/s, such as 8x400")
    return ((int(count), float(rate)),)


def _size(text: str) -> int:
    unit = {"K": 10, "M": 20, "G": 30}.get(text[-1:].upper())
    return _count(text) if unit is None else _count(text[:-1]) << unit


def _shape(args: argparse.Namespace) -> ClusterShape:
    """A healthy cluster: GPUDirect RDMA in use, each GPU near a NIC."""
    from advisor.expect import ClusterShape

    return ClusterShape(
        nodes=args.nodes, gpus_per_node=args.gpus_per_node, gpu=args.gpu, fabric=args.fabric, nics=args.nics,
        gdr=args.fabric != "tcp", gpu_nic_path=None if args.fabric == "tcp" else "PXB",
    )  # fmt: skip


def run(args: argparse.Namespace) -> int:
    """Print the expectation; 3 where the shape does not suffice. Raises UsageError for an unknown collective."""
    from advisor.data import phrase
    from advisor.errors import UsageError
    from advisor.expect import expected_busbw
    from advisor.expect.collectives import collectives
    from advisor.render import expectation

    if args.collective not in collectives():
        remedy = ", ".join(collectives())
        raise UsageError(phrase("expectation-no-collective", name=args.collective), remedy=remedy)
    shape = _shape(args)
    band = expected_busbw(shape, args.collective, None, args.size)
    if band is None:
        print(f"advisor: {phrase('expectation-none')}", file=sys.stderr)
        return 3
    found = expectation.record(shape, args.collective, args.size, band)
    style = "json" if args.json else args.format
    if style == "terminal":
        from rich.console import Console

        expectation.terminal(found, Console())
    else:
        sys.stdout.write(expectation.as_json(found) if style == "json" else expectation.markdown(found))
    return 0
