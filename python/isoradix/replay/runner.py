"""The replay: what an embedding scheduler does with a prefix cache and a slot pool, request by request, measured.

Each request cuts its prompt to whole pages (none left: it is skipped), then: match; slots of the hit; lock the path;
evict what the request lacks, giving the slots back to the pool; take new slots; insert; unlock. A request longer than
the whole capacity could not fit even in an empty cache: it is served from its hit, evicts and inserts nothing, and is
counted as uncached.
"""

import hashlib
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from time import perf_counter, perf_counter_ns

import numpy as np
import numpy.typing as npt

from isoradix import InvalidInputError, MatchResult, PrefixCache, SlotPool
from isoradix.replay.blocks import Tokens
from isoradix.replay.stats import OPERATIONS, Nanoseconds, OperationStats, SampleLog

_PROGRESS_EVERY = 64

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ReplayConfig:
    """The cache under test. `capacity` counts tokens and is cut down to whole pages."""

    page_size: int
    capacity: int
    policy: str = "lru"
    resume: bool = False

    @property
    def usable_capacity(self) -> int:
        return self.capacity // self.page_size * self.page_size


@dataclass(frozen=True)
class Series:
    """What happened at each request."""

    lengths: Counts
    hits: Counts
    used: Counts


@dataclass(frozen=True)
class ReplayResult:
    """Totals, series and latencies of one replay."""

    config: ReplayConfig
    skipped: int
    uncached: int
    evicted_tokens: int
    hitseq: str
    wall_s: float
    series: Series
    samples: dict[str, Nanoseconds]

    @property
    def requests(self) -> int:
        return len(self.series.hits)

    @property
    def tokens(self) -> int:
        return int(self.series.lengths.sum())

    @property
    def hit_tokens(self) -> int:
        return int(self.series.hits.sum())

    @property
    def hit_rate(self) -> float:
        return self.hit_tokens / self.tokens if self.tokens else 0.0

    @property
    def cache_seconds(self) -> float:
        """Time in the operations on the cache; the pool, the expansion of tokens and the harness are not in it."""
        return sum(int(self.samples[name].sum()) for name in OPERATIONS) / 1e9

    @property
    def requests_per_second(self) -> float:
        return self.requests / self.cache_seconds if self.requests else 0.0

    def operations(self) -> dict[str, OperationStats]:
        return {name: OperationStats.of(samples) for name, samples in self.samples.items()}


def _pool(config: ReplayConfig) -> SlotPool:
    try:
        return SlotPool(config.usable_capacity, page_size=config.page_size)
    except MemoryError as error:
        pages = config.usable_capacity // config.page_size
        # a number and a bit for each page
        megabytes = pages * 33 // 8 // 10**6
        what = f"a capacity of {pages:,} pages takes {megabytes:,} MB for its slots alone, more memory than there is"
        raise InvalidInputError(f"{what}\nhint: choose a smaller capacity or larger pages") from error


class Replayer:
    """One cache with its pool, and the log of what they did."""

    def __init__(self, config: ReplayConfig) -> None:
        self.config = config
        self.cache = PrefixCache(page_size=config.page_size, policy=config.policy)
        self.pool = _pool(config)
        self._log = SampleLog()
        self._lengths, self._hits, self._used = array("q"), array("q"), array("q")
        self._hitseq = hashlib.sha256()
        self._evicted = self._skipped = self._uncached = 0

    def run(self, prompts: Iterable[Tokens], progress: Callable[[int], None] | None = None) -> ReplayResult:
        """Serves every prompt; `progress` hears now and then how many have been read."""
        page = self.config.page_size
        started = perf_counter()
        read = 0
        for read, prompt in enumerate(prompts, start=1):
            length = len(prompt) // page * page
            if length:
                self.serve(prompt[:length])
            else:
                self._skipped += 1
            if progress is not None and read % _PROGRESS_EVERY == 0:
                progress(read)
        if progress is not None:
            progress(read)
        return self._result(perf_counter() - started)

    def serve(self, key: Tokens) -> None:
        """One request from match to unlock; `key` is whole pages."""
        cache, log, now = self.cache, self._log, perf_counter_ns
        start = now()
        found = cache.match_prefix(key)
        matched = now()
        cached_slots = cache.slots(found.node)
        sliced = now()
        receipt = cache.lock(found.node)
        locked = now()
        log["match"].append(matched - start)
        log["slots"].append(sliced - matched)
        log["lock"].append(locked - sliced)
        if len(key) <= self.pool.total:
            self._store(key, found, cached_slots)
        else:
            self._uncached += 1
        start = now()
        cache.unlock(receipt)
        log["unlock"].append(now() - start)
        self._note(len(key), found.hit_tokens)

    def _store(self, key: Tokens, found: MatchResult, cached_slots: Counts) -> None:
        missing = len(key) - found.hit_tokens
        excess = missing - self.pool.available
        if excess > 0:
            self._make_room(excess)
        log, now = self._log, perf_counter_ns
        start = now()
        slots = self.pool.alloc(missing)
        log["alloc"].append(now() - start)
        if self.config.resume:
            start = now()
            self.cache.insert(key, slots, resume=found)
        else:
            slots = np.concatenate((cached_slots, slots))
            start = now()
            self.cache.insert(key, slots)
        log["insert"].append(now() - start)

    def _make_room(self, excess: int) -> None:
        now = perf_counter_ns
        start = now()
        freed = self.cache.evict(excess)
        evicted = now()
        self.pool.free(freed)
        self._log["free"].append(now() - evicted)
        self._log["evict"].append(evicted - start)
        self._evicted += len(freed)

    def _note(self, length: int, hit: int) -> None:
        self._lengths.append(length)
        self._hits.append(hit)
        self._used.append(self.pool.total - self.pool.available)
        self._hitseq.update(hit.to_bytes(8, "little"))

    def _result(self, wall_s: float) -> ReplayResult:
        lengths, hits, used = (np.array(run, dtype=np.int64) for run in (self._lengths, self._hits, self._used))
        return ReplayResult(
            config=self.config,
            skipped=self._skipped,
            uncached=self._uncached,
            evicted_tokens=self._evicted,
            hitseq=self._hitseq.hexdigest()[:12],
            wall_s=wall_s,
            series=Series(lengths, hits, used),
            samples=self._log.arrays(),
        )
