"""The eight eviction orders, each as one line over the facts of a node.

A key is a tuple; the node with the smallest key goes first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Stamp = tuple[int, int]


class Facts(Protocol):
    """What an order may read of a node: nothing but Logical facts."""

    created: Stamp
    last_access: Stamp
    hits: int
    priority: int
    length: int
    depth: int
    reach: int
    namespace: tuple[str | None, str | None]


Key = Callable[[Any], tuple[Any, ...]]


def _newest_first(stamp: Stamp) -> Stamp:
    step, seq = stamp
    return (-step, -seq)


def _slru(threshold: int = 2) -> Key:
    return lambda node: (node.hits >= threshold, node.last_access)


def _tlru(threshold: int, estimate: int) -> Key:
    def key(node: Facts) -> tuple[Any, ...]:
        # Tokens past this budget cannot improve the tail latency: "TEL-safe".
        budget = max(node.reach + estimate - threshold, 0)
        safe = node.depth - node.length >= budget
        return (0 if safe else 1, node.last_access)

    return key


def parse(policy: str | Callable[[Any], Any]) -> Key:
    """The key function of a policy, by name with options, or of a callable over NodeFacts."""
    if callable(policy):
        return lambda node: _as_tuple(policy(NodeFacts(node)))
    name, _, options = policy.partition(":")
    numbers = [int(number) for number in options.split(",") if number]
    orders: dict[str, Callable[..., Key]] = {
        "lru": lambda: lambda node: (node.last_access,),
        "lfu": lambda: lambda node: (node.hits, node.last_access),
        "fifo": lambda: lambda node: (node.created,),
        "mru": lambda: lambda node: (_newest_first(node.last_access),),
        "filo": lambda: lambda node: (_newest_first(node.created),),
        "priority": lambda: lambda node: (node.priority, node.last_access),
        "slru": _slru,
        "tlru": _tlru,
    }
    return orders[name](*numbers)


def _as_tuple(key: int | tuple[int, int]) -> tuple[int, int]:
    return key if isinstance(key, tuple) else (key, 0)


class NodeFacts:
    """The facts of one node under the names that a user's key function reads."""

    def __init__(self, node: Facts) -> None:
        self.step, self.seq = node.last_access
        self.created_step, self.created_seq = node.created
        self.hits = node.hits
        self.priority = node.priority
        self.length = node.length
        self.depth = node.depth
        self.reach = node.reach
        self.namespace = node.namespace
