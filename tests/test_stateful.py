"""The cache against a naive model: any sequence of operations, compared after each one.

Two drivers feed the cache and the model (`model/naive.py`): hypothesis, which shrinks what it finds, over every policy,
page size and key kind; and a seeded random walk, which goes further than hypothesis would.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from .model.naive import Namespace
from .model.twins import Twins, spell

PAGE_SIZES = (1, 4, 16, 64)
NAMESPACES = ((None, None), ("lora", None), (None, "lora"), ("lora", "tenant"))
LETTERS = 4


def by_shape(facts: Any) -> tuple[int, int]:
    """A user's key function that reads everything but the running numbers, so that many leaves tie."""
    here = len(facts.namespace[0] or "") + len(facts.namespace[1] or "")
    shape = facts.hits + facts.priority + facts.length // 2 - facts.reach + facts.depth + here
    return (shape, facts.step - facts.created_step)


def policies(page_size: int) -> dict[str, str | Callable[[Any], Any]]:
    named = ["lru", "lfu", "fifo", "mru", "filo", "priority", "slru", "slru:3", f"tlru:{3 * page_size},{page_size}"]
    return {**{name: name for name in named}, "callable": by_shape}


# Bounds on numbers, not on time, so that a run can be repeated.
SETTINGS = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)

words = st.lists(st.integers(0, LETTERS - 1), max_size=6)
namespaces = st.sampled_from(NAMESPACES)
picks = st.integers(0, 10**6)


class CacheMachine(RuleBasedStateMachine):
    """The verbs as rules; nodes and receipts are picked by index among those that live."""

    page_size = 1
    bigram = False

    @initialize(policy=picks, forest=st.lists(st.tuples(words, namespaces), min_size=3, max_size=12))
    def make(self, policy: int, forest: list[tuple[list[int], Namespace]]) -> None:
        orders = list(policies(self.page_size).values())
        self.twins = Twins(page_size=self.page_size, policy=orders[policy % len(orders)], bigram=self.bigram)
        for word, namespace in forest:
            self.twins.insert(self.key(word, 1), namespace)

    def pick(self, index: int) -> int:
        living = self.twins.living()
        return living[index % len(living)]

    def key(self, word: list[int], tail: int) -> list[int]:
        return spell(word, self.page_size) + [LETTERS] * (tail % (self.page_size + 1))

    @rule(word=words, tail=picks, namespace=namespaces)
    def match(self, word: list[int], tail: int, namespace: Namespace) -> None:
        self.twins.match(self.key(word, tail), namespace)

    @rule(node=picks, less=st.integers(1, 3), word=words)
    def match_beside(self, node: int, less: int, word: list[int]) -> None:
        """Leaves a cached path some pages before its end, which splits a node more often than not."""
        at = self.pick(node)
        path = self.twins.key_of(at)
        self.twins.match(path[: -less * self.page_size] + self.key(word, 0), self.twins.namespace_of(at))

    @rule(word=words, tail=picks, namespace=namespaces, priority=st.integers(-2, 2))
    def insert(self, word: list[int], tail: int, namespace: Namespace, priority: int) -> None:
        self.twins.insert(self.key(word, tail), namespace, priority=priority, spare_slots=tail % 3)

    @rule(node=picks, word=words, tail=picks, priority=st.integers(-1, 1), storing=st.booleans())
    def resume(self, node: int, word: list[int], tail: int, priority: int, storing: bool) -> None:
        at = self.pick(node)
        key, namespace = self.twins.key_of(at) + self.key(word, tail), self.twins.namespace_of(at)
        if storing:
            self.twins.insert(key, namespace, priority=priority, resume=at)
        else:
            self.twins.match(key, namespace, resume=at)

    @rule(node=picks)
    def touch(self, node: int) -> None:
        self.twins.touch(self.pick(node))

    @rule(node=picks)
    def lock(self, node: int) -> None:
        self.twins.lock(self.pick(node))

    @rule(node=picks)
    def pin(self, node: int) -> None:
        self.twins.pin(self.pick(node))

    @precondition(lambda self: self.twins.model.locks)
    @rule(index=picks)
    def unlock(self, index: int) -> None:
        receipts = list(self.twins.model.locks)
        self.twins.unlock(receipts[index % len(receipts)])

    @precondition(lambda self: self.twins.model.pins)
    @rule(index=picks)
    def unpin(self, index: int) -> None:
        receipts = list(self.twins.model.pins)
        self.twins.unpin(receipts[index % len(receipts)])

    @rule(pages=st.integers(0, 8), less=st.booleans())
    def evict(self, pages: int, less: bool) -> None:
        self.twins.evict(max(pages * self.page_size - less, 0))

    @rule(namespace=namespaces)
    def remove_namespace(self, namespace: Namespace) -> None:
        self.twins.remove_namespace(namespace)

    @rule(by=st.integers(0, 3))
    def advance_step(self, by: int) -> None:
        self.twins.advance_step(self.twins.cache.clock[0] + by if by else None)

    @rule(word=words, tail=picks)
    def misuse(self, word: list[int], tail: int) -> None:
        self.twins.misuse(self.key(word, tail))

    @rule(nodes=st.lists(picks, max_size=6))
    def dfs_weight_order(self, nodes: list[int]) -> None:
        self.twins.dfs_weight_order([self.pick(node) for node in nodes])

    @precondition(lambda self: self.twins.model.num_nodes > 6)
    @rule()
    def reset(self) -> None:
        self.twins.reset()


