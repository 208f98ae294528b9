"""What every store promises, on every engine: the checks that a user can run too."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pytest

from isoradix import InputTypeError, InvalidInputError, ProtocolError
from isoradix.storage import Backend, PageViews, Status
from isoradix.storage.check import Checker

from .servers import opened

if TYPE_CHECKING:
    from .servers import Server

PROMISES = (
    "content",
    "missing",
    "leading",
    "sizes",
    "again",
    "writers",
    "removed",
    "deadline",
)


@pytest.fixture(scope="module")
def store(shared_server: "Server") -> Iterator[Backend]:
    with opened(shared_server) as backend:
        yield backend


@pytest.mark.parametrize("page_bytes", [64, 100_001])
@pytest.mark.parametrize("promise", PROMISES)
def test_promises(store: Backend, promise: str, page_bytes: int) -> None:
    checker = Checker(store, page_bytes, 6)
    try:
        assert getattr(checker, promise)() is None
    finally:
        checker.clean()


def test_no_promise_is_left_out() -> None:
    named = [attempt.__name__ for _, attempt in Checker.__new__(Checker).promises()]
    assert named == list(PROMISES)


def test_an_empty_batch(store: Backend) -> None:
    nothing = PageViews(np.zeros(8, np.uint8), np.zeros((0, 1), np.int64), 8)
    assert store.get_into([], nothing).statuses == ()
    assert store.put_from([], nothing).statuses == ()
    assert store.exists([]).leading == 0
    store.remove([])


def test_what_does_not_fit_is_refused(store: Backend) -> None:
    views = PageViews.whole(bytearray(16), 8)
    longest = store.capabilities.key_bytes_max
    for keys in ([b"one"], [b"one", b""], [b"one", b"x" * (longest + 1)]):
        with pytest.raises(InvalidInputError, match="hint: "):
            store.put_from(keys, views)
    with pytest.raises(InputTypeError, match="hint: "):
        store.put_from([b"one", "two"], views)  # type: ignore[list-item]
    with pytest.raises(InvalidInputError, match="timeout_s is -1"):
        store.exists([b"one"], timeout_s=-1)
    assert store.exists([b"one"]).flags == (False,)


def test_the_longest_key(store: Backend) -> None:
    key = bytes(range(1, 251)) * 5
    key = key[: store.capabilities.key_bytes_max]
    views = PageViews.whole(bytearray(b"abcdefgh"), 8)
    assert store.put_from([key], views).done == 1
    room = PageViews.whole(bytearray(8), 8)
    assert store.get_into([key], room).done == 1
    assert room.read(0) == b"abcdefgh"
    assert store.get_into([key[:-1] + b"\xff"], room).statuses == (Status.MISSING,)
    store.remove([key])


def test_counters_and_stats(store: Backend) -> None:
    before = dict(store.counters.as_dict())
    checker = Checker(store, 64, 3)
    assert checker.content() is None
    checker.clean()
    stats = store.stats()
    assert stats["engine"] == store.stats()["engine"]
    for name, grown in {"get_calls": 2, "get_done": 6, "get_bytes": 384, "put_pages": 6}.items():
        assert stats[name] == before.get(name, 0) + grown, name


def test_two_backends_see_the_same_pages(shared_server: "Server", store: Backend) -> None:
    with shared_server.open() as other:
        checker = Checker(store, 1000, 3)
        keys, views, right = checker.fresh(3)
        assert store.put_from(keys, views).done == 3
        room = checker.room(3)
        assert other.get_into(keys, room).done == 3
        assert [room.read(at) for at in range(3)] == [page.tobytes() for page in right]
        checker.clean()


def test_clear_and_close(server: "Server") -> None:
    store = opened(server)
    checker = Checker(store, 64, 3)
    keys, views, _ = checker.fresh(3)
    assert store.put_from(keys, views).done == 3
    store.clear()
    assert store.get_into(keys, views).done == 0
    store.close()
    store.close()
    with pytest.raises(ProtocolError, match="closed"):
        store.exists(keys)
