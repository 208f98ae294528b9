"""`insert`: 512 new tokens behind a deep cached prefix, plain and resumed; 128k new tokens; leaves of 64 tokens."""

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Final

import numpy as np

from isoradix import MatchResult, PrefixCache
from isoradix.bench.grid import CaseValue, Grid, Measurement, timed
from isoradix.bench.trees import LEAF_TOKENS, path_tree, random_tokens, slot_run
from isoradix.replay.blocks import Tokens
from isoradix.replay.stats import Nanoseconds

_TAIL = 512
_LONG = 131_072
AXES: Final = frozenset({"page_sizes", "lengths", "repeat", "seed"})


@dataclass(frozen=True)
class InsertCase:
    page_size: int
    prefix: int
    new: int
    resumed: bool
    repeat: int
    seed: int

    def __str__(self) -> str:
        return f"insert {self.new} behind {self.prefix} tokens, pages of {self.page_size}"


def cases(grid: Grid) -> list[InsertCase]:
    found = []
    for page in grid.page_sizes:
        tail = -(-_TAIL // page) * page
        for prefix in grid.lengths:
            behind = prefix // page * page
            found += [InsertCase(page, behind, tail, resumed, grid.repeat, grid.seed) for resumed in (False, True)]
        leaf = -(-LEAF_TOKENS // page) * page
        found.append(InsertCase(page, 0, leaf, False, grid.repeat, grid.seed))
        found.append(InsertCase(page, 0, _LONG, False, min(grid.repeat, 30), grid.seed))
    return found


def measure(case: InsertCase) -> Iterator[Measurement]:
    rng = np.random.default_rng(case.seed)
    cache = PrefixCache(page_size=case.page_size)
    prefix = random_tokens(rng, case.prefix)
    path_tree(cache, prefix, _TAIL)
    at = cache.match_prefix(prefix) if case.resumed else None
    samples = np.array([_once(cache, case, prefix, random_tokens(rng, case.new), at) for _ in range(case.repeat)])
    named: dict[str, CaseValue] = {"page_size": case.page_size, "prefix": case.prefix, "new": case.new}
    yield timed("insert resumed" if case.resumed else "insert", named, case.new, _warm(samples))


def _once(cache: PrefixCache, case: InsertCase, prefix: Tokens, tail: Tokens, at: MatchResult | None) -> int:
    """Times one insert of a tail nobody has seen; long ones are dropped again, so that memory stays flat."""
    key = np.concatenate((prefix, tail))
    slots = slot_run(len(key)) if at is None else slot_run(len(tail), case.prefix)
    start = perf_counter_ns()
    cache.insert(key, slots, resume=at)
    took = perf_counter_ns() - start
    if case.new == _LONG:
        cache.reset()
    return took


def _warm(samples: Nanoseconds) -> Nanoseconds:
    return samples[max(1, len(samples) // 10) :] if len(samples) > 1 else samples
