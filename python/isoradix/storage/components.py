"""What a model keeps beside keys and values, as storage knows it: windows, recurrent states, side-cars.

A component's part of a page has a key of its own, and a row of its own in host memory: that of the page's number. So it
comes, stays and goes with its page, and nothing is allotted for it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from isoradix import IntSequence
from isoradix.storage.keys import KeyScheme
from isoradix.storage.views import Order, PageViews

if TYPE_CHECKING:
    from isoradix.kv import HostPool


@dataclass(frozen=True)
class ComponentPages:
    """One component's rows in host memory, and the keys of what lies in them.

    Args:
        keys: names a page's part: `PageKeys` whose fingerprint has the component's name, type and shape.
        views: where the parts of pages lie, by the numbers of the host pages.
    """

    keys: KeyScheme
    views: Callable[[IntSequence], PageViews]

    @classmethod
    def of_pool(cls, keys: KeyScheme, pool: "HostPool", order: Order = "layer") -> "ComponentPages":
        """Parts with a token's layers, as windows and side-cars have.

        Args:
            keys: as of the class.
            pool: host memory with as many pages as that of keys and values.
            order: of a part's bytes in storage.
        """
        return cls(keys, lambda pages: PageViews.of_pool(pool, pages, order))

    @classmethod
    def of_rows(cls, keys: KeyScheme, memory: Any, row_bytes: int) -> "ComponentPages":
        """Parts in one piece each, as states are.

        Args:
            keys: as of the class.
            memory: a contiguous buffer of uint8 with a row for each host page.
            row_bytes: bytes of a state.
        """
        return cls(keys, lambda pages: PageViews.whole(memory, row_bytes, pages))
