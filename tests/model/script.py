"""Decision traces as text: commands, `----`, what they print. Runs on the real cache and on the model alike.

    insert KEY [priority=N] [in=EXTRA/SALT] [resume=NODE]
    match KEY [in=EXTRA/SALT] [resume=NODE]
    touch NODE | lock NODE | unlock NODE | pin NODE | unpin NODE
    evict N | remove EXTRA/SALT | reset | step [N]
    tree

A key is letters, one a token. Nodes are named by their sequence numbers. `unlock` gives back the latest receipt of a
node. `tree` prints each node's own tokens and its facts; `age` and `born` are ranks, 1 for the node that was touched,
or whose tokens were inserted, longest ago.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from isoradix import NodeHandle, PrefixCache

from .naive import DEFAULT, NaiveCache, Namespace


@dataclass
class Shown:
    """What a trace may print of a node."""

    sequence: int
    parent: int
    namespace: Namespace
    tokens: list[int]
    slots: list[int]
    hits: int
    priority: int
    locks: int
    pins: int
    created: tuple[int, int]
    last_access: tuple[int, int]


class Subject(Protocol):
    """The verbs that a script needs, over sequence numbers."""

    def insert(self, key: list[int], slots: list[int], namespace: Namespace, priority: int, resume: int) -> Any: ...
    def match(self, key: list[int], namespace: Namespace, resume: int) -> tuple[int, int]: ...
    def nodes(self) -> list[Shown]: ...
    def call(self, verb: str, *args: Any) -> Any: ...


class RealSubject:
    """The compiled cache behind sequence numbers."""

    def __init__(self, **options: Any) -> None:
        self.cache = PrefixCache(**options)

    def _handle(self, sequence: int) -> NodeHandle:
        return next(info.handle for info in self.cache.walk() if info.sequence == sequence)

    def _point(self, sequence: int) -> tuple[NodeHandle, int] | None:
        handle = self._handle(sequence) if sequence else None
        return None if handle is None else (handle, self.cache.node(handle).depth)

    def _sequence(self, handle: NodeHandle) -> int:
        return self.cache.node(handle).sequence if handle != self.cache.root else 0

    def insert(self, key: list[int], slots: list[int], namespace: Namespace, priority: int, resume: int) -> Any:
        point = self._point(resume)
        slots = slots[point[1] :] if point else slots
        result = self.cache.insert(key, slots, namespace, priority=priority, resume=point)
        return result.prefix_len, result.new_tokens, self._sequence(result.node)

    def match(self, key: list[int], namespace: Namespace, resume: int) -> tuple[int, int]:
        result = self.cache.match_prefix(key, namespace, resume=self._point(resume))
        return result.hit_tokens, self._sequence(result.node)

    def call(self, verb: str, *args: Any) -> Any:
        if verb in ("touch", "lock", "pin"):
            args = (self._handle(*args),)
        answer = getattr(self.cache, verb)(*args)
        return answer.tolist() if verb in ("evict", "remove_namespace") else answer

    def nodes(self) -> list[Shown]:
        cache = self.cache
        return [
            Shown(
                info.sequence,
                self._sequence(info.parent),
                info.namespace,
                cache.node_tokens(info.handle).tolist(),
                cache.node_slots(info.handle).tolist(),
                info.hits,
                info.priority,
                info.lock_ref,
                info.pin_ref,
                info.created,
                info.last_access,
            )
            for info in cache.walk()
        ]


class ModelSubject:
    """The naive model under the same verbs."""

    def __init__(self, **options: Any) -> None:
        self.model = NaiveCache(**options)
        self.receipts = 0

    def insert(self, key: list[int], slots: list[int], namespace: Namespace, priority: int, resume: int) -> Any:
        start = self.model.node(resume).depth if resume else 0
        result = self.model.insert(key, slots[start:], namespace, priority=priority, resume=start)
        return result.prefix_len, result.new_tokens, result.sequence

    def match(self, key: list[int], namespace: Namespace, resume: int) -> tuple[int, int]:
        result = self.model.match_prefix(key, namespace)
        return result.hit_tokens, result.sequence

    def call(self, verb: str, *args: Any) -> Any:
        if verb in ("lock", "pin"):
            self.receipts += 1
            getattr(self.model, verb)(*args, self.receipts)
            return self.receipts
        return getattr(self.model, verb)(*args)

    def nodes(self) -> list[Shown]:
        model = self.model
        return [
            Shown(
                node.sequence,
                model.parent(node),
                node.namespace,
                model.raw_tokens(node.path[node.start :]),
                list(node.slots),
                node.hits,
                node.priority,
                model.lock_ref(node),
                model.pin_ref(node),
                node.created,
                node.last_access,
            )
            for node in model.nodes
        ]


class Script:
    """Runs one command after the other and says what came of it."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.next_slot = 0
        self.receipts: dict[tuple[str, int], list[int]] = defaultdict(list)

    def run(self, command: str) -> list[str]:
        verb, *words = command.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        plain = [word for word in words if "=" not in word]
        return list(getattr(self, f"do_{verb}")(*plain, **{"in_" if k == "in" else k: v for k, v in options.items()}))

    def do_insert(self, key: str, priority: str = "0", in_: str = "", resume: str = "0") -> Iterator[str]:
        tokens = [ord(letter) for letter in key]
        slots = list(range(self.next_slot, self.next_slot + len(tokens)))
        self.next_slot += len(tokens)
        found = self.subject.insert(tokens, slots, namespace(in_), int(priority), int(resume))
        yield "cached {}, new {}, node {}".format(*found)

    def do_match(self, key: str, in_: str = "", resume: str = "0") -> Iterator[str]:
        hit, node = self.subject.match([ord(letter) for letter in key], namespace(in_), int(resume))
        yield f"hit {hit}, node {node}" if hit else "miss"

    def do_touch(self, node: str) -> Iterator[str]:
        self.subject.call("touch", int(node))
        yield "ok"

    def do_lock(self, node: str, verb: str = "lock") -> Iterator[str]:
        self.receipts[verb, int(node)].append(self.subject.call(verb, int(node)))
        yield "ok"

    def do_unlock(self, node: str, verb: str = "lock") -> Iterator[str]:
        self.subject.call(f"un{verb}", self.receipts[verb, int(node)].pop())
        yield "ok"

    def do_pin(self, node: str) -> Iterator[str]:
        return self.do_lock(node, "pin")

    def do_unpin(self, node: str) -> Iterator[str]:
        return self.do_unlock(node, "pin")

    def do_step(self, step: str = "") -> Iterator[str]:
        yield f"step {self.subject.call('advance_step', *([int(step)] if step else []))}"

    def do_reset(self) -> Iterator[str]:
        yield f"dropped {self.subject.call('reset')}"

    def do_remove(self, in_: str = "") -> Iterator[str]:
        yield f"freed {len(self.subject.call('remove_namespace', namespace(in_)))}"

    def do_evict(self, num_tokens: str) -> Iterator[str]:
        before = {node.sequence: node for node in self.subject.nodes()}
        freed = self.subject.call("evict", int(num_tokens))
        left = {node.sequence for node in self.subject.nodes()}
        victims = sorted((n for n in before if n not in left), key=lambda n: freed.index(before[n].slots[0]))
        named = ", ".join(f"{n} {text(before[n].tokens)}" for n in victims)
        yield f"freed {len(freed)}: {named}" if victims else "freed nothing"

    def do_tree(self) -> Iterator[str]:
        nodes = self.subject.nodes()
        ages = {n.sequence: rank for rank, n in enumerate(sorted(nodes, key=lambda n: n.last_access), 1)}
        births = sorted({n.created for n in nodes})

        def show(parent: int, indent: str) -> Iterator[str]:
            for node in sorted((n for n in nodes if n.parent == parent), key=lambda n: n.sequence):
                facts = f"{indent}{text(node.tokens)}: node {node.sequence}, age {ages[node.sequence]}"
                facts += f", born {births.index(node.created) + 1}, hits {node.hits}"
                facts += f", priority {node.priority}" if node.priority else ""
                facts += f", locks {node.locks}" if node.locks else ""
                facts += f", pins {node.pins}" if node.pins else ""
                yield facts + (f", in {'/'.join(part or '' for part in node.namespace)}" if any(node.namespace) else "")
                yield from show(node.sequence, indent + "  ")

        yield from show(0, "") if nodes else ["empty"]


def text(tokens: list[int]) -> str:
    return "".join(map(chr, tokens))


def namespace(spelled: str) -> Namespace:
    """`lora/salt`; a part that is left out is absent."""
    if not spelled:
        return DEFAULT
    extra_key, _, salt = spelled.partition("/")
    return (extra_key or None, salt or None)
