"""Puts one rank together: options, plane, pools, engine, driver, cache."""

import logging
from functools import partial
from pathlib import Path
from typing import Any, Final

from sglang.srt.mem_cache.registry import default_radix_cache_factory
from sglang.srt.runtime_context import get_disagg, get_memory, get_observability, get_parallel

from isoradix.consensus.plane import first_line
from isoradix.copies import CopyEngine, engine_for
from isoradix.driver import Driver
from isoradix.integrations.sglang import limits, options
from isoradix.integrations.sglang.attachment import StorageChanges
from isoradix.integrations.sglang.cache import IsoradixCache
from isoradix.integrations.sglang.domain import connect
from isoradix.integrations.sglang.pools import ServerSlots, device_pool, host_pool
from isoradix.integrations.sglang.storage import StorageOptions, open_tier
from isoradix.integrations.sglang.tiers import TieredIsoradixCache
from isoradix.kv import DevicePool, HostPool

PAUSED_VOTE_MS: Final = 50

logger: Final = logging.getLogger("isoradix")


def assemble(ctx: Any) -> Any:
    """The cache that the server asked for: this package's, or its own where prefixes are not to be shared.

    Raises:
        See `plugin.make_cache`.
    """
    if ctx.disable_radix_cache:
        return default_radix_cache_factory(ctx)
    chosen = options.load()
    memory = get_memory()
    limits.check(
        ctx,
        memory,
        get_disagg().disaggregation_mode,
        get_parallel().attn_dcp_size,
        get_observability().kv_canary_sweep_interval,
    )
    if ctx.enable_hierarchical_cache:
        return _tiered(ctx, memory, chosen)
    params = ctx.params
    slots = ServerSlots(params.token_to_kv_pool_allocator)
    plane = connect(ctx.server_args, chosen)
    driver = Driver(plane, None, slots, page_size=params.page_size, **_options(params, memory, chosen))
    return IsoradixCache(params, driver, slots)


def _tiered(ctx: Any, memory: Any, chosen: options.Options) -> TieredIsoradixCache:
    asked = StorageOptions.of(memory, chosen)
    params = ctx.params
    allocator = params.token_to_kv_pool_allocator
    slots = ServerSlots(allocator)
    device = device_pool(allocator.get_kvcache())
    host = host_pool(device, memory, params.page_size, allocator.size)
    if host.failure is not None:
        logger.error("this rank has no host memory: %s", host.failure)
    plane = connect(ctx.server_args, chosen)
    engine = make_engine(device, host)
    opens = partial(open_tier, ctx=ctx, plane=plane, host=host, memory=memory)
    tier = None
    if asked.url is not None:
        try:
            tier = opens(asked.url)
        except Exception as error:
            plane.fail(f"its storage cannot be opened: {first_line(error)}")
            raise
    driver = Driver(
        plane,
        engine,
        slots,
        page_size=params.page_size,
        host_pages=host.num_pages,
        settings={"kv": device.shape.describe(), "layout": host.layout},
        writing=_writing(memory.hicache_write_policy, int(allocator.size * chosen.low_water)),
        load_back_min=chosen.load_back_min,
        l3=tier,
        prefetch_min=max(1, asked.threshold),
        prefetch_patience=asked.patience,
        **_options(params, memory, chosen),
    )
    storage = StorageChanges(driver, asked, memory, opens)
    cache = TieredIsoradixCache(params, driver, slots, host, ctx.tp_worker.model_runner, storage)
    allocator.get_kvcache().register_layer_transfer_counter(cache.layers)
    ctx.tp_worker.register_hicache_layer_transfer_counter(cache.layers)
    agreed = driver.cache.host_ledger.capacity
    logger.info("host memory: %d pages of %d tokens, agreed by all ranks", agreed, params.page_size)
    return cache


def make_engine(device: DevicePool, host: HostPool) -> CopyEngine:
    """The copy engine of a rank: by a name of its own, so that tests can put faults around it."""
    return engine_for(device, host)


def _options(params: Any, memory: Any, chosen: options.Options) -> dict[str, Any]:
    """Of the driver and the cache, of either kind."""
    return {
        "policy": _policy(params.eviction_policy, memory.radix_eviction_policy_config or {}),
        "bigram": params.is_eagle,
        "window": chosen.window,
        "storage_breaker": None if chosen.storage_breaker == "none" else chosen.storage_breaker,
        "storage_retry": chosen.storage_retry,
        "mode": chosen.mode,
        "tiers": chosen.tiers,
        "pacing": (chosen.vote_ms, chosen.idle_vote_ms, PAUSED_VOTE_MS),
        "journal_records": chosen.journal_records,
        "journal": None if chosen.journal is None else Path(chosen.journal),
        "journal_bytes": chosen.journal_mib << 20,
        "kv_events": params.enable_kv_cache_events,
    }


def _policy(policy: str, config: dict[str, Any]) -> str:
    """An eviction policy as this package writes it: `slru:2`."""
    if policy == "slru" and "protected_threshold" in config:
        return f"slru:{config['protected_threshold']}"
    return policy


def _writing(policy: str, low_water: int) -> str:
    """When what is on the device comes to host, as this package writes it."""
    match policy:
        case "write_back":
            return f"back:{low_water}"
        case "write_through_selective":
            return "through:2"
        case _:
            return "through:1"
