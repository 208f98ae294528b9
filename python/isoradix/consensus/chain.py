"""The pipeline synchronisation that serving engines have today, for comparison: one merged count, handed down, waited
for.

Once a step, on the scheduler's thread: stage 0 counts what is ready there (a blocking all-reduce by MIN over its
ranks), and hands the counts down the pipeline; every later stage takes them as they are and waits until its own copies
have come as far. The later stages are never asked. So a stage that is slower than the first stalls all of them, and one
that cannot reach the count (its allocation failed, say) waits until its patience is over.

Source: the `pp_sync` of hierarchical caches under pipeline parallelism, as public reports of such deployments describe
it.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from isoradix import Board, Control, DivergenceError, FrameInfo, Rank, Reduced, VoteMachine, read_frame
from isoradix.consensus.frames import FrameTree
from isoradix.consensus.plane import not_started, now_ms, refuse_controls, started_before
from isoradix.consensus.reducers import GlooReducer
from isoradix.consensus.remote import RemotePlane
from isoradix.consensus.rendezvous import Meeting
from isoradix.consensus.waits import ALL, SELF

_VECTOR_AT: Final = 64
"""Bytes of a frame before the vector that it carries."""
_FIRST_COUNT: Final = 10
"""Words of a ballot before its counts."""
_LOOK_AGAIN_S: Final = 0.0001


class ChainPlane(RemotePlane):
    """Counts of stage 0, handed down and waited for. For comparison: it stalls where other planes do not.

    Args and errors: those of `RemotePlane`.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self._parts: tuple[Rank, Board, VoteMachine] | None = None
        self._frames: FrameTree | None = None
        self._reducer: GlooReducer | None = None
        super().__init__(*args, **options)

    def _group_members(self) -> dict[str, range]:
        everyone = range(self.topology.members)
        return {"votes": everyone, "counts": range(self.topology.lanes)}

    def _connect(self, meeting: Meeting) -> None:
        self._frames = self._tree(meeting)

    @property
    def parted(self) -> DivergenceError | None:
        """What counts have shown, where that is observed."""
        return None if self._parts is None else self._parts[2].parted

    @property
    def edges(self) -> int:
        """Ranks to which this one sends its frames."""
        return len(self.topology.receivers(self.place.member))

    def start(self, rank: Rank, board: Board, votes: VoteMachine, poll: Callable[[], None]) -> None:
        """Makes ready for the first step. Once."""
        self._check("start")
        if self._parts is not None:
            raise started_before()
        self._parts = rank, board, votes
        self._rank = rank
        self._poll = poll
        self._reducer = (
            GlooReducer(self._groups["counts"], votes.words, self.is_lost) if self.place.stage == 0 else None
        )
        self._own: npt.NDArray[np.int64] = np.empty(votes.words, dtype=np.int64)

    def enter(self, controls: Sequence[Control] = ()) -> FrameInfo:
        """Enters the next step."""
        refuse_controls(self.place, controls)
        with self._guarded("enter"):
            if self._parts is None or self._frames is None:
                raise not_started()
            rank, frames = self._parts[0], self._frames
            reduced = self._count() if self.place.stage == 0 else None
            if self.place.leads:
                frames.make_room(rank.delivered)
                frame = rank.lead(now_ms(), reduced, controls)
                frames.send(frame)
                info = read_frame(frame)
            else:
                frame = frames.receive(self.step + 1)
                frames.make_room()
                frames.send(frame)
                if self.place.stage > 0:
                    self._catch_up(frame)
                info = rank.follow(frame)
            self.counts.frames += 1
            self.counts.votes_framed += 1
            self._entered(info.step)
            return info

    def _count(self) -> Reduced:
        """What is ready on all ranks of stage 0."""
        assert self._parts is not None
        assert self._reducer is not None
        _, board, votes = self._parts
        words = self._reducer.words
        votes.fill(board, words)
        self._waits.begin("vote", ALL, self.counts.votes, self.counts.votes - 1)
        try:
            if self.topology.lanes > 1:
                self._reducer.reduce()
        finally:
            self.counts.waited("vote", self._waits.end("vote"))
        self.counts.votes += 1
        self._waits.voted(self.counts.votes)
        return votes.complete(board, words)

    def _catch_up(self, frame: bytes) -> None:
        """Waits until this rank has come as far as the counts that were handed down."""
        assert self._parts is not None
        _, board, votes = self._parts
        counts = np.frombuffer(frame, dtype="<i8", count=votes.words, offset=_VECTOR_AT)
        votes.fill(board, self._own)
        wanted, own = counts[_FIRST_COUNT:], self._own[_FIRST_COUNT:]
        lacking = np.flatnonzero(own < wanted)
        if len(lacking):
            first = lacking[0]
            self._waits.begin("ack", SELF, int(wanted[first]), int(own[first]))
            try:
                while (own < wanted).any():
                    self._check("enter")
                    self._poll()
                    time.sleep(_LOOK_AGAIN_S)
                    votes.refill(board, self._own)
            finally:
                self.counts.waited("ack", self._waits.end("ack"))
        votes.complete(board, counts.astype(np.int64))
        self.counts.votes += 1
        self._waits.voted(self.counts.votes)

    def _end_threads(self) -> None:
        if self._frames is not None:
            self._frames.close()
        self._frames = self._reducer = None
