"""The cache as the server's scheduler calls it: the device tier."""

import time
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import torch
from sglang.srt.mem_cache.base_prefix_cache import (
    BasePrefixCache,
    DecLockRefParams,
    DecLockRefResult,
    EvictParams,
    EvictResult,
    IncLockRefResult,
    MatchPrefixParams,
    MatchResult,
    TreeLock,
)
from sglang.srt.runtime_context import get_memory
from sglang.srt.utils.rank_consensus_checker import rank_consensus

from isoradix import Control, InvalidInputError, IsoradixError, NamespaceLike, NodeHandle
from isoradix.driver import Driver
from isoradix.integrations.sglang.chunks import Chunks
from isoradix.integrations.sglang.events import for_server, lora_name
from isoradix.integrations.sglang.guard import Guard
from isoradix.integrations.sglang.pools import ServerSlots

if TYPE_CHECKING:
    from isoradix.integrations.sglang.metrics import ServerMetrics


PRIORITY_LIMITS: Final = (-(2**63), 2**63 - 2)
"""Of requests: a client may say any number, the server the largest for none. In the tree a prompt has one more."""


class Receipt(DecLockRefParams):
    """What ends one lock. The server hands it back as it is."""

    def __init__(self, node: NodeHandle, receipt: Any) -> None:
        super().__init__(node_id=node)
        self.receipt = receipt


class Locked(IncLockRefResult):
    """A lock was taken."""

    def __init__(self, receipt: Receipt) -> None:
        super().__init__(node_id=receipt.node_id)
        self._receipt = receipt

    def to_dec_params(self) -> Receipt:
        """What ends it."""
        return self._receipt


