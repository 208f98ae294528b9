"""One allocation of host memory outside of the heap, pinned or not."""

import contextlib
import mmap
import sys
from typing import Any, Final

import numpy as np
import torch

from isoradix import IsoradixError
from isoradix.kv import checks

# cudaHostRegisterPortable | cudaHostRegisterMapped: pinned for all contexts, and visible to kernels
_REGISTER_FLAGS: Final = 3


_CUDA: Final[Any] = torch.cuda  # torch gives cudart() no type


class HostMemoryError(IsoradixError, MemoryError):
    """This rank has no such host memory, or cannot pin it. Nothing is left allocated."""


class HostMemory:
    """Page-aligned bytes, released by `release` and by nothing else: unregistered first, then unmapped.

    Unpinned memory is taken from the machine when it is first written, pinned memory at once.

    Raises:
        HostMemoryError: it cannot be mapped, or not be pinned.
    """

    def __init__(self, size: int, pinned: bool) -> None:
        self.pinned = pinned
        self._map = _map(size) if size else None
        self._bytes: torch.Tensor | None = _tensor(self._map)
        self._registered = False
        if pinned and size:
            self._register()

    def _register(self) -> None:
        try:
            code = _CUDA.cudart().cudaHostRegister(self.bytes.data_ptr(), self.bytes.numel(), _REGISTER_FLAGS)
            torch.cuda.check_error(code)
        except (RuntimeError, AssertionError) as error:  # no driver, no device, no build with CUDA, or a refusal
            size = self.bytes.numel()
            self.release()
            raise HostMemoryError(
                f"{size} bytes of host memory cannot be pinned: {_first_line(error)}\n"
                "hint: ask for fewer pages, raise the limit of locked memory (ulimit -l), or pass pinned=False"
            ) from error
        self._registered = True

    @property
    def closed(self) -> bool:
        """Whether it was released."""
        return self._bytes is None

    @property
    def bytes(self) -> torch.Tensor:
        """All of it: uint8, one-dimensional.

        Raises:
            ProtocolError: it was released.
        """
        checks.is_open("HostPool", self._bytes is None)
        assert self._bytes is not None
        return self._bytes

    def release(self) -> None:
        """Waits for the device, unregisters, unmaps. A no-op the second time.

        Where a tensor of this memory is still held by somebody, its last holder unmaps.
        """
        if self._bytes is None:
            return
        pointer, self._bytes = self._bytes.data_ptr(), None
        if self._registered:
            self._registered = False
            torch.cuda.synchronize()  # no copy may be under way from or to what is unpinned
            torch.cuda.check_error(_CUDA.cudart().cudaHostUnregister(pointer))
        if self._map is not None:
            try:
                self._map.close()
            except BufferError:
                self._map = None


def _map(size: int) -> mmap.mmap:
    try:
        if sys.platform == "win32":
            return mmap.mmap(-1, size)
        mapped = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, ValueError, OverflowError) as error:
        raise HostMemoryError(
            f"{size} bytes of host memory cannot be mapped: {_first_line(error)}\nhint: ask for fewer pages"
        ) from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without huge pages: slower, nothing else
            mapped.madvise(mmap.MADV_HUGEPAGE)
    return mapped


def _tensor(mapped: mmap.mmap | None) -> torch.Tensor:
    # an array keeps the mapping from being closed under it; a tensor made from it alone would not
    return torch.from_numpy(np.frombuffer(mapped, np.uint8) if mapped is not None else np.empty(0, np.uint8))


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
