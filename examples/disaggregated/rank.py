"""A rank of either group: minillm's, with the group's own scheduler."""

from dataclasses import dataclass, field
from typing import ClassVar

from disaggregated.decode import DecodeScheduler
from disaggregated.handover import Handover, Side, Verdict
from disaggregated.prefill import PrefillScheduler
from disaggregated.transfers import Transfers
from isoradix import Control
from minillm.rank import Rank, Report
from minillm.requests import Workload
from minillm.settings import Settings


@dataclass
class GroupReport(Report):
    """With what it has moved, and what was decided about it."""

    pages: int = 0
    verdicts: list[Verdict] = field(default_factory=list)


class GroupRank(Rank):
    """One process of a group, which `scheduling` tells apart from the other."""

    transfers: ClassVar[type[Transfers]] = Transfers

    def __init__(
        self,
        scheduling: type[PrefillScheduler | DecodeScheduler],
        settings: Settings,
        rank: int,
        plane: str,
        model: str,
        workload: Workload,
        handover: Handover,
    ) -> None:
        super().__init__(settings, rank, plane, model, workload)
        assert self._storage is not None, "the deployment sees to it"
        pages, threads = settings.host_pages, 2 * settings.batch
        moves = self.transfers(self._keys, self._storage, self._device, pages, threads)
        self._side = Side(handover, handover.plane(settings, rank), moves, lambda: self._driver.stopped)
        self._scheduler = self._own = scheduling(settings, self._slots, self._sizer, workload, self._side)

    def _controls(self, busy: bool) -> list[Control]:
        return super()._controls(busy or not self._own.closed)

    def _close(self) -> GroupReport:
        self._own.close()
        self._side.transfers.close()
        return GroupReport(**vars(super()._close()), pages=self._side.transfers.moved, verdicts=self._side.verdicts)
