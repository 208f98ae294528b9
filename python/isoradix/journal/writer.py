"""The thread that writes a journal's blocks to its segments. Who hands one over never waits for the disk."""

import logging
import threading
from collections import deque
from pathlib import Path
from typing import Final

from isoradix.journal import layout

logger: Final = logging.getLogger("isoradix")

QUEUE_BYTES_MAX: Final = 32 << 20
_SEGMENTS: Final = 8
LIMIT_BYTES: Final = 1 << 30
LEAST_BYTES: Final = 1 << 16


class SegmentWriter:
    """Segments `NAME.000.journal`, `NAME.001.journal` and so on; the oldest are given up where there are too many.

    Args:
        folder: where; it is there.
        name: of the journal.
        limit_bytes: of all segments together; but the newest is kept whole. A segment has an eighth of it, and what its
            last step takes beyond that.
    """

    def __init__(self, folder: Path, name: str, limit_bytes: int) -> None:
        self.folder = folder
        self._name = name
        self.segment_bytes = limit_bytes // _SEGMENTS
        self._limit_bytes = limit_bytes
        self._sizes: deque[tuple[int, int]] = deque()
        """Segments and their bytes, the oldest first."""
        self._queue: deque[tuple[bytes, int | None]] = deque()
        self._waiting = 0
        self._changed = threading.Condition()
        self._ending = False
        self.failed = False
        """The disk has refused: nothing is written any more."""
        self._thread = threading.Thread(target=self._run, name=f"isoradix-journal-{name}", daemon=True)
        self._thread.start()

    def path(self, segment: int) -> Path:
        return self.folder / f"{self._name}.{segment:03}{layout.SUFFIX}"

    def put(self, data: bytes, segment: int | None = None) -> bool:
        """Hands over bytes, the first of `segment` if one is named; False if there is no room for them now."""
        with self._changed:
            if self.failed or self._ending or self._waiting + len(data) > QUEUE_BYTES_MAX:
                return False
            self._queue.append((data, segment))
            self._waiting += len(data)
            self._changed.notify()
        return True

    def flush(self, patience_s: float) -> bool:
        """Waits until all that was handed over is written; whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: self._waiting == 0 or self.failed, patience_s) and not self.failed

    def close(self, patience_s: float) -> None:
        """Writes what is left, and ends the thread. A no-op the second time."""
        with self._changed:
            self._ending = True
            self._changed.notify_all()
        self._thread.join(patience_s)

    # the thread

    def _run(self) -> None:
        stream = None
        try:
            while (item := self._next()) is not None:
                data, segment = item
                if segment is not None:
                    if stream is not None:
                        stream.close()
                    stream = self.path(segment).open("xb", buffering=0)
                    self._sizes.append((segment, 0))
                assert stream is not None, "the first block names its segment"
                stream.write(data)
                self._count(len(data))
                with self._changed:
                    self._waiting -= len(data)
                    self._changed.notify_all()
        except OSError as error:
            self._fail(error)
        finally:
            if stream is not None:
                stream.close()

    def _count(self, size: int) -> None:
        """So much more is in the newest segment: gives up the oldest, as far as that is too much."""
        newest, before = self._sizes.pop()
        self._sizes.append((newest, before + size))
        while len(self._sizes) > 1 and sum(one for _, one in self._sizes) > self._limit_bytes:
            self.path(self._sizes.popleft()[0]).unlink(missing_ok=True)

    def _next(self) -> tuple[bytes, int | None] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._ending)
            return self._queue.popleft() if self._queue else None

    def _fail(self, error: OSError) -> None:
        with self._changed:
            self.failed = True
            self._queue.clear()
            self._changed.notify_all()
        logger.error("the journal in %s ends here: %s\nhint: make room; nothing else is affected", self.folder, error)
