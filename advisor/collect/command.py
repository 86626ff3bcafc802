"""Run one command on this machine, without a shell, never longer than its time limit.

What it prints becomes the same document that offline mode reads, headed by a prompt line with the command.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess

from advisor.data import phrase
from advisor.read.decode import decode
from advisor.read.unpack import Document
from advisor.sources.base import Command

_MOST_BYTES = 16 * 1024 * 1024


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command and everything it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def run(name: str, command: Command, host: str) -> Document:
    """The output of a command as a document, or why there is none; never longer than its time limit."""
    shown = shlex.join(command.argv)
    if shutil.which(command.argv[0]) is None:
        return Document(name, problem=phrase("collect-missing", tool=command.argv[0]), host=host)
    try:
        process = subprocess.Popen(  # noqa: S603 (argv is declared by a source, no shell is involved)
            command.argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except OSError as error:
        return Document(name, problem=phrase("collect-failed", command=shown, reason=str(error)), host=host)
    try:
        output, _ = process.communicate(timeout=command.timeout)
    except subprocess.TimeoutExpired:
        _end(process)
        return Document(name, problem=phrase("collect-timeout", command=shown, seconds=command.timeout), host=host)
    except BaseException:
        _end(process)
        raise
    return Document(name, f"$ {shown}\n{decode(output[:_MOST_BYTES])}", host=host)
