"""Pages as engines without checks of their own store them: the bytes, and a seal behind them."""

from typing import Final

import numpy as np

from isoradix._isoradix import check_pages, seal_pages
from isoradix.storage.call import Call, Status
from isoradix.storage.views import PageViews

SEAL_BYTES: Final = 32


def sealed(key: bytes, page: bytes) -> bytes:
    """What is stored under a key."""
    return page + seal_pages([key], page, _FIRST, 1, len(page))


def deliver(call: Call, place: int, key: bytes, views: PageViews, stored: bytes | memoryview | None) -> None:
    """Tells of what an engine found under a key, and writes it to its place if it is right."""
    if stored is None:
        call.finish(place, Status.MISSING)
        return
    size = views.page_bytes
    if len(stored) != size + SEAL_BYTES:
        call.finish(place, Status.WRONG_SIZE)
        return
    found = memoryview(stored)
    status = Status(check_pages([key], found[:size], _FIRST, 1, size, found[size:])[0])
    if status is Status.DONE:
        call.deliver(views, place, found[:size])
    else:
        call.finish(place, status)


_FIRST: Final = np.zeros(1, np.int64)
