"""The cache with host memory below: what the server calls its hierarchical cache."""

from collections.abc import Sized
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from sglang.srt.mem_cache.base_prefix_cache import (
    EvictParams,
    InitLoadBackParams,
    MatchPrefixParams,
    MatchResult,
)
from sglang.srt.runtime_context import get_memory
from sglang.srt.utils.rank_consensus_checker import rank_consensus

from isoradix import Control, HostLockReceipt, InvalidInputError, NodeHandle, OutOfSlotsError, StaleHandleError
from isoradix.driver import Driver
from isoradix.integrations.sglang.attachment import StorageChanges
from isoradix.integrations.sglang.cache import IsoradixCache, Locked, Receipt
from isoradix.integrations.sglang.layers import LayerCounter
from isoradix.integrations.sglang.pools import ServerSlots
from isoradix.integrations.sglang.prefetch import Prefetches
from isoradix.kv import HostPool


class Controller:
    """What the server takes for the controller of a hierarchical cache, and what it may ask of it."""

    storage_backend = None
    storage_backend_type = None
    enable_storage = False
    pp_prefetch_command_group = None

    def __init__(self, tree: Any, layers: LayerCounter) -> None:
        self._tree = tree
        self.layer_done_counter = layers
        self.load_fence_stream: Any = None  # the server sets both; this package's copies follow the model's own stream
        self.write_fence_stream: Any = None

    def has_inflight_device_transfers(self) -> bool:
        """Whether a copy may still read or write device slots, on any rank."""
        return self._tree.issued != self._tree.retired  # type: ignore[no-any-return]


class HostTokens:
    """How full host memory is, for the server's metrics: in tokens, as all ranks agreed."""

    def __init__(self, tree: Any) -> None:
        self._tree = tree

    @property
    def logical_size(self) -> int:
        """Tokens that it holds."""
        return int(self._tree.host_ledger.capacity * self._tree.page_size)

    size = logical_size

    def available_size(self) -> int:
        """Tokens that are free."""
        return int(self._tree.host_ledger.available * self._tree.page_size)


