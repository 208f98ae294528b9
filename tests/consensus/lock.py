"""Who gives the interpreter's lock away."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_NEVER_S = 1_000.0


@contextmanager
def lock_wanted() -> Iterator[list[int]]:
    """A thread that waits for the interpreter's lock and never demands it; how often it got it.

    It gets it where another thread gives it away, and nowhere else.
    """
    turns, over, switch_s = [0], threading.Event(), sys.getswitchinterval()

    def take_turns() -> None:
        while not over.is_set():
            turns[0] += 1
            time.sleep(0)

    sys.setswitchinterval(_NEVER_S)
    thread = threading.Thread(target=take_turns, daemon=True)
    thread.start()
    try:
        yield turns
    finally:
        over.set()
        thread.join()
        sys.setswitchinterval(switch_s)
