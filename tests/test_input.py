"""Bad input: one clear error of ours for each, and nothing changed."""

from __future__ import annotations

import array
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import isoradix
from isoradix import (
    DoubleFreeError,
    HeldError,
    InputTypeError,
    InvalidInputError,
    IsoradixError,
    NodeFacts,
    OutOfSlotsError,
    PolicyError,
    PrefixCache,
    ReceiptError,
    SlotPool,
    StaleHandleError,
)

PAGE = 4


@pytest.fixture(params=["lru", "lfu", lambda facts: facts.seq], ids=["lru", "lfu", "callable"])
def cache(request: pytest.FixtureRequest) -> PrefixCache:
    made = PrefixCache(page_size=PAGE, policy=request.param, kv_events=True)
    made.insert(range_of(12), range_of(12))
    made.insert([*range_of(8), 50, 51, 52, 53], range_of(12, 100), ("lora", "salt"), priority=3)
    made.lock(made.match_prefix(range_of(8)).node)
    made.take_events()
    return made


def range_of(length: int, start: int = 0) -> list[int]:
    return list(range(start, start + length))


def state(cache: PrefixCache) -> tuple[object, ...]:
    sizes = cache.total_size, cache.protected_size, cache.pinned_size, cache.evictable_size, cache.num_nodes
    evidence = cache.decision_digest, cache.tree_digest, cache.clock, cache.journal_bytes()
    return *sizes, *evidence, cache.namespaces(), [repr(info) for info in cache.walk()]


def refused(kind: type[IsoradixError], call: Callable[..., object], *words: str) -> None:
    """`call` raises exactly `kind`, in two lines: value and limit, then a hint."""
    with pytest.raises(IsoradixError) as caught:
        call()
    assert type(caught.value) is kind, repr(caught.value)
    message, *hints = str(caught.value).split("\n")
    assert len(hints) == 1, str(caught.value)
    assert re.match("hint: .", hints[0])
    assert not message.split()[0].istitle() or message.startswith("None")
    for word in words:
        assert word in message


@pytest.fixture
def unchanged(cache: PrefixCache) -> Iterator[Any]:
    """A cache to misuse: what is called with wrong types on purpose is not type-checked."""
    before = state(cache)
    yield cache
    cache.check()
    assert state(cache) == before
    assert cache.take_events() == []


def unaligned(values: list[int]) -> Any:
    return np.frombuffer(b"x" + np.array(values, dtype=np.int64).tobytes(), dtype=np.uint8)[1:].view(np.int64)


def view(array: Any) -> memoryview:
    return memoryview(array)  # numpy says so to type checkers from Python 3.12 on


def changes_under_us() -> Any:
    class Sly:
        def __index__(self) -> int:
            sly.clear()
            return 1

    sly: list[Any] = [1, Sly(), 3, 4]
    return sly


def raising_index() -> Any:
    class Raises:
        def __index__(self) -> int:
            raise RuntimeError("from __index__")

    return [1, 2, Raises(), 4]


released = memoryview(array.array("q", [1, 2, 3, 4]))
released.release()

