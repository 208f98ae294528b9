"""Copies on the CPU: rows of bytes, by the compiled module."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from isoradix import CopyProgress, copy_rows
from isoradix.copies.components import Components
from isoradix.copies.transfer import Transfer
from isoradix.kv import DevicePool, HostPool

_Rows: TypeAlias = npt.NDArray[np.uint8]


class RowCopier:
    """Copies transfers between two pools, a layer or all layers at a time: one call of the compiled module.

    It holds the memory of both pools until `release`, so a pool that is closed too early is no danger to a copy under
    way.

    Args:
        device, host: pools of one shape.
        components: what there is beside them; each has a copier of its own, in `beside`.
    """

    def __init__(self, device: DevicePool, host: HostPool, components: Components = ()) -> None:
        shape = device.shape
        self._device = [[_rows(device.buffer(layer, part)) for part in shape.parts] for layer in range(shape.layers)]
        self._host = [[host.rows(layer, part).numpy() for part in shape.parts] for layer in range(shape.layers)]
        self.beside = tuple(RowCopier(each.device, each.host) for each in components if each is not None)

    @property
    def layers(self) -> int:
        """Layers of these pools."""
        return len(self._device)

    @property
    def buffers_beside(self) -> int:
        """Buffers of all components: those that `copy_all` copies first."""
        return sum(len(layer) for copier in self.beside for layer in copier._device)

    def copy(self, transfer: Transfer, layer: int) -> None:
        """Copies one layer; without the GIL if it is long."""
        self._copy(transfer, self._device[layer], self._host[layer], None)

    def copy_all(self, transfer: Transfer, progress: CopyProgress) -> None:
        """Copies what lies beside, and then all layers, first to last, in one call each; without the GIL if it is long.

        Args:
            progress: told of each buffer: those of the components, then each part of each layer; it may stop the copy.
        """
        for copier, asked in zip(self.beside, transfer.beside, strict=True):
            copier.copy_all(asked, progress)
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
        for copier in self.beside:
            copier.release()


def _rows(buffer: torch.Tensor) -> _Rows:
    rows: npt.NDArray[Any] = buffer.view(torch.uint8).numpy()
    return rows
