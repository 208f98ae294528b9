"""The plane of a deployment of one rank: no process, no thread, no socket."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np

from isoradix import (
    Board,
    Control,
    DivergenceError,
    FrameInfo,
    InvalidInputError,
    ProtocolError,
    Rank,
    Reduced,
    VoteMachine,
    read_frame,
)
from isoradix.consensus.plane import PlaneCounts, not_started, now_ms, started_before
from isoradix.consensus.topology import Place, Topology
from isoradix.consensus.waits import OwnWait


class LocalPlane:
    """One rank, which votes by itself in each step that has news: what its copies report counts in the next step.

    Args:
        topology: of one rank a domain.
        rank: this rank.
        epoch: the group's incarnation.

    Raises:
        InvalidInputError: a domain has more than one rank.
    """

    edges = 0

    def __init__(self, topology: Topology = Topology(), rank: int = 0, *, epoch: int = 0) -> None:  # noqa: B008 frozen
        if topology.members != 1:
            what = f"a domain has {topology.members} ranks, limit 1"
            raise InvalidInputError(f"{what}\nhint: GlooPlane connects several ranks")
        self.topology = topology
        self.place: Place = topology.place(rank)
        self.epoch = epoch
        self.counts = PlaneCounts()
        self._parts: tuple[Rank, Board, VoteMachine] | None = None
        self._newest: Reduced | None = None
        self._closed = False

    def gather(self, data: bytes) -> list[bytes]:
        """This rank's own `data`."""
        return [data]

    def start(self, rank: Rank, board: Board, votes: VoteMachine, poll: Callable[[], None]) -> None:
        """Begins to vote. Once."""
        if self._parts is not None:
            raise started_before()
        self._parts = rank, board, votes
        self._ballot = np.empty(votes.words, dtype=np.int64)

    def enter(self, controls: Sequence[Control] = ()) -> FrameInfo:
        """Enters the next step."""
        if self._parts is None:
            raise not_started()
        if self._closed:
            raise ProtocolError("enter out of order: the plane is closed\nhint: make a new one under a new epoch")
        rank, board, votes = self._parts
        if votes.has_news(board):
            votes.fill(board, self._ballot)
            self._newest = votes.complete(board, self._ballot)
            self.counts.votes += 1
        frame = rank.lead(now_ms(), self._newest, controls)
        self.counts.frames += 1
        if self._newest is not None:
            self._newest = None
            self.counts.votes_framed += 1
        return read_frame(frame)

    def own_wait(self, operation: OwnWait, want: int = 0, have: int = 0) -> AbstractContextManager[None]:
        """Nobody else waits, so nothing is published."""
        return nullcontext()

    parted: DivergenceError | None = None

    def observe(self, found: DivergenceError) -> None:
        """A rank alone does not part."""

    def check(self) -> None:
        """Nobody else can be lost."""

    def when_lost(self, tell: Callable[[], None]) -> None:
        """Never."""

    def leave(self) -> None:
        """Closes it."""
        self._closed = True

    def fail(self, reason: str, ranks: tuple[int, ...] | None = None) -> None:
        """Closes it."""
        self._closed = True
