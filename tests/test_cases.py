"""Small inputs on which prefix caches have failed in public, each with the value that is right."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from isoradix import DoubleFreeError, InvariantError, NodeFacts, NodeHandle, PrefixCache, ReceiptError, SlotPool


def make_key(length: int, start: int = 0) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.arange(start, start + length, dtype=np.int64)


def test_a_key_shorter_than_a_page_leaves_no_trace() -> None:
    cache = PrefixCache(page_size=64)
    for length in (0, 1, 63):
        result = cache.insert(make_key(length), make_key(length), ("lora", None))
        assert (result.prefix_len, result.new_tokens, result.length, result.node) == (0, 0, 0, cache.root)
        match = cache.match_prefix(make_key(length), ("lora", None))
        assert (match.hit_tokens, match.node) == (0, cache.root)
    assert (cache.total_size, cache.num_nodes, cache.namespaces(), list(cache.walk())) == (0, 0, [], [])
    assert cache.evict(1).size == 0
    cache.check()


def test_a_page_of_pairs_needs_one_more_token() -> None:
    cache = PrefixCache(page_size=64, bigram=True)
    result = cache.insert(make_key(128), make_key(128))
    assert (result.prefix_len, result.new_tokens, result.length) == (0, 64, 64), "127 pairs, one whole page of them"
    assert cache.probe(make_key(128)) == cache.probe(make_key(65)) == 64
    assert cache.probe(make_key(64)) == 0, "64 tokens are 63 pairs"
    assert cache.node_tokens(result.node).tolist() == list(range(65))
    assert cache.insert(make_key(129), make_key(129)).new_tokens == 64, "the 129th token completes the second page"


@pytest.mark.parametrize("page_size", [1, 16])
def test_the_same_tail_freed_twice(page_size: int) -> None:
    pool = SlotPool(64, page_size=page_size)
    slots = pool.alloc(64)
    tail = slots[32:]
    pool.free(tail)
    with pytest.raises(DoubleFreeError, match=rf"slot {tail[0]} is free already"):
        pool.free(tail)
    with pytest.raises(DoubleFreeError, match=rf"slot {tail[0]} is free already"):
        pool.free(slots)
    assert pool.available == 32, "counted once, and the refused call freed nothing"
    with pytest.raises(DoubleFreeError, match=rf"slot {slots[0]} is freed twice in one call"):
        pool.free(np.concatenate([slots[:page_size], slots[:page_size]]))
    assert pool.available == 32
    pool.free(slots[:32])
    assert sorted(pool.alloc(64).tolist()) == list(range(64)), "every slot comes back exactly once"


PAGE, TOTAL, CACHED = 32, 469_952, 470_016


def too_much_in_the_tree() -> tuple[PrefixCache, SlotPool, list[NodeHandle], list[NodeHandle]]:
    """96 free and 470,016 cached of 469,952: 64 slots are cached twice, 96 are cached and free.

    Also gives the nodes that share slots, and those whose slots are free.
    """
    pool = SlotPool(TOTAL, page_size=PAGE)
    cache = PrefixCache(page_size=PAGE)
    slots = pool.alloc(TOTAL)
    half = TOTAL // 2
    first = cache.insert(make_key(half), slots[:half])
    second = cache.insert(make_key(half, 10**6), slots[half:])
    shared = cache.insert(make_key(64, 2 * 10**6), slots[:64])
    pool.free(slots[-96:])
    return cache, pool, [first.node, shared.node], [second.node]


def test_the_books_are_out_by_160_and_check_says_so() -> None:
    cache, pool, shared, freed = too_much_in_the_tree()
    assert (pool.available, cache.evictable_size, pool.total) == (96, CACHED, TOTAL)
    cache.check()
    with pytest.raises(InvariantError, match=r"\+160\b") as raised:
        cache.check(pool)
    message = str(raised.value)
    assert all(str(figure) in message for figure in (96, CACHED, TOTAL))
    listed = re.search(r"nodes \[([\d, ]+)\]", message)
    assert listed, message
    named = {int(number) for number in listed[1].split(",")}
    assert named == {cache.node(node).sequence for node in shared + freed}


def test_a_slot_that_nobody_owns_is_missed() -> None:
    pool = SlotPool(TOTAL, page_size=PAGE)
    cache = PrefixCache(page_size=PAGE)
    slots = pool.alloc(TOTAL)
    cache.insert(make_key(TOTAL - 160), slots[160:])
    with pytest.raises(InvariantError, match=r"-160\b"):
        cache.check(pool)
    pool.free(slots[:160])
    cache.check(pool)


ONE_STEP_POLICIES = ["lru", "mru", "lfu", "slru", "priority", "tlru:4,2", lambda facts: (facts.hits, facts.seq)]


@pytest.mark.parametrize(
    "policy", ONE_STEP_POLICIES, ids=lambda policy: policy if isinstance(policy, str) else "callable"
)
def test_leaves_touched_in_one_order_go_in_one_order(policy: Any) -> None:
    """All in one step, so that a clock of steps alone would give all leaves one stamp."""
    leaves = [[1, 2, tail, tail] for tail in range(10, 26)]
    touches = leaves[5:] + leaves[:5]
    victims = []
    for arrivals in (leaves, leaves[::-1], leaves[1::2] + leaves[::2]):
        cache = PrefixCache(policy=policy)
        for leaf in arrivals:
            cache.insert(leaf, [leaf[2] * 4 + unit for unit in range(4)])
        for leaf in touches:
            cache.match_prefix(leaf)
        # The trunk holds slots of the first leaf to come; they are freed last and left out.
        victims.append([slot // 4 for slot in cache.evict(2 * len(leaves)).tolist()])
        cache.check()
    assert victims[0] == victims[1] == victims[2]
    assert sorted(victims[0]) == sorted(leaf[2] for leaf in leaves for _ in range(2))


@pytest.mark.parametrize("held", [False, True], ids=["free", "half-locked"])
def test_evicting_one_page_asks_as_little_of_41_000_leaves_as_of_1_000(held: bool) -> None:
    """Counts what eviction asks of a user's policy, which no fast machine can hide."""
    few, many = (keys_asked_to_evict_pages(50, leaves, held) for leaves in (1_000, 41_000))
    assert few == many
    assert sum(many) <= 50, "at most the parent is ranked anew"


