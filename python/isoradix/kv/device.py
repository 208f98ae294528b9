"""KV of device slots."""

from collections.abc import Mapping, Sequence
from typing import Final, Self

import torch

from isoradix import IntSequence, InvalidInputError
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

    @classmethod
    def over(cls, shape: KVShape, buffers: Mapping[str, Sequence[torch.Tensor]]) -> Self:
        """A pool over buffers that a model has already; closing it leaves them alone.

        Args:
            shape: of a token.
            buffers: for each part a tensor of every layer, contiguous: [num_slots, ...], `width` elements a slot.

        Raises:
            InvalidInputError: the buffers do not have that shape, or do not lie on one device.
        """
        pool = cls.__new__(cls)
        pool.shape = shape
        if set(buffers) != set(shape.parts) or any(len(layers) != shape.layers for layers in buffers.values()):
            given = ", ".join(f"{part}: {len(layers)}" for part, layers in buffers.items())
            raise InvalidInputError(
                f"buffers are {given}; expected {shape.layers} layers of {', '.join(shape.parts)}\n"
                "hint: pass the buffers of this rank's own layers"
            )
        first = buffers[shape.parts[0]][0]
        pool.num_slots, pool.device = len(first), first.device
        pool._buffers = {
            (layer, part): _rows(buffer, first, shape, f"{part}[{layer}]")
            for part, layers in buffers.items()
            for layer, buffer in enumerate(layers)
        }
        return pool

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


def _rows(buffer: torch.Tensor, first: torch.Tensor, shape: KVShape, name: str) -> torch.Tensor:
    """One buffer as rows of a slot: [num_slots, width]."""
    slots = len(first)
    fits = buffer.shape[:1] == first.shape[:1] and buffer.numel() == slots * shape.width
    if not fits or buffer.dtype != shape.dtype or buffer.device != first.device or not buffer.is_contiguous():
        given = f"{list(buffer.shape)} of {buffer.dtype} on {buffer.device}"
        raise InvalidInputError(
            f"{name} is {given}{'' if buffer.is_contiguous() else ', not contiguous'}; expected [{slots}, ...] with "
            f"{shape.width} elements of {shape.dtype} a slot, contiguous, on {first.device}\n"
            "hint: the shape is that of one token on this rank"
        )
    return buffer.view(slots, shape.width)
