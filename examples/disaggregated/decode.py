"""The decode group: takes requests in, has what it lacks of their KV computed by the other group, and generates."""

from dataclasses import dataclass
from typing import Any

from disaggregated.side import Side
from disaggregated.transfers import Job
from isoradix import TieredCache
from isoradix.consensus import Decision, Decisions
from minillm.requests import Request
from minillm.scheduler import Scheduler


@dataclass
class Arrival:
    """A request whose KV is on its way to this rank, at this rank's speed."""

    request: Request
    epoch: int
    job: Job
    reported: bool = False


class DecodeScheduler(Scheduler):
    """minillm's, with a question for each request that it has admitted: is its KV on every rank? The verdict comes to
    all of them at one step, and is all that is acted upon."""

    group = "decode"
    closed = True  # it ends when its own requests are over

    def __init__(self, side: Side, *base: Any) -> None:
        super().__init__(*base)
        self._side, self._arriving = side, dict[int, Arrival]()
        self._decisions = Decisions(side.plane, patience_ms=side.handover.patience_ms)

    def admit(self, cache: TieredCache) -> None:
        """First of all, this step's verdicts."""
        for number, arrival in self._arriving.items():
            if not arrival.reported:
                state = arrival.job.state
                self._decisions.report(number, arrival.epoch, state)
                arrival.reported = state != "pending"
        for decision in self._decisions.step(last=self._side.last):
            self._apply(cache, decision)
        super().admit(cache)

    def _try(self, cache: TieredCache, request: Request) -> bool:
        """A prompt of which more than a page is found in no tier is asked for. A shorter rest is computed here; so is
        everything while the ranks have agreed to leave storage alone."""
        if not super()._try(cache, request):
            return False
        if request.prompt - request.cached > self._settings.page_size and cache.breaker != "open":
            self._ask(request, 1)
        return True

    def _ask(self, request: Request, epoch: int) -> None:
        number = request.turn * self._workload.users + request.user
        request.computed, request.waits = request.prompt, True  # nothing of it is in a batch meanwhile
        self._decisions.ask(number, epoch)
        name = self._side.handover.name(number, epoch)
        job = self._side.transfers.fetch(name, request.tokens, request.cached)
        self._arriving[number] = Arrival(request, epoch, job)
        if self._side.leads:
            order = (number, request.user, request.turn, epoch, request.cached, *request.tokens)
            self._side.handover.orders.put(order)

    def _apply(self, cache: TieredCache, decision: Decision) -> None:
        """What has arrived everywhere is used; else it is asked for again, and at last computed here."""
        number, epoch, ready = decision.request, decision.epoch, decision.verdict == "ready"
        self._side.verdicts.append((number, epoch, decision.verdict, decision.rank))
        arrival = self._arriving.pop(number)
        request = arrival.request
        if ready:
            end = request.prompt + -request.prompt % self._settings.page_size
            request.tokens.append(self._side.transfers.land(arrival.job, request.slots[request.cached : end]))
        self._side.transfers.drop(arrival.job)
        if not ready and epoch < self._side.handover.epochs:
            self._ask(request, epoch + 1)
            return
        self._decisions.forget(number)
        request.waits = False
        if ready:
            self._keep(cache, request)
        else:
            request.computed = request.cached
        if request.done:
            self._finish(cache, request)

    def close(self) -> None:
        if self._side.leads:
            self._side.handover.orders.put(None)
        self._decisions.leave()
