"""`match_prefix` on full hits: one flat node, a node each 512 tokens, and resumed at all but the last 512 tokens."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from isoradix import PrefixCache
from isoradix.bench.grid import CaseValue, Grid, Measurement, sample, timed
from isoradix.bench.trees import path_tree, random_tokens

_STEP = 512
AXES: Final = frozenset({"page_sizes", "lengths", "repeat", "seed"})


@dataclass(frozen=True)
class MatchCase:
    page_size: int
    length: int
    shape: str
    repeat: int
    seed: int

    def __str__(self) -> str:
        return f"match {self.length} tokens, {self.shape}, pages of {self.page_size}"


def cases(grid: Grid) -> list[MatchCase]:
    return [
        MatchCase(page, length, shape, grid.repeat, grid.seed)
        for page in grid.page_sizes
        for length in grid.lengths
        for shape in ("flat", "deep")
    ]


def measure(case: MatchCase) -> Iterator[Measurement]:
    cache = PrefixCache(page_size=case.page_size)
    key = random_tokens(np.random.default_rng(case.seed), case.length)
    step = case.length if case.shape == "flat" else _STEP
    node = path_tree(cache, key, max(1, min(step, case.length)))
    named: dict[str, CaseValue] = {"page_size": case.page_size, "length": case.length, "shape": case.shape}
    yield timed("match", named, case.length, sample(case.repeat, lambda: cache.match_prefix(key)))
    yield timed("slots", named, case.length, sample(case.repeat, lambda: cache.slots(node)))
    if case.shape == "deep" and case.length > _STEP:
        before = cache.match_prefix(key[: case.length - _STEP])
        resumed = sample(case.repeat, lambda: cache.match_prefix(key, resume=before))
        yield timed("match resumed", named, case.length, resumed)
