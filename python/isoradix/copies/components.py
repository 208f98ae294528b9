"""What a model keeps beside keys and values, as copy engines know it: where its rows lie, and which of them a copy
moves."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from isoradix import InvalidInputError

if TYPE_CHECKING:
    from isoradix.kv import DevicePool, HostPool

Ids: TypeAlias = npt.NDArray[np.int64]

COMPONENTS_MAX: Final = 8
"""A component is a bit of a byte, by its place."""


@dataclass(frozen=True)
class ComponentPools:
    """One component's rows on this rank, on the device and on host.

    A page of the host pool is the part of the page of that number, in `host.page_size` rows: as many as the page has
    tokens, as windows and side-cars have, or fewer, down to the one row of a state. On the device, the row of a token
    is that of its slot; where a row stands for several tokens, it is the first one's slot divided by their number.

    ===================  ==================  ====================================
    with 16 tokens       `host.page_size`    rows on the device
    ===================  ==================  ====================================
    a row for a token    16                  as many as slots
    one for four tokens  4                   a fourth of that, rounded up
    one for a page       1                   a sixteenth of that, rounded up
    ===================  ==================  ====================================

    Args:
        name: the component's, as among the cache's components.
        device: its rows on the device, in this rank's own layers of it.
        host: a pool of the same shape with as many pages as that of keys and values.
    """

    name: str
    device: "DevicePool"
    host: "HostPool"

    def rows(self, slots: Ids, pages: Ids, page_size: int, named: npt.NDArray[Any]) -> tuple[Ids, Ids]:
        """The rows of some pages' parts: those on the device, and the pages of the host pool.

        Args:
            slots, pages: of a copy of keys and values: int64, [pages * page_size] and [pages].
            page_size: tokens in a page.
            named: which of the pages: bool, [pages].

        Raises:
            InvalidInputError: a row stands for several tokens, whose slots do not follow one another.
        """
        tokens = slots.reshape(-1, page_size)[named]
        span = page_size // self.host.page_size
        apart = (np.diff(tokens, axis=1) != 1).any(axis=1)
        if span > 1 and apart.any():
            first = tokens[apart][0].tolist()
            what = f"a page has the slots {first}, and component {self.name!r} a row for each {span} of them"
            raise InvalidInputError(f"{what}\nhint: slots of a page follow one another, as those of a SlotPool do")
        return tokens[:, ::span].reshape(-1) // span, pages[named]


Components: TypeAlias = Sequence[ComponentPools | None]
"""In the order of the cache's components; None for one that this rank's stage has no layers of."""


class WithComponents:
    """An engine that was given pools of components, or of none."""

    _components: tuple[ComponentPools | None, ...]

    @property
    def components(self) -> tuple[str | None, ...]:
        """What it copies beside keys and values: names, in order; None for what is not here."""
        return tuple(None if each is None else each.name for each in self._components)

    @property
    def copies_components(self) -> bool:
        """Whether it was given pools of components: see `CopyEngine`."""
        return bool(self._components)


def check_component_pools(components: Components, device: "DevicePool", host: "HostPool") -> None:
    """Refuses pools in which rows of these keys and values have no place.

    A host pool whose memory failed (`HostPool.try_new`) is let through: this rank votes no pages then.

    Raises:
        InvalidInputError: there are too many components, one is given twice, or a pool does not fit.
    """
    if len(components) > COMPONENTS_MAX:
        what = f"pools of {len(components)} components, limit {COMPONENTS_MAX}"
        raise InvalidInputError(f"{what}\nhint: pass those of the cache's components, in their order")
    there = [each for each in components if each is not None]
    names = [each.name for each in there]
    if len(set(names)) < len(names):
        raise InvalidInputError(f"pools of components {names}: one is given twice\nhint: one pair of pools for each")
    for each in there:
        _check(each, device, host)


def _check(each: ComponentPools, device: "DevicePool", host: "HostPool") -> None:
    rows = each.host.page_size
    name = f"component {each.name!r}"
    if host.page_size % rows:
        what = f"{name} has {rows} rows a page, and a page {host.page_size} tokens"
        raise InvalidInputError(f"{what}\nhint: make its host pool with page_size={host.page_size}, or 1 for a state")
    need = -(-device.num_slots * rows // host.page_size)
    if each.device.num_slots < need:
        what = f"{name} has {each.device.num_slots} rows on the device, and needs {need} for {device.num_slots} slots"
        raise InvalidInputError(f"{what}\nhint: make its device pool with num_slots={need}")
    if each.host.num_pages < host.num_pages and each.host.failure is None:
        what = f"{name} has {each.host.num_pages} host pages, and keys and values have {host.num_pages}"
        raise InvalidInputError(f"{what}\nhint: a part lies in the row of its page's number: make as many")
    if each.device.device != device.device:
        what = f"{name} is on {each.device.device}, and keys and values are on {device.device}"
        raise InvalidInputError(f"{what}\nhint: one engine copies for one device")
