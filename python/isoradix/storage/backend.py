"""Storage as callers have it: batches with deadlines, over whatever engine."""

import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from isoradix import InputTypeError, InvalidInputError, ProtocolError
from isoradix.storage.call import Call, Status
from isoradix.storage.counters import Counters
from isoradix.storage.engine import Capabilities, Engine
from isoradix.storage.errors import StorageError, StorageTimeoutError, TemporaryStorageError, first_line
from isoradix.storage.views import PageViews
from isoradix.storage.workers import Job, Workers, late

CONNECT_S: Final = 15.0
TIMEOUT_S: Final = 5.0
WORKERS: Final = 4


@dataclass(frozen=True)
class Presence:
    """Which keys an engine knows."""

    flags: tuple[bool, ...]

    @property
    def leading(self) -> int:
        """How many of the first keys in a row it knows: the pages of a prefix that are worth asking for."""
        return self.flags.index(False) if False in self.flags else len(self.flags)


@dataclass(frozen=True)
class Outcome:
    """What became of a batch."""

    statuses: tuple[Status, ...]
    error: StorageError | None
    """Why the first page failed that did; None if none has, misses apart."""
    _job: Job | None = field(default=None, repr=False)

    @property
    def leading(self) -> int:
        """How many of the first pages in a row are done."""
        return next((at for at, status in enumerate(self.statuses) if status is not Status.DONE), len(self.statuses))

    @property
    def done(self) -> int:
        """How many pages are done."""
        return self.statuses.count(Status.DONE)

    @property
    def released(self) -> bool:
        """Whether the engine has let go of all pages of the batch.

        While it has not, late pages may still be read or written: they go to nobody else, neither to be filled nor to
        be read. Pages that are done are not touched any more.
        """
        return self._job is None or self._job.over.is_set()

    def wait_released(self, timeout_s: float | None = None) -> bool:
        """Waits until `released`, or for so long; whether it is."""
        return self._job is None or self._job.over.wait(timeout_s)


