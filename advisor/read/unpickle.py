"""Flight recorder dumps of PyTorch: from their pickle to JSON, without running anything that stands in it.

The dump is a pickle of dicts, lists, tuples, text, numbers, booleans and None. Only the opcodes that build those are
carried out, here and not by `pickle`: there is no way to name a class or a function, so nothing can be imported or
called. What asks for more is refused as a whole.
"""

from __future__ import annotations

import json
import pickletools
from collections.abc import Callable
from typing import Any

MAX_BYTES = 64 * 1024 * 1024
MAX_STEPS = 10_000_000
MAX_DEPTH = 32
# Of what is written out: a list or text that is referred to again counts each time it stands there.
MAX_ITEMS = 5_000_000
MAX_CHARACTERS = 256 * 1024 * 1024
MAX_INTEGER_BITS = 128  # times in ns need 63
_PROTOCOLS = b"\x02\x03\x04\x05"
_MARK = object()


class UnsafePickleError(Exception):
    """The pickle is damaged, too large, or wants more than plain containers; the text says which."""


def is_flight_record(data: bytes) -> bool:
    """Whether the bytes are a pickle that looks like a flight recorder's dump."""
    return data[:1] == b"\x80" and data[1:2] in _PROTOCOLS and b"pg_config" in data and b"entries" in data


class _Machine:
    """A stack and a memo: what is left of a pickle machine once classes and calls are gone."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def marked(self) -> list[Any]:
        """Everything above the last mark, which is taken off with it."""
        for at in range(len(self.stack) - 1, -1, -1):
            if self.stack[at] is _MARK:
                items = self.stack[at + 1 :]
                del self.stack[at:]
                return items
        raise UnsafePickleError("a mark is missing")

    def fill_list(self, items: list[Any]) -> None:
        """Append to the list on top of the stack."""
        if not isinstance(self.stack[-1], list):
            raise UnsafePickleError("an append to what is no list")
        self.stack[-1] += items

    def fill_dict(self, items: list[Any]) -> None:
        """Set pairs of the dict on top of the stack; keys are text or numbers."""
        target = self.stack[-1]
        if not isinstance(target, dict) or len(items) % 2:
            raise UnsafePickleError("an item set in what is no dict")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if not isinstance(key, str | int):
                raise UnsafePickleError("a key that is neither text nor a number")
            target[key] = value

    def pop(self, count: int) -> list[Any]:
        """The `count` values on top."""
        if len(self.stack) < count or any(item is _MARK for item in self.stack[-count:]):
            raise UnsafePickleError("the stack is empty")
        items = self.stack[-count:]
        del self.stack[-count:]
        return items

    def remember(self, place: int) -> None:
        """Keep the top for later references."""
        self.memo[place] = self.stack[-1]


def _push(machine: _Machine, value: Any) -> None:
    machine.stack.append(value)


_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_VALUES = {
    "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8",
}  # fmt: skip
_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    "PROTO": lambda _machine, _arg: None,
    "FRAME": lambda _machine, _arg: None,
    "MARK": lambda machine, _: _push(machine, _MARK),
    "EMPTY_LIST": lambda machine, _: _push(machine, []),
    "EMPTY_DICT": lambda machine, _: _push(machine, {}),
    "EMPTY_TUPLE": lambda machine, _: _push(machine, ()),
    "TUPLE1": lambda machine, _: _push(machine, tuple(machine.pop(1))),
    "TUPLE2": lambda machine, _: _push(machine, tuple(machine.pop(2))),
    "TUPLE3": lambda machine, _: _push(machine, tuple(machine.pop(3))),
    "TUPLE": lambda machine, _: _push(machine, tuple(machine.marked())),
    "APPEND": lambda machine, _: machine.fill_list(machine.pop(1)),
    "APPENDS": lambda machine, _: machine.fill_list(machine.marked()),
    "SETITEM": lambda machine, _: machine.fill_dict(machine.pop(2)),
    "SETITEMS": lambda machine, _: machine.fill_dict(machine.marked()),
    "BINPUT": lambda machine, arg: machine.remember(arg),
    "LONG_BINPUT": lambda machine, arg: machine.remember(arg),
    "MEMOIZE": lambda machine, _: machine.remember(len(machine.memo)),
    "BINGET": lambda machine, arg: _push(machine, machine.memo[arg]),
    "LONG_BINGET": lambda machine, arg: _push(machine, machine.memo[arg]),
}  # fmt: skip


def _step(machine: _Machine, name: str, arg: Any) -> None:
    if name in _CONSTANTS:
        machine.stack.append(_CONSTANTS[name])
    elif name in _VALUES:
        if isinstance(arg, int) and arg.bit_length() > MAX_INTEGER_BITS:
            raise UnsafePickleError("a number of absurd length")
        # Half of a surrogate pair could never be printed.
        machine.stack.append(arg.encode(errors="replace").decode() if isinstance(arg, str) else arg)
    elif name in _STEPS:
        _STEPS[name](machine, arg)
    else:
        raise UnsafePickleError(f"the opcode {name}, which can run code or load classes")


def loads(data: bytes) -> Any:
    """The value of a pickle of plain containers; nothing of it ever runs. Raises UnsafePickleError for all others."""
    if len(data) > MAX_BYTES:
        raise UnsafePickleError(f"more than {MAX_BYTES >> 20} MiB")
    machine = _Machine()
    try:
        for step, (opcode, arg, _) in enumerate(pickletools.genops(data)):
            if opcode.name == "STOP":
                break
            if step > MAX_STEPS:
                raise UnsafePickleError(f"more than {MAX_STEPS} steps")
            _step(machine, opcode.name, arg)
    except (ValueError, IndexError, KeyError, OverflowError, UnicodeDecodeError) as error:
        raise UnsafePickleError("damaged") from error
    if len(machine.stack) != 1 or machine.stack[0] is _MARK:
        raise UnsafePickleError("damaged")
    _check(machine.stack[0])
    return machine.stack[0]


def _check(value: Any) -> None:
    """Raise UnsafePickleError where writing the value out would not end, or take absurdly much room."""
    waiting = [(value, 0)]
    items = characters = 0
    while waiting:
        item, depth = waiting.pop()
        if isinstance(item, dict):
            inner = [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple):
            inner = list(item)
        else:
            characters += len(item) if isinstance(item, str) else 0
            continue
        items += len(inner)
        if depth >= MAX_DEPTH:
            raise UnsafePickleError(f"nested more than {MAX_DEPTH} deep")
        if items > MAX_ITEMS or characters > MAX_CHARACTERS:
            raise UnsafePickleError("far more values than a flight record has")
        waiting += [(part, depth + 1) for part in inner]


def flight_record_text(data: bytes) -> str:
    """A flight recorder's dump as JSON, one entry on a line. Raises UnsafePickleError."""
    record = loads(data)
    if not isinstance(record, dict):
        raise UnsafePickleError("not a dict")
    parts = []
    for key, value in record.items():
        if key == "entries" and isinstance(value, list):
            body = "[\n" + ",\n".join(json.dumps(entry, ensure_ascii=False) for entry in value) + "\n]"
        else:
            body = json.dumps(value, ensure_ascii=False)
        parts.append(f"{json.dumps(str(key), ensure_ascii=False)}: {body}")
    return "{\n" + ",\n".join(parts) + "\n}\n"
