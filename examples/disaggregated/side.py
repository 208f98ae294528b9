"""What a rank has of the hand-over: its group's end of it, and its own."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from disaggregated.transfers import Transfers
from isoradix.consensus.steps import Steps

Verdict = tuple[int, int, str, int | None]  # request, epoch, what was decided, and the rank that held it up


@dataclass(frozen=True)
class Handover:
    """Equal on all ranks of both groups."""

    orders: Any  # a queue from the decode group's leader to the prefill group's; None is its end
    run: str = field(default_factory=lambda: uuid4().hex)  # tells its pages from those of any other run in that storage
    patience_ms: int = 10_000  # that the KV of a request may take
    epochs: int = 2  # how often it is asked for, before the decode group computes the prompt itself

    def name(self, number: int, epoch: int) -> str:
        """Of one request's pages. What comes too late has the name of an epoch that is over: nobody looks for it."""
        return f"{self.run} {number}.{epoch}"


@dataclass
class Side:
    """One rank's."""

    handover: Handover
    plane: Steps
    transfers: Transfers
    stopped: Callable[[], bool]  # whether this step is the group's last
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def leads(self) -> bool:
        return self.plane.place.leads

    @property
    def last(self) -> bool:
        """What the leader says of this step."""
        return self.leads and self.stopped()
