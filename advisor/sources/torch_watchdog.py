"""What PyTorch says when a distributed job stands still or falls over: watchdog, c10d store, torchrun.

Seen: torch 1.13 to 2.11. The rank that reports a timeout is the one that waits. Of one rank all lines become one fact.
Numbers above 10^12 and -1 are values that were never set.

    >>> SAMPLE = '''INFO saving checkpoint
    ... [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, Timeout(ms)=60000)
    ... [PG ID 0 PG GUID 0(default_pg) Rank 1] PG status: last enqueued work: 41, last completed work: 40
    ... '''
    >>> segment = Segment("job.log", SAMPLE.splitlines(), range(1, 99))
    >>> [(f.rank, f.group, f.op, f.seq, f.last_enqueued, f.before) for f in parse(segment)]
    [(1, 'default_pg', 'ALLREDUCE', 41, 41, 'checkpoint')]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from advisor.facts import CollectiveTimeout, Fact, RankFailure
from advisor.sources.base import Problem, Segment, Source

_LONGEST_LINE = 4000  # characters looked at
_UNSET = 10**12
_TRACEBACK_LINES = 300
_LOOK_BACK = 400  # lines before a timeout in which the last ordinary ones are looked for
_ORDINARY_LINES = 5

_HEAD = re.compile(
    r"\[(?:PG (?:ID )?(?P<pg>\d{1,9}) )?(?:PG GUID (?P<guid>[^\s()\[\]]{1,60})(?:\((?P<name>[^()\[\]]{0,80})\))? )?"
    r"Rank (?P<rank>\d{1,7})\]"
)
_CLOCK = re.compile(r"\[[IWEF](?P<clock>\d{3,4} \d\d:\d\d:\d\d\.\d{1,9}) ")
_RANK_PREFIX = re.compile(r"\[(?:rank|default)(\d{1,7})\]:")
_RANK_IN_FILE = re.compile(r"rank[._-]?(\d{1,7})(?!\d)", re.IGNORECASE)
_TIMEOUT = "Watchdog caught collective operation timeout"
_PAIRS = {
    "seq": re.compile(r"SeqNum=(\d{1,18})"), "op": re.compile(r"OpType=(\w{1,40})"),
    "numel_in": re.compile(r"NumelIn=(\d{1,18})"), "numel_out": re.compile(r"NumelOut=(\d{1,18})"),
    "timeout_ms": re.compile(r"Timeout\(ms\)=(\d{1,12})"), "ran_ms": re.compile(r"ran for (\d{1,12}) milliseconds"),
}  # fmt: skip
_SEQUENCE = re.compile(r"(?:at work sequence id|Timeout at NCCL work): (\d{1,20})")
_ENQUEUED = re.compile(r"[Ll]ast enqueued (?:NCCL )?work: (-?\d{1,20})")
_COMPLETED = re.compile(r"[Ll]ast completed (?:NCCL )?work: (-?\d{1,20})")
_HEARD = re.compile(r"collective timeout from\s+(?:(?P<own>this local rank)|rank (?P<rank>\d{1,7}))")
_STACK = re.compile(r"Stack trace of the failed collective: *$")
_FRAME = re.compile(r"^(?:\[rank\d{1,7}\]:)?#\d{1,3} (?P<name>\S{1,200}) from (?P<file>\S{1,400}):(?P<line>\d{1,7})")
_INSIDE_TORCH = re.compile(r"/torch/|site-packages/(?:torch|deepspeed|accelerate|lightning|megatron)")
_REMARK = re.compile(
    r"Some NCCL operations have failed or timed out|To avoid data inconsistency|ProcessGroupNCCL preparing to dump"
    r"|First PG on this rank to signal dumping|Observed flight recorder dump signal|Terminating the process after"
    r"|Stack trace of the failed collective not found|hostname of the client socket cannot be retrieved"
    r"|destroy_process_group\(\) was not called|Environment variable TORCH_NCCL_\w{1,60} is deprecated"
    r"|using GPU \d{1,4} (?:to perform barrier )?as device used by this process is currently unknown"
    r"|Could not acquire GIL|ProcessGroupNCCL's watchdog"
)

_STORE = re.compile(
    r"failed to connect to \[?(?P<address>[^\]\s,]{1,255})\]?:(?P<port>\d{1,5})"
    r"(?: \(errno: (?P<errno>\d{1,4}))?"
)
_CLIENTS = re.compile(r"waiting for clients\. (?P<joined>\d{1,7})/(?P<expected>\d{1,7}) clients joined")
_STORE_GONE = re.compile(r"failed to recv, got 0 bytes|recvValue failed|TCPStore\b.{0,200}Broken pipe", re.IGNORECASE)
_HEARTBEAT = re.compile(r"[Hh]eartbeat monitor timed out|Watchdog hang detected")
_MEMORY = re.compile(r"CUDA out of memory|torch\.(?:cuda\.)?OutOfMemoryError")
_CUDA = re.compile(r"CUDA error: (?!out of memory)(?P<text>[^\n]{1,200})")
_NCCL = re.compile(r"NCCL error in: ")
_NCCL_CLASS = re.compile(r"^(?:\[rank\d{1,7}\]:\s?)?(nccl[A-Z]\w{3,40}): ")
_EXCEPTION = re.compile(
    r"^(?:\[rank(?P<rank>\d{1,7})\]:\s?)?(?P<name>(?:[A-Za-z_]\w{0,60}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception|Interrupt))\b"
    r"(?:: ?(?P<text>.{0,400}))?"
)
# Exceptions that only say that another rank is gone or that the launcher ends this one.
_SHADOW = re.compile(
    r"Connection (?:closed|reset)|Broken pipe|KeyboardInterrupt|ChildFailedError|SignalException"
    r"|Dist(?:Backend|Network|Store)?Error|[Ww]atchdog"
)
_ENDED_BY_OTHERS = ("-6", "-15")  # torch aborts a rank whose watchdog fired; torchrun ends those that are left
_TRACEBACK = "Traceback (most recent call last)"
_FIRST_FAILURE = "Root Cause (first observed failure):"
_FAILURE_FIELD = re.compile(r"^\s{1,8}(time|host|rank|exitcode|error_file|traceback)\s{0,12}: (.{0,300})$")

_CHECKPOINT = re.compile(r"\b(?:sav(?:e|ed|ing)|checkpoint(?:s|ing)?|state_dict|optimizer states?)\b", re.IGNORECASE)
_SAVING = re.compile(r"\bsav(?:e|ing)\b|\bwriting\b|\bcheckpointing\b|\bstart(?:ed|ing)?\b", re.IGNORECASE)
_EVALUATION = re.compile(r"\b(?:evaluat(?:e|ing|ion)|validat(?:e|ing|ion)|running test)\b", re.IGNORECASE)
_OVER = re.compile(r"\b(?:done|finished|completed?|successfully|saved|loss)\b", re.IGNORECASE)
_NOT_ORDINARY = re.compile(
    r"NCCL (?:INFO|WARN|TRACE)|\[[IWEF]\d{3,4} \d\d:\d\d:\d\d|\[[IWEF] \w{1,40}\.cpp:|^#\d{1,3} |Warning\b|^\s{0,200}$"
)

_SIGNATURE = re.compile(
    r"ProcessGroupNCCL\.cpp|Watchdog caught collective|Dist(?:Backend|Network|Store)Error|\[c10d\]|torch/distributed/"
    r"|Root Cause \(first observed failure\)|Traceback \(most recent call last\)|CUDA out of memory"
)


def _set(number: str) -> int | None:
    """A work number, None where it was never set."""
    value = int(number)
    return value if 0 <= value < _UNSET else None


def _group(head: re.Match[str] | None) -> str | None:
    if head is None:
        return None
    return head["name"] or head["guid"] or head["pg"]


@dataclass(slots=True)
class _Reader:
    """One pass over a segment."""

    segment: Segment
    timeouts: list[CollectiveTimeout] = field(default_factory=list)
    failures: dict[tuple[object, ...], RankFailure] = field(default_factory=dict)
    first_timeout: int | None = None

    def rank(self, line: str, head: re.Match[str] | None = None) -> int | None:
        """Of the message, of the launcher's prefix, or of the file's name."""
        if head is not None:
            return int(head["rank"])
        found = _RANK_PREFIX.search(line[:200]) or _RANK_IN_FILE.search(self.segment.file.rpartition("/")[2])
        return int(found[1]) if found else None

    def timeout_of(self, rank: int | None, group: str | None, seq: int | None) -> CollectiveTimeout:
        """The fact of a rank that a line is about: one it began, or a new one."""
        for known in self.timeouts:
            if known.rank == rank and group in (None, known.group) and seq in (None, known.seq):
                return known
            if known.rank == rank and known.group is None and seq in (None, known.seq):
                known.group = group
                return known
        made = CollectiveTimeout(rank=rank, group=group, seq=seq)
        self.timeouts.append(made)
        return made

    def note(self, fact: Fact, index: int, *names: str) -> None:
        """Lines of a fact, and which of them said which fields."""
        origin = self.segment.origin(index)
        fact.origins = tuple(sorted({*fact.origins, origin}))
        for name in names:
            fact.said_at.setdefault(name, origin)

    def caught(self, index: int, line: str) -> None:
        """`Watchdog caught collective operation timeout: WorkNCCL(...)`."""
        values = {name: m[1] for name, pattern in _PAIRS.items() if (m := pattern.search(line))}
        head = _HEAD.search(line)
        seq = int(values["seq"]) if "seq" in values else None
        fact = self.timeout_of(self.rank(line, head), _group(head), seq)
        if fact.reported:
            self.note(fact, index)
            return
        fact.reported, fact.op = True, values.get("op")
        for name in ("numel_in", "numel_out", "timeout_ms", "ran_ms"):
            if name in values:
                setattr(fact, name, int(values[name]))
        clock = _CLOCK.search(line)
        fact.clock = clock["clock"] if clock else None
        self.note(fact, index, "reported", "op", "seq")
        if self.first_timeout is None:
            self.first_timeout = index

    def status(self, index: int, line: str) -> None:
        """A line with `last enqueued work` and its like."""
        head, heard, sequence = _HEAD.search(line), _HEARD.search(line), _SEQUENCE.search(line)
        seq = _set(sequence[1]) if sequence else None
        fact = self.timeout_of(self.rank(line, head), _group(head), seq)
        if fact.reported is None:
            fact.reported = sequence is not None or bool(heard and heard["own"])
        for name, pattern in (("last_enqueued", _ENQUEUED), ("last_completed", _COMPLETED)):
            if (found := pattern.search(line)) and getattr(fact, name) is None:
                setattr(fact, name, _set(found[1]))
                self.note(fact, index, name)
        if heard and fact.first_rank is None:
            fact.first_rank = fact.rank if heard["own"] else int(heard["rank"])
        self.note(fact, index)

    def stack(self, index: int) -> None:
        """Frames below `Stack trace of the failed collective:`; the innermost of the program itself is the caller."""
        lines = self.segment.lines
        self.segment.skip(index)
        head, i = _HEAD.search(lines[index][:_LONGEST_LINE]), index + 1
        caller = None
        while i < len(lines) and (frame := _FRAME.match(lines[i][:_LONGEST_LINE])):
            self.segment.skip(i)
            if caller is None and not _INSIDE_TORCH.search(frame["file"]):
                caller = f"{frame['name']} {frame['file']}:{frame['line']}"
            i += 1
        rank = self.rank(lines[index], head)
        for fact in self.timeouts:
            if caller and fact.rank == rank and fact.caller is None:
                fact.caller = caller

    def fail(self, index: int, line: str, kind: str, text: str, **values: object) -> RankFailure:
        """A failure, once for each rank and text."""
        head = _HEAD.search(line)
        rank = values.pop("rank", None)
        rank = self.rank(line, head) if rank is None else rank
        key = (rank, kind, values.get("code"), values.get("address"), re.sub(r"\d+", "0", text))
        if key not in self.failures:
            clock = _CLOCK.search(line)
            made = RankFailure(kind=kind, text=text.strip()[:300], clock=clock["clock"] if clock else None)
            made.rank = rank if isinstance(rank, int) else None
            for name, value in values.items():
                setattr(made, name, value)
            self.failures[key] = made
            self.note(made, index)
        else:
            self.segment.skip(index)
        return self.failures[key]

    def store(self, index: int, line: str) -> bool:
        """Lines about the store through which ranks find each other."""
        if found := _CLIENTS.search(line):
            joined, expected = int(found["joined"]), int(found["expected"])
            self.fail(index, line, "store-timeout", line, joined=joined, expected=expected)
        elif ("socket" in line or "c10d" in line or "Dist" in line) and (found := _STORE.search(line)):
            address = f"{found['address']}:{found['port']}"
            self.fail(index, line, "store-connect", line, address=address, code=found["errno"])
        elif _HEARTBEAT.search(line):
            self.fail(index, line, "heartbeat", line, shadow=True)
        elif ("tore" in line or "c10d" in line) and _STORE_GONE.search(line):
            self.fail(index, line, "store-gone", line, shadow=True)
        else:
            return False
        return True

    def nccl_error(self, index: int, line: str) -> None:
        """`NCCL error in: …`, the class of the error below it, and NCCL's own last line below `Last error:`."""
        lines, code, detail = self.segment.lines, None, None
        for i in range(index + 1, min(index + 6, len(lines))):
            text = lines[i][:_LONGEST_LINE]
            if (found := _NCCL_CLASS.match(text)) and code is None:
                code = found[1]
                self.segment.skip(i)
            elif text.removeprefix(f"[rank{self.rank(line)}]:").strip() == "Last error:" and i + 1 < len(lines):
                self.segment.skip(i, i + 1)
                detail = re.sub(r"^\[rank\d{1,7}\]:\s?", "", lines[i + 1][:_LONGEST_LINE]).strip()
                break
        shadow = code == "ncclRemoteError"
        text = line[line.index("NCCL error in: ") :]
        self.fail(index, line, "nccl-error", text, code=code, detail=detail, shadow=shadow)

    def torchrun(self, index: int) -> None:
        """The first failure in torchrun's closing report."""
        fields: dict[str, str] = {}
        lines, i = self.segment.lines, index + 1
        while i < min(index + 9, len(lines)):
            found = _FAILURE_FIELD.match(lines[i][:_LONGEST_LINE])
            if found is None and fields:
                break
            if found:
                fields[found[1]] = found[2].strip()
                self.segment.skip(i)
            i += 1
        code, rank = re.match(r"-?\d{1,6}", fields.get("exitcode", "")), re.match(r"\d{1,7}", fields.get("rank", ""))
        if code is None or rank is None:
            return
        self.segment.skip(index, i - 1)
        kind = "signal" if code[0].startswith("-") else "exit"
        made = self.fail(
            index, "", kind, fields.get("traceback", ""), rank=int(rank[0]), code=code[0].lstrip("-"), first=True,
            shadow=code[0] in _ENDED_BY_OTHERS,
        )  # fmt: skip
        made.host = fields.get("host", "").partition(".")[0] or None

    def exception(self, index: int) -> None:
        """The last line of a Python traceback."""
        lines = self.segment.lines
        self.segment.skip(index)
        for i in range(index + 1, min(index + _TRACEBACK_LINES, len(lines))):
            line = lines[i][:_LONGEST_LINE]
            found = _EXCEPTION.match(line)
            if found is None:
                continue
            self.segment.skip(index, i - 1)
            if _NCCL.search(line) or self.store(i, line):
                return
            kind = "out-of-memory" if _MEMORY.search(line) else "cuda-error" if "CUDA error" in line else "exception"
            rank = int(found["rank"]) if found["rank"] else None
            shadow = kind == "exception" and _SHADOW.search(line) is not None
            self.fail(i, line, kind, line, rank=rank, code=found["name"].rpartition(".")[2], shadow=shadow)
            return

    def read(self) -> None:
        """All lines."""
        for index, full in enumerate(self.segment.lines):
            line = full[:_LONGEST_LINE]
            if " NCCL INFO " in line:
                continue
            if _TIMEOUT in line:
                self.caught(index, line)
            elif _ENQUEUED.search(line):
                self.status(index, line)
            elif _STACK.search(line):
                self.stack(index)
            elif _TRACEBACK in line:
                self.exception(index)
            elif _NCCL.search(line):
                self.nccl_error(index, line)
            elif _FIRST_FAILURE in line:
                self.torchrun(index)
            elif _REMARK.search(line):
                self.segment.skip(index)
            elif index not in self.segment.understood and not self.store(index, line):
                self.loose(index, line)

    def loose(self, index: int, line: str) -> None:
        """Failures of the device that stand without a traceback."""
        if _MEMORY.search(line):
            self.fail(index, line, "out-of-memory", line)
        elif found := _CUDA.search(line):
            self.fail(index, line, "cuda-error", found["text"])

    def what_was_before(self) -> None:
        """Checkpoint or evaluation, if the last ordinary lines before the first timeout speak of one that began."""
        if self.first_timeout is None:
            return
        left = _ORDINARY_LINES
        for i in range(self.first_timeout - 1, max(-1, self.first_timeout - _LOOK_BACK), -1):
            line = self.segment.lines[i][:_LONGEST_LINE]
            if _NOT_ORDINARY.search(line):
                continue
            phase = _phase(line)
            if phase:
                for fact in self.timeouts:
                    fact.before, fact.before_text = phase, line.strip()[:200]
                    self.note(fact, i, "before")
                return
            left -= 1
            if left == 0 or _OVER.search(line):
                return


def _phase(line: str) -> str | None:
    if _OVER.search(line):
        return None
    if _CHECKPOINT.search(line) and _SAVING.search(line):
        return "checkpoint"
    return "evaluation" if _EVALUATION.search(line) else None


def parse(segment: Segment) -> Iterator[Fact | Problem]:
    """One CollectiveTimeout for each rank and group, one RankFailure for each way a rank failed."""
    reader = _Reader(segment)
    reader.read()
    reader.what_was_before()
    yield from reader.timeouts
    yield from reader.failures.values()


SOURCE = Source(
    id="torch-watchdog",
    title="PyTorch watchdog and torchrun",
    facts=(CollectiveTimeout, RankFailure),
    needles=(
        "ProcessGroupNCCL.cpp", "Watchdog caught collective", "DistBackendError", "DistNetworkError", "DistStoreError",
        "[c10d]", "torch/distributed/", _FIRST_FAILURE, _TRACEBACK, "CUDA out of memory",
    ),
    signature=_SIGNATURE,
    parse=parse,
    versions="torch 1.13 to 2.11",
)  # fmt: skip
