"""`match_prefix`, `probe` and `slots` on a deep path."""

from typing import Any

import pytest

from benches.trees import KEY_TYPES, path, random_tokens

LENGTHS = [1024, 32_768]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("kind", KEY_TYPES)
def test_match_deep(benchmark: Any, kind: str, length: int) -> None:
    tokens = random_tokens(1, length)
    cache, key = path(tokens), KEY_TYPES[kind](tokens)
    assert benchmark(cache.match_prefix, key).hit_tokens == length


@pytest.mark.parametrize("length", LENGTHS)
def test_match_resumed(benchmark: Any, length: int) -> None:
    """A request that grew by one token asks again from where it was."""
    tokens = random_tokens(1, length)
    cache = path(tokens)
    found = cache.match_prefix(tokens)
    assert benchmark(cache.match_prefix, tokens, resume=found).hit_tokens == length


@pytest.mark.parametrize("length", LENGTHS)
def test_probe(benchmark: Any, length: int) -> None:
    tokens = random_tokens(1, length)
    assert benchmark(path(tokens).probe, tokens) == length


@pytest.mark.parametrize("length", LENGTHS)
def test_slots(benchmark: Any, length: int) -> None:
    tokens = random_tokens(1, length)
    cache = path(tokens)
    assert len(benchmark(cache.slots, cache.match_prefix(tokens).node)) == length
