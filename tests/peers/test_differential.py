"""isoradix beside SGLang's own tree cores, operation by operation.

Both get the same random sequence. After every operation they must agree on hit lengths, slot ids,
evictable and protected sizes, and on every victim in its order. One difference is known, and pinned
below: `RadixCache` gives the head of a split node a new creation time, so that under `fifo` and `filo`
a prefix grows younger by being matched. SGLang's other cores and isoradix keep the original one.
"""

import random
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

if find_spec("sglang") is None:
    pytest.skip("needs the peers environment: make test-peers", allow_module_level=True)

from benches.peers.adapters import SGLANG, Cache, Policy, Setup, make
from benches.trees import Tokens

UNIFIED = SGLANG[1:]
OPERATIONS = 1500

POLICIES: dict[str, tuple[Policy, tuple[str, ...]]] = {
    "lru": (("lru", {}), SGLANG),
    "lfu": (("lfu", {}), SGLANG),
    "fifo": (("fifo", {}), UNIFIED),
    "mru": (("mru", {}), SGLANG),
    "filo": (("filo", {}), UNIFIED),
    "priority": (("priority", {}), SGLANG),
    "slru": (("slru", {}), SGLANG),
    "slru:4": (("slru", {"protected_threshold": 4}), SGLANG),
    # `RadixCache` does not keep the depths that T-LRU reads.
    "tlru": (("tlru", {"threshold": 24, "next_prompt_estimate": 4}), UNIFIED),
    "tlru, nothing safe": (("tlru", {"threshold": 0, "next_prompt_estimate": 8}), UNIFIED),
}
NAMESPACES = (None, "lora-a", "lora-b")


def agree(what: str, values: dict[str, Any]) -> Any:
    """The one value that all caches gave."""
    expected = values["isoradix"]
    assert all(value == expected for value in values.values()), f"{what}: {values}"
    return expected


class Lockstep:
    """The same operation on every cache, with the answers compared."""

    def __init__(self, setup: Setup, peers: tuple[str, ...]) -> None:
        self.caches: dict[str, Cache] = {name: make(name, setup) for name in ("isoradix", *peers)}
        for cache in self.caches.values():
            cache.freed.recording = True
        self.next_slot = 1

    def each(self, what: str, ask: Callable[[Cache], Any]) -> Any:
        return agree(what, {name: ask(cache) for name, cache in self.caches.items()})

    def match(self, tokens: Tokens, namespace: str | None) -> dict[str, Any]:
        """The node that each cache found."""
        found = {n: c.match(c.key(tokens), namespace) for n, c in self.caches.items()}
        agree("hit", {n: hit for n, (hit, _) in found.items()})
        nodes = {n: node for n, (_, node) in found.items()}
        slots = {n: c.indices(nodes[n], namespace).tolist() for n, c in self.caches.items()}
        agree("slots", slots)
        return nodes

    def insert(self, tokens: Tokens, namespace: str | None, priority: int) -> None:
        slots = np.arange(self.next_slot, self.next_slot + len(tokens))
        self.next_slot += len(tokens)

        def insert(cache: Cache) -> int:
            return cache.insert(cache.key(tokens), cache.slots(slots), namespace, priority=priority)

        self.each("prefix", insert)
        for cache in self.caches.values():
            cache.freed.take()  # SGLang frees the duplicates itself, here the caller does

    def lock(self, nodes: dict[str, Any]) -> dict[str, Any]:
        return {n: c.lock(nodes[n]) for n, c in self.caches.items()}

    def unlock(self, receipts: dict[str, Any]) -> None:
        for name, cache in self.caches.items():
            cache.unlock(receipts[name])

    def evict(self, num_tokens: int) -> list[int]:
        self.each("dropped", lambda cache: cache.evict(num_tokens))
        victims: list[int] = self.each("victims", lambda cache: cache.freed.take())
        return victims

    def compare_sizes(self) -> None:
        self.each("evictable size", lambda cache: cache.evictable_size())
        self.each("protected size", lambda cache: cache.protected_size())

    def check(self) -> None:
        self.caches["isoradix"].cache.check()  # type: ignore[attr-defined]


class Keys:
    """Random keys over a few pages, so that they share prefixes and part inside nodes."""

    def __init__(self, rng: random.Random, page_size: int) -> None:
        self.rng = rng
        self.pages = [[rng.randrange(1 << 17) for _ in range(page_size)] for _ in range(3)]

    def __iter__(self) -> Iterator[Tokens]:
        while True:
            tokens = [t for _ in range(self.rng.randrange(9)) for t in self.rng.choice(self.pages)]
            ragged = self.rng.choice(self.pages)[: self.rng.randrange(len(self.pages[0]) + 1)]
            yield np.array(tokens + ragged, dtype=np.int64)


def run(pair: Lockstep, page_size: int, seed: int) -> None:
    rng = random.Random(seed)
    keys = iter(Keys(rng, page_size))
    held: list[dict[str, Any]] = []
    for _ in range(OPERATIONS):
        namespace = rng.choice(NAMESPACES)
        match rng.choice(("match", "match", "insert", "insert", "lock", "unlock", "evict")):
            case "match":
                pair.match(next(keys), namespace)
            case "insert":
                pair.insert(next(keys), namespace, priority=rng.randrange(3))
            case "lock" if len(held) < 6:
                held.append(pair.lock(pair.match(next(keys), namespace)))
            case "unlock" if held:
                pair.unlock(held.pop(rng.randrange(len(held))))
            case "evict":
                pair.evict(rng.choice((1, 1, page_size, 4 * page_size)))
        pair.compare_sizes()
        pair.check()
    for receipts in held:
        pair.unlock(receipts)
    pair.evict(1 << 30)
    assert pair.each("evictable size", lambda cache: cache.evictable_size()) == 0


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("page_size", [1, 4, 16, 64])
@pytest.mark.parametrize("bigram", [False, True], ids=["tokens", "bigrams"])
def test_same_decisions(policy: str, page_size: int, bigram: bool) -> None:
    order, peers = POLICIES[policy]
    pair = Lockstep(Setup(page_size=page_size, policy=order, bigram=bigram), peers)
    run(pair, page_size, seed=page_size)


@pytest.mark.parametrize("policy", ["fifo", "filo"])
@pytest.mark.parametrize("peer", SGLANG)
def test_creation_time_of_a_split_head(policy: str, peer: str) -> None:
    """A match that splits [1, 2, 3, 4] after 2: whose creation time does the head [1, 2] have?"""
    split_first = Lockstep(Setup(policy=(policy, {})), (peer,))
    split_first.insert(np.array([1, 2, 3, 4]), None, 0)  # slots 1..4
    split_first.insert(np.array([9]), None, 0)  # slot 5
    split_first.match(np.array([1, 2]), None)

    def victims(cache: Cache) -> list[int]:
        while cache.evict(1):
            pass
        return cache.freed.take()

    ours, theirs = (victims(split_first.caches[name]) for name in ("isoradix", peer))
    kept = {"fifo": [3, 4, 1, 2, 5], "filo": [5, 3, 4, 1, 2]}
    renewed = {"fifo": [3, 4, 5, 1, 2], "filo": [5, 3, 4, 1, 2]}
    assert ours == kept[policy]
    assert theirs == (renewed if peer == "sgl-py-radix" else kept)[policy]