# What stands for "no sequence of integers that we take", and words of the message that say why.
WRONG_TYPES: dict[str, tuple[Any, str]] = {
    "none": (None, "is None"),
    "int": (5, "an int (5)"),
    "str": ("1234", "a str"),
    "dict": ({1: 2}, "a dict"),
    "set": ({1, 2, 3, 4}, "a set"),
    "range": (range(4), "a range"),
    "generator": ((value for value in range(4)), "a generator"),
    "bytes": (b"1234", '"B"'),
    "bytearray": (bytearray(4), '"B"'),
    "float in list": ([1, 2, 3.5, 4], "a float (3.5) at index 2"),
    "whole float in list": ([1.0, 2, 3, 4], "a float (1.0) at index 0"),
    "str in list": ([1, "2", 3, 4], "a str ('2') at index 1"),
    "none in tuple": ((1, 2, 3, None), "None at index 3"),
    "bool in list": ([True, 2, 3, 4], "a bool (True) at index 0"),
    "list in list": ([[1, 2], [3, 4]], "a list ([1, 2]) at index 0"),
    "raising index": (raising_index(), "at index 2"),
    "array d": (array.array("d", [1, 2, 3, 4]), '"d"'),
    "array h": (array.array("h", [1, 2, 3, 4]), '"h"'),
    "array Q": (array.array("Q", [1, 2, 3, 4]), '"Q"'),
    "array B": (array.array("B", [1, 2, 3, 4]), '"B"'),
    "float64": (np.zeros(4), "float64"),
    "float32": (np.zeros(4, dtype=np.float32), "float32"),
    "empty float64": (np.array([]), "float64"),
    "bool": (np.zeros(4, dtype=np.bool_), "bool"),
    "int8": (np.zeros(4, dtype=np.int8), "int8"),
    "int16": (np.zeros(4, dtype=np.int16), "int16"),
    "uint8": (np.zeros(4, dtype=np.uint8), "uint8"),
    "uint64": (np.zeros(4, dtype=np.uint64), "uint64"),
    "complex": (np.zeros(4, dtype=np.complex64), "complex64"),
    "object": (np.array([1, 2, 3, 4], dtype=object), "object"),
    "datetime": (np.zeros(4, dtype="M8[s]"), "datetime64"),
    "timedelta": (np.zeros(4, dtype="m8[s]"), "timedelta64"),
    "structured": (np.zeros(4, dtype=[("token", np.int64)]), "token"),
    "text": (np.array(["1", "2", "3", "4"]), "<U1"),
    "big-endian": (np.arange(4, dtype=">i8"), "byte order"),
    "big-endian int32": (np.arange(4, dtype=">i4"), "byte order"),
    "big-endian view": (view(np.arange(4, dtype=">u4")), "byte order"),
    "two dimensions": (np.zeros((2, 2), dtype=np.int64), "2 dimensions"),
    "no dimension": (np.array(4), "0 dimensions"),
    "numpy scalar": (np.int64(4), "0 dimensions"),
    "view of two dimensions": (view(np.zeros((2, 2), dtype=np.int64)), "2 dimensions"),
    "strided": (np.arange(8)[::2], "not contiguous"),
    "reversed": (np.arange(4)[::-1], "not contiguous"),
    "column": (np.zeros((4, 2), dtype=np.int64)[:, 0], "not contiguous"),
    "broadcast": (np.broadcast_to(np.int64(1), 4), "not contiguous"),
    "strided view": (view(np.arange(8))[::2], "not contiguous"),
    "unaligned": (unaligned([1, 2, 3, 4]), "not aligned"),
    "unaligned view": (view(unaligned([1, 2, 3, 4])), "not aligned"),
    "released view": (released, "no readable buffer"),
}

# The position of the bad value is in the message. Each is tried as a token and, halved, as a slot.
OUT_OF_RANGE: dict[str, Callable[[int], tuple[Any, int]]] = {
    "negative": lambda limit: ([1, -1, 2, 3], 1),
    "too large": lambda limit: ([1, 2, 3, limit], 3),
    "64 bits": lambda limit: ((1, 2, 2**63 - 1, 3), 2),
    "more than 64 bits": lambda limit: ([2**64, 1, 2, 3], 0),
    "far below": lambda limit: ([1, -(2**90), 2, 3], 1),
    "beyond printing": lambda limit: ([1, 2, 10**5000, 3], 2),
    "negative int32": lambda limit: (np.array([1, 2, -3, 4], dtype=np.int32), 2),
    "negative int64": lambda limit: (np.array([-1, 2, 3, 4]), 0),
    "too large int64": lambda limit: (np.array([1, 2, limit, 3]), 2),
    "smallest int64": lambda limit: (np.array([1, np.iinfo(np.int64).min, 2, 3]), 1),
    "numpy int in list": lambda limit: ([1, 2, np.int64(limit), 3], 2),
    "array": lambda limit: (array.array("q", [1, limit, 2, 3]), 1),
}


