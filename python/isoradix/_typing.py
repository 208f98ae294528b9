"""Names for annotations: what handles, receipts, keys and namespaces are."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NewType, Protocol, TypeAlias

if TYPE_CHECKING:
    from array import array

    import numpy as np
    import numpy.typing as npt

    from isoradix._isoradix import InsertResult, MatchResult, TieredMatchResult

NodeHandle = NewType("NodeHandle", int)
LockReceipt = NewType("LockReceipt", int)
PinReceipt = NewType("PinReceipt", int)
HostLockReceipt = NewType("HostLockReceipt", int)


class SupportsNumpy(Protocol):
    """A CPU torch tensor, or what else shows itself as a numpy array over its memory."""

    def numpy(self) -> Any: ...


Slots: TypeAlias = "npt.NDArray[np.int64]"
Pages: TypeAlias = "npt.NDArray[np.int32]"
# what is beside pages: a byte a page, a bit a component
Parts: TypeAlias = "npt.NDArray[np.uint8]"
# list / tuple of int, array.array("i" | "I" | "q"), memoryview, numpy int32 / int64 / uint32, CPU torch tensor.
# Of what is a Sequence[int] to a type checker, range and bytes are refused when called.
IntSequence: TypeAlias = "Sequence[int] | npt.NDArray[np.integer[Any]] | SupportsNumpy"
# the words of a ballot: a buffer of int64, contiguous, that can be written if it is filled
Words: TypeAlias = "npt.NDArray[np.int64] | SupportsNumpy | array[int] | memoryview"
# a frame, a start record, a digest ring
BytesLike: TypeAlias = "bytes | bytearray | memoryview | npt.NDArray[np.uint8]"
# rows of bytes: a buffer of uint8 with shape [rows, bytes of a row]
BytesRows: TypeAlias = "npt.NDArray[np.uint8] | memoryview"
# (extra key, salt); None is the default namespace
NamespaceLike: TypeAlias = tuple[str | None, str | None] | None
ResumePoint: TypeAlias = "MatchResult | InsertResult | TieredMatchResult | tuple[NodeHandle, int]"
# a key for eviction: the smallest key goes first
EvictionKey: TypeAlias = int | tuple[int, int]
