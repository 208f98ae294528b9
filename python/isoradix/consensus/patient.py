"""Waits for gloo that end when the plane is lost, whatever gloo does.

gloo has a fault here: a send whose connection breaks at the wrong moment is never told, and the collective that it is
part of lasts for ever, though its sockets are closed. So a collective is waited for in slices, between which the
plane is asked whether it is lost, and a broken group is never destroyed: that would wait for gloo's own threads, one
of which may never end.
"""

import ctypes
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

FOREVER: Final = timedelta(days=365)
"""What gloo is told: a wait of ours ends by its own thresholds, see `watch`."""
_SLICE: Final = timedelta(seconds=0.25)
_TIMED_OUT: Final = "Operation timed out"


class ConnectionLost(RuntimeError):  # noqa: N818 what gloo would say, if it did
    """The plane was lost while a collective was waited for."""


def wait_collective(work: Any, lost: Callable[[], bool]) -> None:
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


def keep_for_ever(group: Any) -> None:
    """Never destroys a broken group."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))
