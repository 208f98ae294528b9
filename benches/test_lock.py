"""`lock`, `unlock` and `touch` on paths of 1 to 256 nodes."""

from typing import Any

import pytest

from benches.trees import PAGE, path, random_tokens


@pytest.mark.parametrize("nodes", [1, 16, 256])
def test_lock_and_unlock(benchmark: Any, nodes: int) -> None:
    tokens = random_tokens(1, nodes * PAGE)
    cache = path(tokens, node=PAGE)
    node = cache.match_prefix(tokens).node

    def pair() -> None:
        cache.unlock(cache.lock(node))

    benchmark(pair)
    assert cache.protected_size == 0


@pytest.mark.parametrize("nodes", [1, 16, 256])
def test_touch(benchmark: Any, nodes: int) -> None:
    tokens = random_tokens(1, nodes * PAGE)
    cache = path(tokens, node=PAGE)
    benchmark(cache.touch, cache.match_prefix(tokens).node)
