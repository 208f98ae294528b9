"""One call on its way to an engine: its deadline, its pages, and who may still touch them."""

import threading
import time
from enum import IntEnum

from isoradix._isoradix import StorageCall
from isoradix.storage.errors import StorageError, StorageTimeoutError
from isoradix.storage.views import PageViews


class Status(IntEnum):
    """What became of one page."""

    PENDING = 0
    """Nothing yet. Only engines see it."""
    DONE = 1
    """Read, checked and in place; or taken by the engine, which may lose it all the same."""
    MISSING = 2
    """There is no such page."""
    CORRUPT = 3
    """What is there is not what was put: a miss."""
    WRONG_SIZE = 4
    """What is there has another size than the view: a miss."""
    FULL = 5
    """The engine has no room now."""
    FAILED = 6
    """The engine could not do it now; `Outcome.error` says why."""
    TOO_LARGE = 7
    """The engine never takes a page of this size."""
    LATE = 8
    """The deadline passed first."""


class Call:
    """What an engine is given with a batch. It tells what becomes of each page, from any thread.

    An engine that works in place checks `cancelled` now and then. One that copies uses `collect` and `deliver`, behind
    which nothing is touched once the call was given up.

    Args:
        pages: of the batch.
        deadline: on `time.monotonic`'s clock, in seconds.
    """

    def __init__(self, pages: int, deadline: float) -> None:
        self.ticket = StorageCall(pages)
        """The same for the compiled module."""
        self.deadline = deadline
        self._lock = threading.Lock()
        self._error: StorageError | None = None

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits any more."""
        return self.ticket.cancelled

    @property
    def remaining_s(self) -> float:
        """Seconds to the deadline, 0 or more."""
        return max(0.0, self.deadline - time.monotonic())

    @property
    def error(self) -> StorageError | None:
        """Why the first page failed that did."""
        return self._error

    @property
    def statuses(self) -> list[Status]:
        """What has become of each page so far."""
        return [Status(code) for code in self.ticket.statuses]

    def finish(self, place: int, status: Status) -> None:
        """Tells what became of a page."""
        self.ticket.finish(place, status)

    def fail(self, places: range | list[int], error: StorageError, status: Status = Status.FAILED) -> None:
        """Tells that pages failed, and why."""
        with self._lock:
            self._error = self._error or error
        for place in places:
            self.finish(place, status)

    def collect(self, views: PageViews, place: int) -> bytes | None:
        """A copy of a page that is to be put; None once the call was given up."""
        with self._lock:
            return None if self.cancelled else views.read(place)

    def deliver(self, views: PageViews, place: int, data: bytes | memoryview) -> None:
        """Writes a page that was read and checked, and tells so; nothing once the call was given up."""
        with self._lock:
            if not self.cancelled:
                views.write(place, data)
                self.finish(place, Status.DONE)

    def give_up(self) -> None:
        """Nobody waits any more."""
        with self._lock:
            self.ticket.cancel()

    def check(self) -> None:
        """Raises if nobody waits any more.

        Raises:
            StorageTimeoutError: it was given up.
        """
        if self.cancelled:
            raise StorageTimeoutError("the call was given up\nhint: nobody waits for it")
