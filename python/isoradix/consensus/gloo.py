"""The plane of real deployments: votes on a thread and a gloo group of their own, frames from rank to rank."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

from isoradix import Board, Control, DivergenceError, FrameInfo, InvalidInputError, Rank, VoteMachine, read_frame
from isoradix.consensus.frames import FrameTree
from isoradix.consensus.plane import not_started, now_ms, refuse_controls, started_before
from isoradix.consensus.reducers import GlooReducer, NcclReducer
from isoradix.consensus.remote import RemotePlane
from isoradix.consensus.rendezvous import Meeting
from isoradix.consensus.votes import VoteThread
from isoradix.consensus.waits import ALL


class VotingPlane(RemotePlane):
    """A plane whose votes have a thread of their own; what carries its frames is a subclass's.

    Args:
        backend: of the votes: "gloo", or "nccl" for a communicator and a stream of their own on this rank's GPU.
        all others: of `RemotePlane`.
    """

    def __init__(self, *args: Any, backend: Literal["gloo", "nccl"] = "gloo", **options: Any) -> None:
        if backend not in ("gloo", "nccl"):
            raise InvalidInputError(f"backend is {backend!r}, expected 'gloo' or 'nccl'\nhint: leave it out on a CPU")
        self._backend = backend
        self._votes: VoteThread | None = None
        super().__init__(*args, **options)

    def start(self, rank: Rank, board: Board, votes: VoteMachine, poll: Callable[[], None]) -> None:
        """Begins to vote. Once."""
        self._check("start")
        if self._rank is not None:
            raise started_before()
        self._rank = rank
        group = self._groups["votes"]
        if self._backend == "nccl":
            reducer: GlooReducer | NcclReducer = NcclReducer(self._meeting, group, votes.words, self.is_lost)
        else:
            reducer = GlooReducer(group, votes.words, self.is_lost)
        self._votes = VoteThread(votes, board, reducer, self._waits, self.counts, self._on_vote, self._on_failure)

    @property
    def parted(self) -> DivergenceError | None:
        """What votes have shown, where that is observed."""
        return None if self._votes is None else self._votes.parted

    def _on_vote(self, paused: bool) -> None:
        if paused and not self._watch.paused:
            self._waits.begin("pause", ALL, 0, 1)
        elif self._watch.paused and not paused:
            self._waits.end("pause")
        self._watch.paused = paused

    def _started(self) -> tuple[Rank, VoteThread]:
        if self._rank is None or self._votes is None:
            raise not_started()
        return self._rank, self._votes

    def _lead(self, controls: Sequence[Control]) -> tuple[bytes, FrameInfo]:
        """The leader enters its next step; the frame to be sent, and what it says."""
        rank, votes = self._started()
        newest, completed_ns = votes.newest
        frame = rank.lead(now_ms(), newest, controls)
        info = read_frame(frame)
        self.counts.frames += 1
        if info.vote is not None:
            self._count_vote(completed_ns, info)
        return frame, info

    def _count_vote(self, completed_ns: int, info: FrameInfo) -> None:
        counts = self.counts
        counts.votes_framed += 1
        counts.vote_age_ms += (time.monotonic_ns() - completed_ns) / 1e6
        if info.applied_step is not None:
            counts.vote_age_steps += info.step - info.applied_step

    def _finish(self) -> None:
        if self._votes is not None:
            self._join(self._votes)

    def _cut(self) -> None:
        super()._cut()
        if self._votes is not None:
            self._votes.reducer.cut()

    def _end_threads(self) -> None:
        if self._votes is not None:
            self._votes.end()
            self._votes = None


class GlooPlane(VotingPlane):
    """Votes on a thread with its own group; frames over connections of their own, from rank to rank."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._frames: FrameTree | None = None
        super().__init__(*args, **options)

    @property
    def edges(self) -> int:
        """Ranks to which this one sends its frames."""
        return len(self.topology.receivers(self.place.member))

    @property
    def in_flight(self) -> int:
        """Frames sent that are not known to have arrived, at most pipeline stages plus one."""
        return 0 if self._frames is None else self._frames.in_flight

    def _connect(self, meeting: Meeting) -> None:
        self._frames = self._tree(meeting)

    def enter(self, controls: Sequence[Control] = ()) -> FrameInfo:
        """Enters the next step."""
        refuse_controls(self.place, controls)
        with self._guarded("enter"):
            rank, _ = self._started()
            frames = self._frames
            assert frames is not None, "it is connected as long as the plane is open"
            if self.place.leads:
                frames.make_room(rank.delivered)
                frame, info = self._lead(controls)
                frames.send(frame)
            else:
                frame = frames.receive(self.step + 1)
                frames.make_room()
                frames.send(frame)  # before it is looked at: the ranks behind are owed it whatever this one finds
                info = rank.follow(frame)
                self.counts.frames += 1
            self._entered(info.step)
            return info

    def _end_threads(self) -> None:
        super()._end_threads()
        if self._frames is not None:
            self._frames.close()
            self._frames = None
