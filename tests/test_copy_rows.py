"""Rows of bytes, copied by the compiled module, against numpy."""

from __future__ import annotations

import array
import mmap
import signal
import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from isoradix import CopyProgress, InputTypeError, InvalidInputError, copy_rows, pages_within

Rows = npt.NDArray[np.uint8]


def memory(rows: int, bytes_: int, gap: int = 0, seed: int = 0) -> Rows:
    """Rows that lie `gap` bytes apart, each byte drawn."""
    whole = np.random.default_rng(seed).integers(0, 256, (rows, bytes_ + gap), dtype=np.uint8)
    return whole[:, :bytes_]


@given(st.data())
def test_it_copies_as_numpy_does(data: st.DataObject) -> None:
    """Both sides as streams of bytes; rows of the two may differ in size, be repeated, and lie apart."""
    base, larger = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 8))
    small_first = data.draw(st.booleans())
    sizes = [base, base * larger] if small_first else [base * larger, base]
    count = data.draw(st.integers(0, 12))
    counts = [count * larger, count] if small_first else [count, count * larger]
    rows = [data.draw(st.integers(1, 20)) for _ in range(2)]
    gaps = [data.draw(st.sampled_from([0, 3])) for _ in range(2)]
    pairs = data.draw(st.integers(1, 3))
    index = [
        np.array(data.draw(st.lists(st.integers(0, rows[i] - 1), min_size=counts[i], max_size=counts[i])), dtype)
        for i, dtype in enumerate((np.int64, np.int32))
    ]
    destinations = [memory(rows[0], sizes[0], gaps[0], seed=pair) for pair in range(pairs)]
    sources = [memory(rows[1], sizes[1], gaps[1], seed=10 + pair) for pair in range(pairs)]
    wholes = [(d.base.copy(), s.base.copy()) for d, s in zip(destinations, sources, strict=True)]  # type: ignore[union-attr]

    copy_rows(destinations, sources, index[0], index[1])

    for destination, source, (before, unread) in zip(destinations, sources, wholes, strict=True):
        expected = before[:, : sizes[0]]
        for row, piece in zip(index[0], source[index[1]].reshape(counts[0], sizes[0]), strict=True):
            expected[row] = piece
        assert np.array_equal(destination, expected)
        assert np.array_equal(destination.base[:, sizes[0] :], before[:, sizes[0] :]), "nothing between the rows"  # type: ignore[index]
        assert np.array_equal(source.base, unread)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("to", "from_", "runs"),
    [
        ([0, 1, 2, 3], [4, 5, 6, 7], 1),
        ([0, 1, 2, 3], [7, 6, 5, 4], 4),
        ([0, 1, 4, 5], [4, 5, 6, 7], 2),
        ([0, 1, 4, 5], [4, 6, 7, 8], 3),
        ([0, 2, 4, 6], [1, 3, 5, 7], 4),
        ([3, 3], [1, 2], 2),
        ([], [], 0),
    ],
)
def test_neighbours_are_one_run(to: list[int], from_: list[int], runs: int) -> None:
    assert copy_rows([memory(10, 16)], [memory(10, 16)], to, from_) == runs
    apart = memory(10, 16, gap=1)
    assert copy_rows([apart], [memory(10, 16)], to, from_) == len(to), "rows that lie apart are never one run"


def test_a_page_is_one_run_of_its_tokens() -> None:
    tokens, pages = memory(256, 8), memory(4, 8 * 64)
    assert copy_rows([pages], [tokens], [2, 0], np.arange(64, 192)) == 2
    assert np.array_equal(pages[[2, 0]].reshape(-1), tokens[64:192].reshape(-1))
    assert copy_rows([pages], [tokens], [1, 2], np.arange(64, 192)) == 1
    assert copy_rows([tokens], [pages], np.arange(128)[::-1].copy(), [1, 2]) == 128


def test_what_has_a_buffer_is_read_and_written() -> None:
    room = mmap.mmap(-1, 64)
    view = memoryview(room).cast("B", (8, 8))
    assert copy_rows((view,), (memory(8, 8),), (0, 1), array.array("i", [6, 7])) == 1
    assert room[:16] == memory(8, 8)[6:].tobytes()
    view.release()
    room.close()


