"""A deterministic prefix cache for LLM serving.

    from isoradix import PrefixCache, SlotPool

`PrefixCache` is the tree, `SlotPool` an allocator of device slots to go with it. Neither needs torch.
"""

from isoradix._isoradix import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    ConcurrentUseError,
    DoubleFreeError,
    HeldError,
    InputTypeError,
    InsertResult,
    InvalidInputError,
    InvariantError,
    IsoradixError,
    MatchResult,
    NodeFacts,
    NodeInfo,
    OutOfSlotsError,
    PolicyError,
    PrefixCache,
    ReceiptError,
    Record,
    SlotPool,
    StaleHandleError,
    __version__,
)
from isoradix._typing import (
    EvictionKey,
    IntSequence,
    LockReceipt,
    NamespaceLike,
    NodeHandle,
    PinReceipt,
    ResumePoint,
    Slots,
)

__all__ = [
    "AllBlocksCleared",
    "BlockRemoved",
    "BlockStored",
    "ConcurrentUseError",
    "DoubleFreeError",
    "EvictionKey",
    "HeldError",
    "InputTypeError",
    "InsertResult",
    "IntSequence",
    "InvalidInputError",
    "InvariantError",
    "IsoradixError",
    "LockReceipt",
    "MatchResult",
    "NamespaceLike",
    "NodeFacts",
    "NodeHandle",
    "NodeInfo",
    "OutOfSlotsError",
    "PinReceipt",
    "PolicyError",
    "PrefixCache",
    "ReceiptError",
    "Record",
    "ResumePoint",
    "SlotPool",
    "Slots",
    "StaleHandleError",
    "__version__",
]
