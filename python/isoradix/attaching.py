"""External storage that comes and goes while a rank runs: what its driver does about it, off the scheduler's thread.

All ranks are told to open theirs by a frame, each votes whether it could, and the vote decides for all. See
`Driver.attach`.
"""

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from isoradix import Board, ProtocolError

if TYPE_CHECKING:
    from isoradix.storage.tier import Storage

LOG: Final = logging.getLogger("isoradix.storage")
Opener = Callable[[], "Storage"]
"""Opens this rank's storage, on a thread of its own: it may take its time, and raises what is in its way. Closing what
it gives closes all that it has opened."""
ANOTHER: Final = "another rank could not open its storage, and its log says why; or it was called off"


class Attaching:
    """One rank's opening of storage. Calls come from the scheduler's thread.

    Args:
        board: hears whether it could be opened.
        check: raises if what was opened does not fit the cache.
    """

    def __init__(self, board: Board, check: Callable[["Storage"], None]) -> None:
        self._board, self._check = board, check
        self._lock = threading.Lock()
        self._opens: Opener | None = None
        self._operation: int | None = None
        """The operation of which every rank still waits for this one's answer."""
        self._asked: int | None = None
        """The last one, answered or not."""
        self._begun: int | None = None
        """The last one that this rank has begun to answer."""
        self._opened: Storage | None = None
        self._reason: str | None = None

    def offer(self, opens: Opener) -> None:
        """How storage is opened here. Before or after the frame that asks for it."""
        self._opens = opens
        self._begin()

    def ask(self, operation: int) -> None:
        """A frame asks every rank to open its storage."""
        self._operation, self._asked, self._reason = operation, operation, None
        self._begin()

    def _begin(self) -> None:
        opens, operation = self._opens, self._operation
        if opens is None or operation is None or operation == self._begun:
            return  # all ranks wait until this one was told how
        self._opens, self._begun = None, operation
        threading.Thread(target=self._open, args=(opens, operation), name="isoradix-attach", daemon=True).start()

    def _open(self, opens: Opener, operation: int) -> None:
        storage, reason = None, None
        try:
            opened = opens()
            try:
                self._check(opened)
                opened.attach(self._board)
            except BaseException:
                opened.close()
                raise
            storage = opened
        except Exception as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            LOG.warning("storage could not be opened, so no rank attaches it: %s", error)
        with self._lock:
            wanted = self._operation == operation
            if wanted:
                self._operation, self._opened, self._reason = None, storage, reason
                self._board.ended(operation, storage is not None)
        if not wanted and storage is not None:
            storage.close()

    def cancel(self, operation: int) -> bool:
        """Storage is not wanted any more; False if the operation is another one."""
        with self._lock:
            if self._asked != operation:
                return False
            if self._operation == operation:  # else it was answered, and that was its end
                self._operation, self._opens, self._reason = None, None, None
                self._board.finish(operation)
            return True

    def take(self) -> "Storage":
        """What was opened: it is attached on every rank."""
        opened, self._opened, self._opens = self._opened, None, None
        if opened is None:
            raise ProtocolError("storage is attached, and was not opened here\nhint: a defect of isoradix: report it")
        return opened

    def close(self) -> None:
        """Closes what was opened and is not attached."""
        with self._lock:
            self._operation = self._opens = None
            opened, self._opened = self._opened, None
        if opened is not None:
            opened.close()

    def refused(self) -> str:
        """Closes what was opened; why no rank attaches."""
        opened, self._opened = self._opened, None
        self._operation = self._opens = None
        if opened is not None:
            close_aside(opened)
        return self._reason or ANOTHER


def close_aside(storage: "Storage") -> None:
    """Closes storage on a thread of its own: a call that never ends may keep it for a while."""
    threading.Thread(target=storage.close, name="isoradix-detach", daemon=True).start()
