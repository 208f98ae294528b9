"""KV events: what a router that follows them learns is what is cached."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from isoradix import AllBlocksCleared, BlockRemoved, BlockStored, NodeHandle, PrefixCache


def block_hashes(units: Sequence[Any], page_size: int, namespace: tuple[str | None, str | None]) -> list[int]:
    """Chained SHA-256 of the pages, as a listener would compute it; the first eight bytes, big-endian and signed."""
    previous = b"" if namespace == (None, None) else namespace_seed(namespace)
    hashes = []
    for start in range(0, len(units) // page_size * page_size, page_size):
        digest = hashlib.sha256(previous)
        for unit in units[start : start + page_size]:
            for token in unit if isinstance(unit, tuple) else (unit,):
                digest.update(struct.pack("<I", token))
        previous = digest.digest()
        hashes.append(int.from_bytes(previous[:8], "big", signed=True))
    return hashes


def namespace_seed(namespace: tuple[str | None, str | None]) -> bytes:
    digest = hashlib.sha256(b"isoradix-kv-event-namespace-1")
    for part in namespace:
        text = (part or "").encode()
        digest.update(b"\0" if part is None else b"\1" + struct.pack("<Q", len(text)) + text)
    return digest.digest()


@pytest.mark.parametrize("namespace", [(None, None), ("lora", None), (None, "salt"), ("lora", "salt")], ids=str)
@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("bigram", [False, True], ids=["tokens", "bigram"])
def test_a_stored_block_has_the_hash_of_its_whole_prefix(
    bigram: bool, page_size: int, namespace: tuple[str | None, str | None]
) -> None:
    cache = PrefixCache(page_size=page_size, bigram=bigram, kv_events=True)
    first = [7, 2**32 - 1, 5, 6, 1, 2, 3, 4, 9, 9, 9, 9, 8]
    second = [*first[:6], 0, 0, 0, 0, 0, 0, 0]
    for key in (first, second):
        cache.insert(key, range_of(key), namespace)
    for event, key in zip(cache.take_events(), (first, second), strict=True):
        assert isinstance(event, BlockStored)
        units = list(pairwise(key)) if bigram else key
        expected = block_hashes(units, page_size, namespace)
        shared = len(expected) - len(event.block_hashes)
        assert event.block_hashes == expected[shared:]
        assert event.parent_block_hash == (expected[shared - 1] if shared else None)
        assert event.token_ids == key[shared * page_size : len(expected) * page_size]
        assert (event.block_size, event.medium, event.lora_id) == (page_size, "GPU", None)
        assert (event.lora_name, event.cache_salt) == namespace
    assert 0 < shared < len(expected), "the second key continues the first"


def range_of(key: Sequence[int]) -> list[int]:
    return list(range(len(key)))


def test_the_shape_that_consumers_read() -> None:
    cache = PrefixCache(page_size=2, kv_events=True)
    cache.insert([1, 2, 3, 4], [0, 1, 2, 3], ("lora", "salt"))
    cache.evict(4)
    cache.reset()
    stored, removed, cleared = (event.as_dict() for event in cache.take_events())
    hashes = block_hashes([1, 2, 3, 4], 2, ("lora", "salt"))
    assert stored == {
        "type": "BlockStored",
        "block_hashes": hashes,
        "parent_block_hash": None,
        "token_ids": [1, 2, 3, 4],
        "block_size": 2,
        "lora_id": None,
        "medium": "GPU",
        "cache_salt": "salt",
        "lora_name": "lora",
    }
    assert removed == {"type": "BlockRemoved", "block_hashes": hashes, "medium": "GPU"}
    assert cleared == {"type": "AllBlocksCleared"}
    assert cache.take_events() == []


def test_what_is_removed_is_what_was_stored() -> None:
    """Across splits: a listener that follows the events always holds exactly the cached blocks."""
    cache = PrefixCache(page_size=2, kv_events=True)
    listed: set[int] = set()
    keys = [
        [letter, number, letter, 0, number, 1, tail, 2] for letter in (1, 2) for number in (3, 4) for tail in (5, 6)
    ]
    for key in keys:
        cache.insert(key, range_of(key), ("lora", None) if key[0] == 1 else None)
        cache.match_prefix(key[:4])
        cache.evict(2 if key[-2] == 6 else 0)
        listen(listed, cache)
    cache.remove_namespace(("lora", None))
    listen(listed, cache)
    assert {info.namespace for info in cache.walk()} == {(None, None)}
    cache.reset()
    listen(listed, cache)
    assert not listed


def listen(listed: set[int], cache: PrefixCache) -> None:
    for event in cache.take_events():
        if isinstance(event, BlockStored):
            assert listed.isdisjoint(event.block_hashes)
            assert event.parent_block_hash is None or event.parent_block_hash in listed
            listed.update(event.block_hashes)
        elif isinstance(event, BlockRemoved):
            assert listed.issuperset(event.block_hashes)
            listed.difference_update(event.block_hashes)
        else:
            assert isinstance(event, AllBlocksCleared)
            listed.clear()
    assert len(listed) == cache.total_size // cache.page_size
    cached = set()
    for info in cache.walk():
        cached.update(block_hashes(path_tokens(cache, info.handle), cache.page_size, info.namespace))
    assert listed == cached


def path_tokens(cache: PrefixCache, handle: NodeHandle) -> list[int]:
    info = cache.node(handle)
    above = path_tokens(cache, info.parent) if info.parent != cache.root else []
    return [*above, *cache.node_tokens(handle).tolist()]
