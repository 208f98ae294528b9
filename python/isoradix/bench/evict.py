"""`evict` of 1, 1,024 and 65,536 tokens against policy, page size, number of leaves and share of locked leaves."""

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Final

import numpy as np

from isoradix import PrefixCache
from isoradix.bench.grid import CaseValue, Grid, Measurement, timed
from isoradix.bench.trees import Forest
from isoradix.replay.stats import Nanoseconds

_AMOUNTS = (1, 1024, 65_536)
# at most this share of what may be evicted goes in one series, so that the tree keeps its size
_SHARE = 8
AXES: Final = frozenset({"policies", "page_sizes", "leaves", "locked_fractions", "repeat", "seed"})


@dataclass(frozen=True)
class EvictCase:
    policy: str
    page_size: int
    leaves: int
    locked_fraction: float
    repeat: int
    seed: int

    def __str__(self) -> str:
        locked = f", {self.locked_fraction:.0%} locked" if self.locked_fraction else ""
        return f"evict, {self.policy}, pages of {self.page_size}, {self.leaves:,} leaves{locked}"


def cases(grid: Grid) -> list[EvictCase]:
    return [
        EvictCase(policy, page, leaves, locked, grid.repeat, grid.seed)
        for policy in grid.policies
        for page in grid.page_sizes
        for leaves in grid.leaves
        for locked in grid.locked_fractions
    ]


def measure(case: EvictCase) -> Iterator[Measurement]:
    forest = Forest(case.page_size, case.leaves, case.seed)
    cache = PrefixCache(page_size=case.page_size, policy=case.policy)
    handles = list(forest.plant(cache))
    chosen = np.random.default_rng(case.seed + 1).permutation(case.leaves)
    for index in chosen[: int(case.leaves * case.locked_fraction)].tolist():
        cache.lock(handles[index])
    named: dict[str, CaseValue] = {
        "policy": case.policy,
        "page_size": case.page_size,
        "leaves": case.leaves,
        "locked_fraction": case.locked_fraction,
    }
    for amount in _AMOUNTS:
        step = -(-amount // forest.leaf_tokens) * forest.leaf_tokens
        repeat = min(case.repeat, cache.evictable_size // _SHARE // step)
        if repeat:
            yield timed("evict", {**named, "evict_tokens": amount}, step, _series(cache, amount, repeat))


def _series(cache: PrefixCache, amount: int, repeat: int) -> Nanoseconds:
    samples = np.empty(repeat, dtype=np.int64)
    for index in range(repeat):
        start = perf_counter_ns()
        freed = cache.evict(amount)
        samples[index] = perf_counter_ns() - start
        assert len(freed) >= amount, "the case leaves enough to evict"
    return samples
