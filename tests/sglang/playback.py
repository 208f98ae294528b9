"""Plays a recording to a cache: the calls of the recorded scheduler, with this cache's own nodes, locks and memory.

Slots are those of the recording as long as they are free here too, and else others; how often is counted. So a cache
that decides as the recorded one did holds the same slots for the same tokens all along.
"""

import time
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import singledispatchmethod
from typing import Any, Final

import torch
from benches.sglang.requests import Request, Scheduler
from benches.sglang.servers import Server, make

from . import recorded as r

SETTLING_S: Final = 10


@dataclass
class Seen:
    """What came of one event: equal for caches that decide alike. Sizes are in tokens."""

    at: int
    event: str
    rid: str
    device: int = 0
    host: int = 0
    freed: list[int] = field(default_factory=list)
    """Slots that the cache gave back by itself, in order."""
    order: list[int] = field(default_factory=list)
    sizes: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Free, evictable, held, and all that is cached."""


def server_for(name: str, setting: r.Setting, kv_events: bool = False, **more: Any) -> Server:
    """A cache with the memory of the recorded one; `more` of the server's `CacheInitParams`."""
    return make(
        name,
        slots=setting.slots,
        page_size=setting.page_size,
        row_length=setting.row_length,
        host_ratio=setting.host_ratio,
        write_policy=setting.write_policy,
        policy=setting.policy,
        kv_events=kv_events,
        **more,
    )


