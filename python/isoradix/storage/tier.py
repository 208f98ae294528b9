"""One rank's external storage: what carries out prefetches and stores, at this rank's own speed.

It decides nothing. Queries, downloads and uploads run on threads of their own; what they come to is told to the board,
where only the ballot reads it, or handed to the driver, which tells the core on the scheduler's thread. However storage
fails, an operation ends: as a miss or a failure of this rank, which all ranks then agree upon.
"""

import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import numpy as np

from isoradix import Board, InvalidInputError, Query, Start, StoredRun
from isoradix.copies.operations import OpenCopy, Operations
from isoradix.storage.backend import Backend, Outcome, Presence
from isoradix.storage.call import Status
from isoradix.storage.components import ComponentPages
from isoradix.storage.errors import (
    PermanentStorageError,
    StorageError,
    StorageTimeoutError,
    TemporaryStorageError,
    first_line,
)
from isoradix.storage.keys import KeyScheme
from isoradix.storage.staging import BATCH_PAGES, InPlace, Staged, rows_at_once
from isoradix.storage.views import Order, PageViews

if TYPE_CHECKING:
    from isoradix.kv import HostPool

LOG: Final = logging.getLogger("isoradix.storage")
CLOSE_S: Final = 10.0
"""How long a tier that is closed waits for the call that each thread is in: beyond a call's own deadline."""
TRIES: Final = 3
"""Of a call that storage fails at once, before this rank says that it has failed. All ranks would have to do the whole
operation again, and all of them succeed in it together. A call that is late has had its time."""


class Storage(Protocol):
    """What a driver carries prefetches and stores out with."""

    def attach(self, board: Board) -> None:
        """The board to report to. Once, before the first effect."""

    def query(self, effect: Query) -> None:
        """Asks how much of a run is there; the answer is one of the next `answers`. Returns at once."""

    def start(self, effect: Start) -> None:
        """Begins a prefetch or a store; returns at once, and tells the board how it goes."""

    def cancel(self, operation: int) -> bool:
        """Stops a prefetch or a store, as `CopyEngine.cancel` stops a copy; False if it is none of these."""

    def answers(self) -> Sequence[tuple[int, "int | bytes"]]:
        """Prefetches whose question was answered meanwhile, and the tokens that are there. Where there are components,
        a byte for each page that is there, with the bits of the components that are there beside it.

        Raises:
            ProtocolError: the board refused a report.
        """

    def close(self) -> None:
        """Ends all threads, after what they are at; what has not begun is dropped. A no-op the second time."""

    @property
    def components(self) -> "Sequence[str | None]":
        """What it moves beside keys and values: names, in the order of the cache's components; None for what is not
        here."""


