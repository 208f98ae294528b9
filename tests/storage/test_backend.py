"""Deadlines and statuses over engines that misbehave; URLs; engines of other packages."""

import gc
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest

from isoradix.storage import (
    Backend,
    Call,
    Capabilities,
    PageViews,
    PermanentStorageError,
    Status,
    StorageTimeoutError,
    StorageURL,
    TemporaryStorageError,
    open_storage,
    registry,
    schemes,
)
from isoradix.storage.staging import Staged


class Engine:
    """An engine whose gets and puts do what a test says."""

    def __init__(self, act: Callable[[Call, PageViews], None] | None = None, zero_copy: bool = True) -> None:
        self.act = act
        self.registered: list[Any] = []
        self.closed = False
        self.capabilities = Capabilities(zero_copy, True, False, False, 8, 100)

    def register(self, memory: Any) -> None:
        self.registered.append(memory)

    def exists(self, keys: Sequence[bytes], call: Call) -> list[bool]:
        return [True for _ in keys]

    def get(self, keys: Sequence[bytes], views: PageViews, call: Call) -> None:
        if self.act is not None:
            self.act(call, views)

    put = get

    def remove(self, keys: Sequence[bytes], call: Call) -> None: ...

    def clear(self, call: Call) -> None: ...

    def usage(self, call: Call) -> Mapping[str, int | float | str]:
        return {"engine": "test"}

    def close(self) -> None:
        self.closed = True


def views(pages: int = 2) -> PageViews:
    return PageViews.whole(np.zeros(pages * 8, np.uint8), 8)


def stuck(until: threading.Event) -> Callable[[Call, PageViews], None]:
    """The first page is done, and then it hangs."""

    def act(call: Call, _: PageViews) -> None:
        call.finish(0, Status.DONE)
        until.wait(30)
        call.finish(1, Status.DONE)

    return act


def test_a_call_that_hangs_ends_at_its_deadline() -> None:
    until = threading.Event()
    with Backend(Engine(stuck(until))) as store:
        begun = time.monotonic()
        outcome = store.get_into([b"a", b"b"], views(), timeout_s=0.1)
        assert 0.1 <= time.monotonic() - begun < 0.4
        assert outcome.statuses == (Status.DONE, Status.LATE)
        assert isinstance(outcome.error, StorageTimeoutError)
        assert not outcome.released
        assert not outcome.wait_released(0.01)
        until.set()
        assert outcome.wait_released(10)
        assert outcome.statuses == (Status.DONE, Status.LATE), "what came too late stays late"


def test_calls_wait_for_their_turn_and_no_longer() -> None:
    until = threading.Event()
    with Backend(Engine(stuck(until)), workers=1) as store:
        first = store.get_into([b"a", b"b"], views(), timeout_s=0.05)
        begun = time.monotonic()
        second = store.put_from([b"a", b"b"], views(), timeout_s=5)
        assert time.monotonic() - begun < 1, "every thread is stuck: that is known at once"
        assert set(second.statuses) == {Status.FAILED}
        assert "has not returned" in str(second.error)
        assert second.released
        with pytest.raises(TemporaryStorageError, match="has not returned"):
            store.exists([b"a"])
        until.set()
        assert first.wait_released(10)
        assert store.exists([b"a"]).leading == 1


def test_outages_one_after_another_take_no_more_memory_than_the_first() -> None:
    answers = threading.Event()

    def act(call: Call, _: PageViews) -> None:
        answers.wait(30)
        call.finish(0, Status.DONE)

    engine, keys, pages = Engine(act), [b"a"], views(1)
    with Backend(engine, timeout_s=0.02) as store:
        staged = Staged(store)
        for _ in range(4):
            answers.clear()
            late = [staged.get(keys, pages), staged.put(keys, pages), staged.get(keys, pages), staged.put(keys, pages)]
            assert {outcome.statuses for outcome in late} == {(Status.LATE,)}
            assert staged.get(keys, pages).statuses == (Status.FAILED,), "every thread is stuck"
            answers.set()
            assert all(outcome.wait_released(10) for outcome in late)
            assert staged.put(keys, pages).done == 1
            assert len(engine.registered) == 4, "a slab for each call that was under way"


def test_a_call_that_was_never_begun_is_released_at_once() -> None:
    until = threading.Event()
    with Backend(Engine(stuck(until)), workers=1) as store:
        busy = threading.Thread(target=lambda: store.get_into([b"a", b"b"], views(), timeout_s=5))
        busy.start()
        time.sleep(0.05)
        outcome = store.put_from([b"a", b"b"], views(), timeout_s=0.1)
        assert (outcome.statuses, outcome.released) == ((Status.LATE,) * 2, True)
        until.set()
        busy.join()


