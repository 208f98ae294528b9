"""Waits for gloo that end when the plane is lost, whatever gloo does.

gloo has a fault here: a send whose connection breaks at the wrong moment is never told, and a native wait for it
lasts for ever, though its sockets are closed. So no thread that matters waits for a send in one native call. A
collective is waited for in slices, between which the plane is asked whether it is lost; a point-to-point send, whose
wait cannot be given a time without closing its group, is waited for on a thread of its own, that is left behind if it
must be.
"""

import ctypes
import queue
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

FOREVER: Final = timedelta(days=365)
"""What gloo is told: a wait of ours ends by its own thresholds, see `watch`."""
_SLICE: Final = timedelta(seconds=0.25)
_SLICE_S: Final = 0.05
_TIMED_OUT: Final = "Operation timed out"

Lost = Callable[[], bool]


class ConnectionLost(RuntimeError):  # noqa: N818 what gloo would say, if it did
    """The plane was lost while something was waited for."""


def wait_collective(work: Any, lost: Lost) -> None:
    """Waits until a collective is over.

    Raises:
        RuntimeError: its group is broken, or the plane is lost.
    """
    while True:
        try:
            work.wait(_SLICE)
        except RuntimeError as error:
            if _TIMED_OUT not in str(error):
                raise
        else:
            return
        if lost():
            raise ConnectionLost("the plane was lost")


class Deliveries:
    """Sends in their order, and how many of them have arrived: a thread waits for one lot after the other."""

    def __init__(self, lost: Lost) -> None:
        self._lost = lost
        self._asked: queue.SimpleQueue[list[Any] | None] = queue.SimpleQueue()
        self._more = threading.Event()
        self._error: Exception | None = None
        self.done = 0
        """Lots of which all sends have arrived."""
        self._thread = threading.Thread(target=self._run, name="isoradix-sends", daemon=True)
        self._thread.start()

    def watch(self, works: list[Any]) -> None:
        """One more lot."""
        self._asked.put(works)

    def wait(self, count: int) -> None:
        """Waits until so many lots have arrived.

        Raises:
            RuntimeError: their group is broken, or the plane is lost.
        """
        while self.done < count:
            if self._error is not None:
                raise self._error
            self._more.clear()
            if self.done < count and not self._more.wait(_SLICE_S) and self._lost():
                raise ConnectionLost("the plane was lost")

    def end(self) -> None:
        """Ends the thread, or leaves it behind in a wait that never ends."""
        self._asked.put(None)
        self._thread.join(_SLICE_S)

    def _run(self) -> None:
        try:
            while (works := self._asked.get()) is not None:
                for work in works:
                    work.wait(FOREVER)
                self.done += 1
                self._more.set()
        except RuntimeError as error:
            self._error = error
            self._more.set()


def keep_for_ever(group: Any) -> None:
    """A broken group is never destroyed: that would wait for gloo's own threads, one of which may never end."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))