class StorageTier:
    """A rank's pages in external storage: see `Storage`.

    Args:
        backend: the storage; closed by its owner, after this.
        keys: names its pages.
        host: the host pages of this rank.
        order: of a page's bytes in storage, as in the keys' fingerprint.
        writes: whether this rank stores: where several hold equal bytes, one of them does, and the others agree.
        components: what there is beside keys and values, in the order of the cache's components; None for one that this
            rank's stage has no layers of. Where a page goes, its parts go, by `Start.parts`.
        staged: whether pages pass through memory of their own, so that a call that never ends holds none of the host's;
            by default they do where the engine works in place. False spares a copy, and trusts that every call ends.

    Raises:
        ProtocolError: the pool is closed.
    """

    def __init__(
        self,
        backend: Backend,
        keys: KeyScheme,
        host: "HostPool",
        *,
        order: Order = "layer",
        writes: bool = True,
        components: Sequence[ComponentPages | None] = (),
        staged: bool | None = None,
    ) -> None:
        can = backend.capabilities
        staged = can.zero_copy if staged is None else staged
        self._forgets = can.checked  # what other software has written has no seal, and is its own to remove
        self._backend, self._keys, self._host, self._order, self._writes = backend, keys, host, order, writes
        self._beside = [(1 << place, each) for place, each in enumerate(components) if each is not None]
        self._components = tuple(None if each is None else each.name for each in components)
        self._operations = Operations()
        self._answers: deque[tuple[int, int | bytes]] = deque()
        self._asked: dict[int, OpenCopy] = {}
        self._lanes = {name: _Lane(name) for name in ("query", "prefetch", "store")}
        ways = [Staged(backend, can.spare_bytes) if staged else InPlace(backend) for _ in range(2)]
        self._ways = dict(zip(("prefetch", "store"), ways, strict=True))
        self._page = host.page_size
        self._finalizer = weakref.finalize(self, _close, self._operations, list(self._lanes.values()))

    @property
    def components(self) -> tuple[str | None, ...]:
        """What it moves beside keys and values: see `Storage`."""
        return self._components

    def attach(self, board: Board) -> None:
        """The board to report to: see `Storage`."""
        self._board = board
        self._operations.attach(board)

    def query(self, effect: Query) -> None:
        """Asks for a run: see `Storage`."""
        copy = OpenCopy(effect.operation, "prefetch", 0)
        self._operations.start(copy)
        self._asked[effect.operation] = copy
        self._lanes["query"].put(lambda: self._ask(copy, effect.run))

    def start(self, effect: Start) -> None:
        """Begins a prefetch or a store: see `Storage`.

        Raises:
            InvalidInputError: it is neither.
        """
        if effect.kind == "prefetch":
            copy = self._asked.pop(effect.operation)
            self._lanes["prefetch"].put(lambda: self._carry(copy, lambda: self._fetch(copy, effect)))
        elif effect.kind == "store":
            copy = OpenCopy(effect.operation, "store", 0)
            self._operations.start(copy)
            self._lanes["store"].put(lambda: self._carry(copy, lambda: self._store(copy, effect)))
        else:
            what = f"operation {effect.operation} is a {effect.kind}, which no storage takes part in"
            raise InvalidInputError(f"{what}\nhint: give it to the copy engine")

    def cancel(self, operation: int) -> bool:
        """Stops one: see `Storage`."""
        self._asked.pop(operation, None)
        if not self._operations.knows(operation):
            return False
        self._operations.cancel(operation)
        return True

    def answers(self) -> list[tuple[int, int | bytes]]:
        """What was found meanwhile: see `Storage`."""
        self._operations.raise_fault()
        found = []
        while self._answers:
            found.append(self._answers.popleft())
        return found

    def close(self) -> None:
        """Ends its threads: see `Storage`."""
        self._finalizer()

    # on the threads

    def _ask(self, copy: OpenCopy, run: StoredRun) -> None:
        """The leading pages that storage knows, a batch at a time: the first gap ends it."""
        if self._operations.closed:
            return
        try:
            keys, found = self._keys_of(run), 0
            while found < len(keys) and not self._is_unwanted(copy):
                batch = keys[found : found + BATCH_PAGES]
                known = self._asked_for(copy, batch).leading
                found += known
                if known < len(batch):
                    break
            answer = self._parts_of(copy, run, found) if self._components else found * self._page
        except Exception as error:
            if self._operations.begin(copy):
                self._operations.end(copy, error)
        else:
            self._answers.append((copy.operation, answer))

    def _parts_of(self, copy: OpenCopy, run: StoredRun, pages: int) -> bytes:
        """What there is beside the leading pages: a byte each. Where a prefix may end because of it, the core finds."""
        parts = bytearray(pages)
        for bit, component in self._beside:
            keys = self._keys_of(run, component.keys)[:pages]
            for begin in range(0, pages, BATCH_PAGES):
                if self._is_unwanted(copy):
                    break
                for place, known in enumerate(self._asked_for(copy, keys[begin : begin + BATCH_PAGES]).flags, begin):
                    parts[place] |= bit if known else 0
        return bytes(parts)

    def _carry(self, copy: OpenCopy, work: Callable[[], None]) -> None:
        if self._operations.closed or not self._operations.begin(copy):
            return
        try:
            work()
        except Exception as error:
            self._operations.end(copy, error)
        else:
            self._operations.end(copy)

    def _is_unwanted(self, copy: OpenCopy) -> bool:
        """Whether nobody waits for the rest of it."""
        return copy.cancelled or self._operations.closed

    def _fetch(self, copy: OpenCopy, effect: Start) -> None:
        # first what an end cannot do without: the last page that is told of has all of it
        if not self._move_beside(copy, effect, "prefetch"):
            return
        keys = self._keys_of(effect.stored[0])
        done = 0
        for begin in range(0, len(effect.pages), BATCH_PAGES):
            if self._is_unwanted(copy):
                return
            views = self._views(effect.pages[begin : begin + BATCH_PAGES])
            batch = keys[begin : begin + len(views)]
            outcome = self._moved(copy, "prefetch", batch, views)
            done += outcome.leading
            self._board.post_progress(copy.operation, done * self._page)
            if outcome.leading < len(views):
                self._forget(batch, outcome.statuses)
                if _is_miss(outcome):
                    return
                raise _short(f"{done} of {len(effect.pages)} pages have come", outcome)

    def _store(self, copy: OpenCopy, effect: Start) -> None:
        if not self._writes:
            return
        keys = [key for run in effect.stored for key in self._keys_of(run)]
        for begin in range(0, len(keys), BATCH_PAGES):
            if self._is_unwanted(copy):
                return
            views = self._views(effect.pages[begin : begin + BATCH_PAGES])
            outcome = self._moved(copy, "store", keys[begin : begin + len(views)], views)
            if outcome.leading < len(views):
                raise _short("not all pages were taken", outcome)
        self._move_beside(copy, effect, "store")

    def _move_beside(self, copy: OpenCopy, effect: Start, how: Literal["prefetch", "store"]) -> bool:
        """Reads or writes what goes beside the pages; False if not all is there, or nobody wants it any more."""
        for bit, component in self._beside:
            places = np.flatnonzero(effect.parts & bit)
            names = [key for run in effect.stored for key in self._keys_of(run, component.keys)] if len(places) else []
            at_once = rows_at_once(component.views(effect.pages[places[:1]]).page_bytes) if len(places) else 1
            for begin in range(0, len(places), at_once):
                if self._is_unwanted(copy):
                    return False
                some = places[begin : begin + at_once]
                keys, views = [names[place] for place in some], component.views(effect.pages[some])
                outcome = self._moved(copy, how, keys, views)
                if outcome.leading < len(views):
                    if how == "prefetch":
                        self._forget(keys, outcome.statuses)
                        if _is_miss(outcome):
                            return False
                    raise _short("not all that lies beside the pages was moved", outcome)
        return True

    def _asked_for(self, copy: OpenCopy, keys: Sequence[bytes]) -> Presence:
        """Which pages storage knows."""
        for _ in range(TRIES - 1):
            try:
                return self._backend.exists(keys)
            except TemporaryStorageError as error:
                if not _is_prompt(error) or self._is_unwanted(copy):
                    raise
        return self._backend.exists(keys)

    def _moved(
        self, copy: OpenCopy, how: Literal["prefetch", "store"], keys: Sequence[bytes], views: PageViews
    ) -> Outcome:
        """What a read or a write of these pages has come to."""
        way = self._ways[how]
        call = way.get if how == "prefetch" else way.put
        outcome = call(keys, views)
        for _ in range(TRIES - 1):
            failed = outcome.leading < len(keys) and outcome.statuses[outcome.leading] is Status.FAILED
            if not failed or not _is_prompt(outcome.error) or self._is_unwanted(copy):
                break
            outcome = call(keys, views)
        return outcome

    def _forget(self, keys: Sequence[bytes], statuses: Sequence[Status]) -> None:
        """What can never be read is removed, or it would be found, and fail, again and again."""
        broken = [key for key, status in zip(keys, statuses, strict=True) if status in _BROKEN]
        if broken and self._forgets:
            try:
                self._backend.remove(broken)
            except StorageError as error:
                LOG.warning("%d broken pages could not be removed: %s", len(broken), first_line(error))

    def _keys_of(self, run: StoredRun, keys: KeyScheme | None = None) -> list[bytes]:
        return (keys or self._keys).of(run.key, run.namespace)[run.start // self._page :]

    def _views(self, pages: Any) -> PageViews:
        return PageViews.of_pool(self._host, pages, self._order)


_BROKEN: Final = (Status.CORRUPT, Status.WRONG_SIZE)
_MISSES: Final = (Status.MISSING, *_BROKEN)


def _is_miss(outcome: Outcome) -> bool:
    """Whether a read ends at a page that is gone since the question, or broken: no failure of the storage."""
    return outcome.error is None and outcome.statuses[outcome.leading] in _MISSES


def _is_prompt(error: StorageError | None) -> bool:
    """Whether storage has failed a call for now, and before its deadline."""
    return isinstance(error, TemporaryStorageError) and not isinstance(error, StorageTimeoutError)


def _short(what: str, outcome: Outcome) -> StorageError:
    if isinstance(outcome.error, PermanentStorageError):
        return PermanentStorageError(f"{what}, storage refuses for good: {outcome.error}")
    first = outcome.statuses[outcome.leading]
    why = first.name.lower().replace("_", " ") if outcome.error is None else first_line(outcome.error)
    return TemporaryStorageError(f"{what}, the next is {why}")


class _Lane:
    """One thread, that does what it is given in its order."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=f"isoradix-{name}", daemon=True)
        self._thread.start()

    def put(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)

    def end(self) -> None:
        self._jobs.put(None)

    def join(self, seconds: float) -> None:
        if self._thread is not threading.current_thread():  # whose last job may have been the last to know of the tier
            self._thread.join(seconds)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
            del job


def _close(operations: Operations, lanes: Sequence[_Lane]) -> None:
    operations.close()
    for lane in lanes:
        lane.end()
    for lane in lanes:
        lane.join(CLOSE_S)