@pytest.mark.parametrize(("key", "word"), WRONG_TYPES.values(), ids=WRONG_TYPES.keys())
def test_keys_of_a_wrong_type(unchanged: Any, key: Any, word: str) -> None:
    refused(InputTypeError, lambda: unchanged.match_prefix(key), "key", word)
    refused(InputTypeError, lambda: unchanged.probe(key), "key", word)
    refused(InputTypeError, lambda: unchanged.insert(key, range_of(4)), "key", word)
    refused(InputTypeError, lambda: unchanged.insert(range_of(4), key), "slots", word)


@pytest.mark.parametrize("make", OUT_OF_RANGE.values(), ids=OUT_OF_RANGE.keys())
def test_values_out_of_range(unchanged: Any, make: Callable[[int], tuple[Any, int]]) -> None:
    key, index = make(2**32)
    words = f"index {index}", "0 to 4294967295"
    refused(InvalidInputError, lambda: unchanged.match_prefix(key), "token", *words)
    refused(InvalidInputError, lambda: unchanged.probe(key), "token", *words)
    refused(InvalidInputError, lambda: unchanged.insert(key, range_of(4)), "token", *words)
    slots, index = make(2**31)
    new_key = range_of(4, start=900)
    refused(InvalidInputError, lambda: unchanged.insert(new_key, slots), "slot", f"index {index}", "0 to 2147483647")


def test_a_list_that_shrinks_while_it_is_read(unchanged: Any) -> None:
    refused(InvalidInputError, lambda: unchanged.match_prefix(changes_under_us()), "became shorter")


def test_the_cause_of_a_refusal_is_kept(unchanged: Any) -> None:
    with pytest.raises(InputTypeError) as caught:
        unchanged.probe(raising_index())
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize("length", [0, 3, 13])
def test_slots_of_a_wrong_length(unchanged: Any, length: int) -> None:
    refused(InvalidInputError, lambda: unchanged.insert(range_of(12), range_of(length)), f"length {length}", "12")


@pytest.mark.parametrize(
    "node", [-1, 2**64, -(2**80), 10**5000], ids=["negative", "65 bits", "far below", "beyond printing"]
)
def test_handles_and_receipts_out_of_range(unchanged: Any, node: int) -> None:
    for call in (unchanged.lock, unchanged.pin, unchanged.touch, unchanged.slots, unchanged.node, unchanged.walk):
        refused(InvalidInputError, lambda call=call: call(node), "node", "out of range")
    for call in (unchanged.node_tokens, unchanged.node_slots):
        refused(InvalidInputError, lambda call=call: call(node), "node", "out of range")
    for call in (unchanged.unlock, unchanged.unpin):
        refused(InvalidInputError, lambda call=call: call(node), "receipt", "out of range")
    refused(InvalidInputError, lambda: unchanged.dfs_weight_order([node]), "node", "out of range")
    refused(InvalidInputError, lambda: unchanged.match_prefix([], resume=(node, 0)), "node", "out of range")


@pytest.mark.parametrize("node", ["x", 1.0, None, b"1", [1], np.float64(3)], ids=repr)
def test_handles_and_receipts_of_a_wrong_type(unchanged: Any, node: Any) -> None:
    for call in (unchanged.lock, unchanged.pin, unchanged.touch, unchanged.slots, unchanged.node):
        refused(InputTypeError, lambda call=call: call(node), "node")
    for call in (unchanged.unlock, unchanged.unpin):
        refused(InputTypeError, lambda call=call: call(node), "receipt")
    refused(InputTypeError, lambda: unchanged.dfs_weight_order([node]), "node")


def test_a_result_is_no_handle(cache: PrefixCache) -> None:
    found = cache.match_prefix(range_of(8))
    before = state(cache)
    refused(InputTypeError, lambda: cache.lock(found), "a MatchResult")  # type: ignore[arg-type]
    assert state(cache) == before


@pytest.mark.parametrize("node", [1, 2**40, 2**62, 2**64 - 1])
def test_handles_that_were_never_given_out(unchanged: Any, node: int) -> None:
    for call in (unchanged.lock, unchanged.pin, unchanged.touch, unchanged.slots, unchanged.node, unchanged.walk):
        refused(StaleHandleError, lambda call=call: call(node), hex(node))
    refused(StaleHandleError, lambda: unchanged.match_prefix([], resume=(node, 0)), hex(node))
    refused(StaleHandleError, lambda: unchanged.dfs_weight_order([unchanged.root, node]), hex(node))


