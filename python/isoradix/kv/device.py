"""KV of device slots."""

from collections.abc import Mapping, Sequence
from typing import Final

import torch

from isoradix import IntSequence, InvalidInputError
from isoradix.kv import checks
from isoradix.kv.shape import KVShape

SLOTS_MAX: Final = 1 << 31


class DevicePool:
    """One buffer [num_slots, width] for each layer and part: what the model's attention reads and writes.

    Args:
        shape: of a token.
        num_slots: slots, 1 to 2**31; slot numbers of the scheduler's `SlotPool` are rows here.
        device: where new buffers are made.
        buffers: those that a model has already, which closing the pool leaves alone: for each part a tensor of every
            layer, contiguous: [num_slots, ...], `width` elements a slot. New ones, zero at first, if None.

    Raises:
        InvalidInputError: `num_slots` is out of its range; the buffers do not have that shape, or do not lie on one
            device.
        InputTypeError: `num_slots` is not an int.
        torch.OutOfMemoryError, RuntimeError: the device has no such memory.
    """

    def __init__(
        self,
        shape: KVShape,
        num_slots: int,
        device: torch.device | str = "cpu",
        *,
        buffers: Mapping[str, Sequence[torch.Tensor]] | None = None,
    ) -> None:
        self.shape = shape
        self.num_slots = checks.whole(
            "num_slots", num_slots, 1, SLOTS_MAX, "pass the slots that the scheduler hands out"
        )
        self._buffers = _new(shape, self.num_slots, device) if buffers is None else _over(shape, num_slots, buffers)
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


def _new(shape: KVShape, num_slots: int, device: torch.device | str) -> dict[tuple[int, str], torch.Tensor]:
    return {
        (layer, part): torch.zeros(num_slots, shape.width, dtype=shape.dtype, device=device)
        for layer in range(shape.layers)
        for part in shape.parts
    }


def _over(
    shape: KVShape, num_slots: int, buffers: Mapping[str, Sequence[torch.Tensor]]
) -> dict[tuple[int, str], torch.Tensor]:
    """Given buffers as rows of a slot: [num_slots, width]."""
    if set(buffers) != set(shape.parts) or any(len(layers) != shape.layers for layers in buffers.values()):
        given = ", ".join(f"{part}: {len(layers)}" for part, layers in buffers.items())
        raise InvalidInputError(
            f"buffers are {given}; expected {shape.layers} layers of {', '.join(shape.parts)}\n"
            "hint: pass the buffers of this rank's own layers"
        )
    device = buffers[shape.parts[0]][0].device
    return {
        (layer, part): _rows(buffer, num_slots, device, shape, f"{part}[{layer}]")
        for part, layers in buffers.items()
        for layer, buffer in enumerate(layers)
    }


def _rows(buffer: torch.Tensor, slots: int, device: torch.device, shape: KVShape, name: str) -> torch.Tensor:
    fits = buffer.shape[:1] == (slots,) and buffer.numel() == slots * shape.width
    if not fits or buffer.dtype != shape.dtype or buffer.device != device or not buffer.is_contiguous():
        given = f"{list(buffer.shape)} of {buffer.dtype} on {buffer.device}"
        raise InvalidInputError(
            f"{name} is {given}{'' if buffer.is_contiguous() else ', not contiguous'}; expected [{slots}, ...] with "
            f"{shape.width} elements of {shape.dtype} a slot, contiguous, on {device}\n"
            "hint: the shape is that of one token on this rank"
        )
    return buffer.view(slots, shape.width)
