"""A real cache and its model, driven as one and compared after every step."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import isoradix
from isoradix import LockReceipt, NodeHandle, PinReceipt, PrefixCache, SlotPool

from .naive import DEFAULT, ModelError, NaiveCache, Namespace, Node

KeyFunction = str | Callable[[Any], Any]
POOL_PAGES = 48  # small, so that inserts evict


# Keys and slots are handed over in each of these in turn.
FORMS: list[Callable[[list[int]], Any]] = [
    list,
    tuple,
    lambda ints: array("q", ints),
    lambda ints: np.array(ints, np.int64),
    lambda ints: np.array(ints, np.uint32),
    lambda ints: np.array(ints, np.int32),
]


def spell(letters: Sequence[int], page_size: int) -> list[int]:
    """One page a letter. Letters 2k and 2k+1 differ in the page's last token only."""
    return [token for n in letters for token in [n // 2] * (page_size - 1) + [n]]


class Twins:
    """Every verb runs on both, checks that the answers agree, and then compares the states."""

    def __init__(self, *, page_size: int = 1, policy: KeyFunction = "lru", bigram: bool = False) -> None:
        self.page_size = page_size
        self.cache = PrefixCache(page_size=page_size, policy=policy, bigram=bigram)
        self.model = NaiveCache(page_size=page_size, policy=policy, bigram=bigram)
        self.pool = SlotPool(POOL_PAGES * page_size, page_size=page_size)
        self.handles: dict[int, NodeHandle] = {0: self.cache.root}  # by sequence number
        self.dead_handles: list[NodeHandle] = []
        self.dead_receipts: list[Any] = []  # of both kinds
        self.turn = 0  # counts on, for what is varied from call to call

    def vary(self, ints: list[int]) -> Any:
        self.turn += 1
        return FORMS[self.turn % len(FORMS)](ints)

    def scatter(self, slots: list[int]) -> list[int]:
        """Every other page gets its slots in another order, since a page's slots need not be consecutive."""
        pages = [slots[at : at + self.page_size] for at in range(0, len(slots), self.page_size)]
        for page in pages:
            self.turn += 1
            if self.turn % 2:
                page.reverse()
        return [slot for page in pages for slot in page]

    def free(self, slots: list[int]) -> None:
        """The pool wants the slots of each page in order."""
        pages = [sorted(slots[at : at + self.page_size]) for at in range(0, len(slots), self.page_size)]
        self.pool.free(self.vary([slot for page in pages for slot in page]))

    # -- walking and growing ---------------------------------------------------

    def match(self, key: list[int], namespace: Namespace = DEFAULT, resume: int = 0) -> None:
        probed = self.cache.probe(self.vary(key), namespace)
        point = (self.handles[resume], self._depth(resume)) if resume else None
        real = self.cache.match_prefix(self.vary(key), namespace, resume=point)
        model = self.model.match_prefix(key, namespace)
        assert probed == real.hit_tokens == real.length == model.hit_tokens
        self._same_node(real.node, model.sequence)
        self.compare()

    def insert(
        self,
        key: list[int],
        namespace: Namespace = DEFAULT,
        *,
        priority: int = 0,
        resume: int = 0,
        spare_slots: int = 0,
    ) -> None:
        """`resume` is the sequence number of a node on the key's path; the pool gives the slots."""
        start = self._depth(resume) if resume else 0
        wanted = len(self.model.units(key)) - start
        if not self._make_room(wanted) or (resume and resume not in self.handles):
            return
        slots = self.scatter(self.pool.alloc(wanted).tolist())
        spare = [0] * min(spare_slots, len(key) - start - wanted)
        point = (self.handles[resume], start) if resume else None
        key_given, slots_given = self.vary(key), self.vary(slots + spare)
        real = self.cache.insert(key_given, slots_given, namespace, priority=priority, resume=point)
        model = self.model.insert(key, slots, namespace, priority=priority, resume=start)
        assert (real.prefix_len, real.new_tokens, real.length) == (
            model.prefix_len,
            model.new_tokens,
            model.length,
        )
        self._same_node(real.node, model.sequence)
        self.free(slots[: real.prefix_len - start])
        self.compare()

    def touch(self, sequence: int) -> None:
        self.cache.touch(self.handles[sequence])
        self.model.touch(sequence)
        self.compare()

    # -- holding ---------------------------------------------------------------

    def lock(self, sequence: int) -> None:
        self.model.lock(sequence, self.cache.lock(self.handles[sequence]))
        self.compare()

    def pin(self, sequence: int) -> None:
        self.model.pin(sequence, self.cache.pin(self.handles[sequence]))
        self.compare()

    def unlock(self, receipt: LockReceipt) -> None:
        self.cache.unlock(receipt)
        self.model.unlock(receipt)
        self.dead_receipts.append(receipt)
        self.compare()

    def unpin(self, receipt: PinReceipt) -> None:
        self.cache.unpin(receipt)
        self.model.unpin(receipt)
        self.dead_receipts.append(receipt)
        self.compare()

    # -- shrinking -------------------------------------------------------------

    def evict(self, num_tokens: int) -> None:
        real = self.cache.evict(num_tokens).tolist()
        assert real == self.model.evict(num_tokens), "freed slots, in order"
        self.free(real)
        self.compare()

    def remove_namespace(self, namespace: Namespace) -> None:
        try:
            expected = self.model.remove_namespace(namespace)
        except ModelError:
            self.refused(isoradix.HeldError, lambda: self.cache.remove_namespace(namespace))
            self.compare()
            return
        real = self.cache.remove_namespace(namespace).tolist()
        assert sorted(real) == sorted(expected)
        self.free(real)
        self.compare()

    def reset(self) -> None:
        self.dead_receipts += [*self.model.locks, *self.model.pins]
        assert self.cache.reset() == self.model.reset()
        self.pool.reset()
        self.compare()

    def advance_step(self, step: int | None = None) -> None:
        assert self.cache.advance_step(step) == self.model.advance_step(step) == self.cache.clock[0]
        self.compare()

    # -- misuse ----------------------------------------------------------------

    def refused(self, error: type[Exception], call: Callable[[], object]) -> None:
        """The call raises, and nothing at all has changed."""
        evidence = self._evidence()
        with pytest.raises(error, match="\nhint: "):
            call()
        assert self._evidence() == evidence

    def misuse(self, key: list[int]) -> None:
        """Everything that a confused caller may hand in."""
        cache = self.cache
        for handle in self.dead_handles[-2:]:
            self.refused(isoradix.StaleHandleError, partial(cache.lock, handle))
            self.refused(isoradix.StaleHandleError, partial(cache.match_prefix, key, resume=(handle, 1)))
        for receipt in self.dead_receipts[-2:]:
            self.refused(isoradix.ReceiptError, partial(cache.unlock, receipt))
            self.refused(isoradix.ReceiptError, partial(cache.unpin, receipt))
        units = len(self.model.units(key))
        if units:
            self.refused(isoradix.InvalidInputError, lambda: cache.insert(key, [0] * (units - 1)))
        self.refused(isoradix.InvalidInputError, lambda: cache.insert(key, [0] * (len(key) + 1)))
        self.refused(isoradix.InvalidInputError, lambda: cache.match_prefix([*key, -1]))
        self.refused(isoradix.InvalidInputError, lambda: cache.insert([*key, 2**32], [0] * (len(key) + 1)))
        self.compare()

    def _evidence(self) -> tuple[object, ...]:
        cache = self.cache
        return cache.decision_digest, cache.tree_digest, cache.clock, cache.journal_bytes()

    # -- comparing -------------------------------------------------------------

    def compare(self) -> None:
        self.cache.check(self.pool)
        real = self._real_nodes()
        assert real == {node.sequence: self._model_node(node) for node in self.model.nodes}
        self._compare_stamps()
        self._compare_sizes()

    def _real_nodes(self) -> dict[int, tuple[object, ...]]:
        cache, seen = self.cache, {0: self.cache.root}
        found: dict[int, tuple[object, ...]] = {}
        parents, newest = {cache.root: 0}, dict[int, tuple[int, int]]()
        for info in cache.walk():
            assert info.parent in parents, "depth-first, parents first"
            assert info.parent == cache.root or info.created > newest.get(info.parent, (0, 0)), "in order of arrival"
            newest[info.parent] = info.created
            assert list(cache.slots(info.handle))[-info.length :] == list(cache.node_slots(info.handle))
            found[info.sequence] = (
                info.namespace,
                parents[info.parent],
                info.depth,
                info.length,
                info.children,
                info.hits,
                info.priority,
                info.lock_ref,
                info.pin_ref,
                cache.node_tokens(info.handle).tolist(),
                cache.node_slots(info.handle).tolist(),
            )
            seen[info.sequence] = info.handle
            parents[info.handle] = info.sequence
        gone = self.handles.keys() - seen.keys()
        self.dead_handles += [self.handles[sequence] for sequence in sorted(gone)]
        for sequence in self.handles.keys() & seen.keys():
            assert self.handles[sequence] == seen[sequence], "a handle stays valid while its node lives"
        self.handles = seen
        return found

    def _model_node(self, node: Node) -> tuple[object, ...]:
        model = self.model
        return (
            node.namespace,
            model.parent(node),
            node.depth,
            node.length,
            len(model.children(node)),
            node.hits,
            node.priority,
            model.lock_ref(node),
            model.pin_ref(node),
            model.raw_tokens(node.path[node.start :]),
            list(node.slots),
        )

    def _compare_stamps(self) -> None:
        """Stamps agree in their steps and in their order; how often the clock ticked is left open."""
        infos = list(self.cache.walk())
        nodes = self.model.nodes
        for stamp in ("created", "last_access"):
            real = sorted(infos, key=lambda i: (getattr(i, stamp), i.sequence))
            model = sorted(nodes, key=lambda n: (getattr(n, stamp), n.sequence))
            assert [i.sequence for i in real] == [n.sequence for n in model], stamp
            assert [getattr(i, stamp)[0] for i in real] == [getattr(n, stamp)[0] for n in model]

    def _compare_sizes(self) -> None:
        cache, model = self.cache, self.model
        assert cache.total_size == model.total_size
        assert cache.protected_size == model.protected_size
        assert cache.pinned_size == model.pinned_size
        assert cache.evictable_size == model.evictable_size
        assert cache.num_nodes == model.num_nodes
        assert len(cache.namespaces()) == len(model.namespaces())
        assert set(cache.namespaces()) == model.namespaces()
        for namespace in model.namespaces() | {DEFAULT, ("nobody", None)}:
            assert cache.namespace_size(namespace) == model.namespace_size(namespace)
        assert self.pool.available + cache.total_size == self.pool.total

    def dfs_weight_order(self, waiting: Sequence[int]) -> None:
        real = self.cache.dfs_weight_order([self.handles[sequence] for sequence in waiting])
        assert real == self.model.dfs_weight_order(waiting)

    # -- helpers ---------------------------------------------------------------

    def living(self) -> list[int]:
        """Sequence numbers of the nodes, oldest first; the root is 0."""
        return sorted(self.handles)

    def key_of(self, sequence: int) -> list[int]:
        return self.model.raw_tokens(self.model.node(sequence).path) if sequence else []

    def namespace_of(self, sequence: int) -> Namespace:
        return self.model.node(sequence).namespace if sequence else DEFAULT

    def _depth(self, sequence: int) -> int:
        return self.model.node(sequence).depth if sequence else 0

    def _same_node(self, handle: NodeHandle, sequence: int) -> None:
        if sequence == 0:
            assert handle == self.cache.root
        else:
            assert self.cache.node(handle).sequence == sequence

    def _make_room(self, tokens: int) -> bool:
        if self.pool.available < tokens:
            self.evict(tokens - self.pool.available)
        return self.pool.available >= tokens
