"""What moves KV between the tiers: the contract of every engine.

An engine is told what to copy by effects of the core, and reports to the rank's `Board`. It never decides, and never
blocks the scheduler's thread: the compute that needs loaded KV waits for its own copy, layer by layer.
"""

from typing import Protocol

from isoradix import Board, Start


class Copy(Protocol):
    """One operation's copy on this rank."""

    @property
    def operation(self) -> int:
        """Its ordinal."""

    def wait_layer(self, layer: int) -> None:
        """What the calling thread does next (on CUDA: what its current stream does next) sees this layer's bytes.

        Args:
            layer: counted from 0, within this rank's own layers.

        Raises:
            OperationError: the copy failed, or was cancelled.
        """


class CopyEngine(Protocol):
    """Copies of one rank. Backups and load-backs are two first-in-first-out queues, apart from each other."""

    def attach(self, board: Board) -> None:
        """The board to report to. Once, before the first `start`."""

    def start(self, effect: Start) -> Copy:
        """Begins a backup (slots to pages) or a load-back (pages to slots); returns at once.

        A backup sees what the caller's thread (on CUDA: its current stream) has written to the slots before. When the
        copy is over the engine calls `Board.ended`, once, from any thread; `succeeded` is whether all bytes are there.
        """

    def cancel(self, operation: int) -> None:
        """Answers a `Cancel`: drops the copy if it has not begun, and calls `Board.finish` when it touches nothing any
        more.

        Of an operation that was never started here, `finish` is called at once; of one that has ended here, nothing is.
        """

    def poll(self) -> None:
        """Reports copies that have ended meanwhile, where no thread of the engine does. Once a step."""

    def close(self) -> None:
        """Ends all threads and streams, after what is under way. A no-op the second time. Memory stays the pools'."""
