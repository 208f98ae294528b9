"""Reader of the Mooncake request trace: JSON lines of timestamp, input_length, output_length and hash_ids.

One id stands for one block of 512 prompt tokens; the last block of a request may be cut short by `input_length`.
Lines are read lazily. Whatever is wrong with a line is a `TraceError` that names it.
"""

import codecs
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import msgspec

from isoradix import InvalidInputError
from isoradix.replay.blocks import BLOCK_TOKENS

# the tokens of larger ids would wrap around to those of smaller ones
_HashId = Annotated[int, msgspec.Meta(ge=0, le=2**64 // BLOCK_TOKENS - 1)]
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class TraceError(InvalidInputError):
    """A trace file cannot be read, or one of its lines is not a request."""

    def __init__(self, path: Path, reason: str, hint: str, line: int | None = None) -> None:
        where = f"{path}, line {line}" if line else str(path)
        super().__init__(f"{where}: {reason}\nhint: {hint}")
        self.path = path
        self.line = line
        self.reason = reason


class TraceRequest(msgspec.Struct, frozen=True, gc=False):
    """One request of a trace; further fields of a line are ignored."""

    input_length: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
    hash_ids: list[_HashId]
    timestamp: float = 0.0
    output_length: int = 0


_MARK_HINT = "the line begins with a byte order mark (BOM); save the file as UTF-8 without one"
_LINE_HINT = 'a line looks like {"timestamp": 0, "input_length": 1000, "output_length": 10, "hash_ids": [0, 1]}'


def read_trace(path: Path, limit: int | None = None) -> Iterator[TraceRequest]:
    """The requests of a trace, at most `limit`; blank lines are passed over but counted in line numbers."""
    empty = True
    for request in islice(_parse(path), limit):
        empty = False
        yield request
    if empty and limit != 0:
        raise TraceError(path, "the file holds no request", _LINE_HINT)


def count_requests(path: Path) -> int:
    """Lines that are not blank, without parsing them."""
    return sum(1 for _ in _lines(path))


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                content = line.strip()
                if content:
                    yield number, content
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> TraceError:
    reason = f"cannot be read: {(error.strerror or str(error)).lower()}"
    return TraceError(path, reason, "give the path of a JSON lines file")


def _parse(path: Path) -> Iterator[TraceRequest]:
    decode = msgspec.json.Decoder(TraceRequest).decode
    for number, line in _lines(path):
        try:
            request = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            hint = _MARK_HINT if line.startswith(_MARKS) else _LINE_HINT
            raise TraceError(path, _describe(error), hint, number) from error
        _require_blocks(path, number, request)
        yield request


def _describe(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "its json is nested too deeply"
    if isinstance(error, msgspec.ValidationError) and "<=" in str(error) and "hash_ids" in str(error):
        return f"a hash id is too large: {str(error).lower()}"
    if isinstance(error, msgspec.ValidationError):
        return f"not a request: {str(error).lower()}"
    if "truncated" in str(error):
        return "the line is cut off in the middle of its json"
    return f"not json: {str(error).lower()}"


def _require_blocks(path: Path, number: int, request: TraceRequest) -> None:
    needed = -(-request.input_length // BLOCK_TOKENS)
    found = len(request.hash_ids)
    if found < needed:
        reason = f"input_length {request.input_length} takes {needed} hash_ids, the line has {found}"
        raise TraceError(path, reason, f"one hash id stands for {BLOCK_TOKENS} tokens", number)