def keys_asked_to_evict_pages(pages: int, leaves: int, held: bool) -> list[int]:
    """How often a key function is called in each of so many evictions of one page."""
    calls = 0

    def by_age(facts: NodeFacts) -> int:
        nonlocal calls
        calls += 1
        return facts.seq

    cache = PrefixCache(page_size=4, policy=by_age)
    for leaf in range(leaves):
        result = cache.insert([leaf // 20, 0, 0, 0, leaf, 1, 1, 1], [leaf * 8 + unit for unit in range(8)])
        if held and leaf % 2:
            cache.lock(result.node)
    asked = []
    for _ in range(pages):
        before = calls
        assert cache.evict(1).size == 4
        asked.append(calls - before)
    return asked


def test_a_receipt_is_given_back_once() -> None:
    cache = PrefixCache()
    node = cache.insert([1, 2, 3], [0, 1, 2]).node
    pin, lock = cache.pin(node), cache.lock(node)
    cache.unpin(pin)
    misuses: list[tuple[Any, int]] = [(cache.unpin, pin), (cache.unlock, pin), (cache.unpin, lock)]
    for call, receipt in misuses:
        with pytest.raises(ReceiptError, match=r"is not outstanding\nhint: "):
            call(receipt)
    assert (cache.node(node).pin_ref, cache.node(node).lock_ref) == (0, 1), "never negative"
    assert (cache.pinned_size, cache.protected_size) == (0, 3)
    cache.unlock(lock)
    with pytest.raises(ReceiptError):
        cache.unlock(lock)
    assert (cache.pinned_size, cache.protected_size, cache.evictable_size) == (0, 0, 3)
    assert cache.pin(node) != pin, "a new receipt is not an old one"
    with pytest.raises(ReceiptError):
        cache.unpin(pin)
    cache.check()
