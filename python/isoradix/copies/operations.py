"""Which operations this rank copies, and what its board is told of them."""

import logging
import threading
from typing import Final

from isoradix import Board, InvalidInputError, IsoradixError, OperationError, ProtocolError

LOG: Final = logging.getLogger("isoradix.copies")


class OpenCopy:
    """One operation's copy: what every engine knows of it."""

    def __init__(self, operation: int, kind: str, layers: int) -> None:
        self.operation: Final = operation
        self.kind: Final = kind
        self.layers: Final = layers
        self.begun = False
        self.cancelled = False
        self.failure: str | None = None

    def stopped(self) -> None:
        """Called once the copy was cancelled or has failed: who waits for a layer is to look again."""

    def check(self, layer: int) -> None:
        """Refuses to wait for a layer that there is not, or that will never be there."""
        if not 0 <= layer < self.layers:
            raise InvalidInputError(
                f"layer {layer} is out of range: 0 to {self.layers - 1}\n"
                "hint: layers are counted within this rank's own stage"
            )
        name = f"{self.kind} of operation {self.operation}"
        if self.cancelled:
            raise OperationError(f"{name} was cancelled\nhint: leave out what was to be computed with it")
        if self.failure is not None:
            raise OperationError(
                f"{name} failed on this rank: {self.failure}\nhint: the log of {LOG.name} has the whole error"
            )


class Operations:
    """Of each operation the board hears one end: `ended`, or `finish` if it was cancelled. Any thread may call.

    An operation that is over is remembered while it might still be named: until a `window` of later ones has come, for
    then it has retired on all ranks. So memory is bounded by the window, however many operations there are.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._board: Board | None = None
        self._open: dict[int, OpenCopy] = {}
        self._over: set[int] = set()
        self._newest = -1
        self._fault: Exception | None = None
        self.closed = False

    def attach(self, board: Board) -> None:
        """The board to report to."""
        with self._lock:
            if self._board is not None:
                raise ProtocolError(
                    "attach out of order: the copy engine has a board\nhint: make an engine for each rank"
                )
            self._board = board

    @property
    def remembered(self) -> int:
        """Operations that are known here, open or over."""
        with self._lock:
            return len(self._open) + len(self._over)

    def knows(self, operation: int) -> bool:
        """Whether it was started or cancelled here, and may still be named."""
        with self._lock:
            return operation in self._open or operation in self._over

    def start(self, copy: OpenCopy) -> None:
        """A copy is wanted."""
        with self._lock:
            self._attached("start")
            operation = copy.operation
            if self.closed:
                raise ProtocolError(
                    f"start of operation {operation} out of order: the copy engine is closed\n"
                    "hint: close it after the last step"
                )
            if operation in self._open or operation in self._over:
                raise ProtocolError(
                    f"start of operation {operation} out of order: it was started or cancelled here before\n"
                    "hint: carry out each effect once, in their order"
                )
            self._open[operation] = copy
            self._see(operation)

    def begin(self, copy: OpenCopy) -> bool:
        """A copy is about to touch memory; False if it was dropped."""
        with self._lock:
            copy.begun = copy.operation in self._open
            return copy.begun

    def cancel(self, operation: int) -> None:
        """A copy is wanted no more."""
        with self._lock:
            board = self._attached("cancel")
            if operation in self._over:
                return
            copy = self._open.get(operation)
            if copy is None:
                board.finish(operation)  # refused if there is no such operation, and then nothing has changed
            else:
                copy.cancelled = True
            dropped = copy is not None and not copy.begun
            if copy is None or dropped:
                self._close_one(operation)
            self._see(operation)
        if copy is not None:
            copy.stopped()
        if dropped:
            board.finish(operation)

    def end(self, copy: OpenCopy, error: Exception | None = None) -> None:
        """A copy touches nothing any more; `error` is why not all of its bytes are there."""
        if error is not None:
            known = isinstance(error, IsoradixError)  # what storage could not do has no traceback worth reading
            LOG.warning(
                "%s of operation %d failed: %s", copy.kind, copy.operation, error, exc_info=None if known else error
            )
            copy.failure = (str(error).splitlines() or [type(error).__name__])[0]
        with self._lock:
            board = self._attached("end")
            self._close_one(copy.operation)
        if error is not None:
            copy.stopped()
        try:
            if copy.cancelled:
                board.finish(copy.operation)
            else:
                board.ended(copy.operation, error is None)
        except Exception as refused:
            # this may be an engine's thread, which goes on; the scheduler is told by its next poll
            with self._lock:
                self._fault = self._fault or refused

    def raise_fault(self) -> None:
        """Raises the first thing that the board has refused meanwhile."""
        with self._lock:
            fault, self._fault = self._fault, None
        if fault is not None:
            raise fault

    def close(self) -> bool:
        """Nothing is started any more; False if that was so before."""
        with self._lock:
            was, self.closed = self.closed, True
            return not was

    # with the lock held

    def _attached(self, verb: str) -> Board:
        if self._board is None:
            raise ProtocolError(f"{verb} out of order: the copy engine has no board\nhint: call attach first")
        return self._board

    def _close_one(self, operation: int) -> None:
        self._open.pop(operation, None)
        self._over.add(operation)

    def _see(self, operation: int) -> None:
        self._newest = max(self._newest, operation)
        window = self._attached("see").window
        if len(self._over) > 2 * window:  # now and then, so that it costs O(1) an operation
            retired = self._newest - window
            self._over = {over for over in self._over if over > retired}