def test_a_handle_dies_with_its_node(cache: PrefixCache) -> None:
    node = cache.insert(range_of(4, start=700), range_of(4)).node
    cache.evict(10**6)
    before = state(cache)
    for call in (cache.lock, cache.pin, cache.touch, cache.slots, cache.node, cache.walk, cache.node_tokens):
        refused(StaleHandleError, lambda call=call: call(node), hex(node))
    refused(StaleHandleError, lambda: cache.insert(range_of(8, start=700), [], resume=(node, 4)), hex(node))
    assert state(cache) == before


def test_receipts_are_given_back_once_and_where_they_belong(cache: PrefixCache) -> None:
    node = cache.match_prefix(range_of(8)).node
    lock, pin = cache.lock(node), cache.pin(node)
    before = state(cache)
    misused: Any = cache
    refused(ReceiptError, lambda: misused.unlock(pin), "lock receipt")
    refused(ReceiptError, lambda: misused.unpin(lock), "pin receipt")
    refused(ReceiptError, lambda: misused.unlock(node), "lock receipt")
    refused(StaleHandleError, lambda: misused.touch(lock))
    assert state(cache) == before
    cache.unlock(lock)
    cache.unpin(pin)
    before = state(cache)
    refused(ReceiptError, lambda: cache.unlock(lock))
    refused(ReceiptError, lambda: cache.unpin(pin))
    assert state(cache) == before


def hold_first_page(cache: PrefixCache) -> list[Any]:
    """A node with a lock and a pin on it, and the results that named it."""
    found = cache.match_prefix(range_of(8))
    return [found.node, cache.lock(found.node), cache.pin(found.node), found, cache.insert(range_of(8), range_of(8))]


def test_handles_and_receipts_of_another_cache() -> None:
    caches = [PrefixCache(page_size=PAGE) for _ in range(40)]
    for cache in caches:  # all with equal histories, so that inside they number everything alike
        cache.insert(range_of(12), range_of(12))
    held = [hold_first_page(cache) for cache in caches]
    for cache, own, foreign in zip(caches, held, held[1:] + held[:1], strict=True):
        assert own[:3] != foreign[:3]
        assert own[3:] == foreign[3:], "results of equal histories are equal"
        assert hash(own[3]) == hash(foreign[3])
        refuses_all(cache, *foreign)
        cache.unlock(own[1])
        cache.unpin(own[2])
    assert len({cache.tree_digest for cache in caches}) == 1
    assert all(next(cache.walk()) == next(caches[0].walk()) for cache in caches)


def refuses_all(cache: Any, node: int, lock: int, pin: int, *results: Any) -> None:
    before = state(cache)
    for call in (cache.lock, cache.pin, cache.touch, cache.slots, cache.node, cache.walk, cache.node_tokens):
        refused(StaleHandleError, lambda call=call: call(node), hex(node), "of this cache")
    for resume in (*results, (node, 8)):
        refused(StaleHandleError, lambda resume=resume: cache.match_prefix(range_of(8), resume=resume), hex(node))
    refused(ReceiptError, lambda: cache.unlock(lock), hex(lock), "of this cache")
    refused(ReceiptError, lambda: cache.unpin(pin), hex(pin), "of this cache")
    with pytest.raises(StaleHandleError, match="hint: it looks like a node of another PrefixCache"):
        cache.touch(node)
    with pytest.raises(ReceiptError, match="hint: it looks like a receipt of another PrefixCache"):
        cache.unlock(lock)
    assert state(cache) == before


def test_the_root_is_the_same_in_every_cache(cache: PrefixCache) -> None:
    other = PrefixCache()
    assert cache.root == other.root == other.match_prefix([1]).node
    assert cache.node(other.root).depth == 0