class Backend:
    """A storage engine behind deadlines. Any thread may call.

    No call waits beyond its deadline, even if a server is stopped in the middle of it. Nothing about a page raises:
    each has a status, and a page that is not done was not stored, or is to be computed again.

    It is a context manager, and is closed when it is collected.

    Args:
        engine: does the work.
        timeout_s: seconds that a call has unless it says otherwise.
        workers: calls at a time; further ones wait for their turn, within their deadlines.
    """

    def __init__(self, engine: Engine, *, timeout_s: float = TIMEOUT_S, workers: int = WORKERS) -> None:
        self._engine = engine
        self._timeout_s = _seconds(timeout_s)
        self._workers = Workers("isoradix-storage", workers)
        self._registered: dict[tuple[int, int], Any] = {}
        self._registering = threading.Lock()
        self._closed = False
        self.counters = Counters()
        """Calls, pages and bytes so far, in this process."""
        self._finalizer = weakref.finalize(self, _close, engine, self._workers, self._timeout_s)

    @classmethod
    def connect(
        cls,
        make: Callable[[], Engine],
        *,
        connect_s: float = CONNECT_S,
        timeout_s: float = TIMEOUT_S,
        workers: int = WORKERS,
    ) -> "Backend":
        """A backend over an engine that may take long to be made, or never be: `connect_s` seconds at most.

        Raises:
            StorageError: it cannot be made, or not in time.
        """
        one = Workers("isoradix-storage-connect", 1)
        job = one.start(make)
        if not one.wait(job, time.monotonic() + _seconds(connect_s)):
            # what comes too late is closed by the thread that has made it
            one.close(lambda: None if job.result is None else job.result.close(), 0.0)
            raise StorageTimeoutError(late("the connection"))
        one.close(lambda: None, 0.0)
        if isinstance(job.error, StorageError | InvalidInputError):
            raise job.error
        if job.error is not None:
            raise _storage_error(job.error, "the connection") from job.error
        return cls(job.result, timeout_s=timeout_s, workers=workers)

    @property
    def capabilities(self) -> Capabilities:
        """What the engine is like."""
        return self._engine.capabilities

    def exists(self, keys: Sequence[bytes], *, timeout_s: float | None = None) -> Presence:
        """Which pages the engine knows: a hint, since what it knows may be unreadable, or gone by the time it is read.

        Args:
            keys: of pages.
            timeout_s: seconds that the call may take; the backend's own if None.

        Raises:
            TemporaryStorageError, PermanentStorageError: the engine cannot tell; no answer in time is the former.
            InvalidInputError, InputTypeError: a key is none. Nothing was asked.
        """
        self._check_keys(keys)
        flags = self._answer(lambda call: self._engine.exists(keys, call), "exists", timeout_s)
        self.counters.count("exists", len(keys), flags.count(True))
        return Presence(tuple(flags))

    def get_into(self, keys: Sequence[bytes], views: PageViews, *, timeout_s: float | None = None) -> Outcome:
        """Reads pages into memory. Only those that are done are; the bytes of all others are undefined.

        Args:
            keys: one for each page.
            views: where the pages go; no byte is in two of them.
            timeout_s: as of `exists`.

        Raises:
            InvalidInputError, InputTypeError: keys and views do not fit each other or the engine. Nothing was read.
            ProtocolError: the backend is closed.
        """
        return self._transfer("get", self._engine.get, keys, views, timeout_s)

    def put_from(self, keys: Sequence[bytes], views: PageViews, *, timeout_s: float | None = None) -> Outcome:
        """Stores pages from memory. One that is done may be lost all the same: the next `get_into` finds out.

        Args:
            keys: one for each page, which name what is in it: under one key there is never anything else.
            views: where the pages are; nobody writes to them until the outcome is `released`.
            timeout_s: as of `exists`.

        Raises:
            InvalidInputError, InputTypeError, ProtocolError: as of `get_into`. Nothing was stored.
        """
        return self._transfer("put", self._engine.put, keys, views, timeout_s)

    def remove(self, keys: Sequence[bytes], *, timeout_s: float | None = None) -> None:
        """Removes pages, if they are there.

        Raises:
            TemporaryStorageError, PermanentStorageError: the engine could not; some may be gone.
            InvalidInputError, InputTypeError: a key is none. Nothing was removed.
        """
        self._check_keys(keys)
        self._answer(lambda call: self._engine.remove(keys, call), "remove", timeout_s)

    def clear(self, *, timeout_s: float | None = None) -> None:
        """Removes all pages of this URL, and nothing else.

        Raises:
            TemporaryStorageError, PermanentStorageError: the engine could not; some may be gone.
        """
        self._answer(self._engine.clear, "clear", timeout_s)

    def stats(self, *, timeout_s: float | None = None) -> Mapping[str, int | float | str]:
        """What this process has counted, and what the engine says about itself.

        Raises:
            TemporaryStorageError, PermanentStorageError: the engine does not say; `counters` needs no engine.
        """
        usage = self._answer(self._engine.usage, "stats", timeout_s)
        return {**usage, **self.counters.as_dict()}

    def register(self, memory: Any, *, timeout_s: float | None = None) -> None:
        """Gets the engine ready for a memory before its first page, which would do it otherwise. Once for each memory.

        Raises:
            TemporaryStorageError, PermanentStorageError: the engine cannot take it.
        """
        self._answer(lambda _: self._register(memory), "register", timeout_s)

    def close(self) -> None:
        """Ends the connection, within the backend's timeout. A no-op the second time."""
        self._closed = True
        self._finalizer()
        self._registered.clear()

    def __enter__(self) -> "Backend":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # on the way in

    def _open(self) -> None:
        if self._closed:
            raise ProtocolError("use of a storage backend out of order: it is closed\nhint: open it again")

    def _check_keys(self, keys: Sequence[bytes]) -> None:
        self._open()
        most = self.capabilities.key_bytes_max
        for place, key in enumerate(keys):
            if not isinstance(key, bytes):
                raise InputTypeError(f"key {place} is {type(key).__name__}, expected bytes\nhint: PageKeys makes keys")
            if not 1 <= len(key) <= most:
                raise InvalidInputError(
                    f"key {place} has {len(key)} bytes; the limits are 1 to {most}\n"
                    "hint: PageKeys makes keys of 64 bytes"
                )

    def _check(self, keys: Sequence[bytes], views: PageViews) -> None:
        if not isinstance(views, PageViews):
            raise InputTypeError(
                f"views is {type(views).__name__}, expected PageViews\n"
                "hint: PageViews.of_pool shows pages of a HostPool"
            )
        if len(keys) != len(views):
            raise InvalidInputError(f"{len(keys)} keys for {len(views)} pages\nhint: give one key for each page")
        self._check_keys(keys)

    def _transfer(
        self,
        verb: str,
        engine: Callable[[Sequence[bytes], PageViews, Call], None],
        keys: Sequence[bytes],
        views: PageViews,
        timeout_s: float | None,
    ) -> Outcome:
        self._check(keys, views)
        begun = time.monotonic()
        call = Call(len(keys), self._deadline(timeout_s))
        most = self.capabilities.page_bytes_max
        if not keys or (most is not None and views.page_bytes > most):
            outcome = Outcome((Status.TOO_LARGE if verb == "put" else Status.MISSING,) * len(keys), None)
        else:
            outcome = self._run(lambda: self._begin(engine, keys, views, call), call, verb)
        self.counters.transferred(verb, outcome.statuses, views.page_bytes, time.monotonic() - begun)
        return outcome

    def _begin(
        self,
        engine: Callable[[Sequence[bytes], PageViews, Call], None],
        keys: Sequence[bytes],
        views: PageViews,
        call: Call,
    ) -> None:
        self._register(views.memory)
        engine(keys, views, call)

    def _register(self, memory: Any) -> None:
        with self._registering:
            place = _place(memory)
            if place not in self._registered:
                self._engine.register(memory)
                self._registered[place] = memory  # kept, so that no other memory can be there

    def _run(self, work: Callable[[], None], call: Call, verb: str) -> Outcome:
        try:
            job = self._workers.start(work)
        except StorageError as error:
            return Outcome((Status.FAILED,) * len(call.statuses), error)
        over = self._workers.wait(job, call.deadline)
        if not over:
            call.give_up()
        elif isinstance(job.error, InvalidInputError | InputTypeError):
            raise job.error
        statuses = call.statuses
        rest = Status.FAILED if over else Status.LATE
        final = tuple(rest if status is Status.PENDING else status for status in statuses)
        # who copies touches nothing once the call was given up
        held = not over and self.capabilities.zero_copy
        return Outcome(final, _reason(call, job, over, final, verb), job if held else None)

    def _answer(self, work: Callable[[Call], Any], what: str, timeout_s: float | None) -> Any:
        self._open()
        call = Call(0, self._deadline(timeout_s))
        try:
            return self._workers.answer(lambda: work(call), call.deadline, what)
        except (StorageError, InvalidInputError, InputTypeError):
            raise
        except Exception as error:
            raise _storage_error(error, what) from error
        finally:
            call.give_up()

    def _deadline(self, timeout_s: float | None) -> float:
        return time.monotonic() + (self._timeout_s if timeout_s is None else _seconds(timeout_s))


