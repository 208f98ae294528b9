"""The prefill group: computes prompts, and hands over their KV and the first tokens of the answers."""

import queue
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from disaggregated.side import Side
from isoradix import TieredCache
from isoradix.consensus import AgreedMin
from minillm.requests import Request
from minillm.scheduler import Scheduler

IDLE_S = 0.02


@dataclass(eq=False)
class Order(Request):
    """A prompt to be computed, for one token."""

    name: str = ""  # under which it is handed over
    start: int = 0  # tokens whose KV the decode group has


class PrefillScheduler(Scheduler):
    """minillm's, for requests that come from the decode group. What the leader has heard of comes to all ranks of the
    group with its message of a step."""

    group = "prefill"
    closed = False  # whether no other order comes; the leader's

    def __init__(self, side: Side, *base: Any) -> None:
        super().__init__(*base)
        self._side, self._agreed = side, AgreedMin(side.plane, size=0)

    def admit(self, cache: TieredCache) -> None:
        """One order a step joins the others."""
        said = self._agreed.step(self._heard() if self._side.leads else (), last=self._side.last).said
        if said:
            number, user, turn, epoch, start, *tokens = said
            name = self._side.handover.name(number, epoch)
            self.waiting.append(Order(user, turn, tokens, len(tokens), 1, name=name, start=start))
        super().admit(cache)

    def _heard(self) -> tuple[int, ...]:
        """On the leader, whom the others wait for: an order, if there is one, or comes while there is nothing to do."""
        busy = self.waiting or self.running
        with suppress(queue.Empty):
            order: tuple[int, ...] | None = self._side.handover.orders.get(timeout=0 if busy else IDLE_S)
            self.closed = order is None
            return order or ()
        return ()

    def _finish(self, cache: TieredCache, request: Request) -> None:
        """Its prompt has passed all stages: every rank gives what it holds of it."""
        assert isinstance(request, Order)
        *prompt, first = request.tokens
        end = len(prompt) + -len(prompt) % self._settings.page_size
        self._side.transfers.give(request.name, prompt, request.start, request.slots[request.start : end], first)
        super()._finish(cache, request)

    def close(self) -> None:
        self._agreed.leave()
