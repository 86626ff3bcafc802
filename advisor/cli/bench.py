"""`advisor bench`: measurements that need nothing but what a training job has."""

from __future__ import annotations

import argparse

from advisor.bench import allreduce

EXAMPLES = """examples:
  advisor bench allreduce --nproc 8                                  the GPUs of this machine
  srun -N 2 --ntasks-per-node 8 advisor bench allreduce -b 64M
  torchrun --nnodes 2 --nproc-per-node 8 --node-rank R --master-addr node01 -m advisor.bench.allreduce
  advisor bench allreduce --print > allreduce.py                     for machines where nothing may be installed
"""


def register(command: argparse.ArgumentParser) -> None:
    """Declare the command and its benchmarks."""
    command.description = "Measures all_reduce where nccl-tests is not at hand. Loads the network and the GPUs."
    command.epilog = EXAMPLES
    benchmarks = command.add_subparsers(metavar="BENCHMARK", required=True)
    part = benchmarks.add_parser(
        "allreduce",
        help="bandwidth of all_reduce between all ranks, by size",
        description=allreduce.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    allreduce.add_arguments(part)
    part.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the benchmark: one rank of it under a launcher, all of it with `--nproc`."""
    return allreduce.run(args)
