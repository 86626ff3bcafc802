"""The command output that stands in the README.

    python -m tests.readme_tools write

runs each `<!-- output: COMMAND -->` of the README and puts what it prints below it. A test compares.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
_BLOCK = re.compile(r"<!-- output: (?P<command>.*?) -->\n(?P<body>.*?)<!-- end -->", re.DOTALL)


def output(command: str) -> str:
    """What a command line of the README prints, 80 columns wide and without colour."""
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb", "PYTHONIOENCODING": "utf-8"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    run = subprocess.run(["sh", "-c", command], capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    return run.stdout.rstrip()


def refreshed(text: str) -> str:
    """The README's text with all output made anew."""

    def block(match: re.Match[str]) -> str:
        command = match["command"]
        return f"<!-- output: {command} -->\n```console\n$ {command}\n{output(command)}\n```\n<!-- end -->"

    return _BLOCK.sub(block, text)


if __name__ == "__main__":
    README.write_text(refreshed(README.read_text()))
