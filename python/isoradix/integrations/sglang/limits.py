"""Combinations that are refused at start, with their reasons. docs/sglang.md has the same table for people."""

from collections.abc import Iterator
from typing import Any, Final

from isoradix import InvalidInputError, PrefixCache
from isoradix.consensus.plane import first_line
from isoradix.integrations.sglang import versions
from isoradix.integrations.sglang.pools import LAYOUTS
from isoradix.kv.host import PAGE_SIZE_MAX

ALLOCATORS: Final = ("TokenToKVPoolAllocator", "PagedTokenToKVPoolAllocator")
POOLS: Final = ("MHATokenToKVPool", "MLATokenToKVPool")


def check(ctx: Any, memory: Any, disaggregation: str, dcp_size: int = 1, canary_sweep: int = 0) -> None:
    """Checks what the server was asked for; names everything that does not go, not the first alone.

    Args:
        ctx: the server's `TreeCacheBuildContext`.
        memory: its memory flags (`get_memory()`).
        disaggregation: "null", "prefill" or "decode".
        dcp_size: ranks that share the tokens of a request while it decodes.
        canary_sweep: forward steps from one check of all cached KV to the next; 0 for none.

    Raises:
        InvalidInputError: something is not supported.
    """
    reasons = list(_device(ctx, memory))
    if canary_sweep > 0:
        reasons.append(f"--kv-canary-sweep-interval {canary_sweep}: a sweep walks the tree of the server's own cache")
    if ctx.enable_hierarchical_cache:
        reasons += _host(ctx, memory, disaggregation)
        if dcp_size > 1:
            why = "a slot is no row of one rank's KV, and the rows are what is copied"
            reasons.append(f"--enable-hierarchical-cache with --dcp-size {dcp_size}: {why}")
    if reasons:
        listed = "\n".join(f"  - {reason}" for reason in reasons)
        raise InvalidInputError(
            f"--radix-cache-backend isoradix does not support what this server was asked for:\n{listed}\n"
            "hint: drop these options, or that back end"
        )


def _device(ctx: Any, memory: Any) -> Iterator[str]:
    """What keeps it from the device tier."""
    params = ctx.params
    allocator = params.token_to_kv_pool_allocator
    if ctx.is_hybrid_swa:
        yield "a model with sliding-window attention: its window has slots of its own, which the tree does not keep"
    if ctx.is_hybrid_ssm:
        yield "a model with state-space layers: their states are no slots of tokens"
    if getattr(ctx.model_config, "is_multimodal", False) and versions.image_tokens_are_wide():
        yield "a multimodal model: its image tokens have 62 bits, the tree's 32; --language-model-only serves its text"
    if type(allocator).__name__ not in ALLOCATORS and not (ctx.is_hybrid_swa or ctx.is_hybrid_ssm):
        yield f"slots from {type(allocator).__name__}; known are {', '.join(ALLOCATORS)}"
    elif getattr(allocator, "page_size", params.page_size) != params.page_size:
        yield f"pages of {params.page_size} tokens over slots in pages of {allocator.page_size}"
    if not 1 <= params.page_size <= PAGE_SIZE_MAX:
        yield f"--page-size {params.page_size}: limit {PAGE_SIZE_MAX}"
    try:
        PrefixCache(policy=params.eviction_policy)
    except InvalidInputError as error:
        yield f"--radix-eviction-policy {params.eviction_policy}: {first_line(error)}"
    else:
        yield from _policy_config(params.eviction_policy, memory.radix_eviction_policy_config)
    for flag in ("enable_lmcache", "enable_flexkv", "enable_unified_cache_external_linker"):
        if getattr(memory, flag, False):
            yield f"--{flag.replace('_', '-')}: it brings a cache of its own"


def _policy_config(policy: str, config: Any) -> Iterator[str]:
    """What is wrong with the parameters of an eviction policy."""
    flag = "--radix-eviction-policy-config"
    if not isinstance(config or {}, dict):
        yield f"{flag} {config!r}: it is no JSON object"
        return
    for name, value in (config or {}).items():
        if policy != "slru" or name != "protected_threshold":
            takes = "protected_threshold" if policy == "slru" else "no parameters"
            yield f"{flag} {name}: {policy} takes {takes}"
        elif not isinstance(value, int) or isinstance(value, bool):
            yield f"{flag} {name} {value!r}: it is no integer"
        else:
            try:
                PrefixCache(policy=f"slru:{value}")
            except InvalidInputError as error:
                yield f"{flag} {name} {value}: {first_line(error)}"


def _host(ctx: Any, memory: Any, disaggregation: str) -> Iterator[str]:
    """What keeps it from the host tier."""
    params = ctx.params
    pool = params.token_to_kv_pool_allocator.get_kvcache()
    if disaggregation != "null":
        why = "its queues ask all ranks and act within one blocking call, and an agreed verdict comes a step later"
        yield f"--enable-hierarchical-cache with --disaggregation-mode {disaggregation}: {why}"
    if memory.hicache_mem_layout not in LAYOUTS:
        yield f"--hicache-mem-layout {memory.hicache_mem_layout}: there are {', '.join(LAYOUTS)}"
    algorithm = ctx.server_args.speculative_algorithm
    if algorithm is not None:
        yield f"--enable-hierarchical-cache with --speculative-algorithm {algorithm}: a draft's KV has no place on host"
    if type(pool).__name__ not in POOLS:
        yield f"--enable-hierarchical-cache over {type(pool).__name__}; known are {', '.join(POOLS)}"
    elif type(pool).__name__ == "MHATokenToKVPool":
        if getattr(pool, "kv_cache_layout", "nhd") != "nhd":
            yield f"--enable-hierarchical-cache over KV in layout {pool.kv_cache_layout}; known is nhd"
        if pool.v_head_dim != pool.head_dim:
            yield f"--enable-hierarchical-cache with heads of {pool.head_dim} for keys, {pool.v_head_dim} for values"
    if getattr(pool, "k_scale_buffer", None) is not None or getattr(pool, "kv_scale_buffer", None) is not None:
        yield "--enable-hierarchical-cache with KV that has scales beside it"
