"""What every plane between processes has: a meeting, lifelines, a wait board with its watch, and one way to end."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final, Self

from isoradix import DivergenceError, InvalidInputError, IsoradixError, Patience, ProtocolError, Rank
from isoradix.consensus.frames import FrameTree
from isoradix.consensus.lifeline import Beat, Lifelines, Verdict
from isoradix.consensus.links import connect
from isoradix.consensus.plane import PlaneCounts, PlaneLost, first_line, named_by
from isoradix.consensus.reducers import gather
from isoradix.consensus.rendezvous import Group, Meeting, arrive, meet, open_store
from isoradix.consensus.rounds import RoundThread
from isoradix.consensus.topology import Place, Topology
from isoradix.consensus.waits import ALL, SELF, OwnWait, RankWaits, WaitBoard
from isoradix.consensus.watch import Watch
from isoradix.journal.decisions import DIFF_HINT, Decided, closes_step, first_unequal, of_step

log = logging.getLogger("isoradix")

PATIENCE: Final = Patience(5_000, 300_000)
_VERDICT_S: Final = 3.0
"""How long a rank whose connection broke waits to hear why."""
_DECISIONS_S: Final = 2.0
"""How long a rank waits to hear what the others have decided, once ranks have parted."""
_LINGER_S: Final = 1.0
_LOOK_AGAIN_S: Final = 0.25
_GOODBYE_S: Final = 10.0


class RemotePlane:
    """One rank's end of a plane between processes.

    Args:
        topology: of the deployment.
        rank: this rank.
        store: a store of torch.distributed that all ranks of the domain reach, for the start alone.
        patience: how long any wait may last; `fatal_ms` no shorter than the server's own watchdog.
        epoch: the group's incarnation: a new one for every start on the same store.
        address: of this machine, as the other ranks reach it.
        wait_board: a folder for the wait board; `default_folder()` if None.
        name: of the plane, where a rank has several: letters, digits and `_`, equal on all ranks.

    Raises:
        PlaneLost: a rank did not come, or the store or a connection was lost.
        InvalidInputError: an argument is out of its range.
    """

    def __init__(
        self,
        topology: Topology,
        rank: int,
        store: Any,
        *,
        patience: Patience = PATIENCE,
        epoch: int = 0,
        address: str = "127.0.0.1",
        wait_board: Path | None = None,
        name: str = "",
    ) -> None:
        if name and not name.isidentifier():
            raise InvalidInputError(f"name is {name!r}, expected letters, digits and _\nhint: for example 'prefill'")
        self.topology = topology
        self.place: Place = topology.place(rank)
        self.epoch = epoch
        self.counts = PlaneCounts()
        self.step = 0
        self._closed = False
        self._failure: Exception | None = None
        self._tell_lost: Callable[[], None] = lambda: None
        self._rank: Rank | None = None
        self._waits = WaitBoard(wait_board, rank, self.place.member, epoch, self.place.domain, topology.members, name)
        self._groups: dict[str, Group] = {}
        self._lifelines: Lifelines | None = None
        try:
            meeting = meet(topology, rank, store, patience, epoch=epoch, address=address, name=name)
            self._meeting: Meeting = meeting
            # in one order on all ranks
            for name, members in self._group_members().items():
                if self.place.member in members:
                    self._groups[name] = Group(meeting, name, members)
            self._connect(meeting)
            self._watch = Watch(self._waits, patience, meeting.rank_of, self._others)
            self._lifelines = Lifelines(meeting, self._beat, self._look, self._on_verdict, self._decided)
        except BaseException:
            self._cut()
            self._close()
            raise

    @classmethod
    def connect(
        cls,
        topology: Topology,
        rank: int,
        store_address: str,
        *,
        hosts_store: bool = False,
        patience: Patience = PATIENCE,
        **options: Any,
    ) -> Self:
        """Meets the other ranks in a store at `host:port`.

        Args:
            topology, rank, patience: as above.
            store_address: host and port of the store.
            hosts_store: whether this rank serves it: true on exactly one rank of the deployment.
            options: all others, as above.
        """
        store, address = open_store(store_address, hosts_store, patience)
        plane = None
        try:
            plane = cls(topology, rank, store, patience=patience, address=address, **options)
            # other domains may still need the store that this rank takes with it when it ends
            arrive(topology, rank, store, patience, plane.epoch, waits=hosts_store)
            return plane
        except PlaneLost as error:
            if plane is not None:
                plane.fail(first_line(error), error.ranks)
            if hosts_store:  # the others are about to find the same, in this store
                time.sleep(_LINGER_S)
            raise

    def _group_members(self) -> dict[str, range]:
        """The groups to be made, in order: all members that are in them."""
        return {"votes": range(self.topology.members)}

    def _connect(self, meeting: Meeting) -> None:
        """Connects what it needs beside groups and lifelines."""

    def _tree(self, meeting: Meeting) -> FrameTree:
        """This rank's place in the frame tree."""
        member, topology = self.place.member, self.topology
        source, receivers = topology.source(member), topology.receivers(member)
        links = connect(meeting, "frames", [*receivers, *([] if source is None else [source])])
        above = None if source is None else (source, links[source])
        below = {receiver: links[receiver] for receiver in receivers}
        return FrameTree(above, below, topology.pp, self._waits, self.counts, self.is_lost)

    # the start

    def gather(self, data: bytes) -> list[bytes]:
        """The `data` of every rank of the domain, in the order of its members."""
        with self._guarded("gather"), self._waits.waiting("gather", ALL, 1, 0):
            return gather(self._groups["votes"], data, self.is_lost)

    # where this rank is

    def _entered(self, step: int) -> None:
        self.step = step
        self._waits.entered(step)

    def own_wait(self, operation: OwnWait, want: int = 0, have: int = 0) -> AbstractContextManager[None]:
        """Publishes a wait for something of this rank's own for as long as the block lasts: see `Plane`."""
        return self._waits.waiting(operation, SELF, want, have)

    # a divergence that does not end the rank

    @property
    def parted(self) -> DivergenceError | None:
        """What votes have shown, where that is observed: see `Plane`."""
        return None

    def observe(self, found: DivergenceError) -> None:
        """This rank has parted, and goes on: see `Plane`."""
        log.error("rank %d has parted and goes on, as its mode is observe: %s", self.place.rank, found)
        self._waits.parted(self.step if found.step is None else found.step)

    # what lifelines and their watch ask

    def _beat(self) -> Beat:
        return self._watch.beat()

    def _others(self) -> list[RankWaits]:
        return [] if self._lifelines is None else self._lifelines.boards()

    def _look(self) -> None:
        """A wait that is over ends the plane."""
        too_long = self._watch.look()
        if too_long is not None and self._lifelines is not None:
            verdict = self._lifelines.suspect(self._waits.now())
            own = f"rank {self.place.rank} {too_long}"
            self._lifelines.declare(Verdict(verdict.ranks, f"{verdict.reason}; {own}"))

    def _on_verdict(self, _: Verdict) -> None:
        self._cut()
        self._tell_lost()

    def _cut(self) -> None:
        """Ends whatever this rank waits for in a group."""
        for group in self._groups.values():
            group.cut()

    def _decided(self, step: int) -> tuple[bytes, bool]:
        """This rank's records of a step, and whether it has closed that step."""
        if self._rank is None:
            return b"", True
        cache = self._rank.cache
        now, records = cache.clock[0], cache.journal_bytes()
        return of_step(records, step), now > step or (now == step and closes_step(records))

    def _on_failure(self, error: Exception) -> None:
        """The vote thread has ended early: by a finding, or by a broken connection, whose reason lifelines tell."""
        self._failure = error
        self._tell_lost()
        if self._lifelines is None or _is_broken(error):
            return
        ranks = named_by(error, self.topology, self.place.domain)
        if not isinstance(error, IsoradixError):
            ranks = (self.place.rank,)
        self._lifelines.declare(Verdict(ranks, f"{type(error).__name__}: {first_line(error)}", _parted_at(error)))

    # errors

    @contextmanager
    def _guarded(self, what: str) -> Iterator[None]:
        """Turns a broken connection into the loss of the plane, with its culprit."""
        self._check(what)
        try:
            yield
        except DivergenceError as error:
            raise self._named(error) from error
        except IsoradixError:
            raise
        except RuntimeError as error:
            raise self._lost(error) from error

    def is_lost(self) -> bool:
        """Whether the plane is lost, as far as this rank has heard; `check` raises why."""
        return self._failure is not None or (self._lifelines is not None and self._lifelines.verdict is not None)

    def check(self) -> None:
        """For a scheduler that waits for something of its own meanwhile.

        Raises:
            PlaneLost, DivergenceError: the plane is lost.
        """
        if self.is_lost():
            raise self._lost(None)

    def when_lost(self, tell: Callable[[], None]) -> None:
        """Calls `tell` when the plane is lost, on the thread that finds it out, or at once if it is lost by then.
        Perhaps more than once. The last `tell` counts."""
        self._tell_lost = tell
        if self.is_lost():
            tell()

    def _check(self, what: str) -> None:
        if self._closed:
            raise ProtocolError(f"{what} out of order: the plane is closed\nhint: connect a new one under a new epoch")
        self.check()

    def _lost(self, error: Exception | None) -> Exception:
        """What this rank raises: its own finding if it has one, else what lifelines tell."""
        if self._failure is not None and not _is_broken(self._failure):
            return self._named(self._failure) if isinstance(self._failure, DivergenceError) else self._failure
        lifelines = self._lifelines
        verdict = None if lifelines is None else lifelines.wait_for_verdict(_VERDICT_S)
        if lifelines is not None and verdict is None:
            seen = first_line(error or self._failure or RuntimeError("unknown"))
            lifelines.declare(Verdict((), f"rank {self.place.rank} lost a connection: {seen}"))
            verdict = lifelines.verdict
        if verdict is None:
            return PlaneLost("the plane is closed\nhint: connect a new one under a new epoch")
        hint = "hint: ranks can agree on nothing any more; close, and start all of them anew"
        ranks, reason = verdict.ranks, verdict.reason
        if (decided := self._parted()) is not None:
            ranks, reason = decided.culprits or tuple(decided.by_rank), str(decided)
        return PlaneLost(f"the plane is lost at step {self.step}: {reason}\n{hint}", ranks, reason)

    def _parted(self) -> Decided | None:
        """The first decision in which ranks have parted, if that is why the plane is lost and enough of them say it."""
        lifelines = self._lifelines
        if lifelines is None or lifelines.verdict is None or lifelines.verdict.step is None:
            return None
        return first_unequal(lifelines.wait_for_decisions(_DECISIONS_S))

    def _named(self, error: DivergenceError) -> DivergenceError:
        """The divergence with the decision in which it began, who took it, and what the others decided."""
        if self._lifelines is not None:
            ranks = named_by(error, self.topology, self.place.domain)
            what = f"rank {self.place.rank} failed: DivergenceError: {first_line(error)}"
            self._lifelines.declare(Verdict(ranks, what, _parted_at(error)))
        decided = self._parted()
        if decided is None:
            return error
        named = DivergenceError(f"{decided}\nhint: {DIFF_HINT}")
        members = (self.topology.place(rank).member for rank in decided.culprits or decided.by_rank)
        named.kind, named.ranks, named.step, named.vote = "decision", tuple(members), decided.step, error.vote
        return named

    # the end

    def leave(self) -> None:
        """After the stop frame: waits for the last vote, then closes."""
        if self._closed:
            return
        try:
            with self._guarded("leave"):
                self._finish()
        except BaseException:
            self._cut()
            self._close()
            raise
        if self._lifelines is not None:
            self._lifelines.leave(_GOODBYE_S)
        self._close()

    def _finish(self) -> None:
        """What has to end on all ranks before any of them closes."""

    def _join(self, rounds: RoundThread) -> None:
        """Waits for the last round. Where a rank never comes to it, the watch ends this wait as any other."""
        with self._waits.waiting("leave", ALL, 1, 0):
            while not (over := rounds.join(_LOOK_AGAIN_S)) and not self.is_lost():
                pass
        if not over or self._failure is not None:
            raise self._lost(None)

    def fail(self, reason: str, ranks: tuple[int, ...] | None = None) -> None:
        """This rank cannot go on: tells the others why, and closes.

        Args:
            reason: for people.
            ranks: who is at fault, of the deployment; None for this rank.
        """
        if self._closed:
            return
        if self._lifelines is not None:
            blamed = (self.place.rank,) if ranks is None else ranks
            named = f"rank {self.place.rank} failed: {reason}"
            self._lifelines.declare(Verdict(blamed, named))
        self._cut()
        self._close()

    def _close(self) -> None:
        self._closed = True
        self._end_threads()
        if self._lifelines is not None:
            self._lifelines.close()
        for group in self._groups.values():
            group.settle()
        self._groups.clear()
        self._waits.close()

    def _end_threads(self) -> None:
        """Ends the threads that use a group, and lets go of it: its sockets close with it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        self.fail("closed before the stop frame" if error is None else f"{type(error).__name__}: {first_line(error)}")


def _parted_at(error: Exception) -> int | None:
    """The step in which ranks have decided otherwise, as far as an error says it."""
    if not isinstance(error, DivergenceError) or error.step is None:
        return None
    match error.kind:
        case "ranks":
            return error.step
        case "leader" | "digest":  # seen on entering that step
            return error.step - 1
        case _:
            return None


def _is_broken(error: Exception) -> bool:
    """Whether this is what a broken connection gives, of which something else is the reason."""
    return isinstance(error, RuntimeError) and not isinstance(error, IsoradixError)
