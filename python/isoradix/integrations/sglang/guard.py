"""Ends the server when the ranks are lost to each other, wherever its scheduler is by then.

A plane tells the scheduler at its next step. But the ranks wait for each other in the server's own collectives too,
where nothing of this package is called: one that waits there for a rank that was stopped would wait until the server's
own watchdog looks, and one that was let down there would not know by whom.
"""

import logging
import os
import signal
import threading
from typing import Final

from isoradix import IsoradixError
from isoradix.consensus.plane import Plane
from isoradix.journal.recorder import Recorder

GRACE_S: Final = 3.0
"""How long a scheduler has to come to its next step, and find there that the plane is lost."""
VERDICT_S: Final = 1.0
"""How long a scheduler that has failed waits to hear that another rank is the reason."""

logger: Final = logging.getLogger("isoradix")


class Guard:
    """Watches a plane on a thread of its own, until `stop`.

    Args:
        plane: of this rank, connected.
        journal: this rank's, if it keeps one: it ends with the plane.
    """

    def __init__(self, plane: Plane, journal: Recorder | None = None) -> None:
        self._plane, self._journal = plane, journal
        self._parent = os.getppid()
        self._woken, self._stopped = threading.Event(), threading.Event()
        self._saying = threading.Lock()
        self._said = False
        plane.when_lost(self._woken.set)
        self._thread = threading.Thread(target=self._run, name="isoradix-guard", daemon=True)
        self._thread.start()

    def explains(self) -> bool:
        """Whether another rank is why this one's scheduler has failed; logs it if so. Waits a second to hear it."""
        self._woken.wait(VERDICT_S)
        return self._is_lost()

    def stop(self) -> None:
        """The server ends in order."""
        self._stopped.set()
        self._woken.set()
        self._thread.join()

    def _is_lost(self) -> bool:
        """Whether the plane is lost; logs why, once."""
        try:
            self._plane.check()
        except IsoradixError as error:
            with self._saying:
                if not self._said:
                    if self._journal is not None:
                        self._journal.fail(error)
                    logger.error("%s", error)
                    self._said = True
        return self._said

    def _run(self) -> None:
        self._woken.wait()
        if not self._stopped.is_set() and self._is_lost() and not self._stopped.wait(GRACE_S):
            self._end_server()

    def _end_server(self) -> None:
        """As the server's own watchdog does it: the parent ends all that it has started."""
        logger.error("the scheduler did not come to its next step within %g s: the server ends", GRACE_S)
        if os.getppid() == self._parent:
            os.kill(self._parent, signal.SIGQUIT)
        else:  # it is gone: nobody else would end this process
            os._exit(1)
