"""Lines of files that nobody vouches for: logs and dumps, streamed, with limits."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

from isoradix import InvalidInputError

LIMIT_BYTES: Final = 256 << 20
"""Of one file, from its end on: that is where an incident stands."""
_LINE_MAX: Final = 4 << 10
"""Of a line; numbers in it stay small enough to be read, and patterns quick."""
_LOOK_BYTES: Final = 64 << 10
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
# what docker compose, the container runtime and the journal of the system put before a line
_WRAPPED: Final = re.compile(
    r"(?:[\w.-]+\s*\| ?)?(?:\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d) (?:std(?:out|err) [FP] )?)?"
)
_PACKED: Final = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "zip",
}


def refuse_what_is_no_text(path: Path, begun: bytes) -> None:
    """Looks at how a file begins.

    Raises:
        InvalidInputError: it is no text.
    """
    for mark, name in _PACKED.items():
        if begun.startswith(mark):
            raise InvalidInputError(f"{str(path)!r} is packed with {name}\nhint: unpack it first")
    if begun.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InvalidInputError(f"{str(path)!r} is UTF-16, expected UTF-8\nhint: iconv -f UTF-16 -t UTF-8")
    if b"\0" in begun:
        at = begun.index(b"\0")
        what = f"{str(path)!r} is no text (byte {at} is 0), no journal and no wait board"
        raise InvalidInputError(f"{what}\nhint: pass logs, dumps of py-spy, journals, wait boards, or folders of them")


def beginning(path: Path) -> bytes:
    """The first bytes of a file.

    Raises:
        InvalidInputError: it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return stream.read(_LOOK_BYTES)
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> InvalidInputError:
    reason = (error.strerror or str(error)).lower()
    return InvalidInputError(f"{str(path)!r} cannot be read: {reason}\nhint: see its owner and mode: ls -l")


def is_whole(path: Path, limit: int = LIMIT_BYTES) -> bool:
    """Whether `lines` gives all of it."""
    return path.stat().st_size <= limit


def lines(path: Path, limit: int = LIMIT_BYTES) -> Iterator[tuple[int | None, str]]:
    """The lines of a text file and their numbers, without what wraps them; of a larger file the last `limit` bytes,
    without numbers. A line is cut at 4 KiB; bytes that are no UTF-8 are replaced.

    Raises:
        InvalidInputError: it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            whole = is_whole(path, limit)
            if not whole:
                stream.seek(path.stat().st_size - limit)
                _skip_rest(stream)
            number = 0
            while data := stream.readline(_LINE_MAX):
                number += 1
                if not data.endswith(b"\n"):
                    _skip_rest(stream)
                yield (number if whole else None), _unwrapped(data.decode(errors="replace"))
    except OSError as error:
        raise unreadable(path, error) from error


def _skip_rest(stream: BinaryIO) -> None:
    """Skips what is left of a line."""
    while (data := stream.readline(_LINE_MAX)) and not data.endswith(b"\n"):
        pass


def _unwrapped(line: str) -> str:
    line = line.rstrip("\r\n")
    if "\x1b" in line:
        line = _COLOUR.sub("", line)
    found = _WRAPPED.match(line)
    return line[found.end() :] if found else line


def shortened(text: str, most: int = 240) -> str:
    """For people."""
    text = text.strip()
    return text if len(text) <= most else f"{text[: most - 3]}..."