def _reason(call: Call, job: Job, over: bool, statuses: Sequence[Status], verb: str) -> StorageError | None:
    """Why the first page failed that did."""
    if call.error is not None:
        return call.error
    if over and job.error is not None:
        return _storage_error(job.error, verb)
    if Status.LATE in statuses:
        return StorageTimeoutError(late(verb))
    if call.ticket.failure is not None:
        return TemporaryStorageError(f"{call.ticket.failure}\nhint: see the owner, mode and room of the place")
    if Status.FAILED in statuses:
        return TemporaryStorageError(f"the engine left pages of a {verb} out\nhint: this is a mistake of the engine")
    return None


def _storage_error(error: BaseException, verb: str) -> StorageError:
    if isinstance(error, StorageError):
        return error
    message = f"{verb} failed: {type(error).__name__}: {first_line(error)}"
    temporary = TemporaryStorageError(f"{message}\nhint: isoradix storage check URL shows what works")
    temporary.__cause__ = error
    return temporary


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 86_400:
        raise InvalidInputError(
            f"timeout_s is {value!r}; the limits are 0 to 86400\nhint: pass seconds, for example 0.5"
        )
    return float(value)


def _close(engine: Engine, workers: Workers, timeout_s: float) -> None:
    with suppress(RuntimeError):  # at its end the interpreter takes no more threads
        workers.close(engine.close, time.monotonic() + timeout_s)


def _place(memory: Any) -> tuple[int, int]:
    """Where a buffer begins, and its bytes: two objects may show one memory."""
    view = np.frombuffer(memory, np.uint8)
    return int(view.__array_interface__["data"][0]), view.nbytes
