r"""Environment variables that matter for a job: `env`, nccl.conf, scripts and launcher commands.

Only names that rules know or may need are kept, the rest is dropped here: an environment holds secrets. An assignment
must be a line of its own or stand in a command that is known; words around it make it prose.

    >>> SAMPLE = r'''export NCCL_DEBUG=INFO HF_TOKEN=abc
    ... setting NCCL_P2P_DISABLE=1 did not help
    ... mpirun -np 16 -x NCCL_IB_HCA=mlx5_2,mlx5_3 -x NCCL_DEBUG --mca pml ob1 \
    ...     ./all_reduce_perf -b 8
    ... '''
    >>> segment = Segment("run.sh", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.name, f.value, f.where) for f in parse(segment)]  # doctest: +NORMALIZE_WHITESPACE
    [('NCCL_DEBUG', 'INFO', 'script'), ('NCCL_IB_HCA', 'mlx5_2,mlx5_3', 'launcher'),
     ('NCCL_DEBUG', 'INFO', 'launcher'), ('OMPI_MCA_pml', 'ob1', 'launcher')]
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

from advisor.facts import EnvVar, Fact
from advisor.sources.base import Command, Problem, Segment, Source

_LONGEST = 16_384  # characters of a command; what is longer is no command that somebody typed
_NAMES = re.compile(
    r"(?:NCCL|RCCL|TORCH_NCCL|TORCH_FR|UCX|FI|OFI_NCCL|NVSHMEM|SHARP|RDMAV|MLX5)_\w{1,100}"
    r"|OMPI_MCA_(?:btl|pml|mtl|osc|coll|oob|opal_cuda|rmaps|hwloc|mpi)\w{0,100}"
    r"|TORCH_DISTRIBUTED_DEBUG|CUDA_VISIBLE_DEVICES|CUDA_LAUNCH_BLOCKING|CUDA_DEVICE_MAX_CONNECTIONS"
    r"|GLOO_SOCKET_IFNAME|TP_SOCKET_IFNAME|MASTER_ADDR|WORLD_SIZE|LOCAL_WORLD_SIZE|OMP_NUM_THREADS"
    r"|SLURM_(?:JOB_NUM_NODES|NNODES|NTASKS|NPROCS|NTASKS_PER_NODE|TASKS_PER_NODE|GPUS_PER_NODE|GPUS_ON_NODE"
    r"|CPUS_PER_TASK|JOB_NODELIST|NODELIST)"
)
_SECRET = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|URI)(?:_|$)", re.IGNORECASE)
_PATHS = ("LD_PRELOAD", "LD_LIBRARY_PATH")
_ANY = rf"(?:{_NAMES.pattern}|LD_PRELOAD|LD_LIBRARY_PATH)"
_INTERESTING = re.compile(rf"(?<![A-Za-z0-9_]){_ANY}[= ]|mca ")

_ASSIGNMENT = re.compile(r"^([A-Za-z_]\w{0,200})=(.*)$", re.DOTALL)
_DECLARED = re.compile(r'^declare -x ([A-Za-z_]\w{0,200})="(.{0,4000})"$')
_QUOTED = re.compile(r'^\s{0,40}(?:- )?(["\'])([A-Za-z_]\w{0,200})=([^"\']{0,4000})\1,?$')  # docker inspect, compose
_LISTED = re.compile(r"^\s{0,40}- ([A-Z_][A-Z0-9_]{0,200})=(\S{1,4000})$")  # compose
_POD_NAME = re.compile(r"^\s{0,40}(?:- )?name: [\"']?([A-Z_][A-Z0-9_]{0,200})[\"']?$")
_POD_VALUE = re.compile(r"^\s{1,40}value: (?:\"([^\"]{0,4000})\"|'([^']{0,4000})'|(\S{1,4000}))$")
_POD_LINE = re.compile(r"^\s{2,40}([A-Z_][A-Z0-9_]{0,200}): {2,}(\S{1,4000})$")  # kubectl describe
_PYTHON = re.compile(
    r"^\s{0,80}os\.environ(?:\[|\.setdefault\()\s?([\"'])(\w{1,200})\1(?:\]\s?=|,)\s?([\"'])([^\"']{0,4000})\3\)?"
    r"\s{0,40}(?:#.{0,200})?$"
)
_DOCKERFILE = re.compile(r"^ENV ([A-Za-z_]\w{0,200})(?:=| )(\S{1,4000})$")
_CONF_FILE = re.compile(r"nccl\.conf(?:\.\w{1,10})?$|(?:^|[/_.-])nccl[_.-]conf\b")
_CONF_BANNER = re.compile(r"^(?:#+ ?|==> ?|-{2,} ?)?(?:cat )?(?:\S{0,200}/)?\.?nccl\.conf(?::| <==| ?-{2,})?$")
_CONF_LINE = re.compile(r"^\S{0,200}nccl\.conf:([A-Za-z_]\w{0,200})=(.*)$")  # grep . /etc/nccl.conf ~/.nccl.conf
_CONF_BROKEN = re.compile(r"^\s{0,20}(NCCL_\w{1,100})\s{1,20}=|^\s{1,20}(NCCL_\w{1,100})=")
_PROMPT = re.compile(r"^(?:\[?[\w.-]{1,40}@[\w.-]{1,100}[ :][^$#%>\n]{0,100}[$#%>] |[$%>] |\+{1,3} |- )")
_ENV_COMMAND = re.compile(r"(?:^|[\s;|&/])(?:env|printenv|export -p|declare -x)(?:\s*$|\s*[|;&])|/environ\b")

_LAUNCHERS = ("mpirun", "mpiexec", "orterun", "prterun", "mpiexec.hydra", "horovodrun")
_SLURM = ("srun", "sbatch", "salloc")
_CONTAINERS = ("docker", "podman", "nerdctl", "nvidia-docker", "singularity", "apptainer", "enroot")
_STARTS_RANKS = re.compile(r"^(?:python[\d.]*|torchrun|accelerate|\w{1,40}_perf(?:_mpi)?)$")
_PLAIN = re.compile(
    r"^(?:bash|sh|zsh|numactl|taskset|nsys|ncu|deepspeed|vllm|ray|time|timeout|nohup|exec|sudo|ssh|colossalai|pytest|uv"
    r"|ib_\w{1,40}|ucx_perftest|make|env|conda|xargs)$"
)
_KEYWORDS = ("then", "do", "else", "{", "(", "!")
_SHELL = ("export", "declare", "typeset", "local", "readonly", "setenv", "set", "if", "for", "while", *_KEYWORDS)
_WRAPPERS = ("sudo", "time", "exec", "nohup", "env", "command", "nice", "stdbuf")


def _wanted(name: str, value: str) -> bool:
    """Whether a variable is one of those that rules may need, and no secret."""
    if name in _PATHS:
        return "nccl" in value.lower()
    return _NAMES.fullmatch(name) is not None and not _SECRET.search(name)


def _known(value: str) -> bool:
    """Whether a shell would take the value as it stands."""
    return "$" not in value and "`" not in value


@dataclass(slots=True)
class _Reader:
    """Reads a segment line by line.

    exported: values that `mpirun -x NAME` would hand on; listed: there is nothing but assignments, so those that do
    not matter are understood too.
    """

    segment: Segment
    exported: dict[str, str] = field(default_factory=dict)
    listed: bool = False

    def fact(self, name: str, value: str, where: str, first: int, last: int, *, sure: bool = False) -> Iterator[Fact]:
        """The fact of one variable, where it matters and its value is known."""
        self.segment.skip(first, last)
        if not _wanted(name, value) or (name not in _PATHS and where != "conf" and not _known(value)):
            return
        if where == "script":
            self.exported[name] = value
        in_ranks = True if sure or where in ("launcher", "conf") else None
        origin = self.segment.origin(first, last)
        yield EnvVar(name=name, value=value, where=where, in_ranks=in_ranks, origins=(origin,))

    # --- commands ---------------------------------------------------------------------------------------------------

    def command(self, text: str, first: int, last: int) -> Iterator[Fact]:
        """A command line, with several commands behind `;`, `&&` or `|`."""
        for words in _commands(text):
            start = next((place for place, word in enumerate(words) if word not in _KEYWORDS), len(words))
            yield from self._words(words[start:], first, last)

    def _words(self, words: list[str], first: int, last: int) -> Iterator[Fact]:
        assigned, rest = _leading(words)
        name = rest[0].rsplit("/", 1)[-1] if rest else ""
        if name in ("export", "declare", "typeset", "local", "readonly"):
            for word in rest[1:]:
                if m := _ASSIGNMENT.match(word):
                    yield from self.fact(m[1], m[2], "script", first, last)
            return
        if name in ("setenv", "set") and len(rest) >= 3:
            variable, value = [word for word in rest[1:] if not word.startswith("-")][-2:] or ("", "")
            if name == "setenv" or rest[1].startswith("-"):
                yield from self.fact(variable, value, "script", first, last)
            return
        several = len(assigned) > 1 or first != last
        ended = any(value.endswith((".", ",")) for _, value in assigned)  # a list in a sentence
        if not (name and _runs(name, rest[0])) and (rest or ended or not several):
            return
        sure = _STARTS_RANKS.match(name) is not None
        for variable, value in assigned:
            yield from self.fact(variable, value, "script", first, last, sure=sure)
        yield from self._options(name, rest[1:], first, last)

    def _options(self, name: str, words: list[str], first: int, last: int) -> Iterator[Fact]:
        if name in _LAUNCHERS:
            pairs = _mpi(words, self.exported)
        elif name in _SLURM:
            pairs = _slurm(words)
        elif name in _CONTAINERS:
            pairs = _container(words)
        else:
            return
        for variable, value in pairs:
            yield from self.fact(variable, value, "launcher", first, last)


def _commands(text: str) -> Iterator[list[str]]:
    """The words of each command of a line; what stands behind ` #` is a comment."""
    if len(text) > _LONGEST:
        return
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";|&")
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[str] = []
    try:
        for word in lexer:
            if word.startswith("#"):
                break
            if word.strip(";|&"):
                words.append(word)
                continue
            yield words
            words = []
    except ValueError:  # a quote without its partner
        words = text.split()
    yield words


def _leading(words: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """Assignments before the command, and the command without `sudo`, `env`, `time` and the like."""
    assigned: list[tuple[str, str]] = []
    for place, word in enumerate(words):
        if m := _ASSIGNMENT.match(word):
            assigned.append((m[1], m[2]))
        elif word.rsplit("/", 1)[-1] not in _WRAPPERS and not (place and word.startswith("-") and not assigned):
            return assigned, words[place:]
    return assigned, []


def _runs(name: str, word: str) -> bool:
    """Whether a word is a command that may follow assignments, and no word of a sentence."""
    known = name in _LAUNCHERS or name in _SLURM or name in _CONTAINERS
    return known or bool(_STARTS_RANKS.match(name) or _PLAIN.match(name)) or word.startswith(("./", "/", "~/"))


def _mpi(words: list[str], exported: dict[str, str]) -> Iterator[tuple[str, str]]:
    """`-x NAME=value`, `-x NAME`, `-genv NAME value`, `-env NAME value`, `--mca NAME value`."""
    for place, word in enumerate(words):
        following = words[place + 1] if place + 1 < len(words) else ""
        m = _ASSIGNMENT.match(following)
        if word == "-x" and m:
            yield m[1], m[2]
        elif word == "-x" and following in exported:
            yield following, exported[following]
        elif word in ("-genv", "-env") and m:
            yield m[1], m[2]
        elif word in ("-genv", "-env", "--mca", "-mca") and place + 2 < len(words):
            yield ("OMPI_MCA_" if "mca" in word else "") + following, words[place + 2]


def _slurm(words: list[str]) -> Iterator[tuple[str, str]]:
    """`--export=ALL,NAME=value`, `--export ALL,NAME=value`, `--container-env` is a list of names only."""
    for place, word in enumerate(words):
        text = word[9:] if word.startswith("--export=") else ""
        if word == "--export" and place + 1 < len(words):
            text = words[place + 1]
        # A comma also parts the items of a value (`NCCL_IB_HCA=mlx5_0,mlx5_1`); Slurm itself would cut there.
        for part in text.split(","):
            if m := _ASSIGNMENT.match(part):
                yield m[1], m[2]


def _container(words: list[str]) -> Iterator[tuple[str, str]]:
    """`-e NAME=value`, `-eNAME=value`, `--env NAME=value`, `--env=NAME=value`."""
    for place, word in enumerate(words):
        if word in ("-e", "--env"):
            text = words[place + 1] if place + 1 < len(words) else ""
        elif word.startswith("--env="):
            text = word[6:]
        else:
            text = word[2:] if word.startswith("-e") else ""
        if m := _ASSIGNMENT.match(text):
            yield m[1], m[2]


# --- lines ------------------------------------------------------------------------------------------------------------


def _is_environment(segment: Segment) -> bool:
    """Whether the segment is what env printed: by its command, or five variables of other kinds in a row."""
    if segment.command and _ENV_COMMAND.search(segment.command):
        return True
    return "\nPATH=" in f"\n{segment.text}" and "\nHOME=" in f"\n{segment.text}"


def _assignment(lines: list[str], index: int, whole: bool) -> tuple[str, str] | None:
    """The variable of a line that is an assignment and nothing else."""
    m = _ASSIGNMENT.match(lines[index].rstrip())
    if not m:
        return None
    value = m[2]
    if whole:
        return m[1], value
    if len(value) > 1 and value[0] in "\"'" and value[-1] == value[0] and value[0] not in value[1:-1]:
        return m[1], value[1:-1]
    if not value or value.endswith((".", ",", ")", ":", ";", "\\")):
        return None
    if any(char.isspace() for char in value):
        near = [lines[i] for i in (index - 1, index + 1) if 0 <= i < len(lines) and lines[i].strip()]
        if not near or not all(_ASSIGNMENT.match(line) for line in near):
            return None
    return m[1], value


def _joined(lines: list[str], index: int) -> tuple[str, int]:
    """A line with those that it runs on into behind a backslash, and the index of the last of them."""
    text, last, size = lines[index].rstrip(), index, 0
    parts = []
    while text.endswith("\\") and last + 1 < len(lines) and size < _LONGEST:
        parts.append(text[:-1])
        last += 1
        text = lines[last].lstrip("> ").rstrip()
        size += len(text)
    return " ".join([*parts, text.rstrip("\\")]), last


def _may_be_command(text: str) -> bool:
    """A cheap look at the first word, before the text is taken apart."""
    word = text.split(None, 1)[0] if text else ""
    return bool(_ASSIGNMENT.match(word)) or word in _SHELL or word in _WRAPPERS or _runs(word.rsplit("/", 1)[-1], word)


def _conf(reader: _Reader, index: int) -> Iterator[Fact | Problem]:
    """A line of nccl.conf; NCCL takes everything behind `=` as it stands."""
    segment, line = reader.segment, reader.segment.lines[index]
    broken = _CONF_BROKEN.match(line)
    if m := _ASSIGNMENT.match(line):
        yield from reader.fact(m[1], m[2], "conf", index, index)
    elif broken:
        segment.skip(index)
        name = broken[1] or broken[2]
        yield Problem(segment.numbers[index], f"nccl.conf: a blank beside the name {name} makes it another variable")
    elif line.startswith("#"):
        segment.skip(index)


def _conf_lines(segment: Segment) -> set[int]:
    """Indexes of the lines that belong to a nccl.conf, by the file's name, the command or a banner."""
    lines = segment.lines
    if _CONF_FILE.search(segment.file) or "nccl.conf" in (segment.command or ""):
        return set(range(len(lines)))
    found: set[int] = set()
    inside = False
    for index, line in enumerate(lines):
        if len(line) < 300 and "nccl.conf" in line and _CONF_BANNER.match(line.strip()):
            inside = True
            segment.skip(index)
        elif inside and (not line.strip() or not (_ASSIGNMENT.match(line) or line.startswith("#"))):
            inside = False
        elif inside and line.startswith("#") and "/" in line:
            inside = False  # the banner of the next file
        elif inside:
            found.add(index)
    return found


