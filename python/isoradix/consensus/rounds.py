"""Rounds of MIN on a thread of their own, one after the other, for as long as the ranks live."""

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from isoradix.consensus.plane import PlaneCounts
from isoradix.consensus.reducers import Reducer
from isoradix.consensus.waits import ALL, WaitBoard

log = logging.getLogger("isoradix")

_END_S: Final = 5.0


class RoundThread(ABC):
    """Fills a vector, has it reduced, and hands over what comes back, until `pace` says that it was the last.

    What a round is about is a subclass's: `pace`, `fill`, `complete`. It calls `begin` when it can be asked.

    Args:
        rank: this rank, for names and messages.
        reducer: the rounds' own group.
        waits, counts: where waits are published, and rounds counted.
        on_failure: called once, on this thread, with what has ended it early.
    """

    def __init__(
        self,
        rank: int,
        reducer: Reducer,
        waits: WaitBoard,
        counts: PlaneCounts,
        on_failure: Callable[[Exception], None],
    ) -> None:
        self.reducer = reducer
        self._rank, self._waits, self._counts, self._on_failure = rank, waits, counts, on_failure
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"isoradix-votes-{rank}", daemon=True)

    def begin(self) -> None:
        """The first round."""
        self._thread.start()

    def join(self, seconds: float) -> bool:
        """Waits for the last round, so long at most; whether it is over."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def end(self) -> None:
        """Ends it after the reducer was cut. A no-op the second time."""
        self._ending.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(_END_S)
            if self._thread.is_alive():
                log.error("rank %d: the vote thread does not end: its sockets could not be cut", self._rank)

    @abstractmethod
    def pace(self) -> int | None:
        """Milliseconds until the next round; None where there is no other, which all ranks know alike."""

    @abstractmethod
    def fill(self, words: npt.NDArray[np.int64]) -> None:
        """Writes what this rank says."""

    @abstractmethod
    def complete(self, words: npt.NDArray[np.int64]) -> None:
        """Takes what all ranks say."""

    def _run(self) -> None:
        try:
            while (pause_ms := self.pace()) is not None and not self._ending.is_set():
                if pause_ms and self._counts.votes:
                    self._ending.wait(pause_ms / 1000)
                self._round()
        except Exception as error:
            if not self._ending.is_set():
                self._on_failure(error)

    def _round(self) -> None:
        words, number = self.reducer.words, self._counts.votes
        self.fill(words)
        with self._waits.waiting("vote", ALL, number, number - 1):
            self.reducer.reduce()
        self.complete(words)
