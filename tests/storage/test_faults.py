"""What goes wrong in a store: never a wrong byte, never a wait beyond its deadline."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from isoradix.storage import (
    Backend,
    Outcome,
    PageViews,
    Status,
    StorageError,
    StorageTimeoutError,
    TemporaryStorageError,
)
from isoradix.storage.check import Checker
from isoradix.storage.engines.sealed import SEAL_BYTES

from .conftest import make_server
from .servers import GRACE_S, opened, running

if TYPE_CHECKING:
    from .servers import Server


def put(store: Backend, checker: Checker, pages: int) -> tuple[list[bytes], list[bytes]]:
    """Pages that are there; keys and bytes."""
    keys, views, right = checker.fresh(pages)
    assert store.put_from(keys, views, timeout_s=20).done == pages
    return keys, [page.tobytes() for page in right]


def read(store: Backend, checker: Checker, keys: list[bytes], right: list[bytes], timeout_s: float = 5.0) -> Outcome:
    """Reads pages; whatever is done has to be right, and time is kept."""
    room = checker.room(len(keys))
    begun = time.monotonic()
    outcome = store.get_into(keys, room, timeout_s=timeout_s)
    assert time.monotonic() - begun < timeout_s + GRACE_S
    for at, status in enumerate(outcome.statuses):
        assert status is not Status.PENDING
        assert status is not Status.DONE or room.read(at) == right[at]
    return outcome


def test_every_flipped_bit_is_a_miss(server: "Server", backend: Backend) -> None:
    """Each bit of a page and of its seal, on a page of its own."""
    bits = 8 * (64 + SEAL_BYTES)
    checker = Checker(backend, 64, bits)
    keys, right = put(backend, checker, bits)
    assert read(backend, checker, keys, right).done == bits
    for bit, key in enumerate(keys):
        server.flip(key, bit)
    outcome = read(backend, checker, keys, right)
    passed = [bit for bit, status in enumerate(outcome.statuses) if status is not Status.CORRUPT]
    assert not passed, "bits that nobody noticed"
    backend.remove(keys)
    views = PageViews.whole(bytearray(b"".join(right)), 64)
    assert backend.put_from(keys, views).done == bits
    assert read(backend, checker, keys, right).done == bits


def test_a_broken_page_is_stored_anew_once_it_is_removed(server: "Server", backend: Backend) -> None:
    checker = Checker(backend, 64, 1)
    keys, right = put(backend, checker, 1)
    server.flip(keys[0], 100)
    views = PageViews.whole(bytearray(right[0]), 64)
    assert backend.put_from(keys, views).done == 1
    replaces = server.url.startswith(("redis", "s3"))
    assert read(backend, checker, keys, right).statuses == (Status.DONE if replaces else Status.CORRUPT,)
    if not server.url.startswith("file"):  # whose read has removed it
        backend.remove(keys)
    assert backend.put_from(keys, views).done == 1
    assert read(backend, checker, keys, right).done == 1


def test_a_page_that_is_gone_is_a_miss(server: "Server", backend: Backend) -> None:
    checker = Checker(backend, 1000, 4)
    keys, right = put(backend, checker, 4)
    server.lose(keys[2])
    outcome = read(backend, checker, keys, right)
    assert (outcome.leading, outcome.statuses[2]) == (2, Status.MISSING)


def test_a_server_that_was_killed(process_server: "Server", process_backend: Backend) -> None:
    store, checker = process_backend, Checker(process_backend, 1000, 4)
    keys, right = put(store, checker, 4)
    process_server.kill()
    outcome = read(store, checker, keys, right, timeout_s=1.0)
    assert outcome.done == 0
    assert isinstance(outcome.error, StorageError)
    _, views, _ = checker.fresh(4)
    outcome = store.put_from(keys, views, timeout_s=0.5)
    assert not outcome.done or process_server.url.startswith("mooncake")


def test_a_server_that_was_stopped(process_server: "Server", process_backend: Backend) -> None:
    store, checker = process_backend, Checker(process_backend, 1000, 4)
    keys, right = put(store, checker, 4)
    process_server.stop()
    outcome = read(store, checker, keys, right, timeout_s=0.5)
    assert set(outcome.statuses) <= {Status.LATE, Status.FAILED, Status.MISSING}
    begun = time.monotonic()
    other, views, _ = checker.fresh(4)
    late = store.put_from(other, views, timeout_s=0.5)
    assert time.monotonic() - begun < 0.5 + GRACE_S
    assert late.done < 4 or process_server.url.startswith("mooncake")
    process_server.go_on()
    assert outcome.wait_released(30)
    assert late.wait_released(30)
    end = time.monotonic() + 30
    while read(store, checker, keys, right).done < 4:
        assert time.monotonic() < end, "a server that goes on is used again"


def test_threads_that_never_return_are_bounded(process_server: "Server") -> None:
    with opened(process_server, workers=2) as store:
        checker = Checker(store, 1000, 1)
        keys, right = put(store, checker, 1)
        process_server.stop()
        before = threading.active_count()
        begun = time.monotonic()
        for _ in range(6):
            read(store, checker, keys, right, timeout_s=0.2)
        assert time.monotonic() - begun < 6 * 0.2 + 2 * GRACE_S
        assert threading.active_count() <= before + 3
        process_server.go_on()


BROKEN = [
    pytest.param("redis", "restart", {"batch": "16k"}, id="redis"),
    pytest.param("s3", "restart", {}, id="s3", marks=pytest.mark.slow),
    pytest.param("mooncake", "restart", {}, id="mooncake's owner", marks=pytest.mark.slow),
    pytest.param("mooncake", "restart_master", {}, id="mooncake's master", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("engine", "how", "options"), BROKEN)
def test_a_server_that_restarts_in_a_batch(engine: str, how: str, options: dict[str, str], tmp_path: Path) -> None:
    with running(lambda: make_server(engine, tmp_path)) as server, opened(server, **options) as store:
        pages = 512 if engine == "s3" else 4096
        checker = Checker(store, 4000, pages)
        for _ in range(8):
            keys, right = put_in_the_end(store, checker, pages)
            begun = time.monotonic()
            assert read(store, checker, keys, right).done == pages
            whole_s = time.monotonic() - begun
            names, views, _ = checker.fresh(pages)
            with ThreadPoolExecutor(2) as pool:
                batch = pool.submit(read, store, checker, keys, right, 2.0)
                stored = pool.submit(timed, partial(store.put_from, names, views, timeout_s=2.0))
                time.sleep(whole_s / 2)
                getattr(server, how)()
                outcome = batch.result()
            assert stored.result() < 2.0 + GRACE_S
            assert outcome.wait_released(60)
            if outcome.done and {Status.FAILED, Status.LATE} & set(outcome.statuses):
                break  # it was met in the middle
        else:
            pytest.fail("no batch has met the restart")
        assert isinstance(outcome.error, TemporaryStorageError)
        keys, right = put_in_the_end(store, checker, 64)
        assert read(store, checker, keys, right).done == 64, "it is used again"


def timed(act: Callable[[], object]) -> float:
    begun = time.monotonic()
    act()
    return time.monotonic() - begun


def put_in_the_end(store: Backend, checker: Checker, pages: int) -> tuple[list[bytes], list[bytes]]:
    """Pages that are there and can be read: a server that was started just now takes none at first."""
    end = time.monotonic() + 60
    while True:
        keys, views, right = checker.fresh(pages)
        outcome = store.put_from(keys, views)
        assert outcome.wait_released(60)
        if outcome.done == pages and store.get_into(keys, checker.room(pages)).done == pages:
            return keys, [page.tobytes() for page in right]
        assert time.monotonic() < end, outcome.error
        time.sleep(0.2)


def test_exists_says_so_if_it_cannot_know(process_server: "Server", process_backend: Backend) -> None:
    process_server.stop()
    begun = time.monotonic()
    with pytest.raises(StorageTimeoutError, match="hint: "):
        process_backend.exists([b"key"], timeout_s=0.3)
    assert time.monotonic() - begun < 0.3 + GRACE_S
    process_server.go_on()


def test_no_late_byte_comes_to_a_page_of_another(process_server: "Server", process_backend: Backend) -> None:
    store, checker = process_backend, Checker(process_backend, 1000, 4)
    keys, _ = put(store, checker, 4)
    process_server.stop()
    room = checker.room(4)
    outcome = store.get_into(keys, room, timeout_s=0.2)
    process_server.go_on()
    assert outcome.wait_released(30)
    room.memory[:] = 7
    time.sleep(0.3)
    assert (np.asarray(room.memory) == 7).all(), "what was released is not written to"