class Playback:
    """One cache and its part of the recorded scheduler's state."""

    def __init__(self, server: Server) -> None:
        self.cache = server.cache
        self.allocator = server.allocator
        self.rows = server.rows
        self.page = self.cache.page_size
        self.own = server.name == "isoradix"
        self.substituted = 0
        """Pages that were not free here and had to be others."""
        self.evicted_more = 0
        """Tokens evicted where the recording did not need to."""
        self._requests: dict[str, Request] = {}
        self._locks: dict[int, Any] = {}
        self._freed: list[int] = []
        self._inside = False
        self._scheduler = Scheduler()
        self._listen()

    def play(self, events: Iterable[r.Event]) -> list[Seen]:
        """What came of each event that asks the cache something."""
        seen = []
        for at, event in enumerate(events):
            self._freed = []
            one = Seen(at, type(event).__name__, getattr(event, "rid", ""))
            self._inside = not isinstance(event, r.Free)
            self._do(event, one)
            one.freed = self._freed
            one.sizes = self.sizes()
            seen.append(one)
        return seen

    def sizes(self) -> tuple[int, int, int, int]:
        """Of `Seen`."""
        cache = self.cache
        evictable, held = cache.full_evictable_size(), cache.full_protected_size()
        total = cache.total_size()
        total = total[0] if isinstance(total, tuple) else total
        return self.allocator.available_size(), evictable, held, total

    def request(self, rid: str) -> Request:
        """One that was seen."""
        return self._requests[rid]

    def _listen(self) -> None:
        """Notes what the cache gives back."""
        plain = self.allocator.free_segment

        def free_segment(slots: Any, *, start_pos: int) -> None:
            if self._inside:
                self._freed += slots.tolist()
            plain(slots, start_pos=start_pos)

        self.allocator.free_segment = free_segment

    # what each event does

    @singledispatchmethod
    def _do(self, event: r.Event, seen: Seen) -> None:
        raise NotImplementedError(type(event).__name__)

    @_do.register
    def _(self, event: r.Asked, seen: Seen) -> None:
        self._requests[event.rid] = Request(
            event.rid,
            array("q", event.prompt),
            array("q", event.prompt),
            _row_of_none(),
            event.extra_key,
            event.cache_salt,
            event.priority,
        )

    @_do.register
    def _(self, event: r.Step, seen: Seen) -> None:
        if not self.own:
            return
        self.cache.begin_step(self._scheduler)
        late = time.monotonic() + SETTLING_S
        while len(getattr(self.cache, "ongoing_write_through", ())) > 0 and time.monotonic() < late:
            # the recorded server's copies were over when they had begun
            time.sleep(0.0002)
            self.cache.begin_step(self._scheduler)

    @_do.register
    def _(self, event: r.Match, seen: Seen) -> None:
        from sglang.srt.mem_cache.base_prefix_cache import MatchPrefixParams
        from sglang.srt.mem_cache.radix_cache import RadixKey

        request = self._told(event)
        key = RadixKey(
            request.full_untruncated_fill_ids, request.extra_key, limit=event.length, cache_salt=request.cache_salt
        )
        found = self.cache.match_prefix(MatchPrefixParams(key=key, req=request))
        seen.device, seen.host = found.device_prefix_len, found.host_hit_length
        request.prefix_len, request.host_hit_length = found.device_prefix_len, found.host_hit_length
        request.last_node, request.best_match_node = found.last_device_node, found.best_match_node
        if request.kv.req_pool_idx is None:
            request.kv.cache_protected_len = request.prefix_len

    @_do.register
    def _(self, event: r.Lock, seen: Seen) -> None:
        request = self._requests[event.rid]
        if event.promised and self.own:
            return  # the server pins what host promised for its own cache only
        if event.host:
            held = self.cache.inc_host_lock_ref(request.best_match_node).to_dec_params()
            self._locks[event.number] = (request.best_match_node, held)
            return
        node = request.best_match_node if event.promised else request.last_node
        request.lock = self._locks[event.number] = self.cache.lock(node)

    @_do.register
    def _(self, event: r.Unlock, seen: Seen) -> None:
        lock = self._locks.pop(event.number, None)
        if isinstance(lock, tuple):
            self.cache.dec_host_lock_ref(*lock)
        elif lock is not None:
            self.cache.unlock(lock)

    @_do.register
    def _(self, event: r.Evict, seen: Seen) -> None:
        seen.device = self._evict_to(event.wanted)

    @_do.register
    def _(self, event: r.LoadBack, seen: Seen) -> None:
        from sglang.srt.mem_cache.base_prefix_cache import InitLoadBackParams

        request = self._requests[event.rid]
        if request.host_hit_length == 0:
            return
        loaded, request.last_node = self.cache.init_load_back(
            InitLoadBackParams(
                best_match_node=request.best_match_node, host_hit_length=request.host_hit_length, req=request
            )
        )
        seen.host = loaded
        request.prefix_len += loaded
        request.kv.cache_protected_len = request.prefix_len

    @_do.register
    def _(self, event: r.Extend, seen: Seen) -> None:
        request = self._requests[event.rid]
        end, kv = event.start + len(event.slots), request.kv
        if kv.req_pool_idx is None:
            kv.req_pool_idx = self.rows.free_slots.pop(0)
            start = min(request.prefix_len, end)
            path = self.cache.path_device_indices(request.last_node)[:start]
            self.rows.req_to_token[kv.req_pool_idx, :start] = path.to(torch.int32)
        else:
            start = event.start
        wanted = [-1] * (event.start - start) + event.slots[max(0, start - event.start) :]
        self._give(request, start, wanted)

    @_do.register
    def _(self, event: r.Decode, seen: Seen) -> None:
        for rid, slot in zip(event.rids, event.slots, strict=True):
            request = self._requests[rid]
            self._give(request, request.kv.kv_allocated_len, [slot])

    @_do.register
    def _(self, event: r.Checkpoint, seen: Seen) -> None:
        request = self._told(event)
        request.is_over = event.finished
        self.cache.checkpoint(request, up_to=event.up_to)
        if event.number is not None:
            self._locks[event.number] = request.lock
        seen.device = request.kv.cache_protected_len

    @_do.register
    def _(self, event: r.Free, seen: Seen) -> None:
        request = self._requests[event.rid]
        own = request.kv.cache_protected_len
        ranges = [(own if low == event.protected else low, high) for low, high in event.ranges]
        self.cache.free_kv_row(request.kv, ranges)

    @_do.register
    def _(self, event: r.Release, seen: Seen) -> None:
        request = self._requests[event.rid]
        request.lock = None
        self.rows.free_slots.append(request.kv.req_pool_idx)
        request.kv = _row_of_none()

    @_do.register
    def _(self, event: r.Order, seen: Seen) -> None:
        nodes = [self._requests[rid].last_node for rid in event.rids]
        seen.order = list(self.cache.dfs_weight_order(nodes))

    @_do.register
    def _(self, event: r.Poll, seen: Seen) -> None:
        self.cache.check_hicache_events()

    @_do.register
    def _(self, event: r.Submit, seen: Seen) -> None:
        self.cache.flush_pending_backups()

    @_do.register
    def _(self, event: r.Launch, seen: Seen) -> None:
        self.cache.ready_to_load_host_cache()

    @_do.register
    def _(self, event: r.Reset, seen: Seen) -> None:
        self.cache.reset()
        self.rows.clear()
        self.allocator.clear()

    # memory

    def _told(self, event: r.Match | r.Checkpoint) -> Request:
        request = self._requests[event.rid]
        request.full_untruncated_fill_ids.extend(event.more)
        return request

    def _evict_to(self, wanted: int) -> int:
        """Evicts until so many tokens are free; those that were evicted."""
        from sglang.srt.mem_cache.base_prefix_cache import EvictParams

        missing = wanted - self.allocator.available_size()
        if missing <= 0:
            return 0
        return int(self.cache.evict_for_alloc(EvictParams(num_tokens=missing)).num_tokens_evicted)

    def _give(self, request: Request, start: int, wanted: list[int]) -> None:
        """Slots for a row from `start` on: the wanted ones where they are free; -1 wants any."""
        row = self.rows.req_to_token[request.kv.req_pool_idx]
        page, end = self.page, start + len(wanted)
        request.kv.kv_allocated_len = end
        first = -(-start // page) * page  # the page before it, begun, goes on
        for at in range(start, min(first, end)):
            row[at] = row[at - 1] + 1
        heads = [wanted[at - start] // page for at in range(first, end, page)]
        for at, number in zip(range(first, end, page), self._take(heads), strict=True):
            length = min(page, end - at)
            row[at : at + length] = torch.arange(number * page, number * page + length, dtype=torch.int32)

    def _take(self, pages: list[int]) -> list[int]:
        """Takes pages out of the allocator, others where these are not free."""
        if not pages:
            return []
        allocator = self.allocator
        if allocator.available_size() < len(pages) * self.page:
            self.evicted_more += self._evict_to(len(pages) * self.page)
        if self.page > 1:
            allocator.merge_and_sort_free()
        free = sorted(allocator.free_pages.tolist())  # caches give back as much in more calls or fewer
        there = set(free)
        known = there.intersection(pages)
        others = (number for number in free if number not in known)
        taken = [number if number in known else next(others) for number in pages]
        self.substituted += len(pages) - len(known)
        gone = set(taken)
        allocator.free_pages = torch.tensor([number for number in free if number not in gone], dtype=torch.int64)
        return taken


def _row_of_none() -> Any:
    from sglang.srt.managers.schedule_batch import ReqKvInfo

    return ReqKvInfo()


def differences(one: list[Seen], other: list[Seen]) -> list[tuple[Seen, Seen]]:
    """Where two caches parted."""
    return [(a, b) for a, b in zip(one, other, strict=True) if a != b]
