"""The server's memory: its slots as the driver's, its KV as a device pool, and host pages below."""

from typing import Any, Final

import numpy as np
import torch

from isoradix import IntSequence, OutOfSlotsError, Slots
from isoradix.kv import DevicePool, HostPool, KVShape, Layout, MHAShape, MLAShape

GB: Final = 10**9
LAYOUTS: Final[dict[str, Layout]] = {
    "layer_first": "layer_first",
    "page_first": "page_first",
    "page_first_direct": "page_first",
}
"""The server's names of host layouts, and this package's."""


class ServerSlots:
    """The server's allocator, as the driver asks for it.

    Args:
        allocator: a `TokenToKVPoolAllocator` or `PagedTokenToKVPoolAllocator`.
    """

    def __init__(self, allocator: Any) -> None:
        self._allocator = allocator
        self.page_size: int = allocator.page_size
        self.none = self.tensor(())

    @property
    def total(self) -> int:
        """Slots, free or not."""
        slots: int = self._allocator.size
        return slots

    @property
    def available(self) -> int:
        """Free slots."""
        free: int = self._allocator.available_size()
        return free

    def alloc(self, num_tokens: int) -> Slots:
        """Slots for so many tokens, whole pages.

        Raises:
            OutOfSlotsError: there are not so many.
        """
        slots = self._allocator.alloc(num_tokens)
        if slots is None:
            raise OutOfSlotsError(f"{num_tokens} slots asked for, {self.available} are free\nhint: evict first")
        return np.asarray(slots.cpu().numpy(), dtype=np.int64)

    def free(self, slots: IntSequence) -> None:
        """Gives slots back, whole pages."""
        given = self.tensor(slots)
        if len(given) > 0:
            # as if of one request: the first of every `page_size` slots names a page
            self._allocator.free_segment(given, start_pos=0)

    def tensor(self, slots: IntSequence) -> torch.Tensor:
        """Slots as the server holds them: int64, on the device."""
        return torch.from_numpy(np.asarray(slots, dtype=np.int64)).to(self._allocator.device)


def device_pool(pool: Any) -> DevicePool:
    """The server's KV, where it is.

    Args:
        pool: an `MHATokenToKVPool` or `MLATokenToKVPool`; slot 0 of it pads.
    """
    shape: KVShape
    if hasattr(pool, "k_buffer"):
        shape = MHAShape(pool.layer_num, pool.head_num, pool.head_dim, pool.store_dtype)
        buffers = {"k": pool.k_buffer, "v": pool.v_buffer}
    else:
        buffers = {"kv": pool.kv_buffer}
        shape = MLAShape(pool.layer_num, pool.kv_buffer[0][0].numel(), pool.store_dtype)
    return DevicePool(shape, len(buffers[shape.parts[0]][0]), buffers=buffers)


def host_pool(device: DevicePool, memory: Any, page_size: int, num_slots: int) -> HostPool:
    """Host pages as the server's flags size them; without pages where the memory fails.

    Args:
        device: the pool that is backed up.
        memory: the server's memory flags: `hicache_size` in GB for each rank, or else `hicache_ratio` of the device.
        page_size: tokens in a page.
        num_slots: slots of the device that hold tokens.
    """
    shape = device.shape
    if memory.hicache_size > 0:
        tokens = int(memory.hicache_size * GB) // shape.bytes_per_token
    else:
        tokens = int(num_slots * memory.hicache_ratio)
    pages = tokens // page_size + 1  # as the server rounds
    return HostPool.try_new(shape, pages, page_size, LAYOUTS[memory.hicache_mem_layout])