def test_an_engine_that_copies_touches_nothing_late() -> None:
    late = threading.Event()
    seen: list[bytes | None] = []

    def act(call: Call, pages: PageViews) -> None:
        late.wait(30)
        call.deliver(pages, 0, b"12345678")
        seen.append(call.collect(pages, 0))

    with Backend(Engine(act, zero_copy=False)) as store:
        pages = views()
        outcome = store.get_into([b"a", b"b"], pages, timeout_s=0.05)
        assert outcome.released
        late.set()
        assert store.exists([b"a"]).leading == 1
        end = time.monotonic() + 10
        while not seen and time.monotonic() < end:
            time.sleep(0.01)
        assert seen == [None]
        assert pages.read(0) == bytes(8)


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (TemporaryStorageError("away\nhint: wait"), TemporaryStorageError),
        (PermanentStorageError("never\nhint: give up"), PermanentStorageError),
        (ValueError("odd"), TemporaryStorageError),
        (MemoryError(), TemporaryStorageError),
    ],
)
def test_what_an_engine_raises(raised: Exception, expected: type[Exception]) -> None:
    def act(call: Call, _: PageViews) -> None:
        call.finish(0, Status.MISSING)
        raise raised

    with Backend(Engine(act)) as store:
        outcome = store.get_into([b"a", b"b"], views())
        assert outcome.statuses == (Status.MISSING, Status.FAILED)
        assert type(outcome.error) is expected


def test_pages_that_an_engine_leaves_out() -> None:
    with Backend(Engine()) as store:
        outcome = store.put_from([b"a", b"b"], views())
        assert set(outcome.statuses) == {Status.FAILED}
        assert "left pages" in str(outcome.error)


def test_pages_beyond_the_limit() -> None:
    with Backend(Engine()) as store:
        large = PageViews.whole(bytearray(101), 101)
        assert store.put_from([b"a"], large).statuses == (Status.TOO_LARGE,)
        assert store.get_into([b"a"], large).statuses == (Status.MISSING,)


def test_memory_is_registered_once() -> None:
    def act(call: Call, _: PageViews) -> None:
        call.finish(0, Status.DONE)
        call.finish(1, Status.DONE)

    engine = Engine(act)
    with Backend(engine) as store:
        first, second = views(), views()
        store.register(first.memory)
        for pages in (first, first.take([1, 0]), second):
            assert store.get_into([b"a", b"b"], pages).done == 2
        assert [id(memory) for memory in engine.registered] == [id(first.memory), id(second.memory)]


def test_a_backend_that_nobody_holds_is_closed() -> None:
    engine = Engine()
    store = Backend(engine)
    watched = weakref.ref(store)
    del store
    gc.collect()
    assert watched() is None
    assert engine.closed


def wait_closed(engine: Engine) -> None:
    end = time.monotonic() + 10
    while not engine.closed:
        assert time.monotonic() < end, "it is closed some time"
        time.sleep(0.01)


def test_an_engine_is_closed_after_its_last_call() -> None:
    until = threading.Event()
    engine = Engine(stuck(until))
    store = Backend(engine, timeout_s=0.1)
    outcome = store.get_into([b"a", b"b"], views(), timeout_s=0.05)
    begun = time.monotonic()
    store.close()
    assert time.monotonic() - begun < 0.4
    assert not engine.closed, "a call is going on"
    until.set()
    assert outcome.wait_released(10)
    wait_closed(engine)


def test_a_connection_that_never_comes() -> None:
    until = threading.Event()
    made = Engine()

    def make() -> Engine:
        until.wait(30)
        return made

    begun = time.monotonic()
    with pytest.raises(StorageTimeoutError, match="the connection was not over"):
        Backend.connect(make, connect_s=0.1)
    assert time.monotonic() - begun < 0.4
    until.set()
    wait_closed(made)  # what comes too late


def test_engines_of_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def engine_of(url: StorageURL) -> Engine:
        assert (url.host, url.port, url.path, url.number("size", 1, 1, 9)) == ("host", 7, "/a b", 3)
        url.finish()
        return Engine()

    point = EntryPoint("other", "module:name", registry.GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda _: engine_of)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == registry.GROUP else [])
    assert "other" in schemes()
    with open_storage("other://host:7/a%20b?size=3&timeout=0.5&connect=3&workers=2") as store:
        assert store.stats() == {"engine": "test"}
    with pytest.raises(PermanentStorageError, match="does not know: sise"):
        open_storage("other://host:7/a%20b?size=3&sise=3")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "is no URL"),
        ("redis://user:sec@ret@host:port/", "'redis://host:port/' is no URL"),
        ("redis://user:secret@host/?ttl=1&ttl=2", "an option of 'redis://host/"),
        ("folder", "is no URL"),
        ("file:folder", "is no URL"),
        ("file://host:port/", "is no URL"),
        ("nosuch://host", "no storage engine for nosuch"),
        ("file:///tmp/kv?timeout=soon", "option timeout"),
        ("file:///tmp/kv?workers=0", "option workers"),
        ("file:///tmp/kv?limit=1&limit=2", "given twice"),
    ],
)
def test_urls_that_are_refused(url: str, message: str) -> None:
    with pytest.raises(PermanentStorageError, match=message) as refused:
        open_storage(url)
    assert "\nhint: " in str(refused.value)


def test_a_password_is_not_shown() -> None:
    url = StorageURL.parse("redis://user:sesame@host/0?prefix=a")
    assert (url.user, url.password) == ("user", "sesame")
    assert "sesame" not in repr(url)
    assert "sesame" not in url.text
    with pytest.raises(PermanentStorageError) as refused:
        url.finish()
    assert "sesame" not in str(refused.value)
