"""The server's requests that wait for external storage."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from isoradix import Control, NamespaceLike, NodeHandle, PrefetchTicket, TieredCache


@dataclass(frozen=True)
class _Asked:
    ticket: PrefetchTicket
    key: npt.NDArray[np.int64]
    namespace: NamespaceLike
    known: int
    fetched: int
    """What prefetches had brought by then, for whomever."""


class Prefetches:
    """One entry for each request that waits. Equal on all ranks; the leader alone ends what takes too long.

    Args:
        tree: of this rank.
        leads: whether this rank leads its domain.
        best_effort: whether a request takes what has come when it could be admitted, and waits for no more.
    """

    def __init__(self, tree: TieredCache, leads: bool, best_effort: Callable[[], bool]) -> None:
        self._tree, self._leads, self._best_effort = tree, leads, best_effort
        self._asked: dict[Hashable, _Asked] = {}
        self._enough: dict[PrefetchTicket, None] = {}
        self._unwanted: dict[PrefetchTicket, None] = {}

    def __len__(self) -> int:
        return len(self._asked)

    def ask(
        self, request: Hashable, key: npt.NDArray[np.int64], known: int, namespace: NamespaceLike, anchor: Any
    ) -> bool:
        """Wishes for what lies beyond the `known` tokens of a key; whether the request has something to wait for."""
        ticket = self._tree.prefetch(key, namespace, anchor=NodeHandle(anchor))
        if ticket is None:
            return False
        self.drop(request)
        self._asked[request] = _Asked(ticket, key, namespace, known, self._tree.totals.prefetched_tokens)
        return True

    def is_over(self, request: Hashable) -> bool:
        """Whether a request waits for nothing any more."""
        asked = self._asked.get(request)
        if asked is None or self._tree.poll_prefetch(asked.ticket) == "over":
            return True
        if self._leads and self._best_effort():
            self._enough[asked.ticket] = None
        return False

    def take(self, request: Hashable) -> tuple[int, int | None]:
        """What came for a request that is about to be admitted: tokens, and after how many of its own they begin. What
        others have computed meanwhile did not come from storage."""
        asked = self._asked.pop(request, None)
        if asked is None:
            return 0, None
        there = self._tree.probe(asked.key, asked.namespace) - asked.known
        came = self._tree.totals.prefetched_tokens - asked.fetched
        return max(0, min(there, came)), asked.known

    def drop(self, request: Hashable) -> None:
        """A request is gone, or asks again: what is under way for it is not wanted any more."""
        asked = self._asked.pop(request, None)
        if asked is not None and self._leads:
            self._unwanted[asked.ticket] = None

    def controls(self) -> list[Control]:
        """What the leader says with the next frame."""
        return [
            *self._ends(self._enough, Control.terminate),
            *self._ends(self._unwanted, Control.abort),
        ]

    def _ends(self, tickets: dict[PrefetchTicket, None], end: Any) -> list[Control]:
        controls = []
        for ticket in list(tickets):
            if (operation := self._tree.prefetch_operation(ticket)) is not None:
                controls.append(end(operation))
            elif self._tree.prefetch_state(ticket) == "wished":
                continue  # it has no number yet
            del tickets[ticket]
        return controls

    def forget(self) -> None:
        """Storage goes: no request waits any more, and what is under way ends by itself."""
        self._asked.clear()

    def clear(self) -> None:
        """All requests are gone."""
        for request in list(self._asked):
            self.drop(request)