@pytest.mark.parametrize("bigram", [False, True], ids=["tokens", "bigram"])
@pytest.mark.parametrize("page_size", PAGE_SIZES)
def test_any_sequence_of_operations(page_size: int, bigram: bool) -> None:
    shape = {"page_size": page_size, "bigram": bigram}
    run_state_machine_as_test(type("ShapedCacheMachine", (CacheMachine,), shape), settings=SETTINGS)


class RandomWalk:
    """A seeded walk over the same rules, weighted so that the tree stays busy and the pool stays short."""

    WEIGHTS: ClassVar = {
        "match": 22,
        "insert": 30,
        "resume": 12,
        "touch": 4,
        "lock": 6,
        "unlock": 6,
        "pin": 2,
        "unpin": 3,
        "evict": 10,
        "advance_step": 3,
        "remove_namespace": 1,
        "misuse": 0.5,
        "dfs_weight_order": 1,
        "reset": 0.2,
    }

    def __init__(self, machine: CacheMachine, seed: int) -> None:
        self.machine, self.random = machine, random.Random(seed)

    def run(self, operations: int) -> None:
        names, weights = list(self.WEIGHTS), list(self.WEIGHTS.values())
        for name in self.random.choices(names, weights, k=operations):
            model = self.machine.twins.model
            if name in ("unlock", "unpin") and not (model.locks if name == "unlock" else model.pins):
                continue
            getattr(self.machine, name)(**self._arguments(name))

    def _arguments(self, name: str) -> dict[str, Any]:
        r = self.random
        pick = r.randrange(10**6)
        word, tail = r.choices(range(LETTERS), k=r.randrange(6)), r.randrange(10**6)
        namespace = r.choices(NAMESPACES, (5, 2, 1, 1))[0]
        arguments: dict[str, dict[str, Any]] = {
            "match": {"word": word, "tail": tail, "namespace": namespace},
            "insert": {"word": word, "tail": tail, "namespace": namespace, "priority": r.randint(-2, 2)},
            "resume": {
                "node": pick,
                "word": word[:3],
                "tail": tail,
                "priority": r.randint(-1, 1),
                "storing": r.random() < 0.6,
            },
            "evict": {"pages": r.randrange(6), "less": r.random() < 0.5},
            "advance_step": {"by": r.randrange(4)},
            "remove_namespace": {"namespace": namespace},
            "misuse": {"word": word, "tail": tail},
            "dfs_weight_order": {"nodes": r.choices(range(100), k=r.randrange(8))},
            "touch": {"node": pick},
            "lock": {"node": pick},
            "pin": {"node": pick},
            "unlock": {"index": pick},
            "unpin": {"index": pick},
            "reset": {},
        }
        return arguments[name]


def walk(policy: str, page_size: int, bigram: bool, *, operations: int, seed: int) -> Twins:
    machine = CacheMachine()
    machine.page_size, machine.bigram = page_size, bigram
    machine.twins = Twins(page_size=page_size, policy=policies(page_size)[policy], bigram=bigram)
    RandomWalk(machine, seed).run(operations)
    return machine.twins


@pytest.mark.parametrize("bigram", [False, True], ids=["tokens", "bigram"])
@pytest.mark.parametrize("page_size", PAGE_SIZES)
@pytest.mark.parametrize("policy", [name.partition(":")[0] for name in policies(1) if name != "slru:3"])
def test_random_walk(policy: str, page_size: int, bigram: bool) -> None:
    name = next(spec for spec in policies(page_size) if spec.startswith(policy))
    walk(name, page_size, bigram, operations=120, seed=page_size)


@pytest.mark.parametrize("policy", ["lru", "callable"])
def test_long_random_walk(policy: str) -> None:
    twins = walk(policy, 4, False, operations=3_000, seed=11)
    assert twins.model.last_sequence > 1_000, "the walk kept making nodes"
