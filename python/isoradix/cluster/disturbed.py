"""A plane with faults on its way: votes and frames that are late, that are cast once too often, or that nobody asks
for."""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from isoradix import Board, Control, FrameInfo, Rank, VoteMachine
from isoradix.cluster.faults import KINDS, Fault
from isoradix.consensus import GlooPlane
from isoradix.replay.draws import Draws

_ABOUT_COPIES: Final = 16
"""Words of a ballot before those that say how far copies are."""
_NO_STAKE: Final = np.iinfo(np.int64).max


class DisturbedPlane(GlooPlane):
    """As `GlooPlane`, with the faults of one rank.

    Args:
        faults: those of this rank that are a plane's.
        all others: of `GlooPlane`.
    """

    def __init__(self, *args: Any, faults: Sequence[Fault], **options: Any) -> None:
        self._slow = [fault for fault in faults if fault.kind == "net-slow"]
        self._revote = next((fault.number("step") for fault in faults if fault.kind == "revote"), None)
        self._unasked = next((fault.number("step") for fault in faults if fault.kind == "unasked"), None)
        super().__init__(*args, **options)
        kind = list(KINDS).index("net-slow")
        # votes have a thread of their own, so each way has its own stream
        self._draws = [[Draws(fault.seed, self.place.rank, kind, way) for fault in self._slow] for way in range(2)]

    def start(self, rank: Rank, board: Board, votes: VoteMachine, poll: Callable[[], None]) -> None:
        """Begins to vote. Once."""
        super().start(rank, board, votes, poll)
        _, thread = self._started()
        reducer = thread.reducer
        reduce = reducer.reduce

        def disturbed() -> None:
            self._delay(0)
            if self._unasked is not None and self.step >= self._unasked:
                reducer.words[_ABOUT_COPIES:] = _NO_STAKE
            reduce()
            if self._revote is not None and self.step >= self._revote:
                self._revote = None
                reduce()

        setattr(reducer, "reduce", disturbed)  # noqa: B010 a method of an object, replaced on purpose

    def enter(self, controls: Sequence[Control] = ()) -> FrameInfo:
        """Enters the next step."""
        self._delay(1)
        return super().enter(controls)

    def _delay(self, way: int) -> None:
        for fault, draws in zip(self._slow, self._draws[way], strict=True):
            span = fault.values["ms"]
            time.sleep((span.low + (span.high - span.low) * draws.share()) / 1e3)
