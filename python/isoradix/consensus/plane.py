"""What carries a domain's bytes between its ranks.

A plane moves ballots, frames and records; it decides nothing. The core fills what it sends and checks what it receives.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from isoradix import (
    Board,
    Control,
    DivergenceError,
    FrameInfo,
    IsoradixError,
    ProtocolError,
    Rank,
    VoteMachine,
)
from isoradix.consensus.topology import Place, Topology
from isoradix.consensus.waits import OwnWait


class PlaneLost(IsoradixError, RuntimeError):  # noqa: N818 a state of the plane, named as the protocol names it
    """The ranks can agree on nothing any more. Fatal: close, and start again under a new epoch.

    `ranks` are those that are at fault as far as this rank can tell, as ranks of the deployment; `reason` says what was
    seen.
    """

    def __init__(self, message: str, ranks: tuple[int, ...] = (), reason: str = "") -> None:
        super().__init__(message)
        self.ranks = ranks
        self.reason = reason


@dataclass
class PlaneCounts:
    """What a plane has done so far: for metrics and reports, never for a decision."""

    votes: int = 0
    frames: int = 0
    votes_framed: int = 0
    vote_age_steps: int = 0
    """Steps from the last one that every rank had applied, as a framed vote says, to its frame, summed."""
    vote_age_ms: float = 0.0
    """Milliseconds from the completion of a vote to the frame that carried it, summed over frames that carried one."""
    waits: dict[str, int] = field(default_factory=dict)
    """Waits on the scheduler's thread, by operation."""
    wait_seconds: dict[str, float] = field(default_factory=dict)
    """Seconds spent in them."""

    def waited(self, operation: str, seconds: float) -> None:
        """One wait is over."""
        self.waits[operation] = self.waits.get(operation, 0) + 1
        self.wait_seconds[operation] = self.wait_seconds.get(operation, 0.0) + seconds


class Plane(Protocol):
    """One rank's end of a plane. All calls come from the scheduler's thread."""

    @property
    def topology(self) -> Topology: ...
    @property
    def place(self) -> Place: ...
    @property
    def epoch(self) -> int:
        """The group's incarnation."""

    @property
    def edges(self) -> int:
        """Edges over which this rank's frames leave, as `Rank.leader` counts them."""

    @property
    def counts(self) -> PlaneCounts: ...

    def gather(self, data: bytes) -> list[bytes]:
        """The `data` of every rank of the domain, in the order of its members; a collective, for start-up.

        Raises:
            PlaneLost: a rank did not come.
        """

    def start(self, rank: Rank, board: Board, votes: VoteMachine, poll: Callable[[], None]) -> None:
        """Begins to vote. Once, after the caches agree and before the first step.

        Args:
            rank, board, votes: of this rank.
            poll: reports copies that have ended, where no thread does: for a plane that waits for them.
        """

    def enter(self, controls: Sequence[Control] = ()) -> FrameInfo:
        """Enters the next step: the leader stamps a frame and sends it, the others wait for it and apply it.

        Args:
            controls: the leader's decisions; a follower's are refused.

        Raises:
            PlaneLost: a rank is lost, or waited for in vain.
            DivergenceError: this rank has parted from the others.
        """

    def check(self) -> None:
        """For a scheduler that waits for something of its own meanwhile.

        Raises:
            PlaneLost, DivergenceError: the plane is lost.
        """

    def own_wait(self, operation: OwnWait, want: int = 0, have: int = 0) -> AbstractContextManager[None]:
        """Publishes, for as long as the block lasts, that this rank's scheduler waits for something that is its own: a
        copy, free slots, its storage. Then a hang of it is told apart from one of the network.

        Args:
            operation: what it waits for.
            want, have: numbers for people: the copy's operation or layer, slots that are missing.
        """

    @property
    def parted(self) -> DivergenceError | None:
        """What votes have shown of ranks that part, where their mode lets them go on; None so far."""

    def observe(self, found: DivergenceError) -> None:
        """This rank has parted from the others and goes on: says so, once, in the log and on the wait board."""

    def when_lost(self, tell: Callable[[], None]) -> None:
        """Calls `tell` when the plane is lost, on the thread that finds it out, or at once if it is lost by then.
        Perhaps more than once. The last `tell` counts."""

    def leave(self) -> None:
        """After the stop frame: waits for the last vote, then closes. A no-op on a plane that is closed."""

    def fail(self, reason: str, ranks: tuple[int, ...] | None = None) -> None:
        """This rank cannot go on: tells the others why, and who is at fault (None: this rank), and closes. A no-op on a
        plane that is closed."""


def named_by(error: BaseException, topology: Topology, domain: int) -> tuple[int, ...]:
    """The ranks of the deployment that an error names; a divergence names members of its domain."""
    if isinstance(error, PlaneLost):
        return error.ranks
    if isinstance(error, DivergenceError):
        return tuple(topology.rank_of(domain, member) for member in error.ranks or ())
    return ()


def first_line(error: BaseException) -> str:
    """What an error says, without its hint."""
    return str(error).partition("\n")[0] or type(error).__name__


def not_started() -> ProtocolError:
    return ProtocolError("enter out of order: the plane is not started\nhint: call start first; a Driver does")


def started_before() -> ProtocolError:
    return ProtocolError("start out of order: the plane has been started\nhint: a plane drives one rank")


def refuse_controls(place: Place, controls: Sequence[Control]) -> None:
    """Decisions are the leader's alone."""
    if controls and not place.leads:
        what = f"{len(controls)} controls were given by {place.name}, limit 0"
        raise ProtocolError(f"{what}\nhint: only the leader decides; pass them on rank 0 of the domain")


def now_ms() -> int:
    """This rank's monotonic clock, in milliseconds."""
    return time.monotonic_ns() // 1_000_000
