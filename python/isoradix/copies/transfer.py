"""What a `Start` asks for, checked against the pools."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from isoradix import InvalidInputError, Start
from isoradix.kv import DevicePool, HostPool, checks

Direction: TypeAlias = Literal["backup", "load_back"]


@dataclass(frozen=True)
class Transfer:
    """Slots of the device and pages of host that hold the same tokens, in one order."""

    operation: int
    kind: Direction
    slots: npt.NDArray[np.int64]
    pages: npt.NDArray[np.int64]


def transfer(effect: Start, device: DevicePool, host: HostPool) -> Transfer:
    """The transfer that an effect asks for.

    Raises:
        InvalidInputError: it is of another kind, or does not fit the pools.
        ProtocolError: a pool is closed.
    """
    checks.is_open("DevicePool", device.closed)
    checks.is_open("HostPool", host.closed)
    if effect.kind != "backup" and effect.kind != "load_back":
        raise InvalidInputError(
            f"operation {effect.operation} is a {effect.kind}; a copy engine makes a backup or a load_back\n"
            "hint: make the cache with storage=False, or give what storage does to its own engine"
        )
    slots = checks.ids("slot", effect.slots, device.num_slots)
    pages = checks.ids("page", effect.pages, host.num_pages)
    if len(slots) != len(pages) * host.page_size:
        raise InvalidInputError(
            f"operation {effect.operation} has {len(slots)} slots for {len(pages)} pages of {host.page_size}\n"
            "hint: the pool's page_size is that of the cache"
        )
    return Transfer(effect.operation, effect.kind, slots, pages)


def check_pools(device: DevicePool, host: HostPool, kind: str) -> None:
    """Checks that two pools hold the same tokens, and that the device is of a kind."""
    if device.shape != host.shape:
        raise InvalidInputError(
            f"the device pool has {device.shape}, the host pool {host.shape}\nhint: make both with one shape"
        )
    if device.device.type != kind:
        raise InvalidInputError(
            f"the device pool is on {device.device}, this engine is for {kind}\nhint: engine_for picks the engine"
        )
