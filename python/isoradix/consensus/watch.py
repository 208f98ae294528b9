"""The watch over a rank's waits: reports a long one, and ends the plane when one is over.

A wait inside gloo cannot be given two thresholds, nor ended by its own timeout without losing the group unseen. So the
threads that wait do it without end, in slices that ask whether the plane is lost, and the lifelines' thread looks at
the wait board: it reports what lasts longer than the first threshold, with what the boards of all ranks say together,
and past the second it says who is to blame.
"""

import logging
import time
from collections.abc import Callable, Sequence

from isoradix import Patience, Waiting
from isoradix.consensus.diagnosis import diagnose
from isoradix.consensus.lifeline import Beat
from isoradix.consensus.waits import RankWaits, WaitBoard, WaitEntry

log = logging.getLogger("isoradix")


class Watch:
    """Looks at the waits of one rank.

    Args:
        board: its wait board.
        patience: the two thresholds.
        rank_of: the rank of the deployment that is a member of this domain.
        others: the boards of the other ranks, as far as they are known.
    """

    def __init__(
        self,
        board: WaitBoard,
        patience: Patience,
        rank_of: Callable[[int], int],
        others: Callable[[], Sequence[RankWaits]],
    ) -> None:
        self._board, self._patience, self._rank_of, self._others = board, patience, rank_of, others
        self._seen: dict[str, tuple[int, Waiting]] = {}
        self.paused = False
        """Whether some rank is paused, as the last vote says: then no wait grows older."""

    def beat(self) -> Beat:
        """What this rank says of itself."""
        own = self._board.now()
        return Beat(own.step, own.votes, own.waits)

    def look(self) -> str | None:
        """Reports waits that are due; the description of one that is over, or None."""
        now_ms = time.monotonic_ns() // 1_000_000
        going_on = {entry.operation: (entry, since) for entry, since in self._board.going_on()}
        self._seen = {name: seen for name, seen in self._seen.items() if name in going_on}
        for name, (entry, since) in going_on.items():
            if name not in self._seen or self._seen[name][0] != since:
                self._seen[name] = (since, Waiting(self._patience, since // 1_000_000))
            paused = self.paused and name != "vote"  # ranks vote while they are paused
            wait = self._seen[name][1].look(now_ms, paused)
            if wait.kind == "quiet":
                continue
            what = f"waited {(wait.waited_ms or 0) / 1000:.1f} s for {self.describe(entry)}"
            if wait.kind == "fatal":
                return what
            log.warning("rank %d %s: %s", self._board.rank, what, self._diagnosis())
        return None

    def _diagnosis(self) -> str:
        """What the boards of all ranks say together."""
        found = diagnose([self._board.now(), *self._others()], self._patience.report_ms / 1000)
        return f"{found.case}: {found.text}"

    def describe(self, entry: WaitEntry) -> str:
        peer = "its own" if entry.own else "all ranks" if entry.peer < 0 else f"rank {self._rank_of(entry.peer)}"
        return f"{entry.operation} {entry.want} of {peer} (has {entry.have})"
