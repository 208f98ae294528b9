"""The calls that change a cache or a rank: their names, arguments, and bytes."""

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from isoradix.journal.keys import KeyReader, KeyWriter

_U8, _U32, _U64, _I64 = struct.Struct("<B"), struct.Struct("<I"), struct.Struct("<Q"), struct.Struct("<q")
_KEY: Final = struct.Struct("<III")
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
)
VERBS: Final = {verb.name: verb for verb in _VERBS}
BY_CODE: Final = {verb.code: verb for verb in _VERBS}

Point = tuple[int, int]
"""A node's sequence number, and tokens up to a place at or above its end."""


class CallWriter:
    """Turns calls into bytes; what is equal in keys is written once a segment."""

    def __init__(self) -> None:
        self._keys = KeyWriter()

    def encode(self, verb: Verb, arguments: tuple[Any, ...]) -> list[bytes | memoryview]:
        """The verb's code, then its arguments, in pieces: long keys are copied once, into their block."""
        parts: list[bytes | memoryview] = [_U8.pack(verb.code)]
        for (_, kind), value in zip(verb.arguments, arguments, strict=True):
            if kind == "key":
                parts += self._key(value)
            else:
                parts.append(_ENCODE[kind](value))
        return parts

    def _key(self, value: Any) -> tuple[bytes, ...] | tuple[bytes, memoryview]:
        key = np.ascontiguousarray(value, dtype="<u4")
        if key.base is not None or key is value:
            key = key.copy()  # it is kept, and the caller may go on writing to its own
        number, shared, rest = self._keys.shorten(key)
        front = _KEY.pack(number, shared, len(rest))
        return (front, rest.data.cast("B")) if len(rest) else (front,)


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
        except (struct.error, UnicodeDecodeError, json.JSONDecodeError) as error:
            raise ValueError(f"the arguments of {verb.name} are damaged: {error}") from error
        if at != len(data):
            raise ValueError(f"{verb.name} has {len(data) - at} bytes that are no argument")
        return verb, tuple(values)

    def _key(self, data: bytes, at: int) -> tuple[Any, int]:
        number, shared, count = _KEY.unpack_from(data, at)
        end = at + _KEY.size + 4 * count
        if end > len(data):
            raise ValueError("a key is cut short")
        rest = np.frombuffer(data, dtype="<u4", count=count, offset=at + _KEY.size)
        key = self._keys.restore(number, shared, rest)
        if key is None:
            raise ValueError(f"a key goes on from key {number}, which is not there")
        return key, end


def _encode_namespace(value: tuple[str | None, str | None] | None) -> bytes:
    text = b"" if value is None or value == (None, None) else json.dumps(value).encode()
    return _U32.pack(len(text)) + text


def _decode_namespace(data: bytes, at: int) -> tuple[tuple[str | None, str | None], int]:
    (length,) = _U32.unpack_from(data, at)
    end = at + _U32.size + length
    text = data[at + _U32.size : end]
    if len(text) < length:
        raise ValueError("a namespace is cut short")
    extra, salt = json.loads(text) if text else (None, None)
    return (extra, salt), end


def _encode_point(value: Point | None) -> bytes:
    return _POINT.pack(*((_NONE, 0) if value is None else value))


def _decode_point(data: bytes, at: int) -> tuple[Point | None, int]:
    node, length = _POINT.unpack_from(data, at)
    return (None if node == _NONE else (node, length)), at + _POINT.size


def _encode_anchor(value: int | None) -> bytes:
    return _U64.pack(_NONE if value is None else value)


def _decode_anchor(data: bytes, at: int) -> tuple[int | None, int]:
    (node,) = _U64.unpack_from(data, at)
    return (None if node == _NONE else node), at + _U64.size


def _reader(form: struct.Struct) -> Callable[[bytes, int], tuple[int, int]]:
    def read(data: bytes, at: int) -> tuple[int, int]:
        return form.unpack_from(data, at)[0], at + form.size

    return read


_ENCODE: Final[dict[str, Callable[[Any], bytes]]] = {
    "namespace": _encode_namespace,
    "point": _encode_point,
    "anchor": _encode_anchor,
    "node": _U64.pack,
    "hold": _U64.pack,
    "number": _U64.pack,
    "signed": _I64.pack,
    "slots": _U32.pack,
}
_DECODE: Final[dict[str, Callable[[bytes, int], tuple[Any, int]]]] = {
    "namespace": _decode_namespace,
    "point": _decode_point,
    "anchor": _decode_anchor,
    "node": _reader(_U64),
    "hold": _reader(_U64),
    "number": _reader(_U64),
    "signed": _reader(_I64),
    "slots": _reader(_U32),
}
TYPES: Final = ("key", *_ENCODE)
