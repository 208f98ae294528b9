"""Copies on the CPU: rows of bytes, by the compiled module."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from isoradix import copy_rows
from isoradix.copies.transfer import Transfer
from isoradix.kv import DevicePool, HostPool


class RowCopier:
    """Copies transfers between two pools, a layer at a time: one call of the compiled module for all parts of it.

    It holds the memory of both pools until `release`, so a pool that is closed too early is no danger to a copy under
    way.
    """

    def __init__(self, device: DevicePool, host: HostPool) -> None:
        shape = device.shape
        self._device = [[_rows(device.buffer(layer, part)) for part in shape.parts] for layer in range(shape.layers)]
        self._host = [[host.rows(layer, part).numpy() for part in shape.parts] for layer in range(shape.layers)]

    def copy(self, transfer: Transfer, layer: int) -> None:
        """Copies one layer; without the GIL if it is long."""
        if transfer.kind == "backup":
            copy_rows(self._host[layer], self._device[layer], transfer.pages, transfer.slots)
        else:
            copy_rows(self._device[layer], self._host[layer], transfer.slots, transfer.pages)

    def release(self) -> None:
        """Lets go of the pools' memory."""
        self._device.clear()
        self._host.clear()


def _rows(buffer: torch.Tensor) -> npt.NDArray[np.uint8]:
    rows: npt.NDArray[Any] = buffer.view(torch.uint8).numpy()
    return rows
