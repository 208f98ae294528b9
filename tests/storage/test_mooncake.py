"""mooncake://: what only a cluster does."""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.ports import free_port

from isoradix.storage import Backend, PageViews, PermanentStorageError, Status, TemporaryStorageError, open_storage
from isoradix.storage.check import Checker

from .mooncake_server import MooncakeServer
from .servers import GRACE_S, opened, running


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MooncakeServer]:
    with running(lambda: MooncakeServer(tmp_path)) as server:
        assert isinstance(server, MooncakeServer)
        yield server


@pytest.fixture
def store(cluster: MooncakeServer) -> Iterator[Backend]:
    with opened(cluster) as backend:
        yield backend


def test_a_page_that_only_seems_to_be_there(cluster: MooncakeServer, store: Backend) -> None:
    checker = Checker(store, 1000, 4)
    keys, views, _ = checker.fresh(4)
    assert store.put_from(keys, views).done == 4
    cluster.owner.end()
    known = store.exists(keys)
    begun = time.monotonic()
    outcome = store.get_into(keys, views, timeout_s=3)
    assert time.monotonic() - begun < 3 + GRACE_S
    assert known.leading == 4, "the master does not know yet"
    assert outcome.done == 0
    assert isinstance(outcome.error, TemporaryStorageError)


def test_a_master_that_is_gone(cluster: MooncakeServer, store: Backend) -> None:
    checker = Checker(store, 1000, 4)
    keys, views, _ = checker.fresh(4)
    assert store.put_from(keys, views).done == 4
    cluster.master.end()
    other, pages, _ = checker.fresh(4)
    for act, names, where in ((store.get_into, keys, views), (store.put_from, other, pages)):
        begun = time.monotonic()
        outcome = act(names, where, timeout_s=0.5)
        assert time.monotonic() - begun < 0.5 + GRACE_S
        assert outcome.done == 0
        assert set(outcome.statuses) <= {Status.LATE, Status.FAILED}
        assert outcome.wait_released(30)


def test_a_process_that_gives_memory_of_its_own(cluster: MooncakeServer) -> None:
    with cluster.open(segment="32Mi") as owner, cluster.open() as other:
        checker = Checker(owner, 1000, 4)
        keys, views, right = checker.fresh(4)
        assert owner.put_from(keys, views).done == 4
        room = checker.room(4, 4)
        assert other.get_into(keys, room).done == 4
        assert [room.read(at) for at in range(4)] == [page.tobytes() for page in right]


def test_no_memory_of_its_own_is_said_by_zero_too(cluster: MooncakeServer) -> None:
    with cluster.open(segment="0") as store:
        keys, views, _ = Checker(store, 100, 2).fresh(2)
        assert store.put_from(keys, views).done == 2


def test_pages_with_room_behind_them_are_the_same_pages(store: Backend) -> None:
    page, spare = 1000, store.capabilities.spare_bytes
    assert spare > 0
    roomy = np.zeros(4 * (page + spare), np.uint8)
    tight = np.zeros(4 * page, np.uint8)
    views = PageViews.whole(roomy, page, spare=spare), PageViews.whole(tight, page)
    for source, target, first in ((*views, 1), (*views[::-1], 5)):
        keys = [bytes([first + at]) * 8 for at in range(4)]
        for place in range(4):
            source.write(place, bytes([first + place]) * page)
        assert store.put_from(keys, source).done == 4
        assert store.get_into([keys[2], keys[0], b"none", keys[3]], target).statuses == (
            *(Status.DONE,) * 2,
            Status.MISSING,
            Status.DONE,
        )
        assert target.read(0) == bytes([first + 2]) * page
        assert target.read(3) == bytes([first + 3]) * page


def test_prefixes_are_apart(cluster: MooncakeServer) -> None:
    with cluster.open(prefix="one/") as one, cluster.open(prefix="two/") as two:
        keys, views, _ = Checker(one, 100, 2).fresh(2)
        assert one.put_from(keys, views).done == 2
        assert two.exists(keys).leading == 0
        two.clear()
        assert one.get_into(keys, views).done == 2
        one.clear()
        assert one.get_into(keys, views).done == 0


def test_no_master_answers() -> None:
    pytest.importorskip("mooncake.store")
    begun = time.monotonic()
    with pytest.raises(TemporaryStorageError):
        open_storage(f"mooncake://127.0.0.1:{free_port()}?connect=1")
    assert time.monotonic() - begun < 1 + GRACE_S


@pytest.mark.parametrize("rest", ["host", "", "host:1?protocol=udp", "host:1?prefix=a.*b", "host:1?segmet=1G"])
def test_urls_that_are_refused(rest: str) -> None:
    pytest.importorskip("mooncake.store")
    with pytest.raises(PermanentStorageError, match="hint: "):
        open_storage(f"mooncake://{rest}")


def test_a_master_that_stands_still_at_the_end(cluster: MooncakeServer) -> None:
    store = opened(cluster, timeout=0.5)
    cluster.stop()
    begun = time.monotonic()
    store.close()
    assert time.monotonic() - begun < 0.5 + GRACE_S
    cluster.go_on()
