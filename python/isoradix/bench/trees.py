"""Trees to measure on: one deep path, one flat node, a forest of equal leaves."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from isoradix import NodeHandle, PrefixCache
from isoradix.replay.blocks import Tokens

LEAF_TOKENS = 64
_BATCH = 4096


def random_tokens(rng: np.random.Generator, *shape: int) -> Tokens:
    return rng.integers(0, 2**32, shape, dtype=np.uint32)


def slot_run(length: int, first: int = 0) -> npt.NDArray[np.int64]:
    return np.arange(first, first + length, dtype=np.int64)


def path_ends(length: int, step: int) -> list[int]:
    """Where the nodes of one path end, a node each `step` tokens; the last one may be shorter."""
    return [*range(step, length, step), length]


def path_tree(cache: PrefixCache, key: Tokens, step: int) -> NodeHandle:
    """One path to the end of `key`, a node each `step` tokens, as a growing conversation leaves it."""
    slots = slot_run(len(key))
    node = cache.root
    for end in path_ends(len(key), step):
        node = cache.insert(key[:end], slots[:end]).node
    return node


@dataclass(frozen=True)
class Forest:
    """`leaves` random leaves below the root, of 64 tokens rounded up to pages; slots shuffled page by page."""

    page_size: int
    leaves: int
    seed: int

    @property
    def leaf_tokens(self) -> int:
        return -(-LEAF_TOKENS // self.page_size) * self.page_size

    @property
    def tokens(self) -> int:
        return self.leaves * self.leaf_tokens

    def plant(self, cache: PrefixCache) -> Iterator[NodeHandle]:
        """Inserts leaf after leaf and gives each one's handle; keeps none of them."""
        for keys, rows in self._batches():
            for key, slots in zip(keys, rows, strict=True):
                yield cache.insert(key, slots).node

    def _batches(self) -> Iterator[tuple[Tokens, npt.NDArray[np.int64]]]:
        rng = np.random.default_rng(self.seed)
        pages = rng.permutation(self.tokens // self.page_size).astype(np.int32)
        within = np.arange(self.page_size, dtype=np.int64)
        pages_a_leaf = self.leaf_tokens // self.page_size
        for first in range(0, self.leaves, _BATCH):
            count = min(_BATCH, self.leaves - first)
            chosen = pages[first * pages_a_leaf : (first + count) * pages_a_leaf].astype(np.int64)
            slots = (chosen[:, None] * self.page_size + within).reshape(count, self.leaf_tokens)
            yield random_tokens(rng, count, self.leaf_tokens), slots
