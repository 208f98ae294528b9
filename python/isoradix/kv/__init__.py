"""Pools of KV bytes: what a token's KV looks like, and the memory that holds it on the device and on host. Needs
torch."""

from isoradix import pages_within
from isoradix.kv.device import DevicePool
from isoradix.kv.host import HostPool, Layout
from isoradix.kv.memory import HostMemoryError
from isoradix.kv.shape import KVShape, MHAShape, MLAShape, StateShape

__all__ = [
    "DevicePool",
    "HostMemoryError",
    "HostPool",
    "KVShape",
    "Layout",
    "MHAShape",
    "MLAShape",
    "StateShape",
    "pages_within",
]
