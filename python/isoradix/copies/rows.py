"""Copies on the CPU: rows of bytes, by the compiled module."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from isoradix import CopyProgress, copy_rows
from isoradix.copies.transfer import Transfer
from isoradix.kv import DevicePool, HostPool

_Rows: TypeAlias = npt.NDArray[np.uint8]


class RowCopier:
    """Copies transfers between two pools, a layer or all layers at a time: one call of the compiled module.

    It holds the memory of both pools until `release`, so a pool that is closed too early is no danger to a copy under
    way.
    """

    def __init__(self, device: DevicePool, host: HostPool) -> None:
        shape = device.shape
        self._device = [[_rows(device.buffer(layer, part)) for part in shape.parts] for layer in range(shape.layers)]
        self._host = [[host.rows(layer, part).numpy() for part in shape.parts] for layer in range(shape.layers)]

    def copy(self, transfer: Transfer, layer: int) -> None:
        """Copies one layer; without the GIL if it is long."""
        self._copy(transfer, self._device[layer], self._host[layer], None)

    def copy_all(self, transfer: Transfer, progress: CopyProgress) -> None:
        """Copies all layers, first to last, in one call; without the GIL if it is long.

        Args:
            progress: told of each part of each layer; it may stop the copy.
        """
        device = [rows for layer in self._device for rows in layer]
        host = [rows for layer in self._host for rows in layer]
        self._copy(transfer, device, host, progress)

    @staticmethod
    def _copy(transfer: Transfer, device: list[_Rows], host: list[_Rows], progress: CopyProgress | None) -> None:
        if transfer.kind == "backup":
            copy_rows(host, device, transfer.pages, transfer.slots, progress=progress)
        else:
            copy_rows(device, host, transfer.slots, transfer.pages, progress=progress)

    def release(self) -> None:
        """Lets go of the pools' memory."""
        self._device.clear()
        self._host.clear()


def _rows(buffer: torch.Tensor) -> _Rows:
    rows: npt.NDArray[Any] = buffer.view(torch.uint8).numpy()
    return rows
