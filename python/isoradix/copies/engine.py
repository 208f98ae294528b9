"""What moves KV between the tiers: the contract of every engine.

An engine is told what to copy by effects of the core, and reports to the rank's `Board`. It never decides, and never
blocks the scheduler's thread: the compute that needs loaded KV waits for its own copy, layer by layer.

Which order is whose promise:

- A copy starts after what the caller's thread or stream did before: the engine, in `start`.
- Copies of one kind are made, and end, in the order of their starts: the engine, by one queue for each kind. Between
  the two queues it promises nothing.
- A backup and a load-back never touch one page or slot at a time: the core. What is copied is locked, and a load-back
  comes after the backup of its pages has ended on every rank.
- Compute reads a layer after it was loaded: the caller, by `wait_layer`.
- Slots of a backup are not written before it has ended, and no page or slot is used anew before the last copy has left
  it: the core, which waits for the agreed watermark to pass the operation.
"""

from typing import Protocol

from isoradix import Board, Start


class Copy(Protocol):
    """One operation's copy on this rank."""

    @property
    def operation(self) -> int:
        """Its ordinal."""

    def wait_layer(self, layer: int) -> None:
        """What the calling thread does next (on CUDA: what its current stream does next) sees this layer's bytes,
        and all rows of components that the operation copies beside them.

        It says nothing of other layers: they may come in any order.

        Args:
            layer: counted from 0, within this rank's own layers.

        Raises:
            OperationError: the copy failed, or was cancelled.
            InvalidInputError: there is no such layer.
        """


class CopyEngine(Protocol):
    """Copies of one rank. Backups and load-backs are two first-in-first-out queues, apart from each other.

    An engine that copies what `Start.parts` names as well, beside the keys and values of each page and before their end
    is reported, says so by an attribute, `copies_components = True`. For any other a driver takes no components: what
    storage got from host would be rows that nobody wrote. One that has an attribute `components` as well, names in the
    order of its bits and None for what this rank has no layers of, is held against the cache's. Those of this package
    have both, and copy the components of which they were given pools.
    """

    def attach(self, board: Board) -> None:
        """The board to report to. Once, before the first `start`.

        Raises:
            ProtocolError: it has one already.
        """

    def start(self, effect: Start) -> Copy:
        """Begins a backup (slots to pages) or a load-back (pages to slots); returns at once.

        The copy comes after what the caller's thread (on CUDA: its current stream) did before: a backup sees what was
        written to its slots, and a load-back leaves its slots alone while work that was issued earlier may still read
        them. When the copy is over the engine calls `Board.ended`, once, from any thread; `succeeded` is whether all
        bytes are there.

        Raises:
            InvalidInputError: the effect is a prefetch or a store, or does not fit the pools. Nothing is reported of
                it.
            ProtocolError: the engine has no board, it or a pool is closed, or the operation was started or cancelled
                before.
        """

    def cancel(self, operation: int) -> None:
        """Answers a `Cancel`: drops the copy if it has not begun, and calls `Board.finish` when it touches nothing any
        more.

        Of an operation that was never started here, `finish` is called at once; of one that has ended here, nothing is.
        What waits for a layer of it is told by an `OperationError`.

        Raises:
            ProtocolError: the engine has no board.
        """

    def poll(self) -> None:
        """Reports copies that have ended meanwhile, where no thread of the engine does. Once a step.

        Raises:
            ProtocolError: the board refused a report that a thread of the engine has made.
        """

    def close(self) -> None:
        """Ends all threads and streams, after all that was started: each copy is made and reported. A no-op the second
        time.

        Pools are closed after it, by their owner.
        """
