"""Arguments of this package: whole numbers, dtypes, ids, and pools that are closed."""

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from isoradix import InputTypeError, IntSequence, InvalidInputError, ProtocolError

# Byte of poisoned memory: all ones are NaN in every floating point format of a KV cache.
POISON: Final = 0xFF


def whole(name: str, value: int, low: int, high: int, hint: str) -> int:
    """The int that was given, if it is from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputTypeError(f"{name} is {value!r}, expected an int\nhint: {hint}")
    if not low <= value <= high:
        raise InvalidInputError(f"{name} {value} is out of range: {low} to {high}\nhint: {hint}")
    return int(value)


def dtype(value: torch.dtype) -> torch.dtype:
    """The dtype that was given."""
    if not isinstance(value, torch.dtype):
        raise InputTypeError(
            f"dtype is {value!r}, expected a torch.dtype\nhint: pass that of the KV cache, e.g. torch.bfloat16"
        )
    return value


def place(what: str, value: int, count: int) -> int:
    """A layer, or a page, of so many."""
    if not isinstance(value, int | np.integer):
        raise InputTypeError(f"{what} is {value!r}, expected an int\nhint: {what}s are counted from 0")
    if not 0 <= value < count:
        limit = f"0 to {count - 1}" if count else f"there is no {what}"
        raise InvalidInputError(f"{what} {value} is out of range: {limit}\nhint: {what}s are counted from 0")
    return int(value)


def ids(what: str, values: IntSequence, count: int) -> npt.NDArray[np.int64]:
    """Ids of slots or pages as an array, each below `count`."""
    array: npt.NDArray[Any] = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        shown = f"an array of {array.dtype} with {array.ndim} dimensions"
        raise InputTypeError(f"{what}s are {shown}\nhint: pass one sequence of integers")
    if array.size:
        for value in (int(array.min()), int(array.max())):
            place(what, value, count)
    return array.astype(np.int64, copy=False)


def is_open(what: str, closed: bool) -> None:
    """Refuses what comes after `close`."""
    if closed:
        raise ProtocolError(f"use of a {what} out of order: it is closed\nhint: close pools last, after their engines")


def part(value: str, parts: tuple[str, ...]) -> str:
    """A part that the shape has."""
    if value not in parts:
        raise InvalidInputError(f"part {value!r} is unknown\nhint: one of {', '.join(map(repr, parts))}")
    return value
