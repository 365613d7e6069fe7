"""Reads the pickled batches of the official python archive without unpickling them.

A pickle is a program, and running one may run anything. This reads the program's instructions and
obeys only those that build dictionaries, lists, tuples, numbers and strings. What would call a
function is put aside as data, and the one such value that is expected, an array of bytes, is then
recognised by its parts. Any other instruction is refused.
"""

import pickletools
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int, UInt8

RECONSTRUCT = ("numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct")
CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
NUMBERS = ("BININT", "BININT1", "BININT2")
STRINGS = ("SHORT_BINSTRING", "BINSTRING", "SHORT_BINUNICODE", "BINUNICODE")
SHORT_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
MARK = object()


class Global(NamedTuple):
    """The name of something that the pickle wanted to import."""

    name: str


class Call:
    """A call that the pickle wanted to make, and the state it wanted to give to the result."""

    def __init__(self, function: Any, arguments: Any):
        self.function = function
        self.arguments = arguments
        self.state: Any = None


def read_batch(
    data: bytes, where: str
) -> tuple[UInt8[np.ndarray, "examples 3072"], Int[np.ndarray, " examples"]]:
    """Returns the pixels and the labels of one batch; errors start with `where`."""
    try:
        batch = _build(data)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{where} is not a batch of CIFAR-10: {error}") from error
    if not isinstance(batch, dict) or not {"data", "labels"} <= set(batch):
        raise ValueError(f"{where} must be a dictionary with `data` and `labels`")
    labels = batch["labels"]
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise ValueError(f"{where}: `labels` must be a list of whole numbers")
    pixels = _array(batch["data"], where)
    if len(pixels) != len(labels):
        raise ValueError(f"{where} has {len(pixels)} images and {len(labels)} labels")
    return pixels, np.asarray(labels, np.int64)


def _build(data: bytes) -> Any:
    """Obeys the instructions that build plain data, on a stack as the format wants it."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    for opcode, argument, _ in pickletools.genops(data):
        name = opcode.name
        if name == "STOP":
            [value] = stack
            return value
        if name in CONSTANTS:
            stack.append(CONSTANTS[name])
        elif name in NUMBERS or name in STRINGS:
            stack.append(argument)
        elif name == "GLOBAL":
            stack.append(Global(str(argument)))
        elif name in ("BINPUT", "LONG_BINPUT"):
            memo[_number(argument)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[_number(argument)])
        elif name == "MARK":
            stack.append(MARK)
        elif name in ("EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE"):
            stack.append({"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}[name]())
        elif name == "TUPLE":
            stack.append(tuple(_since_mark(stack)))
        elif name in SHORT_TUPLES:
            length = SHORT_TUPLES[name]
            stack[-length:] = [tuple(stack[-length:])]
        elif name in ("APPENDS", "SETITEMS"):
            items = _since_mark(stack)
            _add(stack[-1], items)
        elif name in ("REDUCE", "BUILD"):
            last = stack.pop()
            if name == "REDUCE":
                stack.append(Call(stack.pop(), last))
            elif isinstance(stack[-1], Call):
                stack[-1].state = last
            else:
                raise ValueError("it gives a state to something that has none")
        elif name != "PROTO":
            raise ValueError(f"it has the instruction {name}, which no batch needs")
    raise ValueError("it ends too early")


def _add(container: Any, items: list[Any]) -> None:
    if isinstance(container, list):
        container.extend(items)
    elif isinstance(container, dict):
        container.update(zip(items[::2], items[1::2], strict=True))
    else:
        raise ValueError("it adds items to what holds none")


def _since_mark(stack: list[Any]) -> list[Any]:
    for index in range(len(stack) - 1, -1, -1):
        if stack[index] is MARK:
            items = stack[index + 1 :]
            del stack[index:]
            return items
    raise ValueError("it closes what it has not opened")


def _number(argument: Any) -> int:
    return int(argument)


def _array(value: Any, where: str) -> UInt8[np.ndarray, "examples 3072"]:
    """Recognises how NumPy pickles a C-ordered array of bytes: shape, type, order, contents."""
    if not isinstance(value, Call) or getattr(value.function, "name", "") not in RECONSTRUCT:
        raise ValueError(f"{where}: `data` must be a NumPy array")
    match value.state:
        case (_, (int(rows), 3072), Call(arguments=("u1", *_)), False, str(contents)):
            data = contents.encode("latin-1")
        case _:
            raise ValueError(f"{where}: `data` must be an array of bytes with 3072 columns")
    if len(data) != rows * 3072:
        raise ValueError(f"{where}: `data` has {len(data):,} bytes where {rows} images need more")
    return np.frombuffer(data, np.uint8).reshape(rows, 3072)
