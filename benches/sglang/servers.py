"""What an SGLang server has around its prefix cache, without the server: published flags, slots, rows, and the cache
that its own factory makes of them."""

import os
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final

CACHES: Final = ("isoradix", "rust", "python")
"""This package's, and the server's own with either of its tree cores."""
LAYERS, HEADS, WIDTH = 1, 1, 1
"""Of the KV: the least there can be, for no row of it says anything here."""


@dataclass
class Server:
    """One cache, and the memory that it manages."""

    name: str
    cache: Any
    allocator: Any
    rows: Any

    @property
    def available(self) -> int:
        """Free slots."""
        return int(self.allocator.available_size())


def make(
    name: str,
    *,
    slots: int,
    page_size: int,
    row_length: int,
    rows: int = 64,
    host_ratio: float = 0.0,
    write_policy: str = "write_through",
    policy: str = "lru",
    kv_events: bool = False,
    **more: Any,
) -> Server:
    """A server's cache, on the CPU, alone in its domain.

    Args:
        name: one of `CACHES`.
        slots: of the device, in tokens.
        row_length: tokens of the longest request.
        rows: requests at a time.
        host_ratio: host memory as a multiple of the device's; 0 for none.
        write_policy: of the host tier.
        policy: of eviction.
        kv_events: whether it collects KV events.
        more: of the server's `CacheInitParams`.
    """
    _publish(name, page_size, host_ratio, write_policy, policy)
    import torch
    from sglang.srt.mem_cache.allocator import PagedTokenToKVPoolAllocator, TokenToKVPoolAllocator
    from sglang.srt.mem_cache.cache_init_params import CacheInitParams
    from sglang.srt.mem_cache.memory_pool import MHATokenToKVPool, ReqToTokenPool
    from sglang.srt.mem_cache.registry import TreeCacheBuildContext, create_tree_cache

    pool = MHATokenToKVPool(
        size=slots,
        page_size=page_size,
        dtype=torch.float32,
        head_num=HEADS,
        head_dim=WIDTH,
        layer_num=LAYERS,
        device="cpu",
        enable_memory_saver=False,
    )
    if page_size == 1:
        allocator: Any = TokenToKVPoolAllocator(slots, torch.float32, "cpu", pool, need_sort=False)
    else:
        allocator = PagedTokenToKVPoolAllocator(slots, page_size, torch.float32, "cpu", pool, need_sort=False)
    table = ReqToTokenPool(size=rows, max_context_len=row_length, device="cpu", enable_memory_saver=False)
    params = CacheInitParams(
        disable=False,
        req_to_token_pool=table,
        token_to_kv_pool_allocator=allocator,
        page_size=page_size,
        eviction_policy=policy,
        enable_kv_cache_events=kv_events,
        tree_core_backend=name if name in ("rust", "python") else None,
        **more,
    )
    worker = SimpleNamespace(
        model_runner=SimpleNamespace(forward_stream=None),
        register_hicache_layer_transfer_counter=lambda _counter: None,
    )
    from sglang.srt.runtime_context import get_context

    context = TreeCacheBuildContext(
        server_args=get_context().server_args,
        params=params,
        is_hybrid_swa=False,
        full_tokens_per_layer=None,
        is_hybrid_ssm=False,
        is_dsa=False,
        enable_hierarchical_cache=host_ratio > 0,
        disable_radix_cache=False,
        tp_worker=worker,
        model_config=None,
        tp_size=1,
        tp_rank=0,
        tp_group=None,
    )
    cache = create_tree_cache(context)
    if name in ("rust", "python"):
        core = type(cache.tree_core).__name__
        if core != ("RustUnifiedTreeCore" if name == "rust" else "UnifiedTreeCore"):
            raise RuntimeError(f"asked for the server's {name} core, it made {core}")
    return Server(name, cache, allocator, table)


def _publish(name: str, page_size: int, host_ratio: float, write_policy: str, policy: str) -> None:
    """The flags that caches read, as a server of one rank has them. The last call counts, for caches made after it."""
    import torch.distributed as dist
    from sglang.srt.runtime_context import get_context

    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    fields: dict[str, Any] = {
        "page_size": page_size,
        "radix_cache_backend": "isoradix" if name == "isoradix" else None,
        "radix_eviction_policy": policy,
        "enable_hierarchical_cache": host_ratio > 0,
        "hicache_ratio": host_ratio or 2.0,
        "hicache_size": 0,
        "hicache_write_policy": write_policy,
        "hicache_io_backend": "direct",
        "hicache_mem_layout": "page_first_direct",
        "device": "cpu",
    }
    get_context().override_server_args(**fields).install()
    parallel = get_context().parallel
    parallel.override_permanently(tp_rank=0, pp_rank=0, attn_tp_rank=0, attn_cp_rank=0, attn_dp_rank=0)
    _register()


def _register() -> None:
    """What the server's start does with plug-ins, for the two that are needed."""
    from isoradix.integrations.sglang import plugin

    plugin.register()
    _host_memory_on_cpu()


def prepare_import() -> None:
    """What SGLang's modules read when they are imported."""
    os.environ.setdefault("SGLANG_USE_CPU_ENGINE", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("SGLANG_ENABLE_RANK_CONSENSUS_CHECKER", "0")
    import warnings

    warnings.simplefilter("ignore")


def _host_memory_on_cpu() -> None:
    from importlib import import_module

    from sglang.srt.mem_cache.pool_host.base import HostKVCache

    if not getattr(HostKVCache, "_isoradix_cpu", False):
        # of tests/sglang/cpu_support, installed with the engine
        import_module("cpu_support.host_memory").serve_l2_on_cpu()
        HostKVCache._isoradix_cpu = True