class TieredIsoradixCache(IsoradixCache):
    """One rank's cache over device and host.

    Args:
        params, driver, slots: of `IsoradixCache`.
        host: the host pages of this rank, which it closes.
        model_runner: the server's; copies follow its forward stream.
        storage: what the server is told of external storage while it runs.
    """

    hicache_storage_pass_prefix_keys = False
    host_pool_group = None
    ongoing_load_back: Sized = ()
    ongoing_backup: Sized = ()

    def __init__(
        self,
        params: Any,
        driver: Driver,
        slots: ServerSlots,
        host: HostPool,
        model_runner: Any,
        storage: StorageChanges,
    ) -> None:
        super().__init__(params, driver, slots)
        self.storage = storage
        self._prefetches = Prefetches(self.tree, driver.plane.place.leads, lambda: storage.policy == "best_effort")
        self.layers = LayerCounter()
        self.cache_controller = Controller(self.tree, self.layers)
        self.full_kv_pool_host = HostTokens(self.tree)
        self._host = host
        self._model_runner = model_runner
        self._loads = False
        if self._metrics is not None:
            from isoradix.integrations.sglang.metrics import TransferCounts

            per_token, policy = host.shape.bytes_per_token, get_memory().hicache_write_policy
            self._metrics.count_transfers(TransferCounts(self.tree, self.metrics_collector, per_token, policy))

    # steps

    def begin_step(self, scheduler: Any) -> None:
        """A round begins: see `IsoradixCache`."""
        super().begin_step(scheduler)
        scheduler.enable_hicache_storage = self.enable_storage
        if not self.enable_storage:
            self._prefetches.forget()
        self.storage.settle()

    def _controls(self) -> list[Control]:
        return self._prefetches.controls()

    def end_step(self) -> None:
        """What the step wished for begins, after what the model was given to compute before."""
        with self._on_forward_stream():
            super().end_step()
        self.layers.started(self.driver.loads)
        self._loads = False

    def _promised(self) -> int:
        """What is left of a prompt in chunks, and a page for each request in a batch, also of those on their way.

        The server admits such a prompt once, for all its chunks, and does not look again whether there is room for the
        next. And the last request of a batch is aborted if it gets no page, since those of the batches that are on
        their way cannot be retracted for it.
        """
        scheduler = None if self._scheduler is None else self._scheduler()
        if scheduler is None:
            return 0
        promised: int = self.page_size * len(scheduler.collect_inflight_reqs())
        if (request := scheduler.chunked_req) is not None:
            promised += len(request.full_untruncated_fill_ids) - request.extend_end + self.page_size
        return promised

    def _on_forward_stream(self) -> AbstractContextManager[Any]:
        if self.token_to_kv_pool_allocator.device == "cpu":
            return nullcontext()
        stream: AbstractContextManager[Any] = torch.get_device_module(self.token_to_kv_pool_allocator.device).stream(
            self._model_runner.forward_stream
        )
        return stream

    @property
    def ongoing_write_through(self) -> Sized:
        """As many as there are copies under way, of either direction: the server is idle when there are none."""
        return range(self.tree.issued - self.tree.retired)

    def check_hicache_events(self) -> None:
        """Nothing: frames bring what copies have come to, at the beginning of a step."""

    def ready_to_load_host_cache(self) -> int:
        """A batch is complete: its load-backs begin. The number under which its forward pass waits, -1 if for none.

        Backups are left to the end of the step: the slots of the batch are still to be allotted, and what a backup
        reads cannot be evicted.
        """
        if self._loads:
            with self._on_forward_stream():
                self.layers.started(self.driver.begin_loads())
            self._loads = False
        return self.layers.next_batch()

    def is_load_back_event_done(self, consumer_index: int) -> bool:
        """Whether a batch waits for nothing any more."""
        return self.layers.is_over(consumer_index)

    def has_free_load_back_slot(self) -> bool:
        """Whether another load-back could begin: always, they queue."""
        return True

    def reset(self) -> None:
        """Drops everything from both tiers. The server empties its allocator itself, after this."""
        self._prefetches.clear()
        super().reset()
        self.layers.reset()

    def release_host_resources(self) -> None:
        """The scheduler ends: copies first, then their memory."""
        try:
            super().release_host_resources()
        finally:
            self._host.close()

    # walking

    @rank_consensus(
        same_params=["len(params.key)"], same_results=["result.device_prefix_len", "result.host_hit_length"]
    )
    def match_prefix(self, params: MatchPrefixParams) -> MatchResult:
        """The longest prefix over both tiers."""
        found = self._match(params.key)
        if found is None:
            return self._miss()
        return MatchResult(
            device_prefix_len=found.hit_tokens,
            last_device_node=found.node,
            last_host_node=found.host_node,
            best_match_node=found.host_node,
            host_hit_length=found.host_tokens,
            full_kv_hit_length=found.length,
        )

    # load-back

    @rank_consensus(same_params=["params.host_hit_length"])
    def init_load_back(self, params: InitLoadBackParams) -> tuple[int, NodeHandle]:
        """Brings what was promised from host onto the device, all of it or nothing.

        The server does not keep the promised nodes while it makes room, so they may be gone: then the request computes
        them again.

        Returns:
            Tokens that are on their way, and the deepest node that the request may use now.
        """
        last_node: NodeHandle = params.req.last_node
        promised = params.host_hit_length
        try:
            held = self.tree.host_lock(params.best_match_node)
        except (StaleHandleError, InvalidInputError):
            return 0, last_node
        if promised == 0 or self.tree.load_back_need(held) != promised:
            self.tree.unlock_host(held)
            return 0, last_node
        self.evict(EvictParams(num_tokens=promised - self.slots.available))
        try:
            slots = self.slots.alloc(promised)
        except OutOfSlotsError:
            self.tree.unlock_host(held)
            return 0, last_node
        loaded = self.tree.load_back(held, slots)
        assert loaded == promised, "it takes what it has said it needs"
        self._loads = True
        return loaded, params.best_match_node

    # host

    def inc_host_lock_ref(self, node: NodeHandle) -> Locked:
        """Keeps on host what is there of a node and those above it."""
        return Locked(Receipt(node, self.tree.host_lock(node)))

    def dec_host_lock_ref(self, node: NodeHandle, params: Receipt) -> None:
        """Ends what `inc_host_lock_ref` gave."""
        self.tree.unlock_host(HostLockReceipt(params.receipt))

    def evict_host(self, num_tokens: int) -> int:
        """Drops so many tokens from host, whole pages, of what is on host alone; gives how many it were."""
        pages = self.tree.evict_host(-(-num_tokens // self.page_size))
        return pages * self.page_size

    def is_backuped(self, node: NodeHandle) -> bool:
        """Whether a node is on host."""
        return self.tree.node(node).on_host

    # external storage

    @property
    def enable_storage(self) -> bool:
        """Whether requests may wait for it: from the same step on, and up to the same, on all ranks."""
        return self.tree.attachment == "attached"

    @property
    def ongoing_prefetch(self) -> Sized:
        """Requests that wait for it."""
        return self._prefetches

    def prefetch_from_storage(
        self,
        request: Any,
        last_host_node: NodeHandle,
        new_input_tokens: Any,
        *_hashes: Any,
        matched_prefix_tokens: Any = (),
        extra_key: str | None = None,
        cache_salt: str | None = None,
        **_options: Any,
    ) -> bool:
        """Wishes for what storage has of a request beyond both tiers; whether there is something to wait for."""
        if not self.enable_storage:
            return False
        known = np.asarray(matched_prefix_tokens, dtype=np.int64)
        key = np.concatenate((known, np.asarray(new_input_tokens, dtype=np.int64)))
        namespace = (extra_key, cache_salt)
        try:
            return self._prefetches.ask(request, key, len(known), namespace, last_host_node)
        except InvalidInputError:
            if self._takes(key, namespace):
                raise
            return False

    def check_prefetch_progress(self, request: Any) -> bool:
        """Whether a request waits for nothing any more."""
        return self._prefetches.is_over(request)

    def pop_prefetch_loaded_span(self, request: Any) -> tuple[int, int | None]:
        """Tokens that came for a request, and after how many of its own they begin."""
        return self._prefetches.take(request)

    def pop_prefetch_loaded_tokens(self, request: Any) -> int:
        """Tokens that came for a request."""
        return self._prefetches.take(request)[0]

    def release_aborted_request(self, request: Any) -> None:
        """A request is gone: what is under way for it ends."""
        self._prefetches.drop(request)

    def query_storage_hit_length(self, *_args: Any, **_options: Any) -> int:
        """Nothing is told before it is agreed."""
        return 0

    def clear_storage_backend(self) -> bool:
        """Begins to remove all pages of the store; whether there is one. The log says when it is done, or why not."""
        return self.storage.clear()

    def get_last_hash_value(self, _node: NodeHandle) -> None:
        """Names of pages are the tier's own."""

    def get_prefix_hash_values(self, _node: NodeHandle) -> list[str]:
        """Names of pages are the tier's own."""
        return []
