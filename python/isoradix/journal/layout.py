"""The bytes of a segment: a mark, then blocks of entries. All integers are unsigned and little-endian.

    segment   "IRXJ", version u32; then blocks
    block     length u32, checksum of the rest u64; then entries. A step is one block, or several if it is long
    entry     kind u8, length u32; then as many bytes

The first entry of a segment is its head. A block that is cut short, or whose checksum is another one, ends the segment:
that is how a rank that was killed leaves it.
"""

import json
import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, BinaryIO, Final

from isoradix._isoradix import checksum

MAGIC: Final = b"IRXJ"
VERSION: Final = 2
SUFFIX: Final = ".journal"

_MARK: Final = struct.Struct("<4sI")
_BLOCK: Final = struct.Struct("<IQ")
_ENTRY: Final = struct.Struct("<BI")
_BLOCK_MAX: Final = 1 << 30
EMPTY_BYTES: Final = _MARK.size
"""Of a segment that has nothing in it."""

FRAME: Final = struct.Struct("<QQ")
END: Final = struct.Struct("<QQQ")


class Kind(IntEnum):
    """What an entry is."""

    HEAD = 1
    """JSON: the rank, its agreement, its options; which segment this is, and what was dropped before it."""
    FRAME = 2
    """The step u64, this rank's digest on entering it u64, and the frame's bytes."""
    CALL = 3
    """A verb: see `verbs`."""
    DECISIONS = 4
    """64 bytes each: the decision records that came of the entry before."""
    END = 5
    """A step is closed: the step, the decision digest and the tree digest, u64 each."""
    FAILURE = 6
    """UTF-8: the error that ended this rank. The frame before it, if it is the entry before, was not applied."""


def mark() -> bytes:
    """How a segment begins."""
    return _MARK.pack(MAGIC, VERSION)


def entry(kind: Kind, data: bytes) -> bytes:
    return _ENTRY.pack(kind, len(data)) + data


def head(fields: dict[str, Any]) -> bytes:
    """The data of a segment's head."""
    return json.dumps(fields).encode()


def block(entries: bytes) -> bytes:
    return _BLOCK.pack(len(entries), checksum(entries)) + entries


class Ending(Exception):  # noqa: N818 the end of a segment, and no fault of whoever reads
    """A segment ends here, early. `damaged`: more follows, which cannot be read."""

    def __init__(self, at: int, damaged: bool) -> None:
        super().__init__(f"{'damaged' if damaged else 'cut short'} at byte {at}")
        self.at, self.damaged = at, damaged


class NoSegmentError(ValueError):
    """A file is no segment of this version."""


def blocks(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """The blocks of a segment of `size` bytes.

    Raises:
        NoSegmentError: it does not begin as one.
        Ending: it ends within a block.
    """
    begun = stream.read(_MARK.size)
    if len(begun) < _MARK.size:
        raise Ending(0, False)
    magic, version = _MARK.unpack(begun)
    if magic != MAGIC:
        raise NoSegmentError("it does not begin as a journal does")
    if version != VERSION:
        raise NoSegmentError(f"it is a journal of version {version}, and this release reads version {VERSION}")
    at = _MARK.size
    while at < size:
        front = stream.read(_BLOCK.size)
        if len(front) < _BLOCK.size:
            raise Ending(at, False)
        length, expected = _BLOCK.unpack(front)
        end = at + _BLOCK.size + length
        if length > _BLOCK_MAX or end > size:
            raise Ending(at, length > _BLOCK_MAX)
        data = stream.read(length)
        if len(data) < length or checksum(data) != expected:
            raise Ending(at, end < size)
        yield data
        at = end


def entries(data: bytes) -> Iterator[tuple[Kind, bytes]]:
    """The entries of a block.

    Raises:
        ValueError: they are none of this version, although their checksum is right.
    """
    at = 0
    while at < len(data):
        if at + _ENTRY.size > len(data):
            raise ValueError("an entry is cut short within its block")
        kind, length = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        if at + length > len(data):
            raise ValueError("an entry is cut short within its block")
        yield Kind(kind), data[at : at + length]
        at += length
