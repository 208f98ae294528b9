"""What a store promises, tried on a store: by `isoradix storage check` on a user's own, by the tests on all of ours."""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from isoradix.storage.backend import Backend, Outcome
from isoradix.storage.call import Status
from isoradix.storage.views import PageViews

_GRACE_S: Final = 0.25
"""How much later than its deadline a call may return on a busy machine."""


@dataclass(frozen=True)
class Finding:
    """One promise, and whether it was kept."""

    name: str
    kept: bool
    detail: str
    """What was seen, where it was not kept."""


@dataclass(frozen=True)
class Speed:
    """Bytes a second of one verb."""

    verb: str
    pages: int
    bytes: int
    seconds: float

    @property
    def bytes_per_s(self) -> float:
        """Bytes of pages that were done, a second."""
        return self.bytes / self.seconds if self.seconds else 0.0


class Checker:
    """Tries promises with pages of its own, which it removes.

    Args:
        backend: the store.
        page_bytes: of a page.
        pages: of a batch.
        seed: of keys and bytes; None for others each time.
    """

    def __init__(self, backend: Backend, page_bytes: int, pages: int, seed: int | None = None) -> None:
        self._backend, self._page_bytes, self._pages = backend, page_bytes, pages
        self._random = np.random.default_rng(seed)
        self._salt = os.urandom(16) if seed is None else self._random.bytes(16)
        self._made = 0
        self.keys: list[bytes] = []
        """All keys that were used."""

    def promises(self) -> Iterator[tuple[str, Callable[[], str | None]]]:
        """Names of promises, and what tries each: it gives what was seen instead, or None."""
        yield "what was put is read, in several pieces too", self.content
        yield "what was not put is missing", self.missing
        yield "exists tells the first pages in a row", self.leading
        yield "a smaller or larger view is a miss", self.sizes
        yield "a page put again stays", self.again
        yield "writers at once leave whole pages", self.writers
        yield "what was removed is gone, or still right", self.removed
        yield "no call waits beyond its deadline", self.deadline

    def findings(self) -> Iterator[Finding]:
        """Tries them one after another, and removes what was put."""
        try:
            for name, attempt in self.promises():
                try:
                    seen = attempt()
                except Exception as error:
                    seen = f"{type(error).__name__}: {error}".splitlines()[0]
                yield Finding(name, seen is None, seen or "")
        finally:
            self.clean()

    def clean(self) -> None:
        """Removes all pages of this checker."""
        keys, self.keys = self.keys, []
        if keys:
            self._backend.remove(keys)

    # the promises

    def content(self) -> str | None:
        """Pages of one piece and of several."""
        for pieces in (1, 4):
            keys, views, right = self.fresh(self._pages, pieces)
            if seen := _not_done("put", self._backend.put_from(keys, views)):
                return seen
            room = self.room(self._pages, pieces)
            if seen := _not_done("get", self._backend.get_into(keys, room)):
                return seen
            if seen := _differ(room, right):
                return seen
        return None

    def missing(self) -> str | None:
        """Keys that nobody has put."""
        keys, room = self.names(self._pages), self.room(self._pages)
        outcome = self._backend.get_into(keys, room)
        if any(status is not Status.MISSING for status in outcome.statuses):
            return _statuses("get", outcome)
        known = self._backend.exists(keys)
        return f"exists says {known.flags.count(True)} are there" if any(known.flags) else None

    def leading(self) -> str | None:
        """A gap in the middle of a batch."""
        keys, views, _ = self.fresh(4)
        outcome = self._backend.put_from([keys[0], keys[1], keys[3]], views.take([0, 1, 3]))
        if seen := _not_done("put", outcome):
            return seen
        known = self._backend.exists(keys)
        if known.flags != (True, True, False, True) or known.leading != 2:
            return f"exists says {known.flags}"
        outcome = self._backend.get_into(keys, self.room(4))
        expected = (Status.DONE, Status.DONE, Status.MISSING, Status.DONE)
        return None if outcome.statuses == expected and outcome.leading == 2 else _statuses("get", outcome)

    def sizes(self) -> str | None:
        """Views of other sizes than the page."""
        keys, views, _ = self.fresh(1)
        if seen := _not_done("put", self._backend.put_from(keys, views)):
            return seen
        whole = self._page_bytes
        for size in (1, whole // 2, whole - 1, whole + 1, 2 * whole):
            for pieces in (1, 4) if size % 4 == 0 else (1,):
                places = np.arange(pieces).reshape(1, -1) * (size // pieces)
                outcome = self._backend.get_into(keys, PageViews(bytearray(size), places, size // pieces))
                if outcome.statuses != (Status.WRONG_SIZE,):
                    return f"{size} bytes in {pieces} pieces for a page of {whole}: {_statuses('get', outcome)}"
        return None

    def again(self) -> str | None:
        """The same pages, twice."""
        keys, views, right = self.fresh(2)
        for _ in range(2):
            if seen := _not_done("put", self._backend.put_from(keys, views)):
                return seen
        room = self.room(2)
        return _not_done("get", self._backend.get_into(keys, room)) or _differ(room, right)

    def writers(self) -> str | None:
        """Threads that put the same keys while others read them."""
        keys, views, right = self.fresh(self._pages)

        def read() -> str | None:
            room = self.room(self._pages)
            outcome = self._backend.get_into(keys, room)
            done = [at for at, status in enumerate(outcome.statuses) if status is Status.DONE]
            return _differ(room.take(done), right[done])

        with ThreadPoolExecutor(4) as pool:
            puts = [pool.submit(self._backend.put_from, keys, views) for _ in range(2)]
            reads = [pool.submit(read) for _ in range(2)]
            seen = [each.result() for each in reads]
            outcomes = [each.result() for each in puts]
        if any(seen):
            return next(filter(None, seen))
        if all(outcome.done < len(keys) for outcome in outcomes):
            return _statuses("put", outcomes[0])
        room = self.room(self._pages)
        return _not_done("get", self._backend.get_into(keys, room)) or _differ(room, right)

    def removed(self) -> str | None:
        """A page that was removed; some engines keep for a while what was just read."""
        keys, views, right = self.fresh(1)
        if seen := _not_done("put", self._backend.put_from(keys, views)):
            return seen
        self._backend.remove(keys)
        room = self.room(1)
        outcome = self._backend.get_into(keys, room)
        if outcome.statuses == (Status.DONE,):
            return _differ(room, right)
        return None if outcome.statuses == (Status.MISSING,) else _statuses("get", outcome)

    def deadline(self) -> str | None:
        """Calls with next to no time."""
        keys, views, _ = self.fresh(self._pages)
        for timeout_s in (0.0, 0.001):
            for verb, call in (("put", self._backend.put_from), ("get", self._backend.get_into)):
                begun = time.monotonic()
                outcome = call(keys, views, timeout_s=timeout_s)
                waited_s = time.monotonic() - begun
                if not outcome.wait_released(10.0):
                    return f"{verb} has not let go of its pages after 10 s"
                if waited_s > timeout_s + _GRACE_S:
                    return f"{verb} waited {waited_s:.3f} s with a deadline of {timeout_s} s"
        return None

    # speed

    def speeds(self, rounds: int, told: Callable[[int], None] | None = None) -> list[Speed]:
        """Batches put once and read once, by one caller; pages that were not done do not count."""
        totals = {"put": [0, 0.0], "get": [0, 0.0]}
        _, views, _ = self.fresh(self._pages)
        room = self.room(self._pages)
        room.memory[:] = 1  # taken from the machine before time is measured
        for memory in (views.memory, room.memory):
            self._backend.register(memory)
        for turn in range(rounds):
            keys = self.names(self._pages)
            for verb, call, where in (("put", self._backend.put_from, views), ("get", self._backend.get_into, room)):
                begun = time.perf_counter()
                outcome = call(keys, where)
                totals[verb][1] += time.perf_counter() - begun
                totals[verb][0] += outcome.done
                outcome.wait_released()
            self.clean()
            if told is not None:
                told(turn + 1)
        return [
            Speed(verb, int(pages), int(pages) * self._page_bytes, seconds) for verb, (pages, seconds) in totals.items()
        ]

    # pages

    def names(self, count: int) -> list[bytes]:
        """Keys that nobody has."""
        keys = [self._salt + (self._made + at).to_bytes(8, "little") * 6 for at in range(count)]
        self._made += count
        self.keys += keys
        return keys

    def fresh(self, count: int, pieces: int = 1) -> tuple[list[bytes], PageViews, npt.NDArray[np.uint8]]:
        """New keys, pages with random bytes, and a copy of these."""
        views = self.room(count, pieces)
        views.memory[:] = self._random.integers(0, 256, views.memory.size, np.uint8)
        right = np.array([np.frombuffer(views.read(at), np.uint8) for at in range(count)])
        return self.names(count), views, right.reshape(count, self._page_bytes)

    def room(self, count: int, pieces: int = 1) -> PageViews:
        """Pages full of zeros; those of several pieces lie as in a layer-first pool."""
        while self._page_bytes % pieces:
            pieces -= 1
        piece = self._page_bytes // pieces
        starts = np.arange(count).reshape(-1, 1) * piece + np.arange(pieces).reshape(1, -1) * (count * piece)
        return PageViews(np.zeros(count * self._page_bytes, np.uint8), np.ascontiguousarray(starts, np.int64), piece)


def _not_done(verb: str, outcome: Outcome) -> str | None:
    return None if outcome.done == len(outcome.statuses) else _statuses(verb, outcome)


def _statuses(verb: str, outcome: Outcome) -> str:
    seen = ", ".join(sorted({status.name.lower() for status in outcome.statuses}))
    return f"{verb} gave {seen}" + (f": {str(outcome.error).splitlines()[0]}" if outcome.error else "")


def _differ(room: PageViews, right: npt.NDArray[np.uint8]) -> str | None:
    wrong = [at for at in range(len(room)) if room.read(at) != right[at].tobytes()]
    return f"{len(wrong)} of {len(room)} pages that were done have wrong bytes" if wrong else None
