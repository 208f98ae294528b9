"""Does again, in one process, what a rank did: from its journal, without peers, engines or votes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from isoradix import (
    Board,
    InvalidInputError,
    IsoradixError,
    NodeHandle,
    Rank,
    StartRecord,
    TieredCache,
    __version__,
    agree,
    read_records,
)
from isoradix.journal.decisions import apart, described, first_unequal
from isoradix.journal.reader import Call, Decisions, End, Entry, Failure, Frame, Journal
from isoradix.journal.verbs import Verb

_HOLDS: Final = ("lock", "pin", "host_lock")
_NODES_MAX: Final = 1 << 18


@dataclass(frozen=True)
class Difference:
    """Where the second run is another one."""

    step: int
    what: str

    def __str__(self) -> str:
        return f"step {self.step}: {self.what}"


class Rerun:
    """One rank, done again.

    Args:
        journal: from the rank's first step on.
        hear: told of every entry before it is done.

    Raises:
        InvalidInputError: it begins later, its policy is a function, or its agreement cannot be read.
    """

    def __init__(self, journal: Journal, hear: Callable[[Entry], None] | None = None) -> None:
        self._journal, self._hear = journal, hear
        head = journal.head
        if not journal.whole:
            what = f"{journal.name!r} begins with step {head['step']}, of segment {head['segment']}"
            raise InvalidInputError(f"{what}\nhint: all has to be there from step 1; a higher limit drops less of it")
        options = dict(head.get("options") or {})
        if isinstance(options.get("policy"), dict):
            what = f"the policy of {journal.name!r} is the Python function {options['policy'].get('function')!r}"
            raise InvalidInputError(
                f"{what}, which a journal does not have\nhint: it can be compared, by isoradix diff"
            )
        try:
            self.cache = self._make(head, options)
        except (IsoradixError, LookupError, TypeError, ValueError) as error:
            what = f"{journal.name!r} of release {head['release']} cannot be done again by release {__version__}"
            raise InvalidInputError(f"{what}: {str(error).partition(chr(10))[0]}\nhint: use that release") from error
        self.cache.take_records()
        self.step = 0
        self.steps = 0
        self.stopped = False
        self._nodes = {0: self.cache.root}
        self._holds: dict[int, int] = {}
        self._held = 0
        self._produced = b""

    def _make(self, head: dict[str, Any], options: dict[str, Any]) -> TieredCache:
        member, epoch, window = head["member"], head["epoch"], options.get("window", 64)
        agreement = agree([StartRecord(0, 1, head["capacity_pages"]).to_bytes()])
        if options.get("prefetch_patience") is not None:
            options["prefetch_patience"] = tuple(options["prefetch_patience"])
        for name in ("storage_breaker", "storage_retry"):
            if options.get(name) is not None:
                options[name] = tuple(options[name])
        # without memory of its own: it decides as a rank that has some, and waits for no copy
        cache = TieredCache(rank=member, host_pages=None, agreement=agreement, page_size=head["page_size"], **options)
        mode = head.get("mode", "enforce")
        self.rank = Rank.of_the_past(cache, Board(member, window), epoch=epoch, domain=head["domain"], mode=mode)
        return cache

    def run(self) -> Iterator[End]:
        """Does it all, and gives each step's end as it comes, until the journal ends.

        Raises:
            Different: it decides something else than the journal says.
        """
        last: Entry | None = None
        for entry in self._journal.entries():
            if last is not None:
                yield from self._do(last, entry)
            last = entry
        if last is not None:
            yield from self._do(last, None)
        self._no_more()

    def _do(self, entry: Entry, after: Entry | None) -> Iterator[End]:
        if self._hear is not None:
            self._hear(entry)
        if not isinstance(entry, Decisions):
            self._no_more()
        match entry:
            case Frame(step, digest, data):
                self.step = step
                self._check("digest on entering", self.rank.digest, digest)
                # a frame that was refused then is followed by nothing, or by the reason
                if after is not None and not isinstance(after, Failure):
                    self.stopped = self._call("follow", lambda: self.rank.follow(data)).stops
            case Call(verb, arguments):
                self._repeat(verb, arguments)
            case Decisions(data):
                self._compare(data)
            case End(_, digest, tree_digest):
                self._check("digest at the end", self.rank.digest, digest)
                self._check("tree digest at the end", self.cache.tree_digest, tree_digest)
                self.steps += 1
                yield entry
            case Failure():
                pass
        self._produced += self.cache.take_records()

    # one entry

    def _call(self, name: str, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except IsoradixError as error:
            what = f"{name} was accepted then, and is refused now: {str(error).partition(chr(10))[0]}"
            raise Different(Difference(self.step, what)) from error

    def _repeat(self, verb: Verb, arguments: tuple[Any, ...]) -> None:
        """The verb again, on what its nodes and holds are here. Facts of the rank's own have no part in it."""
        if verb.own:
            return
        given: dict[str, Any] = {}
        for (name, kind), value in zip(verb.arguments, arguments, strict=True):
            given[name] = self._given(kind, value)
        if verb.name == "reset":
            self._holds.clear()
        answer = self._call(verb.name, lambda: getattr(self.rank if verb.of_rank else self.cache, verb.name)(**given))
        if verb.of_rank:
            self.rank.take_effects()
        if verb.name in _HOLDS:
            self._holds[self._held] = answer
            self._held += 1
        elif verb.name == "match_prefix":
            self._see(answer.node, answer.host_node)
        elif verb.name == "insert":
            self._see(answer.node)

    def _see(self, *nodes: NodeHandle) -> None:
        """Nodes that later calls are likely to name."""
        for node in nodes:
            if node != self.cache.root:
                self._nodes[self.cache.node(node).sequence] = node
        if len(self._nodes) > _NODES_MAX:
            self._walk()

    def _walk(self) -> None:
        self._nodes = {0: self.cache.root, **{info.sequence: info.handle for info in self.cache.walk()}}

    def _given(self, kind: str, value: Any) -> Any:
        match kind:
            case "slots":
                return np.arange(value, dtype=np.int64)  # which they are decides nothing
            case "hold":
                return self._known("hold", self._holds, value)
            case "node":
                return self._node(value)
            case "anchor":
                return None if value is None else self._node(value)
            case "point":
                return None if value is None else (self._node(value[0]), value[1])
            case _:
                return value

    def _node(self, sequence: int) -> Any:
        if sequence not in self._nodes:
            self._walk()
        return self._known("node", self._nodes, sequence)

    def _known(self, what: str, known: dict[int, Any], number: int) -> Any:
        if number not in known:
            raise Different(Difference(self.step, f"{what} {number} was there then, and is not now"))
        return known[number]

    def _check(self, what: str, now: int, then: int) -> None:
        if now != then:
            raise Different(Difference(self.step, f"{what} the step is {now:#018x}, and was {then:#018x}"))

    def _compare(self, data: bytes) -> None:
        if data != self._produced:
            raise Different(Difference(self.step, _unequal(data, self._produced)))
        self._produced = b""

    def _no_more(self) -> None:
        if self._produced:
            self._compare(b"")


def _unequal(then: bytes, now: bytes) -> str:
    """The first of two runs of records that differs, in words."""
    found = first_unequal({0: then, 1: now})
    if found is not None:
        one, other = apart([found.by_rank[run] for run in (0, 1)])
        return f"seq {found.seq}: it decides {other}, and decided {one}"
    longer, verb = (then, "decided") if len(then) > len(now) else (now, "decides")
    record = read_records(longer[min(len(then), len(now)) :])[0]
    return f"seq {record.seq}: only {'then' if verb == 'decided' else 'now'} it {verb} {described(record)}"


class Different(Exception):  # noqa: N818 a finding
    """The second run is another one."""

    def __init__(self, difference: Difference) -> None:
        super().__init__(str(difference))
        self.difference = difference
