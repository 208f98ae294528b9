"""What every engine does, whichever way it moves bytes."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from isoradix import InvalidInputError, OperationError, ProtocolError

if TYPE_CHECKING:
    from .rig import Rig

PATTERNS: dict[str, tuple[list[int], list[int]]] = {
    "consecutive": ([4, 5, 6], [2, 3, 4]),
    "fragmented": ([9, 1, 5], [7, 0, 11]),
    "backwards": ([6, 5, 4], [4, 3, 2]),
    "one side": ([1, 2, 3, 4], [8, 2, 3, 5]),
    "single": ([11], [0]),
    "last": ([23, 0], [0, 23]),
    "empty": ([], []),
}


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("page_size", [1, 16, 64])
@pytest.mark.parametrize("layout", ["layer_first", "page_first"])
@pytest.mark.parametrize("shape", ["mha", "mla", "bytes"])
def test_bytes_go_to_host_and_come_back(
    kind: str, make: Callable[..., Rig], shape: str, layout: str, page_size: int, pattern: str
) -> None:
    rig = make(kind, shape, page_size, layout)
    source, pages = PATTERNS[pattern]
    slots = rig.slots_of(source)
    before = rig.on_device(slots)
    rig.wait(rig.backup(0, slots, pages))
    rig.settle()
    assert np.array_equal(rig.on_host(pages), before)
    others = [page for page in range(24) if page not in pages]
    assert (rig.on_host(others) == 0xFF).all(), "no other page was touched"
    target = rig.slots_of([page + 12 if page < 12 else page - 12 for page in source])
    rest = [slot for slot in range(24 * page_size) if slot not in target]
    kept = rig.on_device(rest)
    rig.device.poison(target)
    rig.wait(rig.load_back(1, target, pages))
    rig.settle()
    assert np.array_equal(rig.on_device(target), before)
    assert np.array_equal(rig.on_device(rest), kept), "no other slot was touched"
    assert rig.reports.ended_as == {0: True, 1: True}
    assert rig.reports.finished == []


def test_slots_need_not_be_in_pages(rig: Rig) -> None:
    slots = list(np.random.default_rng(3).permutation(24 * 16)[:64])
    before = rig.on_device(slots)
    rig.wait(rig.backup(0, slots, [3, 1, 2, 9]))
    assert np.array_equal(rig.on_host([3, 1, 2, 9]), before)


def test_copies_of_one_kind_are_made_in_order(rig: Rig) -> None:
    """Each backup overwrites the one before."""
    copies = [rig.backup(k, rig.slots_of([k]), [0]) for k in range(10)]
    rig.wait(copies[-1])
    rig.settle()
    assert list(rig.reports.ended_as) == list(range(10))
    assert np.array_equal(rig.on_host([0]), rig.on_device(rig.slots_of([9])))


def test_what_was_written_before_the_start_is_backed_up(rig: Rig) -> None:
    for step in range(20):
        slots = rig.slots_of([step])
        for layer in range(rig.shape.layers):
            for part in rig.shape.parts:
                rig.device.buffer(layer, part)[slots[0] : slots[-1] + 1] = step
        rig.backup(step, slots, [step])
    rig.settle()
    pages = list(range(20))
    assert np.array_equal(rig.on_host(pages), rig.on_device(rig.slots_of(pages)))


# refusals


@pytest.mark.parametrize(
    ("kind_of_copy", "slots", "pages", "message"),
    [
        ("prefetch", [], [0], "operation 5 is a prefetch; a copy engine makes a backup or a load_back"),
        ("store", [], [0], "operation 5 is a store;"),
        ("backup", list(range(15)), [0], "operation 5 has 15 slots for 1 pages of 16"),
        ("backup", [], [0], "operation 5 has 0 slots for 1 pages of 16"),
        ("load_back", list(range(16)), [], "operation 5 has 16 slots for 0 pages of 16"),
        ("backup", [*range(15), 24 * 16], [0], "slot 384 is out of range: 0 to 383"),
        ("backup", [*range(15), -1], [0], "slot -1 is out of range: 0 to 383"),
        ("load_back", list(range(16)), [24], "page 24 is out of range: 0 to 23"),
        ("load_back", list(range(16)), [-1], "page -1 is out of range: 0 to 23"),
    ],
)
def test_an_effect_that_does_not_fit_is_refused(
    rig: Rig, kind_of_copy: str, slots: Sequence[int], pages: Sequence[int], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        rig.start(5, kind_of_copy, slots, pages)
    rig.wait(rig.backup(5, rig.slots_of([1]), [1]))  # it was as if never started
    rig.settle()
    assert rig.reports.ended_as == {5: True}


def test_calls_out_of_order_are_refused(rig: Rig) -> None:
    with pytest.raises(ProtocolError, match="attach out of order: the copy engine has a board"):
        rig.engine.attach(cast(Any, rig.reports))
    rig.backup(0, rig.slots_of([1]), [1])
    for _ in range(2):
        with pytest.raises(ProtocolError, match="start of operation 0 out of order: it was started or cancelled"):
            rig.engine.start(_effect_of(0))
        rig.settle()
    rig.engine.cancel(1)
    with pytest.raises(ProtocolError, match="start of operation 1 out of order"):
        rig.engine.start(_effect_of(1))
    assert rig.reports.ended_as == {0: True}
    assert rig.reports.finished == [1]


def _effect_of(operation: int) -> Any:
    from .rig import effect

    return effect(operation, "backup", range(16), [1])


def test_without_a_board_nothing_starts(rig: Rig) -> None:
    from .rig import make_engine

    engine = make_engine(rig.kind, rig.device, rig.host)
    with pytest.raises(ProtocolError, match="start out of order: the copy engine has no board"):
        engine.start(_effect_of(0))
    with pytest.raises(ProtocolError, match="cancel out of order: the copy engine has no board"):
        engine.cancel(0)
    engine.close()


@pytest.mark.parametrize("layer", [-1, 3])
def test_there_is_no_such_layer(rig: Rig, layer: int) -> None:
    copy = rig.backup(0, rig.slots_of([1]), [1])
    with pytest.raises(InvalidInputError, match=f"layer {layer} is out of range: 0 to 2"):
        copy.wait_layer(layer)


@pytest.mark.parametrize("pool", ["host", "device"])
def test_a_closed_pool_is_not_copied(rig: Rig, pool: str) -> None:
    getattr(rig, pool).close()
    with pytest.raises(ProtocolError, match=f"use of a {pool.capitalize()}Pool out of order: it is closed"):
        rig.backup(0, range(16), [1])
    assert not rig.reports.has(0)


# cancelled


def test_an_operation_that_never_started_is_finished_at_once(rig: Rig) -> None:
    rig.engine.cancel(3)
    assert rig.reports.finished == [3]
    rig.engine.cancel(3)
    assert rig.reports.finished == [3]


def test_nothing_is_said_of_one_that_has_ended(rig: Rig) -> None:
    copy = rig.backup(0, rig.slots_of([1]), [1])
    rig.settle()
    rig.engine.cancel(0)
    rig.wait(copy)
    assert rig.reports.ended_as == {0: True}
    assert rig.reports.finished == []


def test_a_copy_that_waits_in_the_queue_is_dropped(rig: Rig) -> None:
    with rig.held():
        rig.backup(0, rig.slots_of([1]), [1])
        rig.begin()
        dropped = rig.backup(1, rig.slots_of([2]), [2])
        rig.engine.cancel(1)
        assert rig.on_cuda or rig.reports.finished == [1]
        with pytest.raises(OperationError, match="backup of operation 1 was cancelled"):
            dropped.wait_layer(0)
    rig.settle()
    assert rig.reports.ended_as == {0: True}
    assert rig.reports.finished == [1]
    if not rig.on_cuda:
        assert (rig.on_host([2]) == 0xFF).all()
    assert np.array_equal(rig.on_host([1]), rig.on_device(rig.slots_of([1])))


def test_a_copy_under_way_is_finished_when_it_touches_nothing(rig: Rig) -> None:
    with rig.held():
        copy = rig.backup(0, rig.slots_of([1]), [1])
        rig.begin()
        rig.engine.cancel(0)
        rig.engine.poll()
        assert not rig.reports.has(0), "it may still write"
        with pytest.raises(OperationError, match="was cancelled"):
            copy.wait_layer(0)
    rig.settle()
    assert rig.reports.ended_as == {}
    assert rig.reports.finished == [0]
    if rig.kind == "cpu":
        assert (rig.on_host([1])[2:] == 0xFF).all(), "it stopped after the layer that was under way"
    rig.wait(rig.backup(1, rig.slots_of([2]), [2]))
    rig.settle()
    assert rig.reports.ended_as == {1: True}


def test_who_waits_in_another_thread_is_told_of_the_cancel(make: Callable[..., Rig]) -> None:
    rig = make("cpu")
    told: list[object] = []

    def wait() -> None:
        with pytest.raises(OperationError, match="was cancelled") as refused:
            copy.wait_layer(2)
        told.append(refused)

    with rig.held():
        copy = rig.load_back(0, rig.slots_of([1]), [1])
        rig.begin()
        thread = threading.Thread(target=wait)
        thread.start()
        rig.engine.cancel(0)
        thread.join(30)
        assert told


# failed


@pytest.mark.parametrize("calls", [0, 1])
def test_a_failing_copy_is_reported_and_the_next_one_is_made(rig: Rig, calls: int) -> None:
    with rig.broken(calls):
        copy = rig.load_back(0, rig.slots_of([1]), [1])
        rig.settle()
        assert rig.reports.ended_as == {0: False}
        for layer in range(rig.shape.layers):
            with pytest.raises(
                OperationError, match="load_back of operation 0 failed on this rank: the link is down\n"
            ):
                copy.wait_layer(layer)
    rig.wait(rig.load_back(1, rig.slots_of([1]), [1]))
    rig.settle()
    assert rig.reports.ended_as == {0: False, 1: True}


def test_who_waits_in_another_thread_is_told_of_the_failure(make: Callable[..., Rig]) -> None:
    rig = make("cpu")
    with rig.broken(1):
        copy = rig.load_back(0, rig.slots_of([1]), [1])
        with pytest.raises(OperationError, match="failed on this rank"):
            copy.wait_layer(2)


def test_what_the_board_refuses_comes_out_of_poll(rig: Rig) -> None:
    rig.reports.finished.append(0)
    rig.wait(rig.backup(0, rig.slots_of([1]), [1]))
    rig.wait(rig.backup(1, rig.slots_of([2]), [2]))
    with pytest.raises(ProtocolError, match="operation 0 has finished"):
        rig.settle()
    rig.settle()
    assert rig.reports.ended_as == {1: True}, "the engine lives"


# its end


def test_close_makes_and_reports_what_was_started(rig: Rig) -> None:
    for k in range(8):
        rig.backup(2 * k, rig.slots_of([k]), [k])
        rig.load_back(2 * k + 1, rig.slots_of([k + 12]), [k + 12])
    rig.engine.close()
    assert rig.reports.ended_as == dict.fromkeys(range(16), True)
    pages = list(range(8))
    assert np.array_equal(rig.on_host(pages), rig.on_device(rig.slots_of(pages)))
    rig.engine.close()
    rig.engine.poll()
    with pytest.raises(ProtocolError, match="start of operation 16 out of order: the copy engine is closed"):
        rig.backup(16, rig.slots_of([1]), [1])
    rig.engine.cancel(17)
    assert rig.reports.finished == [17]


def test_close_waits_for_a_copy_under_way(rig: Rig) -> None:
    with rig.held():
        copy = rig.load_back(0, rig.slots_of([1]), [1])
        rig.begin()
        closing = threading.Thread(target=rig.engine.close)
        closing.start()
        if rig.kind == "cpu":
            closing.join(0.05)
            assert closing.is_alive()
            assert not rig.reports.has(0)
    closing.join(30)
    assert rig.reports.ended_as == {0: True}
    rig.wait(copy)


# threads, and for ever


def test_each_layer_is_there_when_its_wait_is_over(kind: str, make: Callable[..., Rig]) -> None:
    rig = make(kind, "mha", 64)
    pages = list(range(12))
    rig.wait(rig.backup(0, rig.slots_of(pages), pages))
    before, target = rig.on_device(rig.slots_of(pages)), rig.slots_of([page + 12 for page in pages])
    wrong: list[int] = []

    def compute(layer: int) -> None:
        copy.wait_layer(layer)
        parts = slice(layer * 2, layer * 2 + 2)
        if not np.array_equal(rig.on_device(target)[parts], before[parts]):
            wrong.append(layer)

    for k in range(1, 30):
        rig.device.poison(target)
        copy = rig.load_back(k, target, pages)
        threads = [threading.Thread(target=compute, args=(layer,)) for layer in (2, 0, 1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert wrong == []
    rig.settle()
    assert rig.reports.ended_as == dict.fromkeys(range(30), True)


def test_a_layer_that_is_not_there_is_waited_for(make: Callable[..., Rig]) -> None:
    rig = make("cpu")
    with rig.held():
        copy = rig.load_back(0, rig.slots_of([1]), [1])
        rig.begin()
        thread = threading.Thread(target=copy.wait_layer, args=(0,))
        thread.start()
        thread.join(0.05)
        assert thread.is_alive()
    thread.join(30)
    assert not thread.is_alive()


def test_memory_stays_flat(rig: Rig) -> None:
    """Thousands of copies, some cancelled: what is remembered is bounded by the window."""
    slots = rig.slots_of([1])

    def rounds(first: int, last: int) -> None:
        for k in range(first, last, 4):
            rig.backup(k, slots, [1])
            rig.load_back(k + 1, slots, [1])
            rig.backup(k + 2, slots, [2])
            rig.engine.cancel(k + 2)
            rig.engine.cancel(k + 3)
            rig.settle()
        rig.reports.ended_as.clear()
        rig.reports.finished.clear()

    rounds(0, 1000)
    gc.collect()
    tracemalloc.start()
    rounds(1000, 1400)
    gc.collect()
    settled = tracemalloc.get_traced_memory()[0]
    rounds(1400, 5000)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - settled
    tracemalloc.stop()
    assert cast(Any, rig.engine)._operations.remembered <= 3 * rig.reports.window
    assert grown < 50_000