class IsoradixCache(BasePrefixCache):
    """One rank's cache. All calls come from the scheduler's thread, in one order on all ranks.

    Node handles are the core's integers. A request's tokens up to `cache_protected_len` are the tree's, in whole pages;
    what it has computed beyond is its own until `checkpoint`.

    Args:
        params: the server's `CacheInitParams`.
        driver: this rank, connected.
        slots: its device slots.
    """

    def __init__(self, params: Any, driver: Driver, slots: ServerSlots) -> None:
        self.req_to_token_pool = params.req_to_token_pool
        self.token_to_kv_pool_allocator = params.token_to_kv_pool_allocator
        self.page_size: int = params.page_size
        self.disable = False
        self.sliding_window_size = None
        self.driver = driver
        self.tree = driver.cache
        self.slots = slots
        self.chunks = Chunks(driver.plane.place.leads)
        self._bigram = int(params.is_eagle)
        self._counts_hits = self.tree.policy.startswith(("lfu", "slru")) or (
            get_memory().hicache_write_policy == "write_through_selective"
        )
        self._reads_priority = self.tree.policy == "priority"
        self._open = False
        self._guard = Guard(driver.plane, driver.journal) if driver.plane.topology.members > 1 else None
        self._scheduler: weakref.ref[Any] | None = None
        self._lora_name = lora_name(params)
        self._metrics: ServerMetrics | None = None
        if params.enable_metrics:
            from isoradix.integrations.sglang import metrics  # binds itself to the server's folder

            self.init_metrics_collector()
            self._metrics = metrics.ServerMetrics(driver)

    # steps

    def begin_step(self, scheduler: Any) -> None:
        """A round of the scheduler begins: the step before ends, the next is entered.

        Raises:
            PlaneLost, DivergenceError: this rank is alone, or has parted from the others. The server ends.
        """
        if self._scheduler is None:
            self._scheduler = weakref.ref(scheduler)
        try:
            if self._open:
                self.end_step()
            frame = self.driver.enter((*self._controls(), *self.chunks.controls()))
            self.chunks.hear(frame.controls)
            self._open = True
            if self._metrics is not None:
                self._metrics.write()
        except BaseException as error:
            self.driver.fail(error)
            raise

    def end_step(self) -> None:
        """What the step wished for begins."""
        self._open = False
        self.driver.end(self._promised())

    def _controls(self) -> list[Control]:
        """What the leader decides with the next frame."""
        return []

    def _promised(self) -> int:
        """Tokens that admitted requests have still to be given."""
        return 0

    def fail(self, error: Exception) -> None:
        """The scheduler has failed, in whatever it did: says why, if it was another rank, and else tells the others."""
        if self._guard is None or not self._guard.explains():
            self.driver.fail(error)

    def release_host_resources(self) -> None:
        """The scheduler ends: in step with the others if it was told to, and else alone."""
        if self._guard is not None:
            self._guard.stop()
        try:
            scheduler = self._scheduler() if self._scheduler is not None else None
            if scheduler is not None and scheduler.gracefully_exit:
                if self._open:
                    self.end_step()
                self.driver.enter([Control.stop()] if self.driver.plane.place.leads else [])
                self.driver.end()
        except IsoradixError as error:
            self.driver.fail(error)
        finally:
            self.driver.close()

    # walking and growing

    @rank_consensus(same_params=["len(params.key)"], same_results=["result.device_prefix_len"])
    def match_prefix(self, params: MatchPrefixParams) -> MatchResult:
        """The longest prefix on the device."""
        found = self._match(params.key)
        if found is None:
            return self._miss()
        return MatchResult(
            device_prefix_len=found.hit_tokens,
            last_device_node=found.node,
            last_host_node=found.node,
            best_match_node=found.node,
            full_kv_hit_length=found.hit_tokens,
        )

    def touch_prefix(self, key: Any) -> None:
        """Counts a prefix as used now."""
        self._match(key)

    def _match(self, key: Any) -> Any:
        """What the tree finds of a key; None if it can't take it, as what a client sends may be no token or no text."""
        try:
            return self.tree.match_prefix(tokens_of(key), namespace_of(key))
        except InvalidInputError:
            return None

    def _miss(self) -> MatchResult:
        root = self.tree.root
        return MatchResult(device_prefix_len=0, last_device_node=root, last_host_node=root, best_match_node=root)

    @rank_consensus(same_params=["req.rid", "up_to"])
    def checkpoint(self, req: Any, *, up_to: int, **_options: Any) -> None:
        """The request's KV up to `up_to` becomes the tree's, in whole pages.

        Where another request was first, this one's slots are given back, and its row shows the tree's from now on.
        What the tree can't take stays the request's own: it is given back with its row.
        """
        tokens = req.full_untruncated_fill_ids
        length = self._aligned(min(up_to, len(tokens)) - self._bigram)
        if length <= 0:
            return
        kv, namespace, priority = req.kv, (req.extra_key, req.cache_salt), priority_of(req)
        known = min(kv.cache_protected_len, length)
        resume = self._resume(req, length)
        table, row = self.req_to_token_pool.req_to_token, kv.req_pool_idx
        key = memoryview(tokens)[: length + self._bigram]
        try:
            done = self.tree.insert(
                key,
                table[row, known if resume else 0 : length].cpu().numpy(),
                namespace,
                priority=priority,
                resume=resume,
            )
        except InvalidInputError:
            if self._takes(key, namespace):
                raise
            return
        if kv.cache_inserted_len == 0 and self._metrics is not None:
            self._count(req, known)
        if done.prefix_len > known:
            self._adopt(table[row], known, done.prefix_len, done.node)
        self._mark_prompt(req, length, namespace, priority)
        kv.cache_inserted_len = max(kv.cache_inserted_len, length)
        self.unlock(req.lock)
        req.lock = self.lock(done.node)
        req.last_node = done.node
        kv.cache_protected_len = length

    def _takes(self, key: Any, namespace: NamespaceLike) -> bool:
        """Whether the tree can take a key."""
        try:
            self.tree.probe(key, namespace)
        except InvalidInputError:
            return False
        return True

    def _count(self, req: Any, cached: int) -> None:
        """The first that the tree sees of an admitted request: what it found."""
        assert self._metrics is not None
        prompt, below = max(len(req.origin_input_ids), cached), min(req.host_loaded_length, cached)
        storage = min(req.storage_hit_length, below)
        self._metrics.hits.admit(prompt, device=cached - below, host=below - storage, storage=storage)

    def _adopt(self, row: torch.Tensor, known: int, cached: int, node: NodeHandle) -> None:
        """The tree's slots take the place of those that the request computed for tokens cached meanwhile."""
        self.token_to_kv_pool_allocator.free_segment(row[known:cached].to(torch.int64, copy=True), start_pos=known)
        row[known:cached] = self.slots.tensor(self.tree.slots(node)[known:cached]).to(row.dtype)

    def _resume(self, req: Any, length: int) -> tuple[NodeHandle, int] | None:
        """Where an insert may begin below the root.

        It counts a hit on the nodes below that place, and a request counts one on each node of its path, once. Where
        nobody reads the count, its first insert begins below what it found, too.
        """
        known = req.kv.cache_protected_len
        if known > length or (self._counts_hits and req.kv.cache_inserted_len < known):
            return None
        return req.last_node, known

    def _mark_prompt(self, req: Any, length: int, namespace: NamespaceLike, priority: int) -> None:
        """A node ends where the prompt does, as in the server's own tree: the answer can be dropped without it.

        It counts as used, and no hit. Only where priorities decide does the prompt go before the answer in them.
        """
        prompt = self._aligned(len(req.origin_input_ids) - self._bigram)
        if not 0 < prompt < length or (req.kv.cache_inserted_len == prompt and not self._reads_priority):
            return  # the answer has not begun, or an insert has ended there before
        key = memoryview(req.origin_input_ids)[: prompt + self._bigram]
        if self._reads_priority:
            row = self.req_to_token_pool.req_to_token[req.kv.req_pool_idx]
            self.tree.insert(key, row[:prompt].cpu().numpy(), namespace, priority=priority + 1)
        else:
            known = req.kv.cache_protected_len
            self.tree.match_prefix(key, namespace, resume=(req.last_node, known) if known <= prompt else None)

    def _aligned(self, tokens: int) -> int:
        return tokens // self.page_size * self.page_size

    # holding

    def lock(self, node: NodeHandle) -> TreeLock:
        """Keeps a node and those above it for one holder."""
        return TreeLock(node, Receipt(node, self.tree.lock(node)))

    def unlock(self, lock: TreeLock | None) -> None:
        """Ends what `lock` gave."""
        if lock is not None:
            self.tree.unlock(lock.receipt.receipt)

    def inc_lock_ref(self, node: NodeHandle) -> Locked:
        """Keeps a node and those above it."""
        return Locked(Receipt(node, self.tree.lock(node)))

    def dec_lock_ref(self, node: NodeHandle, params: Receipt | None = None) -> DecLockRefResult:
        """Ends what `inc_lock_ref` gave."""
        assert params is not None, "a lock is ended by its own receipt"
        self.tree.unlock(params.receipt)
        return DecLockRefResult()

    # shrinking

    @rank_consensus(same_params=["params.num_tokens"], same_results=["result.num_tokens_evicted"])
    def evict(self, params: EvictParams) -> EvictResult:
        """Gives slots back to the allocator, the least valuable first."""
        if params.num_tokens <= 0:
            return EvictResult()
        began = time.perf_counter()
        evicted = self.tree.evict(params.num_tokens)
        self.slots.free(evicted.slots)
        self.update_eviction_metrics(evicted.freed, began)
        return EvictResult(num_tokens_evicted=evicted.freed)

    def reset(self) -> None:
        """Drops everything. The server empties its allocator itself, after this."""
        self.tree.reset()

    # looking

    def path_device_indices(self, node: NodeHandle) -> torch.Tensor:
        """Slots from the root to a node: int64, on the device."""
        return self.slots.none if node == self.tree.root else self.slots.tensor(self.tree.slots(node))

    def supports_prefix_sharing(self) -> bool:
        """Always: it is not made where sharing is off."""
        return True

    def dfs_weight_order(self, node_handles: Sequence[NodeHandle]) -> list[int]:
        """Places in the queue, heaviest subtree first."""
        return self.tree.dfs_weight_order(node_handles)

    @property
    def root_node(self) -> NodeHandle:
        """The root."""
        return self.tree.root

    def is_root(self, node: NodeHandle) -> bool:
        """Whether a node is the root."""
        return node == self.tree.root

    def evictable_size(self) -> int:
        """Tokens that `evict` could free."""
        return self.tree.evictable_size

    def full_evictable_size(self) -> int:
        """The same: there is one kind of attention."""
        return self.tree.evictable_size

    def protected_size(self) -> int:
        """Tokens on the device that something holds."""
        return self.tree.protected_size

    def full_protected_size(self) -> int:
        """The same."""
        return self.tree.protected_size

    def total_size(self) -> int:
        """Tokens on the device."""
        return self.tree.total_size

    def take_events(self) -> list[Any]:
        """What entered and left the cache since the last call."""
        return for_server(self.tree.take_events(), self._lora_name)

    def sanity_check(self) -> None:
        """Checks every invariant of the tree.

        Raises:
            InvariantError: one does not hold.
        """
        self.tree.check()

    def pretty_print(self) -> None:
        """Prints the tree, a line a node."""
        for node in self.tree.walk():
            tiers = "+".join(name for name, there in (("L1", node.on_device), ("L2", node.on_host)) if there)
            print(
                f"{node.handle} below {node.parent}: {node.length} of {node.depth} tokens {tiers} locks={node.lock_ref}"
            )


def tokens_of(key: Any) -> memoryview:
    """The tokens of the server's key, without a copy."""
    tokens = memoryview(key.token_ids)
    return tokens if key.limit is None else tokens[: key.limit]


def priority_of(req: Any) -> int:
    """A request's priority, within the limits."""
    least, most = PRIORITY_LIMITS
    return max(least, min(req.priority or 0, most))


def namespace_of(key: Any) -> NamespaceLike:
    """Its namespace: the two names that keep prompts of equal tokens apart."""
    return (key.extra_key, key.cache_salt)
