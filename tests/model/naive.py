"""A slow, obviously right model of `isoradix.PrefixCache`.

There is no tree here: a node is an entry of one flat list and knows its whole
path, from the top of its namespace to its own end. Parents, children, protected
nodes and victims are found by looking at every node each time they are asked
for; nothing is kept twice, so nothing can drift.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from .policies import Stamp, parse

Namespace = tuple[str | None, str | None]
Units = tuple[Any, ...]
DEFAULT: Namespace = (None, None)


class ModelError(Exception):
    """The model refuses; the message says which rule."""


@dataclass
class Node:
    """A run of units, with everything that leads to it."""

    sequence: int
    namespace: Namespace
    path: Units
    start: int  # the node's own run is path[start:]
    slots: tuple[int, ...]  # one per unit of that run
    created: Stamp
    last_access: Stamp
    hits: int
    priority: int
    reach: int  # the deepest depth ever inserted through this node

    @property
    def depth(self) -> int:
        return len(self.path)

    @property
    def length(self) -> int:
        return len(self.path) - self.start

    def leads_to(self, namespace: Namespace, path: Units) -> bool:
        return self.namespace == namespace and path[: self.depth] == self.path


@dataclass(frozen=True)
class Match:
    hit_tokens: int
    sequence: int  # of the node at that depth; 0 is the root


@dataclass(frozen=True)
class Insert:
    prefix_len: int
    new_tokens: int
    sequence: int
    length: int


class NaiveCache:
    """The cache's contract, spelled out. Nodes are named by their sequence number."""

    def __init__(
        self,
        *,
        page_size: int = 1,
        policy: str | Callable[[Any], Any] = "lru",
        bigram: bool = False,
    ) -> None:
        self.page_size = page_size
        self.bigram = bigram
        self.policy_key = parse(policy)
        self.nodes: list[Node] = []
        self.clock: Stamp = (0, 0)
        self.last_sequence = 0
        self.locks: dict[Any, Node | None] = {}
        self.pins: dict[Any, Node | None] = {}

    # -- keys ----------------------------------------------------------------

    def units(self, key: Sequence[int]) -> Units:
        """The page-aligned units of a key: tokens, or pairs of neighbours."""
        all_units: Units = tuple(pairwise(key)) if self.bigram else tuple(key)
        return all_units[: len(all_units) // self.page_size * self.page_size]

    def raw_tokens(self, units: Units) -> list[int]:
        """The raw tokens that spell these units: one more than units in bigram mode."""
        if not self.bigram:
            return list(units)
        return [first for first, _ in units] + [second for _, second in units[-1:]]

    def _common(self, a: Units, b: Units) -> int:
        shared = 0
        while (
            shared + self.page_size <= min(len(a), len(b))
            and a[shared : shared + self.page_size] == b[shared : shared + self.page_size]
        ):
            shared += self.page_size
        return shared

    def _cached(self, namespace: Namespace, units: Units) -> int:
        shared = (self._common(n.path, units) for n in self.nodes if n.namespace == namespace)
        return max(shared, default=0)

    # -- walking and growing ---------------------------------------------------

    def probe(self, key: Sequence[int], namespace: Namespace = DEFAULT) -> int:
        return self._cached(namespace, self.units(key))

    def match_prefix(self, key: Sequence[int], namespace: Namespace = DEFAULT) -> Match:
        units = self.units(key)
        prefix = units[: self._cached(namespace, units)]
        self._split_at(namespace, prefix)
        self._stamp(self.path_nodes(namespace, prefix))
        return Match(len(prefix), self._sequence_at(namespace, prefix))

    def insert(
        self,
        key: Sequence[int],
        slots: Sequence[int],
        namespace: Namespace = DEFAULT,
        *,
        priority: int = 0,
        resume: int = 0,
    ) -> Insert:
        """`resume` is the length that a former match or insert of this key found."""
        units = self.units(key)
        prefix_len = self._cached(namespace, units)
        if not resume <= prefix_len:
            raise ModelError("a resume point that is not cached")
        self._split_at(namespace, units[:prefix_len])
        if prefix_len < len(units):
            self._add_leaf(namespace, units, prefix_len, slots[prefix_len - resume : len(units) - resume])
        path = self.path_nodes(namespace, units)
        for node in path:
            node.reach = max(node.reach, len(units))
            node.priority = max(node.priority, priority)
            node.hits += node.depth > resume
        self._stamp(path)
        return Insert(prefix_len, len(units) - prefix_len, self._sequence_at(namespace, units), len(units))

    def touch(self, sequence: int) -> None:
        self._stamp(self._up_to(sequence))

    def path_nodes(self, namespace: Namespace, path: Units) -> list[Node]:
        """The nodes from the top down to the end of `path`."""
        return sorted((n for n in self.nodes if n.leads_to(namespace, path)), key=lambda n: n.depth)

    def slots(self, sequence: int) -> list[int]:
        return [slot for node in self._up_to(sequence) for slot in node.slots]

    def _split_at(self, namespace: Namespace, prefix: Units) -> None:
        """Cuts the node that `prefix` ends inside of, if there is one. The new node is the head."""
        cut = len(prefix)
        for node in list(self.nodes):
            inside = node.start < cut < node.depth and node.path[:cut] == prefix
            if inside and node.namespace == namespace:
                head = Node(
                    sequence=self._next_sequence(),
                    namespace=namespace,
                    path=prefix,
                    start=node.start,
                    slots=node.slots[: cut - node.start],
                    created=node.created,
                    last_access=node.last_access,
                    hits=node.hits,
                    priority=node.priority,
                    reach=node.reach,
                )
                node.slots = node.slots[cut - node.start :]
                node.start = cut
                node.last_access = self._tick()  # the walk went into it; older than all it passed
                self.nodes.append(head)

    def _add_leaf(self, namespace: Namespace, units: Units, start: int, slots: Sequence[int]) -> None:
        now = self._tick()
        self.nodes.append(
            Node(
                sequence=self._next_sequence(),
                namespace=namespace,
                path=units,
                start=start,
                slots=tuple(slots),
                created=now,
                last_access=now,
                hits=0,
                priority=-(2**63),
                reach=len(units),
            )
        )

    def _next_sequence(self) -> int:
        self.last_sequence += 1
        return self.last_sequence

    def _sequence_at(self, namespace: Namespace, path: Units) -> int:
        ends = [n.sequence for n in self.nodes if n.namespace == namespace and n.path == path]
        return ends[0] if ends else 0

    def _up_to(self, sequence: int) -> list[Node]:
        if sequence == 0:
            return []
        node = self.node(sequence)
        return self.path_nodes(node.namespace, node.path)

    # -- clock -----------------------------------------------------------------

    def advance_step(self, step: int | None = None) -> int:
        self.clock = (self.clock[0] + 1 if step is None else step, self.clock[1])
        return self.clock[0]

    def _tick(self) -> Stamp:
        self.clock = (self.clock[0], self.clock[1] + 1)
        return self.clock

    def _stamp(self, path: list[Node]) -> None:
        """Deepest first, so that a parent is younger than its child."""
        for node in reversed(path):
            node.last_access = self._tick()

    # -- holding ---------------------------------------------------------------

    def lock(self, sequence: int, receipt: Any) -> None:
        self.locks[receipt] = self.node(sequence) if sequence else None

    def unlock(self, receipt: Any) -> None:
        del self.locks[receipt]

    def pin(self, sequence: int, receipt: Any) -> None:
        self.pins[receipt] = self.node(sequence) if sequence else None

    def unpin(self, receipt: Any) -> None:
        del self.pins[receipt]

    def _held(self, node: Node, receipts: dict[Any, Node | None]) -> int:
        """How many receipts protect the node: those of itself and of all below it."""
        holders = (h for h in receipts.values() if h is not None)
        return sum(node.leads_to(h.namespace, h.path) for h in holders)

    def lock_ref(self, node: Node) -> int:
        return self._held(node, self.locks)

    def pin_ref(self, node: Node) -> int:
        return self._held(node, self.pins)

    def protected(self, node: Node) -> bool:
        return self.lock_ref(node) > 0 or self.pin_ref(node) > 0

    # -- shrinking ---------------------------------------------------------------

    def evict(self, num_tokens: int) -> list[int]:
        """The freed slots, victim by victim."""
        freed: list[int] = []
        while len(freed) < num_tokens:
            victim = self.next_victim()
            if victim is None:
                break
            self.nodes.remove(victim)
            freed.extend(victim.slots)
        return freed

    def next_victim(self) -> Node | None:
        candidates = [n for n in self.nodes if not self.children(n) and not self.protected(n)]
        return min(candidates, key=lambda n: (self.policy_key(n), n.sequence), default=None)

    def children(self, node: Node) -> list[Node]:
        return [n for n in self.nodes if n.start == node.depth and node.leads_to(n.namespace, n.path)]

    def remove_namespace(self, namespace: Namespace) -> list[int]:
        """The freed slots, in no promised order."""
        doomed = [n for n in self.nodes if n.namespace == namespace]
        if any(self.protected(n) for n in doomed):
            raise ModelError("held")
        self.nodes = [n for n in self.nodes if n.namespace != namespace]
        return [slot for node in doomed for slot in node.slots]

    def reset(self) -> int:
        dropped = self.total_size
        self.nodes.clear()
        self.locks.clear()
        self.pins.clear()
        return dropped

    # -- looking -----------------------------------------------------------------

    def dfs_weight_order(self, waiting: Sequence[int]) -> list[int]:
        """Indices of `waiting` (node sequence numbers): heaviest subtree first, below before own."""
        ends = [self.node(sequence) for sequence in waiting if sequence]

        def weight(node: Node) -> int:
            return sum(node.leads_to(end.namespace, end.path) for end in ends)

        def visit(sequence: int) -> list[int]:
            below = [n for n in self.nodes if self.parent(n) == sequence and weight(n)]
            below.sort(key=lambda n: (-weight(n), n.sequence))
            order = [index for node in below for index in visit(node.sequence)]
            return order + [index for index, end in enumerate(waiting) if end == sequence]

        return visit(0)

    def node(self, sequence: int) -> Node:
        for node in self.nodes:
            if node.sequence == sequence:
                return node
        raise ModelError(f"node {sequence} is gone")

    def parent(self, node: Node) -> int:
        return self._sequence_at(node.namespace, node.path[: node.start]) if node.start else 0

    def _sum(self, wanted: Callable[[Node], bool]) -> int:
        return sum(n.length for n in self.nodes if wanted(n))

    @property
    def total_size(self) -> int:
        return self._sum(lambda n: True)

    @property
    def protected_size(self) -> int:
        return self._sum(self.protected)

    @property
    def pinned_size(self) -> int:
        return self._sum(lambda n: self.pin_ref(n) > 0)

    @property
    def evictable_size(self) -> int:
        return self.total_size - self.protected_size

    @property
    def num_nodes(self) -> int:
        return len(self.nodes)

    def namespaces(self) -> set[Namespace]:
        return {n.namespace for n in self.nodes}

    def namespace_size(self, namespace: Namespace) -> int:
        return self._sum(lambda n: n.namespace == namespace)
