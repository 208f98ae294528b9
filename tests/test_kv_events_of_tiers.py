"""KV events of two tiers: what a router that follows them learns is what is on the device, and what is on host."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.test_kv_events import block_hashes
from tests.test_ranks import Cluster, Node

from isoradix import AllBlocksCleared, BlockRemoved, BlockStored, TieredCache

PAGE = 2
MEDIA = ("GPU", "CPU_PINNED")


class Listener:
    """The blocks of each medium, by hash."""

    def __init__(self) -> None:
        self.blocks: dict[str, set[int]] = {medium: set() for medium in MEDIA}

    def hear(self, cache: TieredCache) -> list[dict[str, Any]]:
        """Takes the cache's events in, strictly; gives them as they are sent."""
        events = cache.take_events()
        for event in events:
            match event:
                case BlockStored():
                    there = self.blocks[event.medium]
                    assert there.isdisjoint(event.block_hashes)
                    assert event.parent_block_hash is None or event.parent_block_hash in there, "parents first"
                    there.update(event.block_hashes)
                case BlockRemoved():
                    there = self.blocks[event.medium]
                    assert there.issuperset(event.block_hashes)
                    there.difference_update(event.block_hashes)
                case AllBlocksCleared():
                    for there in self.blocks.values():
                        there.clear()
        return [event.as_dict() for event in events]


def cached(cache: TieredCache) -> dict[str, set[int]]:
    """What is in each tier, as the tree has it."""
    found: dict[str, set[int]] = {medium: set() for medium in MEDIA}
    paths: dict[int, list[int]] = {cache.root: []}
    for info in cache.walk():  # parents first
        above = paths[info.parent]
        paths[info.handle] = above + cache.node_tokens(info.handle).tolist()
        own = block_hashes(paths[info.handle], PAGE, info.namespace)[len(above) // PAGE :]
        for medium, there in zip(MEDIA, (info.on_device, info.on_host), strict=True):
            if there:
                found[medium].update(own)
    return found


@pytest.mark.parametrize("writing", ["through:1", "through:2", "back:30"])
@pytest.mark.parametrize("seed", range(4))
def test_a_listener_knows_what_is_in_each_tier_and_all_ranks_say_the_same(writing: str, seed: int) -> None:
    cluster = Cluster([30, 30], device=60, page_size=PAGE, writing=writing, storage=True, kv_events=True)
    listeners = [Listener() for _ in cluster.nodes]
    drawn = random.Random(seed)
    told = dict.fromkeys(MEDIA, 0)

    def verb(node: Node, choice: int, key: list[int]) -> object:
        if choice < 10:
            return node.insert(key)
        if choice < 13:
            return node.load(key)
        if choice < 15:
            return node.evict_all()
        if choice < 16:
            return node.cache.evict_host(4)
        if choice < 18:
            return node.cache.prefetch(key) is not None
        if choice < 19:
            node.device.free(node.cache.reset())
        return node.find(key).length

    for _ in range(150):
        key = [token for _ in range(drawn.randrange(1, 9)) for token in [drawn.randrange(3)] * PAGE]
        choice = drawn.randrange(20)
        cluster.step(lambda node, choice=choice, key=key: verb(node, choice, key))  # type: ignore[misc]
        for node in cluster.nodes:
            for operation, run in list(node.queried.items()):
                node.rank.found(operation, len(run.key) - run.start)
                del node.queried[operation]
            node.take_effects()
        if drawn.randrange(2):
            cluster.settle()
        first, second = (listener.hear(node.cache) for listener, node in zip(listeners, cluster.nodes, strict=True))
        assert first == second
        cache = cluster.nodes[0].cache
        assert listeners[0].blocks == cached(cache)
        for medium in MEDIA:
            told[medium] += len(listeners[0].blocks[medium])
    assert all(count > 200 for count in told.values()), told


def test_a_block_is_told_to_each_tier_it_comes_to() -> None:
    cluster = Cluster([30], page_size=PAGE, kv_events=True)
    cache = cluster.nodes[0].cache
    first, second = block_hashes([1, 2, 3, 4], PAGE, (None, None))

    def heard() -> list[tuple[str, str, list[int]]]:
        events = (event.as_dict() for event in cache.take_events())
        return [(event["type"], event["medium"], event["block_hashes"]) for event in events]

    cluster.step(lambda node: node.insert([1, 2, 3, 4]))
    assert heard() == [("BlockStored", "GPU", [first, second])]
    cluster.step(lambda node: node.find([1, 2]))
    assert heard() == [], "not before it is done"
    cluster.settle()
    assert heard() == [("BlockStored", "CPU_PINNED", [first]), ("BlockStored", "CPU_PINNED", [second])]
    cluster.step(Node.evict_all)
    assert heard() == [("BlockRemoved", "GPU", [second, first])]
    cluster.step(lambda node: node.load([1, 2, 3, 4]))
    assert heard() == [("BlockStored", "GPU", [first]), ("BlockStored", "GPU", [second])]
    cluster.settle()
    cluster.step(Node.evict_all)
    cluster.step(lambda node: node.cache.evict_host(1))
    assert heard() == [("BlockRemoved", "GPU", [second, first]), ("BlockRemoved", "CPU_PINNED", [second])]
