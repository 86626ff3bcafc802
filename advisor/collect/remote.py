"""Run the collector on many hosts at once, each through one program of the system (ssh, srun, kubectl, sh).

What a host prints goes to its file as it comes, so memory does not grow with it and a crash loses nothing. A limit
on the whole of each run ends its process group: behind a path that drops large frames ssh itself hangs for minutes,
whatever its own time limits say.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

MOST_BYTES = 64 * 1024 * 1024  # of one host
_CONNECT_SECONDS = 10
_GRACE_SECONDS = 1.0  # between asking a process group to end and ending it: srun ends its step only when asked
_LOOK_SECONDS = 0.5  # between looks at whether all is to stop
_TAIL = 4096


@dataclass(slots=True, frozen=True)
class Target:
    """A host to collect from: the name it is called by, and the program that runs `sh -s` on it."""

    name: str
    argv: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class Outcome:
    """How it went: state is `done` or one of `advisor.read.collection.STATES`; detail: the program's own words."""

    name: str
    state: str
    detail: str
    seconds: float


def local() -> Target:
    """The machine that this runs on."""
    return Target("localhost", ("sh", "-s"))


def ssh(host: str, config: str | None = None) -> Target:
    """A host by the system's ssh, with the user's own settings; it never asks for a password."""
    chosen = ("-F", config) if config else ()
    options = ("-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_SECONDS}")
    return Target(host, ("ssh", *chosen, *options, "--", host, "sh -s"))


def srun(host: str, job: str | None = None) -> Target:
    """A host of a Slurm allocation, beside the job that runs there."""
    chosen = (f"--jobid={job}",) if job else ()
    options = ("--overlap", "--nodes=1", "--ntasks=1", "--mem=0", f"--nodelist={host}", "--quiet")
    return Target(host, ("srun", *chosen, *options, "sh", "-s"))


def kubectl(pod: str, namespace: str | None = None) -> Target:
    """A running pod."""
    chosen = (f"--namespace={namespace}",) if namespace else ()
    return Target(pod, ("kubectl", *chosen, "exec", "--stdin", pod, "--", "sh", "-s"))


# What the programs say, in their own words, most telling first.
_SAID = (
    ("host-key", r"host key verification failed|remote host identification has changed"),
    ("unknown-name", r"could not resolve hostname|name or service not known"),
    ("denied", r"permission denied|too many authentication failures|forbidden|unauthorized|access denied"),
    ("timeout", r"(?:connection|operation) timed out|connect.*timeout"),
    ("no-route", r"no route to host|network is unreachable"),
    ("refused", r"connection refused"),
    ("no-shell", r"executable file not found|sh: (?:command )?not found|exec.*sh.*no such file"),
    ("not-found", r"error from server \(notfound\)|invalid job id|invalid node name|unable to confirm allocation|"
                  r"requested node configuration is not available"),
    ("closed", r"connection (?:closed|reset)|broken pipe|kex_exchange_identification|lost connection"),
)  # fmt: skip
_OPEN = re.compile(rb"^@advisor\.\d+\.\d+ open ", re.MULTILINE)
_CLOSE = re.compile(rb"^@advisor\.\d+\.\d+ close \d+\s*$", re.MULTILINE)
_PATTERNS = tuple((state, re.compile(pattern, re.IGNORECASE)) for state, pattern in _SAID)


def _printable(line: str) -> str:
    return "".join(char for char in line if char.isprintable()).strip()[:300]


def classify(code: int, opened: bool, closed: bool, head: bytes, errors: bytes) -> tuple[str, str]:
    """State and detail of a run that ended by itself.

    code: exit status of the program; opened, closed: the collector's first and last line came; head: the first bytes
    printed; errors: the last of the error output.
    """
    if closed:
        return "done", ""
    lines = [text for line in errors.decode("utf-8", "replace").splitlines() if (text := _printable(line))]
    for state, pattern in _PATTERNS:
        for line in lines:
            if pattern.search(line):
                return ("cut-short" if opened else state), line
    last = lines[-1] if lines else f"exit {code}"
    if opened:
        return "cut-short", last
    if head.strip():
        return "garbage", _printable(head.decode("utf-8", "replace").strip().splitlines()[0])
    return "failed", last


