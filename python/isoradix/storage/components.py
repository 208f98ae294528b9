"""What a model keeps beside keys and values, as storage knows it: windows, recurrent states, side-cars.

A component's part of a page has a key of its own, and a row of its own in host memory: that of the page's number. So it
comes, stays and goes with its page, and nothing is allotted for it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from isoradix import IntSequence, InvalidInputError
from isoradix.storage.keys import KeyScheme
from isoradix.storage.views import Order, PageViews

if TYPE_CHECKING:
    from isoradix.kv import HostPool


Mover: TypeAlias = Literal["storage", "the copy engine"]

_GIVEN: Final[Mapping[Mover, str]] = {
    "storage": "StorageTier a ComponentPages",
    "the copy engine": "engine_for a ComponentPools",
}


@dataclass(frozen=True)
class ComponentPages:
    """One component's rows in host memory, and the keys of what lies in them.

    Args:
        name: the component's, as among the cache's components.
        keys: names a page's part: `PageKeys` whose fingerprint has the component's name, type and shape.
        views: where the parts of pages lie, by the numbers of the host pages.
    """

    name: str
    keys: KeyScheme
    views: Callable[[IntSequence], PageViews]

    @classmethod
    def of_pool(cls, name: str, keys: KeyScheme, pool: "HostPool", order: Order = "layer") -> "ComponentPages":
        """Parts with a token's layers, as windows and side-cars have.

        Args:
            name, keys: as of the class.
            pool: host memory with as many pages as that of keys and values.
            order: of a part's bytes in storage.
        """
        return cls(name, keys, lambda pages: PageViews.of_pool(pool, pages, order))

    @classmethod
    def of_rows(cls, name: str, keys: KeyScheme, memory: Any, row_bytes: int) -> "ComponentPages":
        """Parts in one piece each, as states are.

        Args:
            name, keys: as of the class.
            memory: a contiguous buffer of uint8 with a row for each host page.
            row_bytes: bytes of a state.
        """
        return cls(name, keys, lambda pages: PageViews.whole(memory, row_bytes, pages))


def check_components(
    cache: Iterable[str], elsewhere: Iterable[str], storage: Sequence[str | None], mover: Mover = "storage"
) -> None:
    """Refuses storage, or a copy engine, that would take one component for another: a component is a bit, by its place.

    Args:
        cache: the cache's components, as "NAME=KIND".
        elsewhere: names of those that this rank's stage has no layers of.
        storage: names of those that it moves; None for what is not here.
        mover: what moves them.

    Raises:
        InvalidInputError: they are others, or in another order.
    """
    without = set(elsewhere)
    names = [each.partition("=")[0] for each in cache]
    wanted = [None if name in without else name for name in names]
    if list(storage) != wanted:
        what = f"{mover} has the components {list(storage)}, and this rank's cache has {wanted}"
        hint = f"give {_GIVEN[mover]} for each, in the cache's order, None for those in components_elsewhere"
        raise InvalidInputError(f"{what}\nhint: {hint}")