def test_a_held_namespace_stays(cache: PrefixCache) -> None:
    receipt = cache.lock(cache.match_prefix(range_of(8), ("lora", "salt")).node)
    before = state(cache)
    refused(HeldError, lambda: cache.remove_namespace(("lora", "salt")), "8 tokens")
    assert state(cache) == before
    cache.unlock(receipt)
    assert len(cache.remove_namespace(("lora", "salt"))) == 12


@pytest.mark.parametrize(
    ("namespace", "kind"),
    [
        ("lora", InputTypeError),
        (5, InputTypeError),
        (["lora", None], InputTypeError),
        (("lora",), InputTypeError),
        (("lora", "salt", None), InputTypeError),
        (("lora", 5), InputTypeError),
        ((b"lora", None), InputTypeError),
        (("\ud800", None), InvalidInputError),
    ],
    ids=repr,
)
def test_namespaces(unchanged: Any, namespace: Any, kind: type[IsoradixError]) -> None:
    refused(kind, lambda: unchanged.match_prefix(range_of(4), namespace))
    refused(kind, lambda: unchanged.probe(range_of(4), namespace))
    refused(kind, lambda: unchanged.insert(range_of(4), range_of(4), namespace))
    refused(kind, lambda: unchanged.namespace_size(namespace))
    refused(kind, lambda: unchanged.remove_namespace(namespace))


def test_the_default_namespace_is_not_removed_by_accident(unchanged: Any) -> None:
    refused(InputTypeError, lambda: unchanged.remove_namespace(None), "namespace is None, expected a pair")
    with pytest.raises(InputTypeError, match=r"hint: .*\(None, None\)"):
        unchanged.remove_namespace(None)
    with pytest.raises(TypeError, match="namespace"):
        unchanged.remove_namespace()
    with pytest.raises(TypeError):
        unchanged.remove_namespace("lora", "salt")


def test_the_default_namespace_is_removed_when_spelt_out() -> None:
    cache = PrefixCache()
    cache.insert([1, 2], [0, 1])
    cache.insert([1, 2], [2, 3], ("lora", None))
    assert cache.namespace_size() == cache.namespace_size(None) == cache.namespace_size((None, None)) == 2
    assert sorted(cache.remove_namespace((None, None)).tolist()) == [0, 1]
    assert (cache.namespace_size(), cache.namespace_size(("lora", None)), cache.total_size) == (0, 2, 2)


def test_counts(unchanged: Any) -> None:
    refused(InvalidInputError, lambda: unchanged.evict(-1), "num_tokens -1")
    refused(InvalidInputError, lambda: unchanged.evict(2**64), "num_tokens")
    refused(InputTypeError, lambda: unchanged.evict(1.5), "a float (1.5)")
    refused(InputTypeError, lambda: unchanged.evict("1"), "a str")
    for step in (0, -1, 2**64):
        refused(InvalidInputError, lambda step=step: unchanged.advance_step(step), f"step {step}")
    refused(InputTypeError, lambda: unchanged.advance_step(1.5), "step")
    for priority in (2**63, -(2**63) - 1):
        call = lambda priority=priority: unchanged.insert(range_of(4), range_of(4), priority=priority)  # noqa: E731
        refused(InvalidInputError, call, f"priority {priority}")


def test_resume_points(unchanged: Any) -> None:
    node = next(info for info in unchanged.walk() if info.depth == 8)
    key = range_of(12)
    for point in (5, "x", (node.handle,), [node.handle, 8], (node.handle, 8, 0), ("x", 8), (node.handle, 8.0)):
        refused(InputTypeError, lambda point=point: unchanged.match_prefix(key, resume=point))
    for point in ((node.handle, 4), (node.handle, 9), (node.handle, -1), (node.handle, 2**64)):
        refused(InvalidInputError, lambda point=point: unchanged.match_prefix(key, resume=point))
    refused(InvalidInputError, lambda: unchanged.match_prefix(range_of(4), resume=(node.handle, 8)))
    refused(InvalidInputError, lambda: unchanged.insert(key, range_of(12), resume=(node.handle, 8)))
    refused(InvalidInputError, lambda: unchanged.match_prefix(key, ("other", None), resume=(node.handle, 8)))


