r"""Commands that start a job: mpirun, srun, torchrun, deepspeed, in scripts, histories and behind prompts.

A launcher must be the first word of a command, with an option that is known: words around it make it prose. Numbers in
variables are unknown. What two of processes, nodes and processes a node say, gives the third.

    >>> SAMPLE = r'''$ mpirun -np 16 -H node01:8,node02:8 -x NCCL_DEBUG=INFO \
    ...     ./build/all_reduce_perf -b 8 -e 8G -f 2 -g 1
    ... torchrun --nnodes 4 --nproc-per-node=8 --rdzv_endpoint=10.0.0.1:29500 train.py --lr 1e-4
    ... '''
    >>> mpi, torch = parse(Segment("run.sh", SAMPLE.splitlines(), range(1, 99)))
    >>> mpi.processes, mpi.nodes, mpi.hosts, mpi.program, mpi.largest_bytes
    (16, 2, ('node01', 'node02'), 'all_reduce_perf', 8589934592)
    >>> torch.processes, torch.nodes, torch.per_node, torch.rendezvous, torch.program
    (32, 4, 8, '10.0.0.1:29500', 'train.py')
    >>> bound = '''mpirun -np 8 --bind-to core:overload-allowed --map-by ppr:8:node:PE=12 ./train
    ... srun -n 8 --cpu-bind=verbose,cores -c 6 ./train
    ... '''
    >>> [(f.binding, f.cores_each) for f in parse(Segment("run.sh", bound.splitlines(), range(1, 9)))]
    [('core', 12), ('cores', 6)]
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from advisor.facts import Fact, LaunchCommand
from advisor.sources.base import Problem, Segment, Source

_LONGEST = 8000  # characters of a command
_MOST_LINES = 100
_MPI = ("mpirun", "mpiexec", "orterun", "prterun", "mpiexec.hydra")
_TORCH = ("torchrun", "torch.distributed.run", "torch.distributed.launch")
_LAUNCHERS = (*_MPI, *_TORCH, "srun", "deepspeed")
_NAMES = r"(?:mpirun|mpiexec(?:\.hydra)?|orterun|prterun|torchrun|torch\.distributed\.(?:run|launch)|srun|deepspeed)"
_NAMED = re.compile(rf"\b{_NAMES}\b")
# A lone `#` begins a comment: root's prompt counts only with a name before it.
_PROMPT = re.compile(r"^(?:[\w.@~:/ \[\]-]{0,100}[$%] |[\w.@~:/ \[\]-]{1,100}# |> |\+ )")
_BEFORE = ("sudo", "time", "exec", "nohup", "env", "command")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w{0,100}=.*", re.DOTALL)
_COUNT = re.compile(r"\d{1,7}")
_SIZE = re.compile(r"(\d{1,12})([KMGT]?)(?:i?B)?", re.I)
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_PROGRAM = re.compile(r"(?:\S{0,300}/)?([\w.-]{1,80}(?:\.py|_perf(?:_mpi)?)|(?:osu|ib)_\w{2,40})")
_PPR = re.compile(r"ppr:(\d{1,4}):node")
_PE = re.compile(r"\bPE=(\d{1,4})\b", re.I)
_HOW_LOUD = ("quiet", "verbose", "q", "v")  # words of --cpu-bind beside the binding

_MPI_OPTIONS = {
    "-np": "processes", "-n": "processes", "--np": "processes", "-c": "processes", "-N": "per_node",
    "-npernode": "per_node", "--npernode": "per_node", "-ppn": "per_node", "-H": "hosts", "-host": "hosts",
    "--host": "hosts", "-hosts": "hosts", "--map-by": "map", "-map-by": "map",
    "--bind-to": "binding", "-bind-to": "binding",
}  # fmt: skip
_TORCH_OPTIONS = {
    "--nnodes": "nodes", "--nproc-per-node": "per_node", "--nproc_per_node": "per_node",
    "--rdzv-endpoint": "rendezvous", "--rdzv_endpoint": "rendezvous", "--master-addr": "rendezvous",
    "--master_addr": "rendezvous", "--numa-binding": "binding", "--numa_binding": "binding",
}  # fmt: skip
_OTHER_OPTIONS = {
    "srun": {
        "-n": "processes", "--ntasks": "processes", "-N": "nodes", "--nodes": "nodes",
        "--ntasks-per-node": "per_node", "-w": "hosts", "--nodelist": "hosts",
        "--cpu-bind": "binding", "--cpu_bind": "binding", "-c": "cores", "--cpus-per-task": "cores",
    },
    "deepspeed": {"--num_nodes": "nodes", "--num_gpus": "per_node", "--master_addr": "rendezvous"},
}  # fmt: skip


def _known(launcher: str) -> dict[str, str]:
    """The options of a launcher that say something, by name."""
    if launcher in _MPI:
        return _MPI_OPTIONS
    return _TORCH_OPTIONS if launcher in _TORCH else _OTHER_OPTIONS[launcher]


def _launcher(words: list[str]) -> int | None:
    """Index of the launcher's word, None if the command starts something else."""
    i = 0
    while i < len(words) and (words[i] in _BEFORE or _ASSIGNMENT.fullmatch(words[i])):
        i += 1
    if i + 2 < len(words) and words[i].startswith("python") and words[i + 1] == "-m":
        i += 2
    return i if i < len(words) and words[i].rpartition("/")[2] in _LAUNCHERS else None


