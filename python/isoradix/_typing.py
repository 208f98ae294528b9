"""Names for annotations: what handles, receipts, keys and namespaces are."""

from typing import TYPE_CHECKING, Any, NewType, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from isoradix._isoradix import InsertResult, MatchResult

NodeHandle = NewType("NodeHandle", int)
LockReceipt = NewType("LockReceipt", int)
PinReceipt = NewType("PinReceipt", int)

Slots: TypeAlias = "npt.NDArray[np.int64]"
# list / tuple of int, array.array("i" | "I" | "q"), numpy int32 / int64 / uint32, CPU torch tensor
IntSequence: TypeAlias = Any
# (extra key, salt); None is the default namespace
NamespaceLike: TypeAlias = tuple[str | None, str | None] | None
ResumePoint: TypeAlias = "MatchResult | InsertResult | tuple[int, int]"
# a key for eviction: the smallest key goes first
EvictionKey: TypeAlias = int | tuple[int, int]
