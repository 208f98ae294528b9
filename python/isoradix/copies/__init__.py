"""What moves KV between the tiers. The engines need torch, which is imported with the first of them."""

from typing import TYPE_CHECKING

from isoradix.copies.components import ComponentPools, Components
from isoradix.copies.engine import Copy, CopyEngine

if TYPE_CHECKING:
    from isoradix.kv import DevicePool, HostPool

__all__ = ["ComponentPools", "Copy", "CopyEngine", "engine_for"]


def engine_for(device: "DevicePool", host: "HostPool", components: Components = ()) -> CopyEngine:
    """The engine for where the device pool's buffers are: threads on the CPU, streams on CUDA.

    Args:
        device, host: pools of one shape.
        components: pools of what lies beside keys and values, in the order of the cache's components; None for one that
            this rank's stage has no layers of.

    Raises:
        InvalidInputError: the pools do not fit each other, or there is no engine for that device.
    """
    # the contract above is wanted without torch as well
    if device.device.type == "cuda":
        from isoradix.copies.cuda import CudaCopyEngine

        return CudaCopyEngine(device, host, components)
    from isoradix.copies.cpu import CpuCopyEngine

    return CpuCopyEngine(device, host, components)
