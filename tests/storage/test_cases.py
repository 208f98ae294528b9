"""Small inputs on which caches with external storage have failed in public, each with the value that is right."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from isoradix import Board, Query, Start
from isoradix.kv import HostPool, MHAShape
from isoradix.storage import Backend, Fingerprint, PageKeys, PageViews, Presence, Shard, open_storage
from isoradix.storage.tier import StorageTier

PAGE = 4
SHAPE = MHAShape(layers=1, heads=1, head_dim=8, dtype=torch.uint8)


def keys_of(page: int) -> PageKeys:
    return PageKeys(Fingerprint("model", "1", "uint8", SHAPE.describe(), "layer", page), Shard(0, 1))


KEYS = keys_of(PAGE)


class Log:
    """A board that remembers what it is told."""

    window = 64

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def post_progress(self, operation: int, tokens: int) -> bool:
        return True

    def ended(self, operation: int, succeeded: bool) -> None:
        self.heard.append(("ended", operation, succeeded))

    def finish(self, operation: int) -> None:
        self.heard.append(("finish", operation))


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def run(pages: int, page: int = PAGE) -> Any:
    return SimpleNamespace(namespace=(None, None), key=np.arange(pages * page, dtype=np.uint32), start=0)


def asked(backend: Any, pages: int, page: int = PAGE) -> tuple[int, list[tuple[Any, ...]]]:
    """What a tier finds of so many pages, and what its board heard."""
    with HostPool(SHAPE, 8, page, pinned=False) as host:
        log, tier = Log(), StorageTier(backend, keys_of(page), host)
        tier.attach(cast(Board, log))
        tier.query(cast(Query, SimpleNamespace(operation=0, run=run(pages, page))))
        found: list[tuple[int, int | bytes]] = []
        until(lambda: found or found.__iadd__(tier.answers()))
        tier.close()
    ((_, tokens),) = found
    return cast(int, tokens), log.heard


def store(effect: int, pages: int) -> Start:
    return cast(Start, SimpleNamespace(operation=effect, kind="store", pages=np.arange(pages), stored=(run(pages),)))


def test_pages_behind_a_gap_at_the_beginning_are_no_hit(tmp_path: Path) -> None:
    with open_storage(f"file://{tmp_path}") as backend:
        keys = KEYS.of(run(128).key)
        backend.put_from(keys[2:], PageViews.whole(np.zeros(126 * 64, np.uint8), 64))
        assert backend.exists(keys[2:]).leading == 126
        assert asked(backend, 128) == (0, [])


@pytest.mark.parametrize(
    ("hits", "pages", "questions", "tokens"),
    [
        ([96, 64], 256, [128], 768),
        ([128, 96, 64], 384, [128, 128], 1792),
        ([128, 128, 64], 384, [128, 128, 128], 2560),
    ],
)
def test_batches_that_hit_less_and_less_are_a_leading_run(
    hits: list[int], pages: int, questions: list[int], tokens: int
) -> None:
    """Batches of 128 pages, 1,024 tokens. What follows the first gap is no hit, nothing raises, and nobody asks on."""
    asked_for: list[int] = []

    class Shrinking:
        capabilities = SimpleNamespace(zero_copy=False, checked=True)

        def exists(self, keys: Sequence[bytes]) -> Presence:
            known = hits[len(asked_for)]
            asked_for.append(len(keys))
            return Presence((True,) * known + (False,) * (len(keys) - known))

    assert asked(cast(Backend, Shrinking()), pages, page=8) == (tokens, [])
    assert asked_for == questions


def test_a_write_that_raises_is_a_failure_and_the_thread_lives(tmp_path: Path) -> None:
    with open_storage(f"file://{tmp_path}") as inner, HostPool(SHAPE, 8, PAGE, pinned=False) as host:
        raises = threading.Event()
        raises.set()

        class Raising:
            def put_from(self, keys: Sequence[bytes], views: PageViews) -> Any:
                if raises.is_set():
                    raise OSError("no space left on device")
                return inner.put_from(keys, views)

            def __getattr__(self, name: str) -> Any:
                return getattr(inner, name)

        log, tier = Log(), StorageTier(cast(Backend, Raising()), KEYS, host)
        tier.attach(cast(Board, log))
        tier.start(store(0, 3))
        until(lambda: ("ended", 0, False) in log.heard)
        assert inner.exists(KEYS.of(run(3).key)).leading == 0
        raises.clear()
        tier.start(store(1, 3))
        until(lambda: ("ended", 1, True) in log.heard)
        tier.close()
        assert log.heard == [("ended", 0, False), ("ended", 1, True)]
        assert inner.exists(KEYS.of(run(3).key)).leading == 3
