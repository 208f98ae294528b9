"""Which requests run, on whose KV, and what of them is computed in a step.

It runs on every rank, and decides the same on each: it reads the requests, its own cache, and tokens that all ranks
were told. Copies, clocks and this rank's own luck with memory are not among that.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np

from isoradix import InvalidInputError, SlotPool, TieredCache, TieredMatchResult
from isoradix.chunking import ChunkSizer
from minillm.requests import Request, Workload
from minillm.settings import Settings


@dataclass(frozen=True)
class Row:
    """What a batch computes of one request."""

    request: Request
    start: int
    tokens: list[int]
    following: list[int]  # the tokens behind these: one fewer, where the last of them is to be chosen
    chooses: bool


Batch = list[Row]


class Scheduler:
    """Continuous batching with chunked prefill, in the order in which requests come."""

    def __init__(self, settings: Settings, slots: SlotPool, sizer: ChunkSizer, workload: Workload) -> None:
        self._settings, self._slots, self._sizer, self._workload = settings, slots, sizer, workload
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.finished: list[Request] = []
        for user in range(workload.users):
            self._arrives(user, 0, [])

    def _arrives(self, user: int, turn: int, history: list[int]) -> None:
        tokens = history + self._workload.question_of(user, turn, self._settings.model.vocab)
        self.waiting.append(Request(user, turn, tokens, len(tokens), self._workload.answer))

    def admit(self, cache: TieredCache) -> None:
        """Requests join in their order, past a few that wait for storage, until one does not fit."""
        for request in list(self.waiting)[: self._settings.batch]:
            if len(self.running) == self._settings.batch:
                return
            if self._waits_for_storage(cache, request):
                continue
            if not self._try(cache, request):
                return
            self.waiting.remove(request)
            self.running.append(request)

    def _waits_for_storage(self, cache: TieredCache, request: Request) -> bool:
        if self._settings.cache != "l3":
            return False
        if request.known is None:
            key = self._settings.key(request.tokens)
            found = cache.match_prefix(key)
            request.known = found.hit_tokens + found.host_tokens, cache.totals.prefetched_tokens
            request.ticket = cache.prefetch(key, anchor=found.host_node)
        return request.ticket is not None and cache.poll_prefetch(request.ticket) != "over"

    def _try(self, cache: TieredCache, request: Request) -> bool:
        """Takes the slots of the prompt and of all that may be generated, so that no request ever has to give way."""
        settings, page = self._settings, self._settings.page_size
        total = -(-(request.prompt + request.answer + settings.drafts) // page) * page
        if total > self._slots.total:
            raise InvalidInputError(f"a request needs {total} slots, limit {self._slots.total}\nhint: more slots")
        found = cache.match_prefix([] if settings.cache == "off" else settings.key(request.tokens))
        node, lock = found.node, cache.lock(found.node)
        missing = total - found.hit_tokens - self._slots.available
        if missing > cache.evictable_size:
            cache.unlock(lock)
            return False
        if missing > 0:
            self._slots.free(cache.evict(missing).slots)
        if loaded := self._load(cache, found):
            cache.unlock(lock)
            node, lock = found.host_node, cache.lock(found.host_node)
        request.lock, request.cached = lock, found.hit_tokens + loaded
        request.computed = request.cached
        request.slots = np.concatenate((cache.slots(node), self._slots.alloc(total - request.cached)))
        known, before = request.known or (0, 0)
        stored = max(0, min(request.cached - known, cache.totals.prefetched_tokens - before, loaded))
        request.hits = (found.hit_tokens, loaded - stored, stored)
        return True

    def _load(self, cache: TieredCache, found: TieredMatchResult) -> int:
        """Brings what is on host alone onto the device, layer by layer while the batch computes; how many tokens."""
        if not found.host_tokens:
            return 0
        promise = cache.host_lock(found.host_node)
        need = cache.load_back_need(promise)
        slots = self._slots.alloc(need)
        if need and (loaded := cache.load_back(promise, slots)):
            return loaded
        cache.unlock_host(promise)
        self._slots.free(slots)
        return 0

    def choose(self) -> Batch:
        """Whoever waits for a token gets one; what is left of the step's tokens goes to prompts."""
        batch: Batch = []
        for request in self.running:
            if not request.waits and request.computed >= request.prompt:
                start, tokens = len(request.tokens) - 1, [request.tokens[-1], *request.drafts]
                batch.append(Row(request, start, tokens, request.drafts, True))
                request.waits = True
        left = self._settings.chunk
        for request in (each for each in self.running if each.computed < each.prompt):
            start = request.computed
            end = min(start + min(left, self._sizer.next_chunk(start) or left), request.prompt)
            if end > start:
                tokens, following = request.tokens[start:end], request.tokens[start + 1 : end + 1]
                batch.append(Row(request, start, tokens, following, end == request.prompt))
            request.computed, request.waits, left = end, end == request.prompt, left - (end - start)
        return batch

    def collect(self, cache: TieredCache, batch: Batch, chosen: list[list[int]]) -> None:
        """A batch has passed all stages: its requests get their tokens, and what they computed is cached."""
        for row, (count, *values) in zip([row for row in batch if row.chooses], chosen, strict=True):
            request = row.request
            first = len(request.tokens) == request.prompt
            request.tokens += values[: min(count, request.prompt + request.answer - len(request.tokens))]
            request.drafts = values[1 + self._settings.drafts :]
            request.computed, request.waits = len(request.tokens) - 1, False
            if first or request.done:
                self._keep(cache, request)
            if request.done:
                self._finish(cache, request)

    def _keep(self, cache: TieredCache, request: Request) -> None:
        """Hands whole pages to the cache. What another request has cached meanwhile is used in place of one's own."""
        if self._settings.cache == "off":
            return
        assert request.lock is not None
        key = self._settings.key(request.tokens)
        done = cache.insert(key, request.slots[: len(request.tokens) - 1])
        lock = cache.lock(done.node)
        cache.unlock(request.lock)
        own = request.slots[request.cached : done.prefix_len].copy()
        request.slots[: done.length] = cache.slots(done.node)
        self._slots.free(own)
        request.lock, request.cached = lock, max(request.cached, done.length)

    def _finish(self, cache: TieredCache, request: Request) -> None:
        assert request.lock is not None
        cache.unlock(request.lock)
        self._slots.free(request.slots[request.cached :])
        request.ticket = None  # it means nothing to another process
        self.running.remove(request)
        self.finished.append(request)
        if request.turn + 1 < self._workload.rounds:
            self._arrives(request.user, request.turn + 1, request.tokens)
