"""Prefill batches side by side."""

from __future__ import annotations

from pathlib import Path

from isoradix.doctor.batches import compare_batches
from isoradix.doctor.evidence import Batch, Source


def batches(*tokens: int, queued: int | None = None) -> list[Batch]:
    return [Batch(1, count, 0, queued, Source(Path("log"), 1, "")) for count in tokens]


def test_equal_as_far_as_they_go() -> None:
    assert compare_batches({0: batches(8, 9), 1: batches(8, 9)}) is None
    assert compare_batches({0: batches(8, 9)}) is None
    assert compare_batches({}) is None


def test_the_few_against_the_many() -> None:
    unequal = compare_batches({0: batches(8, 9), 1: batches(8, 9), 2: batches(8, 4)})
    assert unequal is not None
    assert (unequal.number, unequal.culprits, unequal.is_missing) == (2, (2,), False)
    assert str(unequal) == "batch 2: 9 new tokens on ranks 0,1, 4 new tokens on rank 2"


def test_of_two_nobody_is_named() -> None:
    unequal = compare_batches({0: batches(8, 9), 1: batches(8, 4)})
    assert unequal is not None
    assert unequal.culprits == ()


def test_who_is_only_late_is_not_named() -> None:
    unequal = compare_batches({0: batches(8, 9), 1: batches(8, 9), 2: batches(8)})
    assert unequal is not None
    assert (unequal.is_missing, unequal.culprits) == (True, ())
    assert str(unequal) == "batch 2: 9 new tokens on ranks 0,1, never run on rank 2"


def test_logs_that_do_not_begin_alike_are_not_compared() -> None:
    assert compare_batches({0: batches(8, 9), 1: batches(7, 8, 9)}) is None


def test_queues_that_differed_before() -> None:
    unequal = compare_batches({0: batches(8, 9, queued=4), 1: batches(8, queued=0)})
    assert unequal is not None
    assert unequal.queued_before == {0: 4, 1: 0}
    alike = compare_batches({0: batches(8, 9, queued=4), 1: batches(8, queued=4)})
    assert alike is not None
    assert alike.queued_before == {}


def test_equal_tokens_that_were_found_otherwise() -> None:
    other = Batch(2, 8, 5, None, Source(Path("log"), 1, ""))
    unequal = compare_batches({0: batches(8), 1: [other]})
    assert unequal is not None
    assert "8 new tokens, 5 cached, 2 sequences on rank 1" in str(unequal)
