"""The tier between a rank's driver and a storage engine: what its board hears, however storage answers."""

import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from isoradix import Board, InvalidInputError, Start
from isoradix.kv import HostPool, MHAShape
from isoradix.storage import (
    Backend,
    Fingerprint,
    Outcome,
    PageKeys,
    PageViews,
    PermanentStorageError,
    Presence,
    Shard,
    Status,
    StorageTimeoutError,
    TemporaryStorageError,
    open_storage,
)
from isoradix.storage.staging import Staged
from isoradix.storage.tier import StorageTier

from .rig import Log, query, until

PAGE = 4
SHAPE = MHAShape(layers=2, heads=1, head_dim=8, dtype=torch.uint8)
KEYS = PageKeys(Fingerprint("model", "1", "uint8", SHAPE.describe(), "layer", PAGE), Shard(0, 2))


class Slow:
    """A backend whose questions and transfers wait for leave, or fail."""

    def __init__(self, inner: Backend, error: Exception | None = None) -> None:
        self._inner, self._error = inner, error
        self.leave = threading.Event()
        self.asked = threading.Event()

    def exists(self, keys: Sequence[bytes]) -> Presence:
        self._wait()
        return self._inner.exists(keys)

    def get_into(self, keys: Sequence[bytes], views: PageViews) -> Any:
        self._wait()
        return self._inner.get_into(keys, views)

    def _wait(self) -> None:
        self.asked.set()
        assert self.leave.wait(10)
        if self._error is not None:
            raise self._error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


AWAY = TemporaryStorageError("away")


class Refusing:
    """A backend that has every page, and moves none."""

    def __init__(self, inner: Backend, outcome: Outcome) -> None:
        self.capabilities = inner.capabilities
        self.put_from = self.get_into = lambda keys, views: outcome

    def exists(self, keys: Sequence[bytes]) -> Presence:
        return Presence((True,) * len(keys))


class Flaky:
    """A backend whose calls fail so many times each, before they are made; it remembers them, with their pages."""

    def __init__(self, inner: Backend, failures: int, error: Exception = AWAY, status: Status = Status.FAILED) -> None:
        self._inner, self._failures, self._error, self._status = inner, failures, error, status
        self.calls: list[tuple[str, int]] = []

    def exists(self, keys: Sequence[bytes]) -> Presence:
        if self._fails("exists", keys):
            raise self._error
        return self._inner.exists(keys)

    def get_into(self, keys: Sequence[bytes], views: PageViews) -> Any:
        return self._refusal(keys) if self._fails("get", keys) else self._inner.get_into(keys, views)

    def put_from(self, keys: Sequence[bytes], views: PageViews) -> Any:
        return self._refusal(keys) if self._fails("put", keys) else self._inner.put_from(keys, views)

    def _refusal(self, keys: Sequence[bytes]) -> Outcome:
        return Outcome((self._status,) * len(keys), cast(Any, self._error))

    def _fails(self, verb: str, keys: Sequence[bytes]) -> bool:
        self.calls.append((verb, len(keys)))
        return self.calls.count((verb, len(keys))) <= self._failures

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Backend]:
    with open_storage(f"file://{tmp_path}") as store:
        yield store


@pytest.fixture(params=["layer_first", "page_first"])
def host(request: pytest.FixtureRequest) -> Iterator[HostPool]:
    with HostPool(SHAPE, 300, PAGE, request.param, pinned=False) as pool:
        pool.memory.numpy()[:] = np.random.default_rng(1).integers(0, 256, pool.memory.numel(), np.uint8)
        yield pool


def run(pages: int, start: int = 0) -> Any:
    key = np.arange((start + pages) * PAGE, dtype=np.uint32)
    return SimpleNamespace(namespace=(None, None), key=key, start=start * PAGE)


def effect(operation: int, kind: str, pages: Sequence[int], *runs: Any) -> Start:
    return cast(Start, SimpleNamespace(operation=operation, kind=kind, pages=np.array(pages), stored=runs))


def answered(tier: StorageTier) -> list[tuple[int, int | bytes]]:
    """What it has found, once it has."""
    found: list[tuple[int, int | bytes]] = []

    def hears() -> bool:
        found.extend(tier.answers())
        return bool(found)

    until(hears)
    return found


def bytes_of(pool: HostPool, pages: Sequence[int]) -> list[bytes]:
    views = PageViews.of_pool(pool, np.array(pages))
    return [views.read(place) for place in range(len(pages))]


