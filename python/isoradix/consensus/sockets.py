"""The sockets behind a gloo group, so that a wait in it can be ended from another thread.

gloo has no call for that: aborting or shutting down a group leaves its waits as they are, and a wait that times out
takes the whole group down. What does end a wait is its connection: shut down, gloo's own loop reports it to everyone
who waits.
"""

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_FOLDER: Final = Path("/dev/fd")
_spared: set[tuple[int, int]] = set()


def spare(connection: socket.socket) -> None:
    """Never cuts this one: it was opened by us, maybe while another thread made a group."""
    _spared.add((connection.fileno(), os.fstat(connection.fileno()).st_ino))


class Sockets:
    """Connections that were opened while a block ran.

    One rank a process: several that connect at once, in threads, would take each other's for their own.
    """

    def __init__(self) -> None:
        self._opened: list[tuple[int, int]] = []

    @contextmanager
    def opened_here(self) -> Iterator[None]:
        before = set(_open_sockets())
        try:
            yield
        finally:
            self._opened = [found for found in _open_sockets() if found not in before]

    def cut(self) -> None:
        """Shuts down those that are still the same and connected."""
        for opened in self._opened:
            if opened not in _spared:
                _shut_down(*opened)


def _open_sockets() -> list[tuple[int, int]]:
    """Descriptor and inode of each socket of this process."""
    found = []
    for entry in _FOLDER.iterdir():
        with suppress(OSError):
            descriptor = int(entry.name)
            status = os.fstat(descriptor)
            if stat.S_ISSOCK(status.st_mode):
                found.append((descriptor, status.st_ino))
    return found


def _shut_down(descriptor: int, inode: int) -> None:
    """The descriptor may have been closed meanwhile, and given to another file."""
    try:
        copy = os.dup(descriptor)
    except OSError:
        return
    try:
        if os.fstat(copy).st_ino != inode:
            return
        with socket.socket(fileno=os.dup(copy)) as connection:
            if connection.family in (socket.AF_INET, socket.AF_INET6):
                connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # a listener, or closed by its peer
    finally:
        os.close(copy)