@pytest.mark.parametrize(
    ("options", "kind", "word"),
    [
        ({"page_size": 0}, InvalidInputError, "1 to 1024"),
        ({"page_size": 1025}, InvalidInputError, "1 to 1024"),
        ({"page_size": -(2**70)}, InvalidInputError, "1 to 1024"),
        ({"page_size": "64"}, InputTypeError, "page_size"),
        ({"page_size": 64.0}, InputTypeError, "page_size"),
        ({"policy": "least"}, InvalidInputError, "least"),
        ({"policy": ""}, InvalidInputError, "policy"),
        ({"policy": "slru:-1"}, InvalidInputError, "slru:-1"),
        ({"policy": "slru:x"}, InvalidInputError, "slru:x"),
        ({"policy": "lru\ud800"}, InvalidInputError, "policy"),
        ({"policy": 5}, InputTypeError, "policy"),
        ({"bigram": "yes"}, InputTypeError, "bigram"),
        ({"bigram": 1}, InputTypeError, "bigram"),
        ({"kv_events": 1.0}, InputTypeError, "kv_events"),
        ({"journal_records": -1}, InvalidInputError, "journal_records -1"),
        ({"journal_records": 2**32}, InvalidInputError, "journal_records"),
        ({"journal_records": None, "page_size": None, "policy": 1.5}, InputTypeError, "policy"),
    ],
    ids=repr,
)
def test_options(options: dict[str, Any], kind: type[IsoradixError], word: str) -> None:
    refused(kind, lambda: PrefixCache(**options), word)


def pool_state(pool: SlotPool) -> tuple[int, list[int]]:
    """What is free, and in which order it would be handed out."""
    slots = pool.alloc(pool.available)
    pool.free(slots)
    return pool.available, slots.tolist()


def test_pools_that_cannot_be() -> None:
    for slots in (0, -1, 2**31 + 1, 2**70):
        refused(InvalidInputError, lambda slots=slots: SlotPool(slots), f"num_slots {slots}")
    refused(InvalidInputError, lambda: SlotPool(10, page_size=4), "10", "4")
    refused(InvalidInputError, lambda: SlotPool(8, page_size=0), "page_size 0")
    refused(InvalidInputError, lambda: SlotPool(2048, page_size=2048), "page_size 2048")
    refused(InvalidInputError, lambda: SlotPool(8, first_slot=-1), "first_slot -1")
    refused(InvalidInputError, lambda: SlotPool(8, first_slot=2**31 - 7), "first_slot")
    refused(InputTypeError, lambda: SlotPool("8"), "num_slots")  # type: ignore[arg-type]
    refused(InputTypeError, lambda: SlotPool(8, page_size=4.0), "page_size")  # type: ignore[arg-type]


def test_a_pool_refuses_and_keeps_its_state() -> None:
    pool = SlotPool(16, page_size=4, first_slot=32)
    mine = pool.alloc(8)
    before = pool_state(pool)
    refused(OutOfSlotsError, lambda: pool.alloc(12), "12", "8")
    refused(InvalidInputError, lambda: pool.alloc(3), "3")
    refused(InvalidInputError, lambda: pool.alloc(-4), "num_tokens -4")
    refused(InputTypeError, lambda: pool.alloc(4.0), "num_tokens")  # type: ignore[arg-type]
    refused(DoubleFreeError, lambda: pool.free(np.concatenate([mine, mine[:4]])), str(mine[0]))
    refused(DoubleFreeError, lambda: pool.free([*mine.tolist(), *before[1][:4]]), str(before[1][0]))
    refused(InvalidInputError, lambda: pool.free(mine[:3]), "3")
    refused(InvalidInputError, lambda: pool.free(mine[1:5]))
    refused(InvalidInputError, lambda: pool.free([0, 1, 2, 3]), "slot 0")
    refused(InvalidInputError, lambda: pool.free([-1, 1, 2, 3]), "slot -1")
    refused(InvalidInputError, lambda: pool.free([2**80, 1, 2, 3]), "index 0")
    refused(InputTypeError, lambda: pool.free(mine.astype(np.float64)), "float64")
    refused(InputTypeError, lambda: pool.free(mine[::2]), "not contiguous")
    assert pool_state(pool) == before