def tier_over(backend: Any, host: HostPool, **options: Any) -> tuple[StorageTier, Log]:
    log, tier = Log(), StorageTier(backend, KEYS, host, **options)
    tier.attach(cast(Board, log))
    return tier, log


@pytest.mark.parametrize("staged", [False, True])
def test_what_is_stored_is_found_and_fetched(backend: Backend, host: HostPool, staged: bool) -> None:
    tier, log = tier_over(backend, host, staged=staged)
    stored = list(range(150))
    tier.start(effect(0, "store", stored, run(100), run(50, 100)))
    until(lambda: ("ended", 0, True) in log.heard)
    tier.query(query(1, run(200)))
    found = answered(tier)
    assert found == [(1, 150 * PAGE)]
    fetched = list(range(299, 149, -1))
    tier.start(effect(1, "prefetch", fetched, run(200)))
    until(lambda: ("ended", 1, True) in log.heard)
    tier.close()
    assert bytes_of(host, fetched) == bytes_of(host, stored)
    assert log.heard[1:] == [("progress", 1, 128 * PAGE), ("progress", 1, 150 * PAGE), ("ended", 1, True)]


def test_a_broken_page_ends_the_prefetch_there_and_is_not_found_again(
    backend: Backend, host: HostPool, tmp_path: Path
) -> None:
    tier, log = tier_over(backend, host)
    tier.start(effect(0, "store", [0, 1, 2], run(3)))
    until(lambda: ("ended", 0, True) in log.heard)
    broken = next(path for path in (tmp_path / "pages").rglob("*") if path.is_file())
    broken.write_bytes(broken.read_bytes()[:-1] + b"?")
    tier.query(query(1, run(3)))
    until(tier.answers)
    tier.start(effect(1, "prefetch", [10, 11, 12], run(3)))
    until(lambda: ("ended", 1, True) in log.heard)
    progress = next(tokens for what, *_, tokens in log.heard if what == "progress")
    tier.query(query(2, run(3)))
    found = answered(tier)
    tier.close()
    assert found == [(2, progress)]
    assert progress < 3 * PAGE


def test_a_page_evicted_since_the_question_ends_the_prefetch_there_and_is_no_failure(
    backend: Backend, host: HostPool
) -> None:
    tier, log = tier_over(backend, host)
    tier.start(effect(0, "store", [0, 1, 2], run(3)))
    until(lambda: ("ended", 0, True) in log.heard)
    tier.query(query(1, run(3)))
    assert answered(tier) == [(1, 3 * PAGE)]
    backend.remove([KEYS.of(run(3).key)[1]])
    tier.start(effect(1, "prefetch", [10, 11, 12], run(3)))
    until(lambda: ("ended", 1, True) in log.heard)
    tier.close()
    assert log.heard[1:] == [("progress", 1, PAGE), ("ended", 1, True)]
    assert bytes_of(host, [10]) == bytes_of(host, [0])


def test_a_question_that_fails_is_a_failure_of_this_rank(backend: Backend, host: HostPool) -> None:
    slow = Slow(backend, TemporaryStorageError("away"))
    tier, log = tier_over(slow, host)
    slow.leave.set()
    tier.query(query(5, run(3)))
    until(lambda: log.heard)
    tier.close()
    assert log.heard == [("ended", 5, False)]
    assert tier.answers() == []


def test_a_call_that_fails_twice_is_no_failure_of_this_rank(backend: Backend, host: HostPool) -> None:
    flaky = Flaky(backend, 2)
    tier, log = tier_over(flaky, host)
    tier.start(effect(0, "store", [0, 1, 2], run(2), run(1, 2)))
    until(lambda: log.heard)
    tier.query(query(1, run(3)))
    found = answered(tier)
    tier.start(effect(1, "prefetch", [10, 11, 12], run(3)))
    until(lambda: ("ended", 1, True) in log.heard)
    tier.close()
    assert log.heard == [("ended", 0, True), ("progress", 1, 3 * PAGE), ("ended", 1, True)]
    assert found == [(1, 3 * PAGE)]
    assert flaky.calls == [(verb, 3) for verb in ("put", "exists", "get") for _ in range(3)], "one call for both runs"
    assert bytes_of(host, [10, 11, 12]) == bytes_of(host, [0, 1, 2])


