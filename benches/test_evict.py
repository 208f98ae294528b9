"""`evict`: cost against the size of the tree, the number of tokens and the policy."""

from functools import cache as once
from typing import Any

import pytest

from benches.trees import PAGE, leaves
from isoradix import NodeFacts, PrefixCache

POLICIES = ["lru", "lfu", "fifo", "mru", "filo", "priority", "slru", "tlru:4096,512"]


@once
def full(count: int, policy: str = "lru") -> PrefixCache:
    """Shared between tests of one policy; each takes a few leaves of many."""
    return leaves(count, policy)


@pytest.mark.parametrize("count", [10_000, 100_000])
@pytest.mark.parametrize("policy", POLICIES)
def test_evict_one_token(benchmark: Any, policy: str, count: int) -> None:
    cache = full(count, policy)
    freed = benchmark.pedantic(cache.evict, args=(1,), rounds=count // 50)
    assert len(freed) == PAGE


def test_evict_64k_tokens(benchmark: Any) -> None:
    freed = benchmark.pedantic(full(100_000).evict, args=(65_536,), rounds=20)
    assert len(freed) == 65_536


def test_evict_by_a_python_function(benchmark: Any) -> None:
    """The key function runs when a node changes, not when a victim is sought."""

    def shortest_lived(facts: NodeFacts) -> tuple[int, int]:
        return facts.hits, facts.seq

    cache = PrefixCache(page_size=PAGE, policy=shortest_lived)
    for token in range(2_000):
        cache.insert([token] * PAGE, list(range(PAGE)))
    assert len(benchmark.pedantic(cache.evict, args=(1,), rounds=200)) == PAGE
