"""Memory between host pages and an engine that may never let go of what it was given."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from isoradix.storage.backend import Backend, Outcome
from isoradix.storage.views import PageViews

Bytes = npt.NDArray[np.uint8]

BATCH_PAGES: Final = 128
"""Pages of one question, and of one transfer: after each, progress is told and a cancel is heard."""
BATCH_BYTES: Final = 256 << 20
"""Of one transfer, where a row has so many bytes that fewer of them are moved at once: a state may have 100 MiB."""
ALIGNED: Final = 64
"""Bytes; pages keep their places in the lines of a cache."""


def rows_at_once(row_bytes: int) -> int:
    """Rows of one transfer: a batch of pages, or fewer if they are large; at least 1."""
    return max(1, min(BATCH_PAGES, BATCH_BYTES // row_bytes))


class InPlace:
    """Reads and writes pages where they lie. For engines that always return: what is late is waited for."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def get(self, keys: Sequence[bytes], pages: PageViews) -> Outcome:
        """Reads pages; once it returns, nothing touches them any more."""
        outcome = self._backend.get_into(keys, pages)
        outcome.wait_released()
        return outcome

    def put(self, keys: Sequence[bytes], pages: PageViews) -> Outcome:
        """Stores pages; once it returns, nothing touches them any more."""
        outcome = self._backend.put_from(keys, pages)
        outcome.wait_released()
        return outcome


class Staged:
    """Reads and writes pages by way of memory of its own.

    A server that was stopped in the middle of a call may go on with it at any time later. It finds this memory then,
    which nobody uses any more: a batch that is late leaves it to the engine, and the next has another.

    Args:
        backend: the storage.
        spare: bytes behind each page that its engine asks for.
    """

    def __init__(self, backend: Backend, spare: int = 0) -> None:
        self._backend = backend
        self._spare = -(-spare // ALIGNED) * ALIGNED
        self._memory = np.empty(0, np.uint8)
        self._left: list[tuple[Outcome, Bytes]] = []

    def get(self, keys: Sequence[bytes], pages: PageViews) -> Outcome:
        """Reads pages; see `InPlace.get`."""
        staged = self._views(pages)
        outcome = self._backend.get_into(keys, staged)
        _copy(staged, pages, outcome.leading)
        self._keep_or_leave(outcome)
        return outcome

    def put(self, keys: Sequence[bytes], pages: PageViews) -> Outcome:
        """Stores pages; see `InPlace.put`."""
        staged = self._views(pages)
        _copy(pages, staged, len(pages))
        outcome = self._backend.put_from(keys, staged)
        self._keep_or_leave(outcome)
        return outcome

    def _views(self, pages: PageViews) -> PageViews:
        row = pages.page_bytes + self._spare
        size = max(rows_at_once(row), len(pages)) * row  # the same each time: an engine registers it once
        if self._memory.nbytes < size:
            self._memory = self._back(size)
        return PageViews.whole(self._memory, pages.page_bytes, range(len(pages)), spare=self._spare)

    def _keep_or_leave(self, outcome: Outcome) -> None:
        if not outcome.released:
            self._left.append((outcome, self._memory))
            self._memory = np.empty(0, np.uint8)

    def _back(self, size: int) -> Bytes:
        """Memory that was left, that its call has let go of meanwhile, and that is large enough; else new memory."""
        back = [memory for outcome, memory in self._left if outcome.released]
        self._left = [left for left in self._left if not left[0].released]
        large = [memory for memory in back if memory.nbytes >= size]
        return large[0] if large else np.empty(size, np.uint8)


def _copy(source: PageViews, target: PageViews, pages: int) -> None:
    """The first pages; one of the two has them in one piece each."""
    for place in range(pages):
        if target.pieces == 1:
            _gather(source, place, _piece(target, place, 0))
        else:
            _scatter(_piece(source, place, 0), target, place)


def _gather(source: PageViews, place: int, whole: Bytes) -> None:
    for number in range(source.pieces):
        begin = number * source.piece_bytes
        whole[begin : begin + source.piece_bytes] = _piece(source, place, number)


def _scatter(whole: Bytes, target: PageViews, place: int) -> None:
    for number in range(target.pieces):
        begin = number * target.piece_bytes
        _piece(target, place, number)[:] = whole[begin : begin + target.piece_bytes]


def _piece(views: PageViews, place: int, number: int) -> Bytes:
    begin = int(views.offsets[place, number])
    return np.asarray(views.memory)[begin : begin + views.piece_bytes]
