"""The vote thread: one ballot after the other, for as long as the ranks live.

It fills a ballot, has it reduced, checks and keeps what comes back. Nobody on this rank reads that but the leader's
next frame.
"""

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from isoradix import Board, DivergenceError, Reduced, VoteMachine, blame
from isoradix.consensus.plane import PlaneCounts
from isoradix.consensus.reducers import Reducer
from isoradix.consensus.rounds import RoundThread
from isoradix.consensus.waits import ALL, WaitBoard


class VoteThread(RoundThread):
    """Votes until every rank has applied the stop frame.

    Args:
        machine, board: of this rank.
        on_vote: called after each vote with whether some rank is paused.
        all others: of `RoundThread`.
    """

    def __init__(
        self,
        machine: VoteMachine,
        board: Board,
        reducer: Reducer,
        waits: WaitBoard,
        counts: PlaneCounts,
        on_vote: Callable[[bool], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        super().__init__(machine.rank, reducer, waits, counts, on_failure)
        self._machine, self._board, self._on_vote = machine, board, on_vote
        self.newest: tuple[Reduced | None, int] = (None, 0)
        """The newest vote that is completed here, and when it was, on this rank's monotonic clock in nanoseconds."""
        self.parted: DivergenceError | None = None
        """What a vote has shown first, where the ranks' mode lets them go on."""
        self.begin()

    def pace(self) -> int | None:
        return self._machine.pace()

    def fill(self, words: npt.NDArray[np.int64]) -> None:
        self._machine.fill(self._board, words)

    def complete(self, words: npt.NDArray[np.int64]) -> None:
        machine = self._machine
        try:
            self.newest = machine.complete(self._board, words), time.monotonic_ns()
        except DivergenceError as error:
            raise self._blame(error) from error
        self._observe()
        self._counts.votes += 1
        self._waits.voted(self._counts.votes)
        self._on_vote(machine.paused)

    def _observe(self) -> None:
        """All ranks see the first mismatch in one vector, so all gather here, once."""
        if self.parted is None and (found := self._machine.parted) is not None:
            self.parted = self._blame(found)

    def _blame(self, error: DivergenceError) -> DivergenceError:
        """Every rank sees the mismatch in the same vector, so all gather their digests and name the rank that has
        parted."""
        if error.kind != "digest":
            return error
        try:
            with self._waits.waiting("gather", ALL, 1, 0):
                rings = self.reducer.gather(self._board.digest_ring_bytes())
        except RuntimeError:
            return error  # a rank has gone meanwhile
        return blame(rings) or error
