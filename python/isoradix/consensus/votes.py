"""The vote thread: one ballot after the other, for as long as the ranks live.

It fills a ballot, has it reduced, checks and keeps what comes back. Nobody on this rank reads that but the leader's
next frame.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from isoradix import Board, DivergenceError, Reduced, VoteMachine, blame
from isoradix.consensus.plane import PlaneCounts
from isoradix.consensus.reducers import Reducer
from isoradix.consensus.waits import ALL, WaitBoard

log = logging.getLogger("isoradix")

_END_S: Final = 5.0


class VoteThread:
    """Votes until every rank has applied the stop frame.

    Args:
        machine, board: of this rank.
        reducer: the votes' own group.
        waits, counts: where waits are published, and votes counted.
        on_vote: called after each vote with whether some rank is paused.
        on_failure: called once, on this thread, with what has ended it early.
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
        self._machine, self._board, self.reducer = machine, board, reducer
        self._waits, self._counts = waits, counts
        self._on_vote, self._on_failure = on_vote, on_failure
        self._ending = threading.Event()
        self.newest: tuple[Reduced | None, int] = (None, 0)
        """The newest vote that is completed here, and when it was, on this rank's monotonic clock in nanoseconds."""
        self.parted: DivergenceError | None = None
        """What a vote has shown first, where the ranks' mode lets them go on."""
        self._thread = threading.Thread(target=self._run, name=f"isoradix-votes-{machine.rank}", daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Waits for the last vote."""
        self._thread.join()

    def end(self) -> None:
        """Ends it after the reducer was cut. A no-op the second time."""
        self._ending.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(_END_S)
            if self._thread.is_alive():
                log.error("rank %d: the vote thread does not end: its sockets could not be cut", self._machine.rank)

    def _run(self) -> None:
        try:
            while (pause_ms := self._machine.pace()) is not None and not self._ending.is_set():
                if pause_ms and self._counts.votes:
                    self._ending.wait(pause_ms / 1000)
                self._vote()
        except Exception as error:
            if not self._ending.is_set():
                self._on_failure(error)

    def _vote(self) -> None:
        machine, words = self._machine, self.reducer.words
        machine.fill(self._board, words)
        vote = self._counts.votes
        with self._waits.waiting("vote", ALL, vote, vote - 1):
            self.reducer.reduce()
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
