"""Two groups of ranks, as processes of this machine."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

from disaggregated.decode import DecodeScheduler
from disaggregated.prefill import PrefillScheduler
from disaggregated.side import Handover, Side, Verdict
from disaggregated.transfers import Transfers
from isoradix import Control, DivergenceError, InvalidInputError
from isoradix.consensus import LocalSteps, SteppedPlane
from minillm.deployment import Outcome, free_address, processes, serve
from minillm.rank import Rank, Report
from minillm.requests import Workload
from minillm.settings import Settings

Scheduling = type[PrefillScheduler] | type[DecodeScheduler]


@dataclass
class GroupReport(Report):
    """With what a rank has moved, and what was decided."""

    group: str = ""
    pages: int = 0
    verdicts: list[Verdict] = field(default_factory=list)


class GroupRank(Rank):
    """minillm's rank, with its group's own scheduler."""

    transfers: ClassVar[type[Transfers]] = Transfers

    def __init__(self, handover: Handover, scheduling: Scheduling, settings: Settings, rank: int, *base: Any) -> None:
        super().__init__(settings, rank, *base)
        assert self._storage is not None, "run sees to it"
        moves = self.transfers(self._keys, self._storage, self._device, settings.host_pages, 2 * settings.batch)
        address, _, workload = base
        second: LocalSteps | SteppedPlane = LocalSteps()
        if settings.topology.ranks > 1:  # in the store of the first plane
            second = SteppedPlane.connect(settings.topology, rank, address, name="handover", pacing_ms=5)
        self._side = Side(handover, second, moves, lambda: self._driver.stopped)
        self._scheduler = self._own = scheduling(self._side, settings, self._slots, self._sizer, workload)

    def _controls(self, busy: bool) -> list[Control]:
        return super()._controls(busy or not self._own.closed)

    def _close(self) -> GroupReport:
        self._own.close()
        self._side.transfers.close()
        moved, verdicts = self._side.transfers.moved, self._side.verdicts
        return GroupReport(**vars(super()._close()), group=self._own.group, pages=moved, verdicts=verdicts)


@dataclass(frozen=True)
class Outcomes:
    """What a run came to, group by group."""

    prefill: Outcome
    decode: Outcome
    reports: list[GroupReport]  # of the prefill group's ranks, then of the decode group's

    @property
    def verdicts(self) -> list[Verdict]:
        first, *others = (report.verdicts for report in self.reports if report.group == "decode")
        if any(other != first for other in others):
            raise DivergenceError("the ranks have parted: their verdicts differ")
        return first

    @property
    def distributions(self) -> dict[tuple[int, int], list[Any]]:
        """Of each request: its first token's is the prefill group's, where it has arrived."""
        found, firsts = dict[tuple[int, int], list[Any]](), self.prefill.distributions
        for request in self.decode.requests:
            name = request.user, request.turn
            own = self.decode.distributions.get(name, [])
            found[name] = own if len(own) == request.answer else [*firsts[name][-1:], *own]
        return found


def run(
    prefill: Settings, decode: Settings, workload: Workload, *, rank: type[GroupRank] = GroupRank, **options: Any
) -> Outcomes:
    """Serves a workload; `options` are those of `Handover`."""
    for name in ("tp", "pp", "model", "page_size", "storage"):
        if getattr(prefill, name) != getattr(decode, name):
            what = f"{name} is {getattr(prefill, name)!r} in the prefill group, {getattr(decode, name)!r} in the other"
            raise InvalidInputError(f"{what}\nhint: a rank takes over the shard of the same rank of the other group")
    first = prefill.topology.ranks
    handover = Handover(processes.Queue(), **options)
    ordered = replace(workload, users=0, rounds=1)  # what users ask is for the decode group to know
    ranks: dict[str, Any] = {}
    for scheduling, settings, asked in ((PrefillScheduler, prefill, ordered), (DecodeScheduler, decode, workload)):
        make, base = partial(rank, handover, scheduling, settings), (free_address(), free_address(), asked)
        ranks |= {f"{scheduling.group} {number}": partial(make, number, *base) for number in range(first)}
    reports = [report for report in serve(ranks, lambda beat: None) if isinstance(report, GroupReport)]
    return Outcomes(Outcome.of([*reports[:first]]), Outcome.of([*reports[first:]]), reports)
