"""SGLang's L2 without a GPU: the device pool is ordinary memory like the host pool, and a copy is an assignment.

The server's own host pool copies by CUDA kernels and pins its memory. Both are replaced here, in the class of the
pools with keys and values apart (MHA). Copies end before they return; their events are always done.
"""

from collections.abc import Iterator
from typing import Any

import torch


def serve_l2_on_cpu() -> None:
    """Replaces pinning, and copies of the MHA host pool, in the layouts that the `direct` back end has."""
    from sglang.srt.mem_cache.pool_host.base import HostKVCache
    from sglang.srt.mem_cache.pool_host.mha import MHATokenToKVPoolHost

    _without_pinning(HostKVCache)
    MHATokenToKVPoolHost.load_to_device_per_layer = _load_layer
    MHATokenToKVPoolHost.backup_from_device_all_layer = _back_up
    if not hasattr(torch.cpu.Stream, "synchronize"):  # called after a copy that failed
        torch.cpu.Stream.synchronize = lambda _: None


def _without_pinning(pool_class: Any) -> None:
    construct = pool_class.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 it becomes the class's own
        construct(self, *args, **{**kwargs, "pin_memory": False})

    pool_class.__init__ = __init__


def _load_layer(
    pool: Any, device_pool: Any, host_slots: Any, slots: Any, layer: int, io_backend: str, *, is_draft: bool = False
) -> None:
    if is_draft or 0 <= layer < pool.target_layer_num:
        for host, device in _planes(pool, layer):
            device[slots] = host[_rows(pool, host_slots)]


def _back_up(pool: Any, device_pool: Any, host_slots: Any, slots: Any, io_backend: str) -> None:
    for layer in range(pool.layer_num):
        for host, device in _planes(pool, layer):
            host[_rows(pool, host_slots)] = device[slots]


def _planes(pool: Any, layer: int) -> Iterator[tuple[Any, Any]]:
    """One layer's keys, then values: its part of the host's buffer, and the device's buffer."""
    for host, device in ((pool.k_buffer, pool.device_k_buffers), (pool.v_buffer, pool.device_v_buffers)):
        yield host[layer] if pool.layout == "layer_first" else host[:, layer], device[layer]


def _rows(pool: Any, slots: Any) -> Any:
    """Where slots lie in a layer's part, which has pages in `page_first_direct` and rows in other layouts."""
    paged = pool.layout == "page_first_direct"
    return (slots // pool.page_size, slots % pool.page_size) if paged else slots