@pytest.mark.parametrize("offset", [0, 1, 63])
@pytest.mark.parametrize("size", [16_384, 20_000, 4_161, 65])
def test_a_copy_around_the_cache(size: int, offset: int) -> None:
    """From 4 MiB on; runs that begin and end anywhere."""
    rows = (4 << 20) // size + 7
    room = np.zeros(rows * (size + 5) + offset, np.uint8)
    destination, source = room[offset:].reshape(rows, size + 5)[:, :size], memory(rows, size, gap=3)
    order = np.random.default_rng(1).permutation(rows)
    assert copy_rows([destination], [source], order, np.arange(rows)) == rows
    assert np.array_equal(destination[order], source)
    assert int(room.sum(dtype=np.int64)) == int(source.sum(dtype=np.int64)), "nothing between the rows"
    whole, packed = np.zeros(rows * size, np.uint8), np.ascontiguousarray(source)
    assert copy_rows([whole.reshape(rows, size)], [packed], np.arange(rows), np.arange(rows)) == 1
    assert np.array_equal(whole, packed.reshape(-1))


def test_a_long_copy_lets_other_threads_run() -> None:
    source, destination = memory(64, 1 << 20), np.empty((64, 1 << 20), np.uint8)
    threads = [
        threading.Thread(target=copy_rows, args=([destination], [source], [row], [63 - row])) for row in range(64)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.array_equal(destination, source[::-1])


def test_progress_tells_of_each_pair_of_buffers() -> None:
    sources, destinations = [memory(16, 1 << 16) for _ in range(8)], [memory(16, 1 << 16) for _ in range(8)]
    progress, rows = CopyProgress(), range(16)
    thread = threading.Thread(
        target=copy_rows, args=(destinations, sources, list(rows), list(rows)), kwargs={"progress": progress}
    )
    thread.start()
    for pairs in range(1, 9):
        assert progress.wait(pairs)
        assert np.array_equal(destinations[pairs - 1], sources[pairs - 1])
    thread.join()
    assert progress.pairs == len(sources)


def test_a_copy_that_is_stopped_makes_no_more_pairs() -> None:
    sources, destinations = [memory(4, 8), memory(4, 8)], [np.zeros((4, 8), np.uint8) for _ in range(2)]
    progress = CopyProgress()
    waiter = threading.Thread(target=lambda: found.append(progress.wait(1)))
    found: list[bool] = []
    waiter.start()
    progress.stop()
    waiter.join()
    assert found == [False]
    copy_rows(destinations, sources, [0, 1], [0, 1], progress=progress)
    assert progress.pairs == 0
    assert not np.any(destinations)
    assert progress.wait(0)


def test_what_a_signal_raises_ends_a_wait() -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupted)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            CopyProgress().wait(1)
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("pairs", [-1, "1", 1.0])
def test_a_wait_for_what_is_no_number_is_refused(pairs: Any) -> None:
    with pytest.raises((InvalidInputError, InputTypeError), match="pairs"):
        CopyProgress().wait(pairs)


def read_only(rows: Rows) -> Rows:
    rows.flags.writeable = False
    return rows


GOOD: dict[str, Any] = {
    "destinations": [memory(4, 8)],
    "sources": [memory(4, 8)],
    "destination_rows": [0, 1],
    "source_rows": [2, 3],
}

REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "row above": (
        {"destination_rows": [0, 4]},
        InvalidInputError,
        "row 4 at index 1 of destination_rows is out of range: 0 to 3",
    ),
    "row below": (
        {"source_rows": [-1, 0]},
        InvalidInputError,
        "row -1 at index 0 of source_rows is out of range: 0 to 3",
    ),
    "far row": ({"source_rows": [0, 2**63 - 1]}, InvalidInputError, "row 9223372036854775807 at index 1"),
    "no rows": (
        {"sources": [memory(0, 8)]},
        InvalidInputError,
        "row 2 at index 0 of source_rows is out of range: the buffer has no rows",
    ),
    "fewer bytes": ({"source_rows": [2]}, InvalidInputError, "destination_rows have 16 bytes, source_rows 8"),
    "other rows": ({"sources": [memory(4, 7)]}, InvalidInputError, "destination_rows have 16 bytes, source_rows 14"),
    "fewer sources": ({"sources": []}, InvalidInputError, "1 destinations for 0 sources"),
    "other shape": (
        {"destinations": [memory(4, 8), memory(5, 8)]},
        InvalidInputError,
        r"destinations\[1\] has 5 rows of 8 bytes, 8 bytes apart; the first has 4 rows",
    ),
    "other stride": (
        {"sources": [memory(4, 8), memory(4, 8, gap=2)]},
        InvalidInputError,
        r"sources\[1\] has 4 rows of 8 bytes, 10 bytes apart",
    ),
    "read-only": ({"destinations": [read_only(memory(4, 8))]}, InputTypeError, r"destinations\[0\] is read-only"),
    "bytes": ({"destinations": [b"1234"]}, InputTypeError, r"destinations\[0\] is a bytes"),
    "one dimension": ({"sources": [np.zeros(8, np.uint8)]}, InputTypeError, r"sources\[0\] is a ndarray.*2 dimensions"),
    "other items": ({"sources": [np.zeros((4, 8), np.int16)]}, InputTypeError, r"sources\[0\] is a ndarray"),
    "gaps in rows": ({"sources": [memory(4, 16)[:, ::2]]}, InputTypeError, r"sources\[0\] is a ndarray.*without gaps"),
    "rows backwards": ({"sources": [memory(4, 8)[::-1]]}, InputTypeError, r"sources\[0\] is a ndarray"),
    "rows on each other": (
        {"sources": [np.broadcast_to(memory(1, 8), (4, 8))]},
        InputTypeError,
        r"sources\[0\] is a ndarray",
    ),
    "no buffer": ({"sources": [3]}, InputTypeError, r"sources\[0\] is an int \(3\)"),
    "no list": ({"sources": 3}, InputTypeError, r"sources is an int \(3\)"),
    "float rows": ({"source_rows": [0.5, 1]}, InputTypeError, "source_rows has a float"),
    "rows of int16": (
        {"source_rows": np.array([0, 1], np.int16)},
        InputTypeError,
        "source_rows has items of type int16",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_copy_writes_nothing(case: str) -> None:
    change, error, message = REFUSED[case]
    call = {**GOOD, **change}
    before = [np.array(buffer) for buffer in call["destinations"]]
    with pytest.raises(error, match=message) as refused:
        copy_rows(**call)
    assert "\nhint: " in str(refused.value)
    assert all(np.array_equal(np.array(now), then) for now, then in zip(call["destinations"], before, strict=True))


@pytest.mark.parametrize("shift", [0, 1, 3, -2])
def test_memory_is_not_copied_onto_itself(shift: int) -> None:
    rows = memory(12, 8)
    with pytest.raises(InvalidInputError, match=r"destinations\[0\] shares memory with sources\[0\]"):
        copy_rows([rows[4:8]], [rows[4 + shift : 8 + shift]], [0], [0])
    assert copy_rows([rows[4:8]], [rows[8:12]], [0], [0]) == 1
    assert copy_rows([rows[4:8]], [rows[:4]], [0], [0]) == 1


def test_pages_of_a_budget() -> None:
    """The stage with the larger tokens sets the capacity of all."""
    assert [64 * pages_within(100_000_000_000, size, 64) for size in (12_464, 13_120)] == [8_023_168, 7_621_952]
    assert pages_within(0, 1, 64) == 0
    assert pages_within(129, 1, 64) == 3
    for arguments, message in {
        (1, 0, 64): "bytes_per_token 0 is out of range: 1 to",
        (1, 1, 0): "page_size 0 is out of range: 1 to 1024",
        (-1, 1, 1): "bytes -1 is out of range",
        (2**64 - 1, 1, 64): "18446744073709551615",
    }.items():
        with pytest.raises(InvalidInputError, match=message):
            pages_within(*arguments)
    with pytest.raises(InputTypeError, match=r"bytes is a float \(100000000000\.0\), expected an int"):
        pages_within(1e11, 1, 64)  # type: ignore[arg-type]
