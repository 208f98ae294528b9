"""Host pages as a CUDA device reaches them: by kernels, where it can read registered memory, else by one copy a run of
pages."""

from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import torch

from isoradix.kv import HostPool
from isoradix.kv.memory import HostMemory, HostMemoryError

_PROBE_BYTES: Final = 4096


class HostPages(Protocol):
    """Pages of one layer and part, from and to rows of device memory, on the current stream."""

    def write(self, layer: int, part: str, pages: "PageIds", rows: torch.Tensor) -> None:
        """Rows [pages, items of a page] become the pages."""

    def read(self, layer: int, part: str, pages: "PageIds", rows: torch.Tensor) -> None:
        """The pages become rows [pages, items of a page]."""


class PageIds:
    """Page numbers, on host and on the device."""

    def __init__(self, pages: npt.NDArray[np.int64], device: torch.device) -> None:
        self.host = pages
        self.device = to_device(pages, device)

    def part(self, first: int, end: int) -> "PageIds":
        """Those from `first` to before `end`."""
        part = PageIds.__new__(PageIds)
        part.host, part.device = self.host[first:end], self.device[first:end]
        return part


def to_device(ids: npt.NDArray[np.int64], device: torch.device) -> torch.Tensor:
    """Ids on the device, in order of the current stream and without waiting for it."""
    # torch keeps the pinned memory until the stream has read it
    return torch.from_numpy(ids).pin_memory().to(device, non_blocking=True)


class MappedPages:
    """Pages as a tensor of the device: one kernel for all pages, in either layout, over the link."""

    def __init__(self, host: HostPool, item: torch.dtype, device: torch.device) -> None:
        memory = mapped(host.memory, device)
        self._pages: dict[tuple[int, str], torch.Tensor] = {}
        for layer in range(host.shape.layers):
            for part in host.shape.parts:
                rows = host.rows(layer, part)
                strided = memory.as_strided(rows.shape, rows.stride(), rows.storage_offset())
                self._pages[layer, part] = strided.view(item)

    def write(self, layer: int, part: str, pages: PageIds, rows: torch.Tensor) -> None:
        """See `HostPages`."""
        self._pages[layer, part].index_copy_(0, pages.device, rows)

    def read(self, layer: int, part: str, pages: PageIds, rows: torch.Tensor) -> None:
        """See `HostPages`."""
        torch.index_select(self._pages[layer, part], 0, pages.device, out=rows)


class CopiedPages:
    """Pages as pinned memory: an asynchronous copy for each run of consecutive pages; page first, for each page."""

    def __init__(self, host: HostPool, item: torch.dtype) -> None:
        self._pages = {
            (layer, part): host.rows(layer, part).view(item)
            for layer in range(host.shape.layers)
            for part in host.shape.parts
        }

    def write(self, layer: int, part: str, pages: PageIds, rows: torch.Tensor) -> None:
        """See `HostPages`."""
        for run, first, end in self._runs(layer, part, pages):
            run.copy_(rows[first:end], non_blocking=True)

    def read(self, layer: int, part: str, pages: PageIds, rows: torch.Tensor) -> None:
        """See `HostPages`."""
        for run, first, end in self._runs(layer, part, pages):
            rows[first:end].copy_(run, non_blocking=True)

    def _runs(self, layer: int, part: str, pages: PageIds) -> "list[tuple[torch.Tensor, int, int]]":
        """Pages that are one piece of memory, and which of the ids they are."""
        held = self._pages[layer, part]
        apart = np.diff(pages.host) != 1 if held.is_contiguous() else np.ones(max(len(pages.host) - 1, 0), bool)
        ends = [*(np.flatnonzero(apart) + 1).tolist(), len(pages.host)]
        firsts = [0, *ends[:-1]]
        return [
            (held[int(pages.host[first]) :][: end - first], first, end)
            for first, end in zip(firsts, ends, strict=True)
            if end > first
        ]


class _Registered:
    """Registered host memory, in the form in which torch takes device memory of others."""

    def __init__(self, memory: torch.Tensor) -> None:
        self._memory = memory  # kept for as long as the tensor made from this
        self.__cuda_array_interface__: dict[str, Any] = {
            "shape": (memory.numel(),),
            "typestr": "|u1",
            "data": (memory.data_ptr(), False),
            "strides": None,
            "version": 3,
        }


def mapped(memory: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The same bytes as a tensor of the device.

    Raises:
        RuntimeError: the device sees no such memory.
    """
    seen = torch.as_tensor(_Registered(memory), device=device)
    if seen.device != device or seen.data_ptr() != memory.data_ptr():
        raise RuntimeError(f"memory registered for {device} was copied or is on {seen.device}")
    return seen


def can_map(device: torch.device) -> bool:
    """Whether kernels of the device reach registered host memory where it lies: tried, on memory of its own."""
    try:
        memory = HostMemory(_PROBE_BYTES, pinned=True)
    except HostMemoryError:
        return False
    try:
        seen = mapped(memory.bytes, device)
        memory.bytes.fill_(1)
        seen.add_(1)
        back = seen.cpu()
        return bool((memory.bytes == 2).all() and (back == 2).all())
    except RuntimeError:
        return False
    finally:
        memory.release()