def _single(reader: _Reader, index: int) -> Iterator[Fact]:
    """Lines of Docker, Kubernetes, compose files and Python scripts."""
    lines, line = reader.segment.lines, reader.segment.lines[index]
    if m := _DECLARED.match(line):
        yield from reader.fact(m[1], m[2], "environment", index, index)
    elif m := _QUOTED.match(line):
        where = "launcher" if line.lstrip().startswith("-") else "environment"
        yield from reader.fact(m[2], m[3], where, index, index)
    elif m := _LISTED.match(line) or _POD_LINE.match(line):
        yield from reader.fact(m[1], m[2].strip("\"'"), "launcher", index, index)
    elif (m := _POD_NAME.match(line)) and index + 1 < len(lines):
        if value := _POD_VALUE.match(lines[index + 1]):
            text = next(group for group in value.groups() if group is not None)
            yield from reader.fact(m[1], text, "launcher", index, index + 1)
    elif m := _PYTHON.match(line):
        yield from reader.fact(m[2], m[4], "script", index, index)
    elif m := _DOCKERFILE.match(line):
        yield from reader.fact(m[1], m[2], "script", index, index)


_SINGLE_MARKS = ("declare -x ", "os.environ", "ENV ", "name: ", "- ", ": ", '"', "'")


def _line(reader: _Reader, index: int, whole: bool) -> Iterator[Fact | Problem]:
    """What the line at `index` gives, with the lines that it runs on into."""
    segment = reader.segment
    line = segment.lines[index]
    where = "launcher" if segment.file.endswith("deepspeed_env") else "environment"
    for part in line.split("\0") if "\0" in line else ():
        if m := _ASSIGNMENT.match(part):
            yield from reader.fact(m[1], m[2], where, index, index)
    if m := _CONF_LINE.match(line):
        yield from reader.fact(m[1], m[2], "conf", index, index)
        return
    if pair := _assignment(segment.lines, index, whole):
        if whole or reader.listed:
            segment.skip(index)
        if _NAMES.fullmatch(pair[0]) or pair[0] in _PATHS:
            yield from reader.fact(*pair, where, index, index)
        return
    if any(mark in line for mark in _SINGLE_MARKS):
        found = list(_single(reader, index))
        if found:
            yield from found
            return
    text, last = _joined(segment.lines, index)
    text = text.strip()
    if text.startswith("#SBATCH "):
        text = "sbatch" + text[7:]
    elif re.match(r"-(?:x|e|genv) \w+=|--env[= ]\w+=", text):
        text = ("docker " if text.startswith(("-e", "--env")) else "mpirun ") + text  # the middle of a wrapped command
    text = _PROMPT.sub("", text, count=1)
    if _INTERESTING.search(text) and _may_be_command(text):
        yield from reader.command(text, index, last)


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One fact a variable and place (env, nccl.conf, shell, mpirun, srun, docker, Kubernetes; no units)."""
    filled = [line for line in segment.lines if line.strip()]
    reader = _Reader(segment, listed=len(filled) > 1 and all(_ASSIGNMENT.match(line) for line in filled))
    conf, whole = _conf_lines(segment), _is_environment(segment)
    last = -1
    for index, line in enumerate(segment.lines):
        if index in conf:
            yield from _conf(reader, index)
        elif index > last and line and len(line) <= _LONGEST * 8:
            yield from _line(reader, index, whole)
            last = _joined(segment.lines, index)[1] if line.endswith("\\") else index


SOURCE = Source(
    id="environment",
    title="environment variables (env, nccl.conf, scripts, launcher commands)",
    facts=(EnvVar,),
    needles=("=", "setenv ", "-genv ", "mca ", "name: ", ": ", "ENV "),
    signature=re.compile(
        rf"""(?:^|[\s"',\0]|conf:|-e|--env=)(?:{_ANY})\s{{0,3}}=|setenv (?:{_ANY}) |(?:-genv|-env) (?:{_ANY}) """
        rf"""|-{{1,2}}mca \w|name: ["']?{_ANY}["']?$|^\s{{2,40}}{_ANY}: {{2,}}\S|os\.environ\W.{{0,20}}["']{_ANY}"""
        rf"""|^ENV {_ANY} |set -\w{{1,3}} {_ANY} """,
        re.MULTILINE,
    ),
    parse=parse,
    commands=(
        Command(("env",)),
        Command(("cat", "/etc/nccl.conf")),
    ),
    versions="Open MPI 4 and 5, Hydra, Slurm, Docker, Kubernetes",
)
