"""Something that happens to a server's surroundings while it serves a wave."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from .scenario import marker

LOOK_S = 0.01


@contextmanager
def interrupted(folder: Path, wave: int, act: Callable[[], None]) -> Iterator[None]:
    """Does it once, when a server with `waves_told=folder` begins that wave.

    Raises:
        AssertionError: no server came to it.
        Exception: what it raised.
    """
    over, failures, done = Event(), [], Event()

    def watch() -> None:
        while not over.is_set():
            if marker(folder, wave).exists():
                try:
                    act()
                except Exception as error:
                    failures.append(error)
                done.set()
                return
            time.sleep(LOOK_S)

    watcher = Thread(target=watch, name="interruption")
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
    if failures:
        raise failures[0]
    assert done.is_set(), f"no server has begun wave {wave}"
