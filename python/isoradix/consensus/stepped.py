"""The plane without a cache between processes; `steps` says what such planes are."""

from collections.abc import Callable
from typing import Any, Final

from isoradix import InvalidInputError
from isoradix.consensus.frames import FrameTree
from isoradix.consensus.plane import PlaneCounts, started_before
from isoradix.consensus.reducers import GlooReducer, Reducer
from isoradix.consensus.remote import RemotePlane
from isoradix.consensus.rendezvous import Meeting
from isoradix.consensus.rounds import RoundThread
from isoradix.consensus.steps import Subject, T, Vector, refuse_step
from isoradix.consensus.topology import Place
from isoradix.consensus.waits import WaitBoard

_PACING_MS: Final = 1
_LAST: Final = b"\1"
_MORE: Final = b"\0"


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
            self._join(self._rounds)

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
