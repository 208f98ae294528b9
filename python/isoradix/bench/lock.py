"""`lock` and `unlock` of a path of 256 nodes."""

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Final

import numpy as np

from isoradix import PrefixCache
from isoradix.bench.grid import CaseValue, Grid, Measurement, timed
from isoradix.bench.trees import path_tree, random_tokens

_NODES = 256
AXES: Final = frozenset({"page_sizes", "repeat", "seed"})


@dataclass(frozen=True)
class LockCase:
    page_size: int
    repeat: int
    seed: int

    def __str__(self) -> str:
        return f"lock a path of {_NODES} nodes, pages of {self.page_size}"


def cases(grid: Grid) -> list[LockCase]:
    return [LockCase(page, grid.repeat, grid.seed) for page in grid.page_sizes]


def measure(case: LockCase) -> Iterator[Measurement]:
    cache = PrefixCache(page_size=case.page_size)
    step = -(-64 // case.page_size) * case.page_size
    node = path_tree(cache, random_tokens(np.random.default_rng(case.seed), _NODES * step), step)
    took = np.empty((2, case.repeat), dtype=np.int64)
    for index in range(case.repeat):
        start = perf_counter_ns()
        receipt = cache.lock(node)
        locked = perf_counter_ns()
        cache.unlock(receipt)
        took[:, index] = locked - start, perf_counter_ns() - locked
    named: dict[str, CaseValue] = {"page_size": case.page_size, "nodes": _NODES}
    yield timed("lock", named, _NODES * step, took[0])
    yield timed("unlock", named, _NODES * step, took[1])
