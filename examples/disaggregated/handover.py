"""What the two groups have in common: names for what is handed over, and a queue of orders."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from disaggregated.transfers import Transfers
from isoradix.consensus import LocalSteps, SteppedPlane
from isoradix.consensus.steps import Steps
from minillm.settings import Settings

Verdict = tuple[int, int, str, int | None]  # request, epoch, what was decided, and whose fault it is


@dataclass(frozen=True)
class Handover:
    """Equal on all ranks, but for the address, which is a group's own."""

    run: str  # tells the pages of this run from those of any other in the same storage
    orders: Any  # a queue from the decode group's leader to the prefill group's; None is its end
    address: str  # where the ranks of a group meet for their second plane
    patience_ms: int = 10_000  # that the KV of a request may take
    epochs: int = 2  # how often it is asked for, before the decode group computes the prompt itself

    def name(self, number: int, epoch: int) -> str:
        """Of one request's pages. What comes too late has the name of an epoch that is over: nobody looks for it."""
        return f"{self.run} {number}.{epoch}"

    def plane(self, settings: Settings, rank: int) -> Steps:
        """A group's plane beside that of its cache."""
        if settings.topology.ranks == 1:
            return LocalSteps()
        return SteppedPlane.connect(
            settings.topology, rank, self.address, hosts_store=rank == 0, name="handover", pacing_ms=5
        )


@dataclass
class Side:
    """One rank's end of it."""

    handover: Handover
    plane: Steps
    transfers: Transfers
    stopped: Callable[[], bool]  # whether this step is the group's last
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def leads(self) -> bool:
        return self.plane.place.leads
