"""Planes without a cache: rounds of MIN in the background, and one message a step from the leader to all others.

What a rank finds out by itself goes into the rounds; nobody waits for them. What the leader makes of the newest round
is the message of a step, and all ranks take it at that step. `Subject` is what fills and reads both: `Decisions` is
one, `AgreedMin` another. Nothing here needs torch; `SteppedPlane`, which connects processes, does.
"""

from collections.abc import Callable
from typing import Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt

from isoradix import InvalidInputError, ProtocolError
from isoradix.consensus.plane import PlaneCounts, first_line, started_before
from isoradix.consensus.topology import Place, Topology

T = TypeVar("T")
Vector = npt.NDArray[np.int64]


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


class Agreement:
    """What agreements have in common: the plane below, and one way to end."""

    def __init__(self, plane: Steps) -> None:
        self.plane = plane

    @property
    def stopped(self) -> bool:
        """Whether the last step was entered."""
        return self.plane.stopped

    def leave(self) -> None:
        """After the last step: waits for the last round, then closes.

        Raises:
            PlaneLost: a rank is lost, or waited for in vain.
        """
        self.plane.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        """Leaves after the last step; before it, or with an error, tells the other ranks."""
        if error is None and self.stopped:
            self.leave()
        else:
            self.plane.fail("closed before the last step" if error is None else first_line(error))


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
