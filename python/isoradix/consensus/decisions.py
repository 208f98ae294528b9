"""Is it ready everywhere? One verdict for each request and epoch, on all ranks at one step; without a cache.

    ask -> this rank's transfers report, at any time -> MIN over ranks in the background -> step: verdicts

Requests are remembered from their first question until `forget`: so long their epochs only grow, and a failure that
came too late is kept for the next one. Forget a request once it is over, on all ranks in one order; at 65,536 no
other is taken in.
"""

import threading
from collections import deque
from dataclasses import dataclass
from typing import Any, Final, Literal

from isoradix import Decided, DecisionQueue, DecisionVote, IsoradixError, ProtocolError
from isoradix.consensus.plane import now_ms
from isoradix.consensus.steps import Agreement, Steps, Vector

Report = Literal["pending", "ready", "failed"]
Verdict = Literal["ready", "failed", "aborted", "timed_out", "missing"]

ABORTS_MAX: Final = 4096
"""Requests that one step gives up; others are given up in the next."""


class NotReady(IsoradixError, RuntimeError):  # noqa: N818 a state of the request
    """A request is not ready everywhere, for good. `decision` has its facts."""

    def __init__(self, message: str, decision: "Decision") -> None:
        super().__init__(message)
        self.decision = decision

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.decision)


@dataclass(frozen=True)
class Decision:
    """A verdict, equal on all ranks. `rank` is the first rank of the deployment that failed, still waits, or has not
    reported."""

    request: int
    epoch: int
    verdict: Verdict
    rank: int | None
    patience_ms: int

    def require_ready(self) -> None:
        """Nothing, if it is ready.

        Raises:
            NotReady: it is not; the message names the request and the rank.
        """
        if self.verdict != "ready":
            raise NotReady(f"request {self.request}, epoch {self.epoch}: {self._why()}", self)

    def _why(self) -> str:
        who = "no vote has spoken of it, so some rank" if self.rank is None else f"rank {self.rank}"
        match self.verdict:
            case "failed":
                return f"{who} will not get it\nhint: admit it again in a later epoch, or answer it with an error"
            case "aborted":
                return "the leader has given it up\nhint: free what it holds, on all ranks at this step"
            case "missing":
                what = f"{who} has not reported within {self.patience_ms} ms"
                return f"{what}\nhint: look at that rank: it polls no transfers, or hangs"
            case _:
                what = f"{who} still waits after {self.patience_ms} ms"
                return f"{what}\nhint: look at that rank's transfers, or give requests more patience"


class Decisions(Agreement):
    """One rank's queue of decisions, and the plane that connects it.

    `ask`, `retract`, `forget` and `step` are called by all ranks in one order, on the scheduler's thread. `report`
    may be called on any thread, `abort` on any of the leader's.

    Args:
        plane: `SteppedPlane` between processes, `LocalSteps` for one rank; used for this alone.
        window: questions that may be open, 1 to 4,096; equal on all ranks.
        patience_ms: milliseconds that each may take, by the leader's clock; equal on all ranks.

    Raises:
        InvalidInputError: a value is out of its range, or not equal on all ranks.
        PlaneLost: a rank did not come.
    """

    def __init__(self, plane: Steps, *, window: int = 1024, patience_ms: int = 30_000) -> None:
        super().__init__(plane)
        self.patience_ms = patience_ms
        self.queue = DecisionQueue(plane.place.member, window, patience_ms)
        self.words = self.queue.words
        self.settings = f"decisions of window {window} and patience {patience_ms} ms"
        self._newest: DecisionVote | None = None
        self._aborts: deque[int] = deque()
        self._aborting = threading.Lock()
        plane.start(self)

    # all ranks, in one order

    def ask(self, request: int, epoch: int = 1) -> None:
        """Asks whether a request is ready everywhere.

        Args:
            request: its number, equal on all ranks, 0 to 2**64 - 1.
            epoch: grows each time it is admitted, 1 to 2**32 - 1.

        Raises:
            InvalidInputError: a number is out of its range.
            ProtocolError: it has a question of this epoch or a later one, or an open one.
            BackpressureError: as many are open, or remembered, as may be.
        """
        self.queue.ask(request, epoch)

    def retract(self, request: int) -> None:
        """Takes a question back without a verdict; ProtocolError if it has none that is open."""
        self.queue.retract(request)

    def forget(self, request: int) -> None:
        """The request is over; ProtocolError if it is not known, or has an open question."""
        self.queue.forget(request)

    def step(self, *, last: bool = False) -> list[Decision]:
        """Enters the next step: its verdicts, in the order of their questions. Never waits for transfers or votes; a
        rank that does not lead waits for the leader's message.

        Args:
            last: the leader's: there is no other step.

        Raises:
            PlaneLost: a rank is lost, or waited for in vain.
            DivergenceError: this rank has asked otherwise than the leader.
            ProtocolError: the last step was entered.
        """
        decided = self.plane.exchange(self._rule, self.queue.apply, last=last)
        return [self._decision(one) for one in decided]

    # this rank's own

    def report(self, request: int, epoch: int, report: Report) -> bool:
        """What this rank sees of a request, at any time. Whether it counts for this epoch: the first ready or failed
        is final, and a failure after that is this rank's report of the request's next epoch.

        Raises:
            ProtocolError: this rank has not asked yet, or has forgotten.
        """
        return self.queue.report(request, epoch, report)

    def abort(self, request: int) -> None:
        """The leader gives a request up, in its next step. It has no effect where no question is open by then.

        Raises:
            ProtocolError: this rank does not lead.
        """
        if not self.plane.place.leads:
            what = f"{self.plane.place.name} gives request {request} up"
            raise ProtocolError(f"{what}\nhint: only the leader does; send it there, or report a failure")
        self.queue.is_open(request)  # refuses what is no request
        with self._aborting:
            self._aborts.append(request)

    @property
    def open(self) -> int:
        """Questions without a verdict."""
        return self.queue.open

    @property
    def remembered(self) -> int:
        """Requests that were not forgotten."""
        return self.queue.remembered

    @property
    def digest(self) -> int:
        """Equal on all ranks at each step."""
        return self.queue.digest

    # the rounds' thread

    def fill(self, words: Vector) -> None:
        """What this rank says: for the plane."""
        self.queue.fill(words)

    def complete(self, words: Vector) -> None:
        """What all ranks say: for the plane."""
        self._newest = self.queue.complete(words)

    # inside

    def _rule(self) -> bytes:
        with self._aborting:
            aborts = [self._aborts.popleft() for _ in range(min(len(self._aborts), ABORTS_MAX))]
        return self.queue.rule(now_ms(), self._newest, aborts)

    def _decision(self, one: Decided) -> Decision:
        place = self.plane.place
        rank = None if one.rank is None else self.plane.topology.rank_of(place.domain, one.rank)
        return Decision(one.request, one.epoch, one.verdict, rank, self.patience_ms)
