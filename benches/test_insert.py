"""`insert`: new tokens, a tail behind a deep prefix, and a prefix that is there already."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benches.trees import KEY_TYPES, PAGE, path, random_tokens, shuffled_slots
from isoradix import PrefixCache


def run(benchmark: Any, insert: Callable[[], Any], cache: PrefixCache) -> None:
    """One insertion a round; what it added is evicted again before the next."""

    def forget() -> None:
        cache.evict(1)

    benchmark.pedantic(insert, setup=forget, rounds=100, warmup_rounds=5)


@pytest.mark.parametrize("length", [512, 131_072])
@pytest.mark.parametrize("kind", KEY_TYPES)
def test_insert_new(benchmark: Any, kind: str, length: int) -> None:
    cache = PrefixCache(page_size=PAGE)
    key, slots = KEY_TYPES[kind](random_tokens(1, length)), shuffled_slots(1, length)
    run(benchmark, lambda: cache.insert(key, slots), cache)
    assert cache.total_size == length


@pytest.mark.parametrize("resumed", [False, True], ids=["whole key", "resumed"])
def test_insert_tail(benchmark: Any, resumed: bool) -> None:
    """512 tokens behind 32k."""
    prefix, tail = random_tokens(1, 32_768), random_tokens(2, 512)
    cache, key = path(prefix), np.concatenate([prefix, tail])
    slots = shuffled_slots(1, len(key))
    end = cache.match_prefix(prefix)
    # The tail is the only leaf once it is there, so evicting one token drops it and nothing else.
    cache.lock(end.node)
    known: dict[str, Any] = {"slots": slots}
    if resumed:
        known = {"slots": slots[len(prefix) :], "resume": end}
    run(benchmark, lambda: cache.insert(key, **known), cache)
    assert cache.total_size == len(key)


def test_insert_again(benchmark: Any) -> None:
    """All 32k tokens are cached: nothing is added."""
    tokens = random_tokens(1, 32_768)
    cache, slots = path(tokens), shuffled_slots(1, len(tokens))
    assert benchmark(cache.insert, tokens, slots).new_tokens == 0
