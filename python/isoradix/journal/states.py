"""What a rank's tree was, step by step: done again from its journal, and kept as what changes from one to the next."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from isoradix import NodeInfo, TieredCache, read_records
from isoradix.journal.decisions import described
from isoradix.journal.reader import Call, Decisions, Entry, Frame, Journal
from isoradix.journal.rerun import Different, Rerun

_TOKENS_SHOWN: Final = 4

# sequence of the parent, depth, length, tiers (1 device, 2 host, 3 both), locks, pins, locks on host, last use, hits
Node = tuple[int, int, int, int, int, int, int, int, int]


@dataclass
class State:
    """A tree at the end of a step, by what is other than in the state before."""

    step: int
    digest: int
    device_tokens: int
    host_tokens: int
    nodes: int
    changed: dict[int, Node]
    gone: list[int]
    whole: bool = True
    """False where the rank ended within the step."""
    log: list[tuple[str, list[str]]] | None = None
    """Calls of the step, and what was decided in each, where they are shown."""


@dataclass
class Content:
    """What is in nodes, by sequence number and length: a checksum of all tokens, and the first ones."""

    by_node: dict[tuple[int, int], tuple[int, list[int]]] = field(default_factory=dict)


class States:
    """The states of one rank.

    Args:
        journal: from the rank's first step on.
        shown: of which steps there is to be a state.
        logged: of which of them the calls are kept, too.

    Raises:
        InvalidInputError: it cannot be done again: see `Rerun`.
    """

    def __init__(self, journal: Journal, shown: Callable[[int], bool], logged: Callable[[int], bool]) -> None:
        self.content = Content()
        self.difference = ""
        """Where the second run is another one, in words; the states end there."""
        self._rerun = Rerun(journal, self._hear)
        self._shown, self._logged = shown, logged
        self._before: dict[int, Node] = {}
        self._log: list[tuple[str, list[str]]] = []

    def run(self) -> Iterator[State]:
        rerun, ended = self._rerun, 0
        try:
            for end in rerun.run():
                ended = end.step
                if self._shown(end.step):
                    yield self._state(end.step)
        except Different as different:
            self.difference = str(different)
        if rerun.cache.clock[0] > ended:
            state = self._state(rerun.cache.clock[0])
            state.whole = False
            yield state

    def _hear(self, entry: Entry) -> None:
        """An entry is about to be done again."""
        match entry:
            case Frame():
                self._log = [("frame", [])]
            case Call(verb, arguments):
                self._log.append((_called(verb.name, verb.arguments, arguments), []))
            case Decisions(data) if self._log and self._logged(self._rerun.step):
                self._log[-1][1].extend(map(described, read_records(data)))

    def _state(self, step: int) -> State:
        cache = self._rerun.cache
        nodes = self._nodes(cache)
        changed = {sequence: node for sequence, node in nodes.items() if self._before.get(sequence) != node}
        gone = sorted(self._before.keys() - nodes.keys())
        self._before = nodes
        sizes = cache.sizes
        log = self._log if self._logged(step) else None
        digest = cache.decision_digest
        return State(step, digest, sizes.total, sizes.host_total, len(nodes), changed, gone, log=log)

    def _nodes(self, cache: TieredCache) -> dict[int, Node]:
        infos = list(cache.walk())
        sequences = {cache.root: 0, **{info.handle: info.sequence for info in infos}}
        for info in infos:
            self._look_into(cache, info)
        return {info.sequence: _node(info, sequences[info.parent]) for info in infos}

    def _look_into(self, cache: TieredCache, info: NodeInfo) -> None:
        key = info.sequence, info.length
        if key not in self.content.by_node:
            tokens = cache.node_tokens(info.handle)
            self.content.by_node[key] = zlib.crc32(tokens.tobytes()), tokens[:_TOKENS_SHOWN].tolist()


def _node(info: NodeInfo, parent: int) -> Node:
    tiers = info.on_device + 2 * info.on_host
    holds = info.lock_ref, info.pin_ref, info.host_ref
    return (parent, info.depth, info.length, tiers, *holds, info.last_access[1], info.hits)


def _called(name: str, arguments: tuple[tuple[str, str], ...], values: tuple[object, ...]) -> str:
    """A call in one line: `insert key=1408 tokens slots=1408`."""
    parts = [name]
    for (argument, kind), value in zip(arguments, values, strict=True):
        if kind == "key":
            parts.append(f"key={len(value)} tokens")  # type: ignore[arg-type]
        elif value not in (None, (None, None)) and (argument, value) != ("priority", 0):
            parts.append(f"{argument}={value}")
    return " ".join(parts)
