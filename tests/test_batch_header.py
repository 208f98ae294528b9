"""What a stage says of its batch, and what the next one makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from isoradix import BatchHeader, DivergenceError, InputTypeError, InvalidInputError, IsoradixError, ProtocolError

REQUESTS: list[tuple[str | int, int, int]] = [("chat-7", 64, 32), (7, 0, 96), ("7", 2**63, 1)]


def make(rank: int = 0, step: int = 9, chunk: int | None = 4096, **changes: Any) -> BatchHeader:
    return BatchHeader.make(step, changes.pop("requests", REQUESTS), chunk, rank=rank, **changes)


def test_a_header_goes_through_bytes() -> None:
    sent = make(rank=2, ordinal=5)
    data = sent.to_bytes()
    assert len(data) == 48 + 24 * 3
    received = BatchHeader.from_bytes(bytearray(data))
    assert received == sent
    assert (received.rank, received.step, received.ordinal, received.chunk, len(received)) == (2, 9, 5, 4096, 3)
    assert received.extend_tokens == 129
    assert repr(received) == "<BatchHeader rank=2, step=9, ordinal=5: 3 requests, 129 tokens to compute>"
    assert BatchHeader.from_bytes(BatchHeader.make(1, []).to_bytes()).chunk is None


def test_equal_batches_of_two_ranks_pass() -> None:
    make(rank=1).check(make(rank=0))
    assert make(rank=1) != make(rank=0)


@pytest.mark.parametrize(
    ("received", "words"),
    [
        (
            make(requests=[*REQUESTS[:2], ("7", 64, 1)]),
            "request 2 has 9223372036854775808 cached and 1 new tokens on rank 1",
        ),
        (make(requests=[*REQUESTS[:2], (7, 2**63, 1)]), "request 2 is another one on rank 1 (id hash 0x"),
        (make(requests=REQUESTS[:2]), "number of requests is 3 on rank 1, 2 in what rank 0 sent"),
        (make(chunk=None), "chunk is 4096 on rank 1, not set in what rank 0 sent"),
        (make(step=8), "step is 9 on rank 1, 8 in what rank 0 sent"),
        (make(ordinal=1), "batch is 0 on rank 1, 1 in what rank 0 sent"),
    ],
    ids=["lengths", "id", "count", "chunk", "step", "ordinal"],
)
def test_the_first_difference_is_named(received: BatchHeader, words: str) -> None:
    with pytest.raises(DivergenceError) as caught:
        BatchHeader.check(make(rank=1), received)
    message = str(caught.value)
    assert message.startswith(f"divergence at step 9 (form A): in batch 0, {words}")
    assert "\nhint: " in message
    error = caught.value
    assert (error.kind, error.ranks, error.step, error.vote) == ("batch", (1, 0), 9, None)


REFUSED: list[tuple[type[IsoradixError], Callable[[], object], str]] = [
    (InputTypeError, lambda: BatchHeader.make(1.5, []), "step is a float (1.5)"),  # type: ignore[arg-type]
    (InputTypeError, lambda: BatchHeader.make(1, 7), "requests is an int (7), expected a sequence"),  # type: ignore[arg-type]
    (InputTypeError, lambda: BatchHeader.make(1, [("a", 1)]), "a request is a tuple"),  # type: ignore[list-item]
    (InputTypeError, lambda: BatchHeader.make(1, [(None, 1, 2)]), "request id is None"),  # type: ignore[list-item]
    (InvalidInputError, lambda: BatchHeader.make(1, [("a", -1, 2)]), "prefix length -1 is out of range"),
    (InvalidInputError, lambda: BatchHeader.make(1, [(-4, 1, 2)]), "request id -4 is out of range"),
    (InvalidInputError, lambda: BatchHeader.make(1, [], 2**64 - 1), "chunk 18446744073709551615 is out of range"),
    (InvalidInputError, lambda: BatchHeader.make(1, [(1, 1, 1)] * 65537), "a batch of 65537 requests, limit 65536"),
    (InputTypeError, lambda: make().check(make().to_bytes()), "received is a bytes"),  # type: ignore[arg-type]
    (ProtocolError, lambda: BatchHeader.from_bytes(b""), "a batch header of 48 bytes comes in 0 bytes"),
    (ProtocolError, lambda: BatchHeader.from_bytes(bytes(48)), "bytes that are no batch header of version 1"),
]


@pytest.mark.parametrize(("kind", "call", "words"), REFUSED, ids=[words for _, _, words in REFUSED])
def test_what_is_no_header_is_refused(kind: type[IsoradixError], call: Callable[[], object], words: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value).startswith(words)
    assert "\nhint: " in str(caught.value)
