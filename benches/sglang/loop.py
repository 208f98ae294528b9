"""A scheduler's round around a cache: what an SGLang server calls, in its order, with the time inside the cache taken.

Each round admits what fits, or else decodes one token for each running request, as the server's own loop does. What
the server does between the calls is done here too, but in no time that counts: sorting, slots, rows, tokens.
"""

from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import thread_time_ns as now
from typing import Any, Final

import torch

from .requests import Request, Scheduler
from .servers import Server

CHUNK: Final = 8192
RUNNING_MAX: Final = 32
WAITING_MAX: Final = 8


@dataclass(frozen=True)
class Prompt:
    """A request as it comes: its tokens, and how many it will be answered with."""

    tokens: "array[int]"
    answer: int


@dataclass(eq=False)
class Served(Request):
    """A request on its way: answers that it still lacks, and where its tokens of this round end."""

    left: int = 0
    extend_end: int = 0


class Loop:
    """One server on its way through prompts.

    Args:
        server: its cache and memory.
        prompts: in the order in which they come.
        order: 'lpm' or 'dfs-weight'.
        tiers: whether there is host memory below.
        outside: nanoseconds so far that are to be taken off: copies that the cache makes while it is called.
    """

    chunk = CHUNK
    """Tokens that a round computes at most."""

    def __init__(
        self, server: Server, prompts: Iterator[Prompt], order: str, tiers: bool, outside: Callable[[], int]
    ) -> None:
        from sglang.srt.managers.schedule_batch import ReqKvInfo
        from sglang.srt.mem_cache import base_prefix_cache
        from sglang.srt.mem_cache.radix_cache import RadixKey

        self.server, self.cache, self.order, self.tiers = server, server.cache, order, tiers
        self.page: int = server.cache.page_size
        self.table = server.rows.req_to_token
        self.spent: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.by_step: dict[str, list[int]] = {"prefill": [], "decode": []}
        self.hits = self.prompt_tokens = self.served = 0
        self._interface, self._key, self._row = base_prefix_cache, RadixKey, ReqKvInfo
        self._prompts, self._outside = prompts, outside
        self._scheduler = Scheduler()
        self._waiting: deque[Served] = deque()
        self._running: list[Served] = []
        self._chunked: Served | None = None
        self._number = 0

    def step(self) -> bool:
        """One round; whether there was anything to do."""
        self._arrive()
        if not (self._waiting or self._running or self._chunked):
            return False
        before = sum(self.spent.values())
        self.idle()
        kind = "prefill" if self._prefill() else "decode"
        if kind == "decode":
            self._decode()
        if self.tiers:
            self._timed("step", self.cache.flush_pending_backups)
        self.by_step[kind].append(sum(self.spent.values()) - before)
        return True

    def idle(self) -> None:
        """What a round begins with, also where there is nothing to do."""
        if self.server.name == "isoradix":
            self._timed("step", self.cache.begin_step, self._scheduler)
        if self.tiers:
            self._timed("step", self.cache.check_hicache_events)

    def _timed(self, name: str, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        outside, start = self._outside(), now()
        result = call(*args, **options)
        self.spent[name] += now() - start - (self._outside() - outside)
        self.calls[name] += 1
        return result

    def _arrive(self) -> None:
        while len(self._waiting) < WAITING_MAX and (prompt := next(self._prompts, None)) is not None:
            self._number += 1
            tokens = prompt.tokens
            self._waiting.append(Served(str(self._number), tokens, tokens[:], self._row(), left=prompt.answer))

    # prefill

    def _prefill(self) -> bool:
        chunked, budget, batch = self._chunked, self.chunk, []
        if chunked is not None:
            self._timed("checkpoint", self.cache.checkpoint, chunked, up_to=chunked.extend_end)
            chunked.prefix_len = chunked.extend_end
            budget -= self._plan(chunked, budget)
            batch.append(chunked)
        if self._waiting and len(self._running) < RUNNING_MAX and budget > 0:
            self._admit(batch, budget)
        if not batch:
            return False
        if self.tiers:
            self._timed("step", self.cache.ready_to_load_host_cache)
        self._extend(batch)
        self._chunked = None
        for request in batch:
            if request.extend_end < len(request.full_untruncated_fill_ids):
                self._chunked = request
                continue
            self._timed("checkpoint", self.cache.checkpoint, request, up_to=request.extend_end)
            request.full_untruncated_fill_ids.append(self._token(request))
            self._running.append(request)
        return True

    def _admit(self, batch: list[Served], budget: int) -> None:
        for request in self._waiting:
            self._match(request)
        if self.order == "lpm":
            queue = sorted(self._waiting, key=lambda request: -request.prefix_len)
        else:
            nodes = [request.last_node for request in self._waiting]
            order = self._timed("order", self.cache.dfs_weight_order, nodes)
            queue = [self._waiting[at] for at in order]
        for request in queue:
            if budget < self.page or len(self._running) + len(batch) >= RUNNING_MAX:
                return
            self._match(request)
            used = self._admitted(request, budget, batch)
            if used == 0:
                return
            self._waiting.remove(request)
            batch.append(request)
            budget -= used

    def _match(self, request: Served) -> None:
        limit = len(request.full_untruncated_fill_ids) - 1
        key = self._key(request.full_untruncated_fill_ids, request.extra_key, limit=limit)
        params = self._interface.MatchPrefixParams(key=key, req=request)
        found = self._timed("match", self.cache.match_prefix, params)
        request.prefix_len, request.host_hit_length = found.device_prefix_len, found.host_hit_length
        request.last_node, request.best_match_node = found.last_device_node, found.best_match_node
        request.kv.cache_protected_len = request.prefix_len

    def _admitted(self, request: Served, budget: int, batch: list[Served]) -> int:
        """Tokens of the request that this round computes; 0 if it does not fit."""
        cache = self.cache
        for _ in range(3):  # so often an admission asks for the budget
            free = self.server.available + self._timed("sizes", cache.evictable_size)
        lock = self._timed("lock", cache.lock, request.last_node)
        needed = len(request.full_untruncated_fill_ids) - request.prefix_len + request.left + 2 * self.page
        reserved = sum(one.left + self.page for one in self._running)
        reserved += sum(len(one.full_untruncated_fill_ids) - one.prefix_len + one.left + 2 * self.page for one in batch)
        fits = needed + reserved <= free - min(request.prefix_len, free)
        if fits and request.host_hit_length > 0:
            self._load_back(request)
        self._timed("lock", cache.unlock, lock)
        if not fits:
            return 0
        self.hits += request.prefix_len
        self.prompt_tokens += len(request.origin_input_ids)
        used = self._plan(request, budget)
        request.lock = self._timed("lock", cache.lock, request.last_node)
        return used

    def _load_back(self, request: Served) -> None:
        params = self._interface.InitLoadBackParams(
            best_match_node=request.best_match_node, host_hit_length=request.host_hit_length, req=request
        )
        loaded, request.last_node = self._timed("load_back", self.cache.init_load_back, params)
        request.prefix_len += loaded
        request.kv.cache_protected_len = request.prefix_len

    def _plan(self, request: Served, budget: int) -> int:
        left = len(request.full_untruncated_fill_ids) - request.prefix_len
        used = left if left <= budget else budget // self.page * self.page
        request.extend_end = request.prefix_len + used
        return used

    def _extend(self, batch: list[Served]) -> None:
        for request in batch:
            if request.kv.req_pool_idx is not None:
                continue
            path = self._timed("slots", self.cache.path_device_indices, request.last_node)[: request.prefix_len]
            request.kv.req_pool_idx = self.server.rows.free_slots.pop()
            self.table[request.kv.req_pool_idx, : request.prefix_len] = path.to(torch.int32)
        self._room(sum(request.extend_end - request.prefix_len + self.page for request in batch))
        for request in batch:
            self._give(request, request.prefix_len, request.extend_end)

    # decode

    def _decode(self) -> None:
        page = self.page
        ends = [len(request.full_untruncated_fill_ids) - 1 for request in self._running]
        self._room(sum(page for end in ends if end % page == 0))
        over = []
        for request, end in zip(self._running, ends, strict=True):
            self._give(request, end, end + 1)
            request.left -= 1
            if request.left <= 0:
                over.append(request)
            else:
                request.full_untruncated_fill_ids.append(self._token(request))
        for request in over:
            self._running.remove(request)
            self._release(request)

    def _release(self, request: Served) -> None:
        request.is_over = True
        kv, end = request.kv, len(request.full_untruncated_fill_ids)
        self._timed("checkpoint", self.cache.checkpoint, request, up_to=end)
        self.cache.free_kv_row(kv, [(kv.cache_protected_len, end)])
        self._timed("lock", self.cache.unlock, request.lock)
        self.server.rows.free_slots.append(kv.req_pool_idx)
        self.served += 1

    def _token(self, request: Served) -> int:
        """An answer that no other request has."""
        return (hash((request.rid, request.left)) & 0x3FFFFFFF) | 0x40000000

    # memory

    def _room(self, tokens: int) -> None:
        missing = tokens - self.server.available
        if missing > 0:
            self._timed("evict", self.cache.evict_for_alloc, self._interface.EvictParams(num_tokens=missing))

    def _give(self, request: Served, start: int, end: int) -> None:
        page, row = self.page, self.table[request.kv.req_pool_idx]
        first = -(-start // page) * page
        if start < first:
            goes_on = min(first, end)
            row[start:goes_on] = torch.arange(1, goes_on - start + 1, dtype=torch.int32) + row[start - 1]
        if first < end:
            slots = self.server.allocator.alloc(-(-(end - first) // page) * page)
            row[first:end] = slots[: end - first].to(torch.int32)
