"""file://: folders, limits, full disks, several processes."""

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from isoradix import InvalidInputError
from isoradix.storage import PageViews, PermanentStorageError, SGLangKeys, Status, TemporaryStorageError, open_storage
from isoradix.storage.check import Checker

from .servers import small_disk

SEAL = 32


def test_pages_outlive_their_process(tmp_path: Path) -> None:
    with open_storage(f"file://{tmp_path}/kv") as store:
        checker = Checker(store, 3000, 3)
        keys, views, right = checker.fresh(3)
        assert store.put_from(keys, views).done == 3
    with open_storage(f"file://{tmp_path}/kv?direct=yes") as store:
        room = checker.room(3)
        assert store.get_into(keys, room).done == 3
        assert all(room.read(at) == right[at].tobytes() for at in range(3))
        assert store.stats()["pages"] == 3


def test_the_limit_is_kept(tmp_path: Path) -> None:
    with open_storage(f"file://{tmp_path}/kv?limit={10 * (1000 + SEAL)}") as store:
        checker = Checker(store, 1000, 4)
        kept: list[bytes] = []
        for _ in range(10):
            keys, views, _ = checker.fresh(4)
            assert store.put_from(keys, views).done == 4
            kept += keys
        assert store.stats()["bytes"] == 10 * (1000 + SEAL)
        assert store.stats()["evicted_here"] == 30
        assert store.exists(kept).flags == (False,) * 30 + (True,) * 10
        large = PageViews.whole(bytearray(20_000), 20_000)
        assert store.put_from([b"large"], large).statuses == (Status.TOO_LARGE,)
        assert store.stats()["pages"] == 10


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "1m") as disk:
        yield disk


def test_a_full_disk_is_temporary(disk: Path) -> None:
    with open_storage(f"file://{disk}/kv") as store:
        checker = Checker(store, 300_000, 5)
        keys, views, right = checker.fresh(5)
        outcome = store.put_from(keys, views)
        assert set(outcome.statuses) == {Status.DONE, Status.FULL}
        assert isinstance(outcome.error, TemporaryStorageError)
        room = checker.room(5)
        read = store.get_into(keys, room)
        expected = {Status.DONE: Status.DONE, Status.FULL: Status.MISSING}
        assert read.statuses == tuple(expected[status] for status in outcome.statuses)
        assert all(room.read(at) == right[at].tobytes() for at, s in enumerate(read.statuses) if s is Status.DONE)
        assert not list((disk / "kv" / "unfinished").iterdir()), "what was not finished is removed"
        store.clear()
        assert store.put_from(keys[:2], views.take([0, 1])).done == 2


def test_a_limit_on_a_full_disk(disk: Path) -> None:
    with open_storage(f"file://{disk}/kv?limit=10M") as store:
        checker = Checker(store, 200_000, 8)
        for _ in range(3):
            keys, views, right = checker.fresh(8)
            outcome = store.put_from(keys, views)
            room = checker.room(8)
            read = store.get_into(keys, room)
            assert read.done <= outcome.done
            assert all(room.read(at) == right[at].tobytes() for at, s in enumerate(read.statuses) if s is Status.DONE)


def page_of(key: bytes) -> bytes:
    """What is always stored under a key."""
    return np.random.default_rng(int.from_bytes(key, "little")).bytes(5000)


def use(url: str, seed: int, rounds: int) -> None:
    """Puts and reads pages of a few keys; fails at a wrong byte."""
    chosen = random.Random(seed)
    with open_storage(url) as store:
        for _ in range(rounds):
            keys = [number.to_bytes(2, "little") for number in chosen.sample(range(30), 4)]
            if chosen.random() < 0.5:
                store.put_from(keys, PageViews.whole(bytearray(b"".join(map(page_of, keys))), 5000))
                continue
            room = PageViews.whole(bytearray(20_000), 5000)
            outcome = store.get_into(keys, room)
            for at, status in enumerate(outcome.statuses):
                assert status in (Status.DONE, Status.MISSING), status
                assert status is Status.MISSING or room.read(at) == page_of(keys[at])


def test_processes_share_a_folder(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/kv?limit={12 * (5000 + SEAL)}"
    context = multiprocessing.get_context("spawn")
    users = [context.Process(target=use, args=(url, seed, 120)) for seed in range(3)]
    for user in users:
        user.start()
    for user in users:
        user.join(120)
    assert [user.exitcode for user in users] == [0, 0, 0]
    with open_storage(url) as store:
        stats = store.stats()
        assert stats["pages"] in range(1, 13)
        files = [path.stat().st_size for path in (tmp_path / "kv" / "pages").glob("*/*.page")]
        assert (len(files), sum(files)) == (stats["pages"], stats["bytes"])


def test_a_process_that_is_killed_or_stands_still_holds_nobody_up(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/kv?limit={12 * (5000 + SEAL)}"
    context = multiprocessing.get_context("spawn")
    for number in (signal.SIGKILL, signal.SIGSTOP):
        user = context.Process(target=use, args=(url, 9, 1_000_000))
        user.start()
        end = time.monotonic() + 30
        while not list((tmp_path / "kv").glob("pages/*/*.page")) and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(0.1)
        assert user.pid is not None
        os.kill(user.pid, number)
        use(url, 1, 60)
        user.kill()
        user.join(30)
    with open_storage(url) as store:
        files = list((tmp_path / "kv" / "pages").glob("*/*.page"))
        assert store.stats()["pages"] == len(files)


def test_files_of_sglang(tmp_path: Path) -> None:
    keys = SGLangKeys("org/model", 4, tp_rank=0, tp_size=2).of(list(range(8)))
    page = bytes(range(200))
    (tmp_path / f"{keys[0].decode()}.bin").write_bytes(page)  # as a server has written it
    with open_storage(f"file://{tmp_path}?format=sglang") as store:
        assert not store.capabilities.checked
        room = PageViews.whole(bytearray(400), 200)
        assert store.exists(keys).leading == 1
        assert store.get_into(keys, room).statuses == (Status.DONE, Status.MISSING)
        assert room.read(0) == page
        room.write(1, page[::-1])
        assert store.put_from(keys[1:], room.take([1])).done == 1
        with pytest.raises(InvalidInputError, match="file's name"):
            store.exists([b"../key"])
    assert (tmp_path / f"{keys[1].decode()}.bin").read_bytes() == page[::-1]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("file://", "names no folder"),
        ("file://host/folder", "names no folder"),
        ("file:///", "names no folder"),
        ("file:///proc/nowhere", "cannot make the folder"),
        ("file:///tmp/kv?limit=much", "option limit"),
        ("file:///tmp/kv?limit=0", "option limit"),
        ("file:///tmp/kv?direct=perhaps", "option direct"),
        ("file:///tmp/kv?format=other", "option format"),
        ("file:///tmp/kv?limit=1G&format=sglang", "has a limit"),
        ("file:///tmp/kv?limti=1G", "does not know: limti"),
    ],
)
def test_urls_that_are_refused(url: str, message: str) -> None:
    with pytest.raises(PermanentStorageError, match=message) as refused:
        open_storage(url)
    assert "\nhint: " in str(refused.value)
