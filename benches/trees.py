"""Tokens, slots and trees for all benches."""

from array import array
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from isoradix import PrefixCache
from isoradix.bench.trees import Forest, path_tree

Tokens = npt.NDArray[np.int64]

PAGE: Final = 64
NODE: Final = 512
VOCABULARY: Final = 150_000

KEY_TYPES: Final[dict[str, Callable[[Tokens], Any]]] = {
    "list": lambda tokens: tokens.tolist(),
    "array('q')": lambda tokens: array("q", tokens.tobytes()),
    "numpy int64": lambda tokens: tokens,
    "numpy uint32": lambda tokens: tokens.astype(np.uint32),
}


def random_tokens(seed: int, length: int) -> Tokens:
    return np.random.default_rng(seed).integers(1, VOCABULARY, length)


def shuffled_slots(seed: int, length: int, page: int = PAGE) -> Tokens:
    """Slots as a long-running pool gives them out: whole pages, in no order."""
    pages = np.random.default_rng(seed).permutation(-(-length // page))
    return (pages[:, None] * page + np.arange(page)).ravel()[:length]


def path(tokens: Tokens, node: int = NODE) -> PrefixCache:
    """One node for each `node` tokens, as a growing conversation leaves them."""
    cache = PrefixCache(page_size=PAGE)
    path_tree(cache, tokens.astype(np.uint32), node)
    return cache


def leaves(count: int, policy: str = "lru") -> PrefixCache:
    """So many leaves of one page below the root."""
    cache = PrefixCache(page_size=PAGE, policy=policy)
    for _ in Forest(PAGE, count, seed=1).plant(cache):
        pass
    return cache
