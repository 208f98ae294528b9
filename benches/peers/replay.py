"""A trace through any of the caches, in the order of an embedding scheduler.

For each request: match; slots of the hit; lock the path; evict what is missing; insert; unlock. Keys and slot arrays
are made between the timed calls. The replay can be advanced a few requests at a time, so that implementations take
turns.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from time import perf_counter_ns as now
from typing import Any

import numpy as np

from benches.trees import Tokens
from isoradix.replay.source import Source, TraceSource, WorkloadSource
from isoradix.replay.stats import OPERATIONS


@dataclass(frozen=True)
class Workload:
    """What is replayed, and in how much room."""

    source: Source
    page_size: int = 64
    capacity: int = 4_000_000


def workload(trace: Path | None, requests: int, capacity: int) -> Workload:
    """The first requests of a Mooncake trace, or of the built-in conversations where there is no trace."""
    if trace is None:
        return Workload(WorkloadSource("chat", requests, seed=1), capacity=capacity)
    return Workload(TraceSource(trace, requests), capacity=capacity)


def shuffled_pages(capacity: int, page_size: int) -> Iterator[int]:
    """First slots of free pages, as a long-running pool hands them out; round and round."""
    pages = np.random.default_rng(11).permutation(capacity // page_size) * page_size
    while True:
        yield from pages.tolist()


@dataclass
class Replay:
    """One cache on its way through a workload."""

    cache: Any
    work: Workload
    resume: bool = False
    spent: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OPERATIONS, 0))
    hits: list[int] = field(default_factory=list)
    tokens: int = 0
    used: int = 0

    def __post_init__(self) -> None:
        self.prompts: Iterator[Any] = iter(self.work.source)
        self.free = shuffled_pages(self.work.capacity, self.work.page_size)

    def advance(self, requests: int) -> int:
        """Serve up to so many requests; the number that there were."""
        prompts = list(islice(self.prompts, requests))
        for prompt in prompts:
            length = len(prompt) // self.work.page_size * self.work.page_size
            if length:
                self._serve(prompt[:length])
        return len(prompts)

    def _serve(self, prompt: Tokens) -> None:
        cache, spent, key = self.cache, self.spent, self.cache.key(prompt)
        start = now()
        hit, node = cache.match(key)
        matched = now()
        cached = cache.indices(node)
        sliced = now()
        receipt = cache.lock(node)
        locked = now()
        spent["match"] += matched - start
        spent["slots"] += sliced - matched
        spent["lock"] += locked - sliced
        if len(prompt) <= self.work.capacity:
            self._store(key, len(prompt), hit, node, cached)
        start = now()
        cache.unlock(receipt)
        spent["unlock"] += now() - start
        self.hits.append(hit)
        self.tokens += len(prompt)

    def _store(self, key: Any, length: int, hit: int, node: Any, cached: Any) -> None:
        cache, spent = self.cache, self.spent
        excess = self.used + length - hit - self.work.capacity
        if excess > 0:
            start = now()
            dropped = cache.evict(excess)
            spent["evict"] += now() - start
            self.used -= dropped
        slots = cache.slots(np.concatenate([np.asarray(cached), self._alloc(length - hit)]))
        known = {"known": hit, "node": node} if self.resume else {"known": hit}
        start = now()
        cache.insert(key, slots, **known)
        spent["insert"] += now() - start
        self.used += length - hit

    def _alloc(self, tokens: int) -> Tokens:
        page = self.work.page_size
        first = np.fromiter(islice(self.free, tokens // page), dtype=np.int64)
        return (first[:, None] + np.arange(page)).ravel()

    @property
    def requests_per_second(self) -> float:
        return len(self.hits) / (sum(self.spent.values()) / 1e9)

    @property
    def hit_rate(self) -> float:
        return sum(self.hits) / self.tokens

    @property
    def hitseq(self) -> str:
        """Digest of the hit lengths: implementations that decide alike share it."""
        return hashlib.sha256(b"".join(hit.to_bytes(8, "little") for hit in self.hits)).hexdigest()[:12]


def hit_lengths(cache: Any, work: Workload) -> list[int]:
    """The hit of each request."""
    replay = Replay(cache, work)
    while replay.advance(1000):
        pass
    return replay.hits
