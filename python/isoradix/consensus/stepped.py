"""Planes without a cache: rounds of MIN in the background, and one message a step from the leader to all others.

What a rank finds out by itself goes into the rounds; nobody waits for them. What the leader makes of the newest round
is the message of a step, and all ranks take it at that step. `Subject` is what fills and reads both: `Decisions` is
one, `AgreedMin` another.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from isoradix import InvalidInputError, ProtocolError
from isoradix.consensus.frames import FrameTree
from isoradix.consensus.plane import PlaneCounts, started_before
from isoradix.consensus.reducers import GlooReducer, Reducer
from isoradix.consensus.remote import RemotePlane
from isoradix.consensus.rendezvous import Meeting
from isoradix.consensus.rounds import RoundThread
from isoradix.consensus.topology import Place, Topology
from isoradix.consensus.waits import WaitBoard

T = TypeVar("T")
Vector = npt.NDArray[np.int64]

_PACING_MS: Final = 1
_LAST: Final = b"\1"
_MORE: Final = b"\0"


class Subject(Protocol):
    """What the ranks agree about. `fill` and `complete` are called on the rounds' thread."""

    words: int
    """Items of the vector."""

    settings: str
    """What must be equal on all ranks, for people."""

    def fill(self, words: Vector) -> None:
        """Writes what this rank says."""

    def complete(self, words: Vector) -> None:
        """Takes the MIN of what all ranks say."""


class Steps(Protocol):
    """One rank's end of a plane without a cache. All calls come from the scheduler's thread."""

    topology: Topology
    place: Place
    stopped: bool
    """Whether the last step was entered."""

    def start(self, subject: Subject) -> None:
        """Compares the settings of all ranks, and begins the rounds. Once.

        Raises:
            InvalidInputError: the settings differ.
            ProtocolError: it has been started.
        """

    def exchange(self, message: Callable[[], bytes], take: Callable[[bytes], T], *, last: bool = False) -> T:
        """Enters the next step. The leader makes its `message` and sends it on; every rank waits for it and takes it.

        Args:
            message: makes the leader's message; called on the leader alone.
            take: what this rank does with it.
            last: the leader's: there is no other step.

        Raises:
            PlaneLost: a rank is lost, or waited for in vain.
            DivergenceError: this rank has parted from the others.
            ProtocolError: the last step was entered, or this rank does not lead and says `last`.
        """

    def leave(self) -> None:
        """After the last step: waits for the last round, then closes."""

    def fail(self, reason: str, ranks: tuple[int, ...] | None = None) -> None:
        """This rank cannot go on: tells the others why, and closes."""


class SubjectRounds(RoundThread):
    """The rounds of a subject. A last word says whether this rank has entered the last step: all ranks see in one
    round that all have."""

    def __init__(
        self,
        subject: Subject,
        place: Place,
        reducer: Reducer,
        waits: WaitBoard,
        counts: PlaneCounts,
        stopped: Callable[[], bool],
        on_failure: Callable[[Exception], None],
        pacing_ms: int,
    ) -> None:
        super().__init__(place.rank, reducer, waits, counts, on_failure)
        self._subject, self._stopped, self._pacing_ms = subject, stopped, pacing_ms
        self._over = False
        self.begin()

    def pace(self) -> int | None:
        return None if self._over else self._pacing_ms

    def fill(self, words: Vector) -> None:
        words[-1] = self._stopped()
        self._subject.fill(words[:-1])

    def complete(self, words: Vector) -> None:
        self._over = words[-1] == 1
        self._subject.complete(words[:-1])
        self._counts.votes += 1
        self._waits.voted(self._counts.votes)


