"""A store that is emptied while the server goes on."""

import logging
import threading
from typing import Final

from isoradix.storage import Backend

logger: Final = logging.getLogger("isoradix")


CLEAR_S: Final = 600.0
"""A large store takes long, and nobody waits for it."""


class Clearing:
    """Removes all pages of a store, on a thread of its own: a store that stands still holds no scheduler.

    Args:
        backend: the store; it may be closed at any time.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._lock = threading.Lock()
        self._wanted = self._working = False

    def begin(self) -> None:
        """Asks for it, and returns at once. While one is under way, another one follows it. The log says what came."""
        with self._lock:
            self._wanted = True
            if self._working:
                return
            self._working = True
        threading.Thread(target=self._work, name="isoradix-clear", daemon=True).start()

    def _work(self) -> None:
        while self._takes():
            try:
                self._backend.clear(timeout_s=CLEAR_S)
            except Exception as error:  # whatever it is, a later wish is heard
                logger.error("storage was not cleared: %s", error)
            else:
                logger.info("storage was cleared")

    def _takes(self) -> bool:
        with self._lock:
            self._working = self._wanted
            self._wanted = False
            return self._working
