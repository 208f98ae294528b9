"""Memory between host pages and an engine that may never let go of what it was given."""

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass
class _Slab:
    """Memory of one call at a time."""

    memory: Bytes
    last: Outcome | None = None
    """Of the last call that was given it, which may not have let go of it."""


class Staged:
    """Reads and writes pages by way of memory of its own.

    A server that was stopped in the middle of a call may go on with it at any time later. It finds this memory then,
    which nobody uses any more: a batch that is late keeps its slab until the engine lets go of it, and the next has
    another. A slab is never dropped, since the engine has registered it: there are as many as calls were under way at
    once, however often the server stands still.

    Args:
        backend: the storage.
        spare: bytes behind each page that its engine asks for.
    """

    def __init__(self, backend: Backend, spare: int = 0) -> None:
        self._backend = backend
        self._spare = -(-spare // ALIGNED) * ALIGNED
        self._slabs: list[_Slab] = []

    def get(self, keys: Sequence[bytes], pages: PageViews) -> Outcome:
        """Reads pages; see `InPlace.get`."""
        slab = self._free_slab(pages)
        staged = self._views(slab, pages)
        slab.last = outcome = self._backend.get_into(keys, staged)
        _copy(staged, pages, outcome.leading)
        return outcome

    def put(self, keys: Sequence[bytes], pages: PageViews) -> Outcome:
        """Stores pages; see `InPlace.put`."""
        slab = self._free_slab(pages)
        staged = self._views(slab, pages)
        _copy(pages, staged, len(pages))
        slab.last = outcome = self._backend.put_from(keys, staged)
        return outcome

    def _views(self, slab: _Slab, pages: PageViews) -> PageViews:
        return PageViews.whole(slab.memory, pages.page_bytes, range(len(pages)), spare=self._spare)

    def _free_slab(self, pages: PageViews) -> _Slab:
        """The smallest that is large enough and that no call holds; else a new one."""
        row = pages.page_bytes + self._spare
        size = max(rows_at_once(row), len(pages)) * row  # the same each time: an engine registers it once
        free = [slab for slab in self._slabs if slab.last is None or slab.last.released]
        large = [slab for slab in free if slab.memory.nbytes >= size]
        if not large:
            large = [_Slab(np.empty(size, np.uint8))]
            self._slabs += large
        return min(large, key=lambda slab: slab.memory.nbytes)


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
