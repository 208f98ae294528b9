"""What a rank sends back, and the frames in which it travels: four bytes of length, then msgpack."""

from collections.abc import Iterator
from typing import BinaryIO, Final

import msgspec

from isoradix.cluster.steps import Column, unpacked

_LENGTH_BYTES: Final = 4


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """A rank has loaded what it needs, and waits to be told that all have."""


class Progress(msgspec.Struct, frozen=True, tag="progress"):
    """Requests that a domain's leader has admitted so far."""

    requests: int


class RankResult(msgspec.Struct, frozen=True, tag="result", kw_only=True):
    """A rank that came to its end. What is packed is little-endian: `digests` u64, steps and served i64."""

    rank: int
    requests: int
    skipped: int
    uncached: int
    hitseq: str
    digests: bytes
    tree_digest: int
    steps: dict[str, bytes]
    served: dict[str, bytes]
    events: list[tuple[int, str]]
    totals: dict[str, int]
    operations: dict[str, dict[str, int]]
    counts: dict[str, float]
    waits: dict[str, int]
    checked_tokens: int
    written_tokens: int
    cpu_ms: float
    """Processor time of all its threads, from its first step to the end of its driver."""
    scheduler_ms: float
    """Of its scheduler's thread."""
    journal_ms: float
    """Of the thread that writes its journal."""
    finding: str | None
    """What the checks of its tree, pools and operations found at the end."""
    breaker: list[tuple[int, str]] = []
    """The last changes of the breaker in front of storage: step, and the state from there on."""
    attachments: list[tuple[int, str, str]] = []
    """What has become of storage while the rank ran: step, what, and why."""
    observed: str | None = None
    """The divergence that the mode let pass."""

    def step_log(self) -> dict[str, Column]:
        return unpacked(self.steps)

    def requests_log(self) -> dict[str, Column]:
        return unpacked(self.served)


class RankFailure(msgspec.Struct, frozen=True, tag="failure", kw_only=True):
    """A rank that ended early: the error, and the ranks that it names."""

    rank: int
    error: str
    message: str
    named: tuple[int, ...] = ()
    step: int | None = None
    at_ns: int = 0
    """This machine's monotonic clock."""
    steps: dict[str, bytes] = {}
    events: list[tuple[int, str]] = []


Message = Ready | Progress | RankResult | RankFailure

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(Message).decode


def write_message(stream: BinaryIO, message: Message) -> None:
    data = _encode(message)
    stream.write(len(data).to_bytes(_LENGTH_BYTES, "little") + data)
    stream.flush()


class MessageReader:
    """Cuts what a pipe gives into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that are whole now."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH_BYTES:
            end = _LENGTH_BYTES + int.from_bytes(self._buffer[:_LENGTH_BYTES], "little")
            if len(self._buffer) < end:
                return
            yield _decode(bytes(self._buffer[_LENGTH_BYTES:end]))
            del self._buffer[:end]
