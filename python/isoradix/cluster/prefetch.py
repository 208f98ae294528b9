"""Requests that wait for what external storage has of them, and how long they do."""

from dataclasses import dataclass
from typing import Final, Literal

from isoradix import Control, PrefetchTicket, TieredCache
from isoradix.cluster.intake import Request

PrefetchPolicy = Literal["best_effort", "wait_complete", "timeout"]
POLICIES: Final[dict[PrefetchPolicy, str]] = {
    "best_effort": "a request takes what has come when it could be admitted",
    "wait_complete": "it waits for all of it",
    "timeout": "it waits for 1 s, and 0.25 s more for each 1,024 tokens, 10 s at most",
}


def patience(policy: PrefetchPolicy) -> tuple[int, int, int] | None:
    """The option of `TieredCache`: milliseconds at first, for each 1,024 tokens, and at most."""
    return (1000, 250, 10_000) if policy == "timeout" else None


@dataclass(frozen=True)
class _Asked:
    ticket: PrefetchTicket | None
    known: int
    fetched: int
    """What prefetches had brought by then, for whomever."""


class Prefetches:
    """Equal on all ranks: it reads nothing but agreed states."""

    def __init__(self, policy: PrefetchPolicy, leads: bool) -> None:
        self._policy, self._leads = policy, leads
        self._asked: dict[int, _Asked] = {}
        self._ends: list[int] = []

    def ask(self, cache: TieredCache, request: Request) -> None:
        """Wishes for what lies beyond the caches, once for each request."""
        if request.index not in self._asked:
            found = cache.match_prefix(request.key)
            known = found.hit_tokens + found.host_tokens
            ticket, fetched = cache.prefetch(request.key, anchor=found.host_node), cache.totals.prefetched_tokens
            self._asked[request.index] = _Asked(ticket, known, fetched)

    def is_over(self, cache: TieredCache, request: Request) -> bool:
        """Whether it waits for nothing any more. Under best effort, asking is the end of it."""
        asked = self._asked.get(request.index)
        if asked is None or asked.ticket is None or cache.poll_prefetch(asked.ticket) == "over":
            return True
        if (
            self._leads
            and self._policy == "best_effort"
            and (operation := cache.prefetch_operation(asked.ticket)) is not None
        ):
            self._ends.append(operation)
        return False

    def controls(self) -> list[Control]:
        """What the leader says with the next frame: these prefetches have come far enough."""
        ends, self._ends = self._ends, []
        return [Control.terminate(operation) for operation in ends]

    def brought(self, cache: TieredCache, request: Request, found: int) -> int:
        """Of the tokens that an admitted request has found, those that came from storage for it. What others have
        computed meanwhile did not."""
        asked = self._asked.pop(request.index, None)
        if asked is None or asked.ticket is None:
            return 0
        return max(0, min(found - asked.known, cache.totals.prefetched_tokens - asked.fetched))
