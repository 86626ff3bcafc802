"""Which hosts are meant, and by what program each is reached."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from advisor.collect import remote
from advisor.collect.hosts import expand, from_file
from advisor.collect.remote import Target
from advisor.data import phrase
from advisor.errors import UsageError

_ASK_SECONDS = 30
_JOB = re.compile(r"\d{1,12}(?:_\d{1,9})?(?:\+\d{1,4})?")
_SELECTOR = re.compile(r"[A-Za-z0-9./_-][\w./,=!() -]{0,500}")
_NAMESPACE = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


@dataclass(slots=True, frozen=True)
class Reach:
    """What the command line says of hosts.

    hosts: folded names; hostfile: a path; ssh_config: a path for `ssh -F`; slurm: a job id, empty within an
    allocation; kubectl: a label selector; namespace: of the pods.
    """

    hosts: str | None = None
    hostfile: str | None = None
    ssh_config: str | None = None
    slurm: str | None = None
    kubectl: str | None = None
    namespace: str | None = None

    @property
    def any(self) -> bool:
        """Whether hosts are named at all."""
        return any(way is not None for way in (self.hosts, self.hostfile, self.slurm, self.kubectl))

    def targets(self) -> list[Target]:
        """The hosts meant; this machine where none is named. Raises UsageError."""
        if sum(bool(way) for way in (self.hosts or self.hostfile, self.slurm is not None, self.kubectl)) > 1:
            raise UsageError(phrase("collect-one-way"))
        if not self.any:
            return [remote.local()]
        found = self._slurm() if self.slurm is not None else self._kubectl() if self.kubectl else self._ssh()
        if not found:
            raise UsageError(phrase("collect-no-hosts"), remedy=phrase("collect-no-hosts-remedy"))
        return found

    def _ssh(self) -> list[Target]:
        names = expand(self.hosts) if self.hosts else []
        if self.hostfile:
            try:
                names += from_file(Path(self.hostfile).read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(str(error), place=self.hostfile) from None
        config = str(Path(self.ssh_config).absolute()) if self.ssh_config else None
        if config and not Path(config).is_file():
            raise UsageError(phrase("no-such-path"), place=self.ssh_config)
        return [remote.ssh(name, config) for name in dict.fromkeys(names)]

    def _slurm(self) -> list[Target]:
        job = self.slurm or None
        if job is not None and not _JOB.fullmatch(job):
            raise UsageError(phrase("collect-no-job", program="--slurm", detail=job),
                             remedy=phrase("collect-no-job-remedy"))  # fmt: skip
        nodes = _ask("squeue", "--noheader", f"--jobs={job}", "--format=%N") if job else _nodes_of_this_job()
        return [remote.srun(name, job) for name in expand(nodes)]

    def _kubectl(self) -> list[Target]:
        selector, namespace = self.kubectl or "", self.namespace
        if not _SELECTOR.fullmatch(selector) or selector.startswith("-"):
            raise UsageError(phrase("collect-no-job", program="--kubectl", detail=repr(selector)))
        if namespace is not None and not _NAMESPACE.fullmatch(namespace):
            raise UsageError(phrase("collect-no-job", program="--namespace", detail=repr(namespace)))
        where = [f"--namespace={namespace}"] if namespace else []
        pods = _ask("kubectl", *where, "get", "pods", f"--selector={selector}",
                    "--field-selector=status.phase=Running", "--output=name")  # fmt: skip
        names = (line.removeprefix("pod/") for line in pods.split())
        return [remote.kubectl(name, namespace) for pod in names for name in expand(pod)]


def _nodes_of_this_job() -> str:
    nodes = os.environ.get("SLURM_JOB_NODELIST") or os.environ.get("SLURM_NODELIST")
    if not nodes:
        missing = phrase("collect-no-job", program="SLURM_JOB_NODELIST", detail="-")
        raise UsageError(missing, remedy=phrase("collect-no-job-remedy"))
    return nodes


def _ask(*argv: str) -> str:
    """What a scheduler's program prints. Raises UsageError when it fails or takes longer than 30 s."""
    try:
        asked = subprocess.run(  # noqa: S603 (an argument list of validated words)
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_ASK_SECONDS, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise UsageError(phrase("collect-program", program=argv[0])) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(phrase("collect-no-job", program=argv[0], detail=str(error))) from None
    if asked.returncode:
        said = (asked.stderr.strip().splitlines() or [f"exit {asked.returncode}"])[-1]
        raise UsageError(phrase("collect-no-job", program=argv[0], detail=said),
                         remedy=phrase("collect-no-job-remedy"))  # fmt: skip
    return asked.stdout