class Fanout:
    """Runs of the collector on targets, so many at a time; `stop` ends all that were started."""

    def __init__(self, script: str, folder: Path, limit: float, at_once: int) -> None:
        self._script, self._folder, self._limit = script.encode(), folder, limit
        self._pool = ThreadPoolExecutor(at_once)
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def run(self, targets: Sequence[Target], told: Callable[[Outcome], None]) -> None:
        """Collect from all; `told` hears of each as it ends, from one thread at a time.

        Raises KeyboardInterrupt after everything that was started has ended.
        """
        said = threading.Lock()

        def one(target: Target) -> None:
            outcome = self._one(target)
            with said:
                told(outcome)

        try:
            for job in [self._pool.submit(one, target) for target in targets]:
                job.result()
        except BaseException:
            self.stop()
            raise
        finally:
            self._pool.shutdown(cancel_futures=True)

    def stop(self) -> None:
        """End everything that runs; nothing more is started."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)

    def _start(self, target: Target) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._stopped:
                return None
            process = subprocess.Popen(  # noqa: S603 (an argument list, host names validated, no shell here)
                target.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                start_new_session=True, env={**os.environ, "LC_ALL": "C"},
            )  # fmt: skip
            self._running.add(process)
            return process

    def _one(self, target: Target) -> Outcome:
        began = time.monotonic()
        try:
            process = self._start(target)
        except OSError as error:
            return Outcome(target.name, "no-program", f"{target.argv[0]}: {error.strerror}", 0.0)
        if process is None:
            return Outcome(target.name, "interrupted", "", 0.0)
        try:
            with (self._folder / f"{target.name}.txt").open("wb") as file:
                state, detail = _follow(process, self._script, file, began + self._limit, lambda: self._stopped)
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            state, detail = "disk-full" if full else "failed", error.strerror or str(error)
        finally:
            _end(process)
            _drop_if_empty(self._folder / f"{target.name}.txt")
            with self._lock:
                self._running.discard(process)
        if self._stopped and state != "done":
            state = "interrupted"
        return Outcome(target.name, state, detail, time.monotonic() - began)


def _drop_if_empty(path: Path) -> None:
    with contextlib.suppress(OSError):
        if not path.stat().st_size:
            path.unlink()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the program and everything it started, and take its pipes away."""
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(_GRACE_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()


@dataclass(slots=True)
class _Heard:
    """What has come from a host so far: its first and last bytes, the last of its error output, how much in all."""

    head: bytes = b""
    tail: bytes = b""
    errors: bytes = b""
    size: int = 0
    opened: bool = False

    def take(self, data: bytes) -> None:
        """Note some output."""
        self.size += len(data)
        self.head = (self.head + data)[:_TAIL]
        self.opened = self.opened or _OPEN.search(self.tail + data) is not None
        self.tail = (self.tail + data)[-_TAIL:]

    def at_limit(self) -> tuple[str, str]:
        """State and detail of a run that the limit ended: before any answer, or in the middle of one."""
        lines = self.errors.decode("utf-8", "replace").splitlines()
        return ("cut-short" if self.opened else "hangs"), f"({_printable(lines[-1])})" if lines else ""

    def ended(self, code: int) -> tuple[str, str]:
        """State and detail of a run that ended by itself."""
        return classify(code, self.opened, _CLOSE.search(self.tail) is not None, self.head, self.errors)


def _follow(
    process: subprocess.Popen[bytes], script: bytes, file: IO[bytes], deadline: float, stopped: Callable[[], bool]
) -> tuple[str, str]:
    """Feed the script, keep what comes, until the end or the limit; state and detail."""
    assert process.stdin is not None  # noqa: S101 (all three are pipes)
    assert process.stdout is not None  # noqa: S101
    assert process.stderr is not None  # noqa: S101
    heard, outputs = _Heard(), 2
    with selectors.DefaultSelector() as ready:
        os.set_blocking(process.stdin.fileno(), False)
        ready.register(process.stdin, selectors.EVENT_WRITE)
        ready.register(process.stdout, selectors.EVENT_READ)
        ready.register(process.stderr, selectors.EVENT_READ)
        while outputs:
            left = deadline - time.monotonic()
            if left <= 0 or stopped():
                return heard.at_limit()
            for key, _ in ready.select(min(left, _LOOK_SECONDS)):
                if key.fileobj is process.stdin:
                    script = _feed(process.stdin, script)
                    if not script:
                        ready.unregister(process.stdin)
                        process.stdin.close()
                    continue
                data = os.read(key.fd, 65536)
                if not data:
                    ready.unregister(key.fileobj)
                    outputs -= 1
                elif key.fileobj is process.stderr:
                    heard.errors = (heard.errors + data)[-_TAIL:]
                else:
                    heard.take(data)
                    if heard.size > MOST_BYTES:
                        return "too-much", f"({MOST_BYTES >> 20} MiB)"
                    file.write(data)
                    file.flush()
    try:
        return heard.ended(process.wait(max(0.0, deadline - time.monotonic())))
    except subprocess.TimeoutExpired:
        return heard.at_limit()


def _feed(stdin: IO[bytes], script: bytes) -> bytes:
    """Write what the pipe takes; what is left. Empty when the other side has gone."""
    try:
        return script[os.write(stdin.fileno(), script[:65536]) :]
    except BlockingIOError:
        return script
    except BrokenPipeError:
        return b""
