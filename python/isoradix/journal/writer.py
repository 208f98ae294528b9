"""The thread that writes a journal's blocks to its segments. Who hands one over never waits for the disk."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from isoradix._isoradix import JournalBlock, JournalFile
from isoradix.journal import layout

logger: Final = logging.getLogger("isoradix")

QUEUE_BYTES_MAX: Final = 32 << 20
_SEGMENTS: Final = 8
LIMIT_BYTES: Final = 1 << 30
LEAST_BYTES: Final = 1 << 16
_PERIOD_S: Final = 0.05


class SegmentWriter:
    """Segments `NAME.000.journal`, `NAME.001.journal` and so on; the oldest are given up where there are too many.

    Args:
        folder: where; it is there.
        name: of the journal.
        limit_bytes: of all segments together; but the newest is kept whole. A segment has an eighth of it, and what its
            last step takes beyond that.
        gather: hands over what there is so far; called on the writer's thread before it looks.
    """

    def __init__(self, folder: Path, name: str, limit_bytes: int, gather: Callable[[], None]) -> None:
        self.folder = folder
        self._name = name
        self.segment_bytes = limit_bytes // _SEGMENTS
        self._limit_bytes = limit_bytes
        self._sizes: deque[tuple[int, int]] = deque()
        """Segments and their bytes, the oldest first."""
        self._queue: deque[tuple[JournalBlock, int | None]] = deque()
        self._waiting = 0
        self._counting = threading.Lock()
        self._ending = threading.Event()
        self.failed = False
        """The disk has refused: nothing is written any more."""
        self.cpu_ms = 0.0
        """Processor time of the thread, when it has ended."""
        self._gather = gather
        self._thread = threading.Thread(target=self._run, name=f"isoradix-journal-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def path(self, segment: int) -> Path:
        return self.folder / f"{self._name}.{segment:03}{layout.SUFFIX}"

    def put(self, block: JournalBlock, segment: int | None = None) -> bool:
        """Hands over a block; if a segment is named, that begins with it.

        Returns:
            Whether there was room for it.
        """
        with self._counting:
            if self.failed or self._ending.is_set() or self._waiting + len(block) > QUEUE_BYTES_MAX:
                return False
            self._waiting += len(block)
        self._queue.append((block, segment))
        return True

    def close(self, patience_s: float) -> None:
        """Writes what is left, and ends the thread. A no-op the second time."""
        self._ending.set()
        self._thread.join(patience_s)

    # the thread

    def _run(self) -> None:
        """It looks by itself, so that nobody has to wake it, and what came since then is one block."""
        file = None
        try:
            ends = False
            while not ends:
                ends = self._ending.wait(_PERIOD_S)
                self._gather()
                while self._queue:
                    block, segment = self._queue.popleft()
                    if segment is not None:
                        file = JournalFile(self.path(segment), layout.mark())
                        self._sizes.append((segment, layout.EMPTY_BYTES))
                    assert file is not None, "the first block names its segment"
                    self._count(file.write(block))
                    with self._counting:
                        self._waiting -= len(block)
        except OSError as error:
            self._fail(error)
        finally:
            self.cpu_ms = time.thread_time_ns() / 1e6

    def _count(self, size: int) -> None:
        """So much more is in the newest segment: gives up the oldest, as far as that is too much."""
        newest, before = self._sizes.pop()
        self._sizes.append((newest, before + size))
        while len(self._sizes) > 1 and sum(one for _, one in self._sizes) > self._limit_bytes:
            self.path(self._sizes.popleft()[0]).unlink(missing_ok=True)

    def _fail(self, error: OSError) -> None:
        self.failed = True
        self._queue.clear()
        logger.error("the journal in %s ends here: %s\nhint: make room; nothing else is affected", self.folder, error)
