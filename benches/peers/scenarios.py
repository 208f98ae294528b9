"""What is timed: for each scenario a tree, and a sampler that takes a number of samples from it.

A sampler returns nanoseconds of single operations, by row name. Whatever restores the tree between two samples is
outside the timed section. Garbage collection is off in the worker that runs this.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter_ns as now
from typing import Any, TypeAlias

import numpy as np

from benches.trees import NODE, PAGE, Tokens, random_tokens, shuffled_slots
from isoradix.bench.trees import path_ends

from .adapters import Cache, Setup, make
from .memory import settled_bytes

Samples: TypeAlias = dict[str, list[float]]
Sampler: TypeAlias = Callable[[int], Samples]


@dataclass(frozen=True)
class Sizes:
    """Lengths in tokens; `quick` ones only show that everything runs."""

    flat: int = 1024
    deep: int = 32_768
    tail: int = 512
    large: int = 131_072
    path_nodes: int = 256


QUICK = Sizes(flat=256, deep=2048, tail=128, large=4096, path_nodes=8)


def grow_path(cache: Cache, tokens: Tokens, slots: Tokens, node: int) -> None:
    """One node for each `node` tokens, as a growing conversation leaves them."""
    for end in path_ends(len(tokens), node):
        cache.insert(cache.key(tokens[:end]), cache.slots(slots[:end]))


def timed(count: int, batch: int, call: Callable[..., Any], *args: Any) -> list[float]:
    """`count` samples, each the mean of `batch` calls in a row."""
    samples = []
    for _ in range(count):
        start = now()
        for _ in range(batch):
            call(*args)
        samples.append((now() - start) / batch)
    return samples


def match_flat(name: str, sizes: Sizes) -> Sampler:
    cache = make(name, Setup(PAGE))
    tokens = random_tokens(1, sizes.flat)
    key = cache.key(tokens)
    cache.insert(key, cache.slots(shuffled_slots(1, sizes.flat)))
    assert cache.match(key)[0] == sizes.flat
    return lambda count: {"match flat": timed(count, 50, cache.match, key)}


def match_deep(name: str, sizes: Sizes) -> Sampler:
    cache = make(name, Setup(PAGE))
    tokens = random_tokens(2, sizes.deep)
    grow_path(cache, tokens, shuffled_slots(2, sizes.deep), NODE)
    key = cache.key(tokens)
    assert cache.match(key)[0] == sizes.deep

    def match_and_read() -> None:
        cache.indices(cache.match(key)[1])

    def sample(count: int) -> Samples:
        return {
            "match deep": timed(count, 5, cache.match, key),
            "match deep + slots": timed(count, 5, match_and_read),
        }

    return sample


def insert_tail(name: str, sizes: Sizes) -> Sampler:
    """A new tail behind a deep prefix: once with the whole key as news, once with the prefix known from a match."""
    cache = make(name, Setup(PAGE))
    prefix, length = random_tokens(3, sizes.deep), sizes.deep + sizes.tail
    slots = cache.slots(shuffled_slots(3, length))
    grow_path(cache, prefix, shuffled_slots(3, sizes.deep), NODE)
    end = cache.match(cache.key(prefix))[1]

    def keys() -> Iterator[Any]:
        for seed in iter(int, None):
            yield cache.key(np.concatenate([prefix, random_tokens(seed, sizes.tail)]))

    fresh = keys()

    def once(**known: Any) -> float:
        key = next(fresh)
        start = now()
        cached = cache.insert(key, slots, **known)
        took = now() - start
        assert cached == sizes.deep
        assert cache.evict(1) == sizes.tail
        return took

    def sample(count: int) -> Samples:
        return {
            "insert tail": [once() for _ in range(count)],
            "insert tail, prefix known": [once(known=sizes.deep, node=end) for _ in range(count)],
        }

    return sample


def insert_large(name: str, sizes: Sizes) -> Sampler:
    cache = make(name, Setup(PAGE))
    key = cache.key(random_tokens(4, sizes.large))
    slots = cache.slots(shuffled_slots(4, sizes.large))

    def once() -> float:
        start = now()
        cached = cache.insert(key, slots)
        took = now() - start
        assert cached == 0
        assert cache.evict(1) == sizes.large
        return took

    return lambda count: {"insert new": [once() for _ in range(count)]}


def lock_path(name: str, sizes: Sizes) -> Sampler:
    cache = make(name, Setup(PAGE))
    tokens = random_tokens(5, sizes.path_nodes * PAGE)
    grow_path(cache, tokens, shuffled_slots(5, len(tokens)), PAGE)
    node = cache.match(cache.key(tokens))[1]

    def once() -> tuple[float, float]:
        start = now()
        receipt = cache.lock(node)
        locked = now()
        cache.unlock(receipt)
        return locked - start, now() - locked

    def sample(count: int) -> Samples:
        locks, unlocks = zip(*(once() for _ in range(count)), strict=True)
        return {"lock path": list(locks), "unlock path": list(unlocks)}

    return sample


LARGE_SAMPLES = 5


def evict_each(evictions: dict[str, int], evict: Callable[[int], float], count: int) -> Samples:
    """`count` samples of each eviction; of large ones, which take many leaves each, five in a row."""
    return {
        row: [evict(tokens) for _ in range(LARGE_SAMPLES if tokens > PAGE else count)]
        for row, tokens in evictions.items()
    }


class Leaves:
    """A tree of nothing but leaves of one page each: its memory, and its eviction."""

    CHUNK = 4096

    def __init__(self, name: str, leaves: int, evictions: dict[str, int]) -> None:
        self.cache = make(name, Setup(PAGE))
        self.leaves, self.evictions = leaves, evictions
        self.dropped, self.seed = 0, 1 << 40
        self._warm_up()
        before = settled_bytes()
        self._grow()
        self.bytes_per_token = (settled_bytes() - before) / (leaves * PAGE)

    def _warm_up(self) -> None:
        """Whatever the first call of each operation allocates is not the tree's."""
        key = self.cache.key(random_tokens(6, PAGE))
        self.cache.insert(key, self.cache.slots(np.arange(PAGE)))
        self.cache.match(key)
        self.cache.evict(1)

    def _grow(self) -> None:
        slots = shuffled_slots(7, self.leaves * PAGE)
        for first in range(0, self.leaves, self.CHUNK):
            self._add(first, slots[first * PAGE : (first + self.CHUNK) * PAGE])

    def _add(self, seed: int, slots: Tokens) -> None:
        """A leaf for each page of `slots`."""
        leaves = slots.reshape(-1, PAGE)
        tokens = np.random.default_rng(seed).integers(1, 1 << 31, leaves.shape)
        for leaf, of_leaf in zip(tokens, leaves, strict=True):
            self.cache.insert(self.cache.key(leaf), self.cache.slots(of_leaf))

    def __call__(self, count: int) -> Samples:
        """Evicts, then fills the tree up again, which is not timed."""
        samples = evict_each(self.evictions, self._evict, count)
        while self.dropped > 0:
            pages = min(self.CHUNK, self.dropped // PAGE)
            self.seed -= 1
            self._add(self.seed, np.arange(pages * PAGE))
            self.dropped -= pages * PAGE
        return samples

    def _evict(self, tokens: int) -> float:
        start = now()
        dropped = self.cache.evict(tokens)
        took = now() - start
        assert dropped >= tokens
        self.dropped += dropped
        return took