def test_check_wants_a_pool(unchanged: Any) -> None:
    refused(InputTypeError, lambda: unchanged.check(5), "pool")
    refused(InvalidInputError, lambda: unchanged.check(SlotPool(8), uncached=-1), "uncached -1")


def fails_on(bad: Any, depth: int) -> Callable[[NodeFacts], Any]:
    def key(facts: NodeFacts) -> Any:
        if facts.depth != depth:
            return facts.seq
        if isinstance(bad, BaseException):
            raise bad
        return bad

    return key


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        (None, "None"),
        (1.5, "a float (1.5)"),
        ("x", "a str"),
        ((1,), "a tuple"),
        ((1, 2, 3), "a tuple"),
        ((1, 2.0), "a tuple"),
        ([1, 2], "a list"),
        (2**63, "an int"),
        ((0, -(2**63) - 1), "a tuple"),
        (ZeroDivisionError("from the key function"), "ZeroDivisionError: from the key function"),
    ],
    ids=repr,
)
def test_key_functions_that_fail(bad: object, word: str) -> None:
    cache = PrefixCache(page_size=PAGE, policy=fails_on(bad, depth=8))
    cache.insert(range_of(4), range_of(4))
    cache.insert(range_of(8, start=50), range_of(8, start=4))
    before = state(cache)
    refused(PolicyError, lambda: cache.evict(4), "python:fails_on.<locals>.key", word)
    assert state(cache) == before
    with pytest.raises(PolicyError) as caught:
        cache.evict(4)
    assert caught.value.__cause__ is (bad if isinstance(bad, BaseException) else None)
    cache.insert(range_of(12, start=50), range_of(12, start=20))  # a leaf that can be ranked takes its place
    assert cache.evict(100).tolist() == [0, 1, 2, 3, 28, 29, 30, 31], "then its parent is a leaf that cannot, and stays"
    assert (cache.total_size, cache.evictable_size) == (8, 8)
    before = state(cache)
    refused(PolicyError, lambda: cache.evict(1), word)
    assert state(cache) == before
    cache.check()


def test_the_cause_is_that_of_this_failure() -> None:
    answers: list[Any] = [ZeroDivisionError(), 1.5, 1.5]

    def key(facts: NodeFacts) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    cache = PrefixCache(policy=key)
    cache.insert([1], [1])  # raises
    cache.match_prefix([1])  # returns no key
    with pytest.raises(PolicyError, match="it returned a float") as caught:
        cache.evict(1)
    assert caught.value.__cause__ is None


def test_keys_may_be_any_integers() -> None:
    keys: Iterator[Any] = iter([np.int64(5), True, (np.int32(1), -(2**63)), 2**63 - 1])
    cache = PrefixCache(policy=lambda facts: next(keys))
    for token in range(4):
        cache.insert([token], [token])
    assert cache.evict(4).tolist() == [2, 1, 0, 3]


def test_keyboard_interrupt_in_a_key_function_is_raised_after_the_call() -> None:
    cache = PrefixCache(policy=fails_on(KeyboardInterrupt(), depth=1))
    with pytest.raises(KeyboardInterrupt):
        cache.insert([1], [1])
    assert cache.total_size == 1


def test_the_errors_form_a_family() -> None:
    builtin = {
        InvalidInputError: ValueError,
        InputTypeError: TypeError,
        StaleHandleError: LookupError,
        ReceiptError: LookupError,
        HeldError: RuntimeError,
        OutOfSlotsError: MemoryError,
        DoubleFreeError: ValueError,
        PolicyError: RuntimeError,
        isoradix.InvariantError: AssertionError,
        isoradix.ConcurrentUseError: RuntimeError,
    }
    for kind, base in builtin.items():
        assert issubclass(kind, IsoradixError)
        assert issubclass(kind, base)
        assert kind.__module__ == "isoradix"
        assert kind.__doc__
    assert isoradix.IsoradixError.__mro__[1] is Exception