@pytest.mark.parametrize(
    ("error", "status"),
    [(StorageTimeoutError("late"), Status.LATE), (PermanentStorageError("no"), Status.FAILED), (AWAY, Status.FULL)],
    ids=["late", "refused for good", "full"],
)
def test_what_the_same_call_would_not_mend_is_not_tried_again(
    backend: Backend, host: HostPool, error: Exception, status: Status
) -> None:
    flaky = Flaky(backend, 9, error, status)
    tier, log = tier_over(flaky, host)
    tier.start(effect(0, "store", [0, 1, 2], run(3)))
    until(lambda: log.heard)
    tier.close()
    assert log.heard == [("ended", 0, False)]
    assert flaky.calls == [("put", 3)]


def test_a_refusal_for_good_stays_one(backend: Backend, host: HostPool, caplog: pytest.LogCaptureFixture) -> None:
    refusal = PermanentStorageError("s3: access denied\nhint: AWS_ACCESS_KEY_ID names who asks")
    for error, said in ((refusal, "storage refuses for good: s3: access denied"), (AWAY, "the next is away")):
        refused = Outcome((Status.FAILED,) * 3, error)
        tier, log = tier_over(Refusing(backend, refused), host)
        tier.start(effect(0, "store", [0, 1, 2], run(3)))
        until(partial(log.heard.count, ("ended", 0, False)))
        assert len(log.heard) == 1, "what is decided above is the same"
        tier.query(query(1, run(3)))
        assert answered(tier) == [(1, 3 * PAGE)]
        tier.start(effect(1, "prefetch", [0, 1, 2], run(3)))
        until(partial(log.heard.count, ("ended", 1, False)))
        tier.close()
        failures = [record for record in caplog.records if said in record.getMessage()]
        assert [type(record.args[2]) for record in failures if isinstance(record.args, tuple)] == [type(error)] * 2


def test_what_is_cancelled_ends_once(backend: Backend, host: HostPool) -> None:
    slow = Slow(backend)
    tier, log = tier_over(slow, host)
    tier.query(query(1, run(3)))
    assert slow.asked.wait(10)
    assert tier.cancel(1)  # asked, and touching no page
    assert log.heard == [("finish", 1)]
    slow.leave.set()
    until(tier.answers)  # late, and no matter
    slow.leave.clear()
    slow.asked.clear()
    tier.query(query(2, run(3)))
    slow.leave.set()
    until(tier.answers)
    slow.leave.clear()
    slow.asked.clear()
    tier.start(effect(2, "prefetch", [1, 2, 3], run(3)))
    assert slow.asked.wait(10)
    assert tier.cancel(2)  # it touches pages still
    assert log.heard == [("finish", 1)]
    slow.leave.set()
    until(lambda: ("finish", 2) in log.heard)
    assert not tier.cancel(9), "never seen: it is the copy engine's"
    tier.close()


def test_ranks_that_do_not_write_agree_with_the_one_that_does(backend: Backend, host: HostPool) -> None:
    tier, log = tier_over(backend, host, writes=False)
    tier.start(effect(0, "store", [0], run(1)))
    until(lambda: ("ended", 0, True) in log.heard)
    tier.close()
    assert backend.exists(KEYS.of(np.arange(PAGE))).leading == 0


def test_copies_between_device_and_host_are_refused(backend: Backend, host: HostPool) -> None:
    tier, _ = tier_over(backend, host)
    with pytest.raises(InvalidInputError, match="copy engine"):
        tier.start(effect(0, "backup", [0]))
    tier.close()


def test_memory_of_a_late_call_is_left_to_it(backend: Backend, host: HostPool) -> None:
    """What a call that was given up writes later, it writes where nobody reads."""
    released = False
    given: list[PageViews] = []

    def get_into(_keys: Sequence[bytes], views: PageViews) -> Any:
        given.append(views)
        return SimpleNamespace(leading=0, released=released, statuses=(), error=None)

    staged = Staged(cast(Backend, SimpleNamespace(get_into=get_into)))
    views = PageViews.of_pool(host, np.arange(3))
    before = bytes_of(host, [0, 1, 2])
    staged.get([b"a", b"b", b"c"], views)
    released = True
    staged.get([b"a", b"b", b"c"], views)
    staged.get([b"a", b"b", b"c"], views)
    assert given[0].memory is not given[1].memory
    assert given[1].memory is given[2].memory
    given[0].memory[:] = 7
    assert bytes_of(host, [0, 1, 2]) == before
