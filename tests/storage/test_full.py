"""Servers whose memory is full: they refuse pages or lose others, and never hand out a wrong one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from isoradix.storage import Backend, Status, TemporaryStorageError
from isoradix.storage.check import Checker

from .mooncake_server import MooncakeServer
from .servers import RedisServer, Server, opened, running

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
