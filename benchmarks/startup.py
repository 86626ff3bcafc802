"""How long commands take, as multiples of `python -c pass` in the same run.

    python -m benchmarks.startup [--runs 21]

Each command runs in turn with the floor; the median of the ratios is printed. Output goes to a pipe, as in scripts.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

EXAMPLE = str(Path(__file__).parent.parent / "examples" / "slow-nvlink-pair")
GOALS = {
    "--version": (["--version"], 4),
    "explain": (["explain", "busbw"], 12),
    "diagnose": (["diagnose", EXAMPLE], 35),
    "diagnose --json": (["diagnose", "--json", EXAMPLE], 35),
}


def seconds(command: list[str]) -> float:
    """Wall time of one run of a command."""
    start = time.perf_counter()
    subprocess.run(command, capture_output=True, check=False)
    return time.perf_counter() - start


def main() -> None:
    """Print a row for each command."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=21)
    runs = options.parse_args().runs
    floor = [sys.executable, "-c", "pass"]
    for name, (arguments, goal) in GOALS.items():
        command = [str(Path(sys.executable).with_name("advisor")), *arguments]
        seconds(command)
        pairs = [(seconds(command), seconds(floor)) for _ in range(runs)]
        ratio = statistics.median(own / base for own, base in pairs)
        own = statistics.median(own for own, _ in pairs)
        print(f"{name:<16} {own * 1000:6.0f} ms  {ratio:5.1f} x  (goal: at most {goal} x)")


if __name__ == "__main__":
    main()
