"""Who waits for a load-back, layer by layer: the forward pass, just before it reads a layer."""

from collections.abc import Sequence
from typing import Final

from isoradix.copies.engine import Copy

NOTHING: Final = -1
_KEPT: Final = 8


class LayerCounter:
    """The copies that each batch waits for, under the numbers that the server hands through to its forward pass.

    The server's KV pool calls `wait_until` before each read of a layer; its worker names the batch by `set_consumer`.
    """

    def __init__(self) -> None:
        self.consumer_index = NOTHING
        self._waiting: tuple[Copy, ...] = ()
        self._batches: dict[int, tuple[Copy, ...]] = {}
        self._next = 0

    def started(self, copies: Sequence[Copy]) -> None:
        """Load-backs have begun: the next batch waits for them."""
        self._waiting += tuple(copies)

    def next_batch(self) -> int:
        """The number of a batch that is about to be launched; -1 if it has nothing to wait for."""
        if not self._waiting:
            return NOTHING
        number = self._next
        self._next += 1
        self._batches[number], self._waiting = self._waiting, ()
        self._batches.pop(number - _KEPT, None)  # launched long ago: batches are launched in order
        return number

    def set_consumer(self, index: int) -> None:
        """The batch whose forward pass comes next on this thread."""
        self.consumer_index = index

    def wait_until(self, threshold: int) -> None:
        """Waits for one layer of all that the batch loads back.

        Args:
            threshold: the layer, counted from 0 within this rank's own layers.

        Raises:
            OperationError: a copy failed.
        """
        for copy in self._batches.get(self.consumer_index, ()):
            copy.wait_layer(threshold)

    def is_over(self, index: int) -> bool:
        """Whether a batch waits for nothing that is known here."""
        return index not in self._batches

    def reset(self) -> None:
        """Forgets all batches: the server is idle."""
        self.consumer_index = NOTHING
        self._waiting = ()
        self._batches.clear()