def _options(words: list[str], known: dict[str, str]) -> dict[str, str]:
    """The first value of each known option up to the program; `--name=value`, `-name value` and `-N2`."""
    found: dict[str, str] = {}
    for i, word in enumerate(words):
        if _PROGRAM.fullmatch(word):
            break
        name, equals, setting = word.partition("=")
        if equals and name in known:
            found.setdefault(known[name], setting)
        elif word in known and i + 1 < len(words):
            found.setdefault(known[word], words[i + 1])
        elif re.fullmatch(r"-[nN]\d{1,6}", word) and word[:2] in known:
            found.setdefault(known[word[:2]], word[2:])
    return found


def _hosts(text: str) -> tuple[str, ...]:
    """`node01:8,node02:8` -> both; a range in brackets stays whole, and so does what a variable holds."""
    if "$" in text or text.startswith("-"):
        return ()
    names = re.split(r",(?![^\[]{0,200}\])", text)
    return tuple(dict.fromkeys(name.partition(":")[0] for name in names if name))


def _binding(text: str) -> str | None:
    """`verbose,cores` -> `cores`, `core:overload-allowed` -> `core`; None where a variable holds it."""
    words = [word for word in text.lower().split(",") if word not in _HOW_LOUD]
    return words[0].partition(":")[0] or None if words and "$" not in words[0] else None


def _count(text: str | None) -> int | None:
    return int(text) if text and _COUNT.fullmatch(text) and int(text) else None


def _bytes(text: str | None) -> int | None:
    size = _SIZE.fullmatch(text or "")
    return int(size[1]) * _UNITS[size[2].upper()] if size else None


@dataclass(slots=True)
class _Counts:
    processes: int | None
    nodes: int | None
    per_node: int | None

    def complete(self) -> None:
        """Work out the third from two."""
        if self.processes is None and self.nodes and self.per_node:
            self.processes = self.nodes * self.per_node
        elif self.processes and self.per_node and self.nodes is None and self.processes % self.per_node == 0:
            self.nodes = self.processes // self.per_node
        elif self.processes and self.nodes and self.per_node is None and self.processes % self.nodes == 0:
            self.per_node = self.processes // self.nodes


def _fact(segment: Segment, first: int, last: int, words: list[str]) -> LaunchCommand | None:
    launcher = words[0].rpartition("/")[2]
    said = _options(words[1:], _known(launcher))
    if not said:
        return None
    hosts = _hosts(said.get("hosts", ""))
    single = bool(hosts) and not any("[" in host for host in hosts)
    mapped, cores = _PPR.search(said.get("map", "")), _PE.search(said.get("map", ""))
    counts = _Counts(
        _count(said.get("processes")), _count(said.get("nodes")) or (len(hosts) if single else None),
        _count(said.get("per_node")) or (int(mapped[1]) if mapped else None),
    )
    counts.complete()
    start = next((i for i, word in enumerate(words) if i and _PROGRAM.fullmatch(word)), None)
    program = _PROGRAM.fullmatch(words[start]) if start else None
    own = dict(zip(words[start + 1 :], words[start + 2 :], strict=False)) if start else {}
    tests = program is not None and "_perf" in program[1]
    per_process = (_count(own.get("-g")) or 1) * (_count(own.get("-t")) or 1) if tests else None
    return LaunchCommand(
        origins=(segment.origin(first, last),), launch=segment.at(first), launcher=launcher,
        processes=counts.processes, nodes=counts.nodes, per_node=counts.per_node, hosts=hosts,
        rendezvous=None if "$" in said.get("rendezvous", "$") else said["rendezvous"],
        program=program[1] if program else None, gpus_per_process=per_process,
        largest_bytes=_bytes(own.get("-e")) if tests else None, binding=_binding(said.get("binding", "")),
        cores_each=int(cores[1]) if cores else _count(said.get("cores")),
    )


def _commands(segment: Segment) -> Iterator[tuple[int, int, str]]:
    """Lines that name a launcher, each with the lines it goes on over."""
    i = 0
    while i < len(segment.lines):
        first, text = i, segment.lines[i]
        i += 1
        if len(text) > _LONGEST or not _NAMED.search(text):
            continue
        while text.endswith("\\") and i < len(segment.lines) and i - first < _MOST_LINES and len(text) < _LONGEST:
            text = text[:-1] + " " + segment.lines[i][:_LONGEST].strip()
            i += 1
        yield first, i - 1, _PROMPT.sub("", text.strip(), count=1)


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact for each launch that says anything of its size, its hosts or its binding."""
    for first, last, text in _commands(segment):
        try:
            words = shlex.split(text, comments=True)
        except ValueError:
            continue  # prose with an apostrophe, or a command that was cut
        start = _launcher(words)
        fact = None if start is None else _fact(segment, first, last, words[start:])
        if fact:
            yield fact


SOURCE = Source(
    id="launch-command",
    title="launch commands (mpirun, srun, torchrun, deepspeed)",
    facts=(LaunchCommand,),
    needles=("mpirun", "mpiexec", "orterun", "prterun", "torchrun", "torch.distributed.", "srun ", "deepspeed "),
    signature=re.compile(rf"{_NAMES}[ \t]+-"),
    parse=parse,
    versions="Open MPI 3 to 5, MPICH, Slurm, PyTorch 1.9 to 2.8",
)
