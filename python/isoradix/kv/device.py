"""KV of device slots."""

from typing import Final

import torch

from isoradix import IntSequence
from isoradix.kv import checks
from isoradix.kv.shape import KVShape

SLOTS_MAX: Final = 1 << 31


class DevicePool:
    """One buffer [num_slots, width] for each layer and part, zero at first: what the model's attention reads and
    writes.

    Args:
        shape: of a token.
        num_slots: slots, 1 to 2**31; slot numbers of the scheduler's `SlotPool` are rows here.
        device: where the buffers are.

    Raises:
        InvalidInputError: `num_slots` is out of its range.
        InputTypeError: it is not an int.
        torch.OutOfMemoryError, RuntimeError: the device has no such memory.
    """

    def __init__(self, shape: KVShape, num_slots: int, device: torch.device | str = "cpu") -> None:
        self.shape = shape
        self.num_slots = checks.whole(
            "num_slots", num_slots, 1, SLOTS_MAX, "pass the slots that the scheduler hands out"
        )
        self._buffers: dict[tuple[int, str], torch.Tensor] = {
            (layer, part): torch.zeros(self.num_slots, shape.width, dtype=shape.dtype, device=device)
            for layer in range(shape.layers)
            for part in shape.parts
        }
        self.device: torch.device = self._buffers[0, shape.parts[0]].device

    @property
    def closed(self) -> bool:
        """Whether its memory was given up."""
        return not self._buffers

    def buffer(self, layer: int, part: str) -> torch.Tensor:
        """KV of one layer and part: [num_slots, width].

        Raises:
            InvalidInputError: there is no such layer or part.
            ProtocolError: the pool is closed.
        """
        checks.is_open("DevicePool", self.closed)
        return self._buffers[checks.place("layer", layer, self.shape.layers), checks.part(part, self.shape.parts)]

    def poison(self, slots: IntSequence) -> None:
        """Overwrites slots, so that whoever reads them sees no number: all bits are set, which is NaN in every float
        format.

        Raises:
            InvalidInputError: there is no such slot. Nothing is written.
            ProtocolError: the pool is closed.
        """
        checks.is_open("DevicePool", self.closed)
        rows = torch.from_numpy(checks.ids("slot", slots, self.num_slots)).to(self.device)
        for buffer in self._buffers.values():
            buffer.view(torch.uint8)[rows] = checks.POISON

    def close(self) -> None:
        """Gives up the memory; tensors that were handed out keep theirs. A no-op the second time."""
        self._buffers.clear()
