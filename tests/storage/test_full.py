"""Servers without room, for any page or for a large one: they refuse or lose pages, and never hand out a wrong one."""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from isoradix.storage import Backend, PageViews, Status, TemporaryStorageError
from isoradix.storage.check import Checker

from .mooncake_server import MooncakeServer
from .servers import RedisServer, S3Server, Server, opened, running, small_disk

PAGE_BYTES = 200_000
MISSES = {Status.MISSING, Status.DONE}


def fill(store: Backend, batches: int) -> tuple[list[Status], list[Status]]:
    """Puts more than there is room for; what became of the puts, and of reading it all. Whatever is done is right."""
    checker = Checker(store, PAGE_BYTES, 8)
    put: list[Status] = []
    keys: list[bytes] = []
    right: list[bytes] = []
    for _ in range(batches):
        names, views, pages = checker.fresh(8)
        outcome = store.put_from(names, views, timeout_s=20)
        put += outcome.statuses
        assert (outcome.error is None) == (outcome.done == 8)
        assert outcome.error is None or isinstance(outcome.error, TemporaryStorageError)
        keys += names
        right += [page.tobytes() for page in pages]
    room = checker.room(len(keys))
    read = store.get_into(keys, room, timeout_s=20)
    for at, status in enumerate(read.statuses):
        assert status is not Status.DONE or room.read(at) == right[at]
    return put, list(read.statuses)


def redis(policy: str) -> Callable[[Path], Server]:
    return lambda folder: RedisServer(folder, policy, "8mb")


def mooncake(folder: Path) -> Server:
    return MooncakeServer(folder, 16 << 20)


@pytest.mark.parametrize("make", [redis("allkeys-lru"), mooncake], ids=["redis", "mooncake"])
def test_pages_that_are_lost_without_a_word_are_misses(make: Callable[[Path], Server], tmp_path: Path) -> None:
    with running(lambda: make(tmp_path)) as server, opened(server) as store:
        put, read = fill(store, 16)
        assert put.count(Status.DONE) > 8
        assert set(read) == MISSES, "some were lost, and some were not"
        assert read.count(Status.DONE) < put.count(Status.DONE)


def test_a_server_that_refuses_is_full(tmp_path: Path) -> None:
    with running(lambda: redis("noeviction")(tmp_path)) as server, opened(server) as store:
        put, read = fill(store, 8)
        assert set(put) == {Status.DONE, Status.FULL}
        assert read == [{Status.DONE: Status.DONE, Status.FULL: Status.MISSING}[status] for status in put]
        assert store.stats()["server_policy"] == "noeviction"


def test_a_full_disk_of_an_s3_server_is_temporary(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk", "12m") as disk,
        running(lambda: S3Server(disk)) as server,
        opened(server) as store,
    ):
        put, read = fill(store, 8)
        assert set(put) == {Status.DONE, Status.FAILED}, "the protocol has no word for it"
        assert read == [{Status.DONE: Status.DONE, Status.FAILED: Status.MISSING}[status] for status in put]


def large_values(folder: Path) -> Server:
    return RedisServer(folder, value="1mb")


LARGE = {
    "redis with too little memory": (redis("allkeys-lru"), {Status.FULL}),
    "redis with a limit of a value": (large_values, {Status.FAILED}),
    "mooncake with too small a segment": (mooncake, {Status.FULL}),
}


@pytest.mark.parametrize(("make", "said"), LARGE.values(), ids=LARGE)
def test_a_page_that_no_server_has_room_for(make: Callable[[Path], Server], said: set[Status], tmp_path: Path) -> None:
    with running(lambda: make(tmp_path)) as server, opened(server) as store:
        small, large = Checker(store, 1000, 2), Checker(store, 20 << 20, 1)
        names, views, right = small.fresh(2)
        assert store.put_from(names, views).done == 2
        keys, pages, _ = large.fresh(1)
        outcome = store.put_from(keys, pages, timeout_s=20)
        assert set(outcome.statuses) == said, outcome.error
        assert isinstance(outcome.error, TemporaryStorageError)
        assert store.get_into(keys, large.room(1), timeout_s=20).statuses == (Status.MISSING,)
        room = small.room(2)
        read = store.get_into(names, room)
        assert set(read.statuses) <= MISSES
        assert all(room.read(at) == right[at].tobytes() for at, s in enumerate(read.statuses) if s is Status.DONE)
        end = time.monotonic() + 20
        while store.put_from(names, views).done < 2:  # Redis keeps for seconds what the connection has sent
            assert time.monotonic() < end, "small ones are taken again"
            time.sleep(0.1)
        assert store.get_into(names, small.room(2)).done == 2


def test_a_page_over_the_limit_of_an_engine_is_not_sent(shared_server: Server) -> None:
    with opened(shared_server) as store:
        most = store.capabilities.page_bytes_max
        if most is None:
            pytest.skip("this engine has no limit")
        views = PageViews.whole(np.empty(most + 1, np.uint8), most + 1)
        assert store.put_from([b"large"], views).statuses == (Status.TOO_LARGE,)
        assert store.get_into([b"large"], views).statuses == (Status.MISSING,)
        assert store.exists([b"large"]).flags == (False,)