class SteppedPlane(RemotePlane):
    """Between processes: rounds on a gloo group and a thread of their own, messages down the tree of frames.

    A process may have several, for example one for prefill and one for decode, under a `name` each.

    Args:
        pacing_ms: milliseconds between two rounds, 0 or more; each rank keeps its own.
        all others: of `RemotePlane`.
    """

    def __init__(self, *args: Any, pacing_ms: int = _PACING_MS, name: str = "steps", **options: Any) -> None:
        if pacing_ms < 0:
            raise InvalidInputError(f"pacing_ms is {pacing_ms}, limit 0\nhint: 1 is short beside a step")
        self._pacing_ms = pacing_ms
        self._frames: FrameTree | None = None
        self._rounds: SubjectRounds | None = None
        self.stopped = False
        super().__init__(*args, name=name, **options)

    def _connect(self, meeting: Meeting) -> None:
        self._frames = self._tree(meeting)

    def start(self, subject: Subject) -> None:
        """Compares the settings of all ranks, and begins the rounds: see `Steps`."""
        self._check("start")
        if self._rounds is not None:
            raise started_before()
        settings = [one.decode() for one in self.gather(subject.settings.encode())]
        for member, other in enumerate(settings):
            if other != settings[0]:
                first, differs = self._meeting.rank_of(0), self._meeting.rank_of(member)
                what = f"rank {differs} starts {other}, rank {first} {settings[0]}"
                self.fail(what, ())
                raise InvalidInputError(f"{what}\nhint: start all ranks with equal settings")
        reducer = GlooReducer(self._groups["votes"], subject.words + 1, self.is_lost)
        self._rounds = SubjectRounds(
            subject,
            self.place,
            reducer,
            self._waits,
            self.counts,
            lambda: self.stopped,
            self._on_failure,
            self._pacing_ms,
        )

    def exchange(self, message: Callable[[], bytes], take: Callable[[bytes], T], *, last: bool = False) -> T:
        """Enters the next step: see `Steps`."""
        refuse_step(self.place, self.stopped, last)
        with self._guarded("step"):
            frames = self._frames
            assert frames is not None, "it is connected as long as the plane is open"
            if self.place.leads:
                frames.make_room()
                frame = (_LAST if last else _MORE) + message()
            else:
                frame = frames.receive(self.step + 1)
                frames.make_room()
            frames.send(frame)  # before it is looked at: the ranks behind are owed it whatever this one finds
            taken = take(frame[1:])
            self.counts.frames += 1
            self._entered(self.step + 1)
            self.stopped = frame[:1] == _LAST
            return taken

    def _finish(self) -> None:
        if self._rounds is not None:
            self._rounds.join()
            if self._failure is not None:
                raise self._lost(None)

    def _cut(self) -> None:
        super()._cut()
        if self._rounds is not None:
            self._rounds.reducer.cut()

    def _end_threads(self) -> None:
        if self._rounds is not None:
            self._rounds.end()
            self._rounds = None
        if self._frames is not None:
            self._frames.close()
            self._frames = None


class LocalSteps:
    """One rank: no process, no thread, no socket. A round is made in each step.

    Args:
        topology: of one rank a domain.
        rank: this rank.

    Raises:
        InvalidInputError: a domain has more than one rank.
    """

    def __init__(self, topology: Topology = Topology(), rank: int = 0) -> None:  # noqa: B008 frozen
        if topology.members != 1:
            what = f"a domain has {topology.members} ranks, limit 1"
            raise InvalidInputError(f"{what}\nhint: SteppedPlane connects several ranks")
        self.topology = topology
        self.place = topology.place(rank)
        self.counts = PlaneCounts()
        self.stopped = False
        self._subject: Subject | None = None

    def start(self, subject: Subject) -> None:
        """Once."""
        if self._subject is not None:
            raise started_before()
        self._subject = subject
        self._words = np.zeros(subject.words, dtype=np.int64)

    def exchange(self, message: Callable[[], bytes], take: Callable[[bytes], T], *, last: bool = False) -> T:
        """Enters the next step."""
        assert self._subject is not None, "its subject starts it"
        refuse_step(self.place, self.stopped, last)
        self._subject.fill(self._words)
        self._subject.complete(self._words)
        self.counts.votes += 1
        taken = take(message())
        self.counts.frames += 1
        self.stopped = last
        return taken

    def leave(self) -> None:
        """Closes it."""
        self.stopped = True

    def fail(self, reason: str, ranks: tuple[int, ...] | None = None) -> None:
        """Closes it."""
        self.stopped = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


def refuse_step(place: Place, stopped: bool, last: bool) -> None:
    """No step comes after the last one, and the leader says which that is."""
    if stopped:
        raise ProtocolError("step out of order: the last one was entered\nhint: leave, and connect under a new epoch")
    if last and not place.leads:
        raise ProtocolError(
            f"{place.name} says which step is the last\nhint: only the leader does; the others are told"
        )
