"""What a `Start` asks for, checked against the pools."""

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from isoradix import IntSequence, InvalidInputError, Start
from isoradix.copies.components import Components, check_component_pools
from isoradix.kv import DevicePool, HostPool, checks

Direction: TypeAlias = Literal["backup", "load_back"]


@dataclass(frozen=True)
class Transfer:
    """Slots of the device and pages of host that hold the same tokens, in one order.

    Beside them lie, for each component with pools here, its own rows of the device and pages of host, perhaps none.
    """

    operation: int
    kind: Direction
    slots: npt.NDArray[np.int64]
    pages: npt.NDArray[np.int64]
    beside: tuple["Transfer", ...] = ()


def transfer(effect: Start, device: DevicePool, host: HostPool, components: Components = ()) -> Transfer:
    """The transfer that an effect asks for.

    Raises:
        InvalidInputError: it is of another kind, or does not fit the pools.
        ProtocolError: a pool is closed.
    """
    if effect.kind != "backup" and effect.kind != "load_back":
        raise InvalidInputError(
            f"operation {effect.operation} is a {effect.kind}; a copy engine makes a backup or a load_back\n"
            "hint: make the cache with storage=False, or give what storage does to its own engine"
        )
    asked = _between(effect, effect.kind, effect.slots, effect.pages, device, host)
    if not components:
        return asked
    beside, parts = [], _parts(effect, components)
    for bit, each in enumerate(components):
        if each is not None:
            rows, pages = each.rows(asked.slots, asked.pages, host.page_size, parts & 1 << bit != 0)
            beside.append(_between(effect, effect.kind, rows, pages, each.device, each.host))
    return replace(asked, beside=tuple(beside))


def _between(
    effect: Start, kind: Direction, slots: IntSequence, pages: IntSequence, device: DevicePool, host: HostPool
) -> Transfer:
    """A transfer between two pools, checked against both."""
    checks.is_open("DevicePool", device.closed)
    checks.is_open("HostPool", host.closed)
    rows = checks.ids("slot", slots, device.num_slots)
    numbers = checks.ids("page", pages, host.num_pages)
    if len(rows) != len(numbers) * host.page_size:
        raise InvalidInputError(
            f"operation {effect.operation} has {len(rows)} slots for {len(numbers)} pages of {host.page_size}\n"
            "hint: the pool's page_size is that of the cache"
        )
    return Transfer(effect.operation, kind, rows, numbers)


def _parts(effect: Start, components: Components) -> npt.NDArray[np.uint8]:
    """The bits of each page's parts."""
    parts = np.asarray(effect.parts, np.uint8)
    if len(parts) != len(effect.pages) or (parts >> len(components)).any():
        what = f"operation {effect.operation} names the parts {parts.tolist()} of {len(effect.pages)} pages"
        raise InvalidInputError(
            f"{what}, and the engine has pools of {len(components)} components\n"
            "hint: the engine's components are those of the cache, in their order"
        )
    return parts


def check_pools(device: DevicePool, host: HostPool, kind: str, of: str = "") -> None:
    """Checks that two pools hold the same tokens, and that the device is of a kind; `of` is whose pools they are."""
    if device.shape != host.shape:
        raise InvalidInputError(
            f"{of}the device pool has {device.shape}, the host pool {host.shape}\nhint: make both with one shape"
        )
    if device.device.type != kind:
        raise InvalidInputError(
            f"{of}the device pool is on {device.device}, this engine is for {kind}\nhint: engine_for picks the engine"
        )


def check_all_pools(device: DevicePool, host: HostPool, kind: str, components: Components) -> None:
    """The same of keys and values and of all components, which have a place for each row as well."""
    check_pools(device, host, kind)
    for each in components:
        if each is not None:
            check_pools(each.device, each.host, kind, f"component {each.name!r}: ")
    check_component_pools(components, device, host)
