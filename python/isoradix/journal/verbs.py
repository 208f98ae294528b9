"""The calls that change a cache or a rank: their names and arguments, and how they are read."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from isoradix import InvalidInputError
from isoradix._isoradix import unpack_tokens
from isoradix.journal.keys import KeyReader

_U32, _U64, _I64 = struct.Struct("<I"), struct.Struct("<Q"), struct.Struct("<q")
_KEY: Final = struct.Struct("<IIIB")
_POINT: Final = struct.Struct("<QQ")
_NONE: Final = 2**64 - 1


@dataclass(frozen=True)
class Verb:
    """One call. `arguments` are (name, type); the types are the keys of `TYPES`.

    `own` are facts of this rank alone: they decide nothing, and no two ranks are compared in them. `of_rank` are calls
    of `Rank`, the others of `TieredCache`.
    """

    code: int
    name: str
    arguments: tuple[tuple[str, str], ...] = ()
    own: bool = False
    of_rank: bool = False

    @property
    def forms(self) -> str:
        """The arguments' types as letters, for `JournalLog.call`."""
        return "".join(_LETTERS[kind] for _, kind in self.arguments)


_VERBS: Final = (
    Verb(0, "match_prefix", (("key", "key"), ("namespace", "namespace"), ("resume", "point"))),
    Verb(
        1,
        "insert",
        (
            ("key", "key"),
            ("slots", "slots"),
            ("namespace", "namespace"),
            ("priority", "signed"),
            ("resume", "point"),
        ),
    ),
    Verb(2, "touch", (("node", "node"),)),
    Verb(3, "lock", (("node", "node"),)),
    Verb(4, "unlock", (("receipt", "hold"),)),
    Verb(5, "pin", (("node", "node"),)),
    Verb(6, "unpin", (("receipt", "hold"),)),
    Verb(7, "host_lock", (("node", "node"),)),
    Verb(8, "unlock_host", (("receipt", "hold"),)),
    Verb(9, "load_back", (("receipt", "hold"), ("slots", "slots"))),
    Verb(10, "prefetch", (("key", "key"), ("namespace", "namespace"), ("anchor", "anchor"))),
    Verb(11, "evict", (("num_tokens", "number"),)),
    Verb(12, "evict_host", (("pages", "number"),)),
    Verb(13, "remove_namespace", (("namespace", "namespace"),)),
    Verb(14, "reset"),
    Verb(15, "close_step", (("device_free", "number"), ("promised", "number")), of_rank=True),
    Verb(16, "begin_loads", of_rank=True),
    Verb(17, "found", (("operation", "number"), ("tokens", "number")), own=True, of_rank=True),
    Verb(18, "withdraw", (("pages", "number"),), own=True, of_rank=True),
    Verb(19, "restore", (("pages", "number"),), own=True, of_rank=True),
    Verb(20, "keep_states", (("node", "node"),)),
    Verb(21, "found_presence", (("operation", "number"), ("pages", "number")), own=True, of_rank=True),
)
VERBS: Final = {verb.name: verb for verb in _VERBS}
BY_CODE: Final = {verb.code: verb for verb in _VERBS}

Point = tuple[int, int]
"""A node's sequence number, and tokens up to a place at or above its end."""


class CallReader:
    """Turns them back."""

    def __init__(self) -> None:
        self._keys = KeyReader()

    def decode(self, data: bytes) -> tuple[Verb, tuple[Any, ...]]:
        """The verb and its arguments.

        Raises:
            ValueError: they are no such bytes.
        """
        verb = BY_CODE.get(data[0]) if data else None
        if verb is None:
            raise ValueError(f"call {data[:1].hex()} is not known")
        at, values = 1, []
        try:
            for _, kind in verb.arguments:
                value, at = self._key(data, at) if kind == "key" else _DECODE[kind](data, at)
                values.append(value)
        except (struct.error, UnicodeDecodeError) as error:
            raise ValueError(f"the arguments of {verb.name} are damaged: {error}") from error
        if at != len(data):
            raise ValueError(f"{verb.name} has {len(data) - at} bytes that are no argument")
        return verb, tuple(values)

    def _key(self, data: bytes, at: int) -> tuple[Any, int]:
        number, shared, count, width = _KEY.unpack_from(data, at)
        at += _KEY.size
        end = at + (count * width + 7) // 8
        try:
            rest = unpack_tokens(data[at:end], count, width)
        except InvalidInputError as error:
            raise ValueError("a key is cut short") from error
        key = self._keys.restore(number, shared, rest)
        if key is None:
            raise ValueError(f"a key goes on from key {number}, which is not there")
        return key, end


def _namespace(data: bytes, at: int) -> tuple[tuple[str | None, str | None], int]:
    there = data[at] if at < len(data) else 4
    if there >= 4:
        raise ValueError("a namespace is damaged")
    at += 1
    parts: list[str | None] = []
    for bit in (1, 2):
        if not there & bit:
            parts.append(None)
            continue
        (length,) = _U32.unpack_from(data, at)
        at += _U32.size
        if at + length > len(data):
            raise ValueError("a namespace is cut short")
        parts.append(data[at : at + length].decode())
        at += length
    extra, salt = parts
    return (extra, salt), at


def _point(data: bytes, at: int) -> tuple[Point | None, int]:
    node, length = _POINT.unpack_from(data, at)
    return (None if node == _NONE else (node, length)), at + _POINT.size


def _anchor(data: bytes, at: int) -> tuple[int | None, int]:
    (node,) = _U64.unpack_from(data, at)
    return (None if node == _NONE else node), at + _U64.size


def _reader(form: struct.Struct) -> Callable[[bytes, int], tuple[int, int]]:
    def read(data: bytes, at: int) -> tuple[int, int]:
        return form.unpack_from(data, at)[0], at + form.size

    return read


_LETTERS: Final = {
    "key": "k",
    "namespace": "n",
    "point": "p",
    "anchor": "a",
    "node": "o",
    "hold": "u",
    "number": "u",
    "signed": "i",
    "slots": "s",
}
_DECODE: Final[dict[str, Callable[[bytes, int], tuple[Any, int]]]] = {
    "namespace": _namespace,
    "point": _point,
    "anchor": _anchor,
    "node": _reader(_U64),
    "hold": _reader(_U64),
    "number": _reader(_U64),
    "signed": _reader(_I64),
    "slots": _reader(_U32),
}
TYPES: Final = tuple(_LETTERS)
