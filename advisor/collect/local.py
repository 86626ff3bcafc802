"""Collect on this machine: every source that exists here, nothing that makes traffic or disturbs a job.

What a command prints becomes the same document that offline mode reads, headed by a prompt line with the command.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from advisor.data import phrase
from advisor.read.decode import decode
from advisor.read.split import short
from advisor.read.unpack import Document
from advisor.sources import all_sources
from advisor.sources.base import Command

_AT_ONCE = 8
_MOST_BYTES = 16 * 1024 * 1024


def _wanted(command: Command) -> bool:
    return not command.traffic and not command.disturbs and (not command.root or os.geteuid() == 0)


def _interfaces() -> list[str]:
    """Network interfaces with a device behind them, sorted."""
    return sorted(path.parent.name for path in Path("/sys/class/net").glob("*/device"))


def _bind(command: Command) -> list[Command]:
    """The command for each interface of this host where it names `{interface}`; none where it needs a peer."""
    if any("{peer}" in word for word in command.argv):
        return []
    if not any("{interface}" in word for word in command.argv):
        return [command]
    names = _interfaces()
    return [replace(command, argv=tuple(w.replace("{interface}", name) for w in command.argv)) for name in names]


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


def collect() -> list[Document]:
    """What all sources say about this machine, sorted by name; a missing tool is a note in its document."""
    host = short(socket.gethostname())
    jobs = [
        (f"{host}/{source.id}{f'-{i}' if i else ''}.txt", command)
        for source in all_sources()
        for i, command in enumerate(bound for declared in source.commands for bound in _bind(declared))
        if _wanted(command)
    ]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return sorted(pool.map(lambda job: run(job[0], job[1], host), jobs), key=lambda doc: doc.name)
