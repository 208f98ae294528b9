"""Types of the compiled module. Everything here is re-exported by `isoradix`."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NoReturn, final

import numpy as np
import numpy.typing as npt

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

__version__: Final[str]

@final
class MatchResult:
    """What `match_prefix` found."""
    @property
    def hit_tokens(self) -> int: ...
    @property
    def node(self) -> NodeHandle: ...
    @property
    def length(self) -> int: ...

@final
class InsertResult:
    """What `insert` did."""
    @property
    def prefix_len(self) -> int: ...
    @property
    def new_tokens(self) -> int: ...
    @property
    def node(self) -> NodeHandle: ...
    @property
    def length(self) -> int: ...

@final
class NodeFacts:
    """The Logical facts of one node that an eviction policy may read."""

    step: Final[int]
    seq: Final[int]
    created_step: Final[int]
    created_seq: Final[int]
    hits: Final[int]
    priority: Final[int]
    length: Final[int]
    depth: Final[int]
    reach: Final[int]
    namespace: Final[tuple[str | None, str | None]]

@final
class NodeInfo:
    """One node of the tree, as it was when the iteration reached it."""

    handle: Final[NodeHandle]
    parent: Final[NodeHandle]
    sequence: Final[int]
    depth: Final[int]
    length: Final[int]
    children: Final[int]
    hits: Final[int]
    priority: Final[int]
    lock_ref: Final[int]
    pin_ref: Final[int]
    created: Final[tuple[int, int]]
    last_access: Final[tuple[int, int]]
    namespace: Final[tuple[str | None, str | None]]

@final
class Record:
    """One decision, as the journal keeps it (64 bytes, little-endian)."""

    step: Final[int]
    seq: Final[int]
    kind: Final[str]
    node: Final[int]
    a: Final[int]
    b: Final[int]
    content: Final[int]
    digest: Final[int]

@final
class BlockStored:
    block_hashes: Final[list[int]]
    parent_block_hash: Final[int | None]
    token_ids: Final[list[int]]
    block_size: Final[int]
    lora_id: Final[int | None]
    medium: Final[str]
    cache_salt: Final[str | None]
    lora_name: Final[str | None]
    def as_dict(self) -> dict[str, Any]: ...

@final
class BlockRemoved:
    block_hashes: Final[list[int]]
    medium: Final[str]
    def as_dict(self) -> dict[str, Any]: ...

@final
class AllBlocksCleared:
    def as_dict(self) -> dict[str, Any]: ...

@final
class SlotPool:
    """A deterministic, page-granular allocator of device slots."""
    def __new__(cls, num_slots: int, *, page_size: int = 1, first_slot: int = 0) -> SlotPool: ...
    def alloc(self, num_tokens: int) -> Slots: ...
    def free(self, slots: IntSequence) -> None: ...
    def reset(self) -> None: ...
    @property
    def available(self) -> int: ...
    @property
    def total(self) -> int: ...
    @property
    def page_size(self) -> int: ...
    # a copy would be a second owner of the same slots: InputTypeError
    def __copy__(self) -> NoReturn: ...
    def __deepcopy__(self, memo: Any) -> NoReturn: ...

@final
class PrefixCache:
    """A deterministic radix tree over tokens, its eviction order, clock and evidence."""
    def __new__(
        cls,
        *,
        page_size: int = 1,
        policy: str | Callable[[NodeFacts], EvictionKey] = "lru",
        bigram: bool = False,
        journal_records: int = 4096,
        kv_events: bool = False,
    ) -> PrefixCache: ...
    # walking and growing
    def match_prefix(
        self, key: IntSequence, namespace: NamespaceLike = None, *, resume: ResumePoint | None = None
    ) -> MatchResult: ...
    def probe(self, key: IntSequence, namespace: NamespaceLike = None) -> int: ...
    def insert(
        self,
        key: IntSequence,
        slots: IntSequence,
        namespace: NamespaceLike = None,
        *,
        priority: int = 0,
        resume: ResumePoint | None = None,
    ) -> InsertResult: ...
    def touch(self, node: int) -> None: ...
    def slots(self, node: int) -> Slots: ...
    # holding
    def lock(self, node: int) -> LockReceipt: ...
    def unlock(self, receipt: int) -> None: ...
    def pin(self, node: int) -> PinReceipt: ...
    def unpin(self, receipt: int) -> None: ...
    # shrinking
    def evict(self, num_tokens: int) -> Slots: ...
    def remove_namespace(self, extra_key: str | None = None, salt: str | None = None) -> Slots: ...
    def reset(self) -> int: ...
    # clock
    def advance_step(self, step: int | None = None) -> int: ...
    @property
    def clock(self) -> tuple[int, int]: ...
    # sizes, in tokens
    @property
    def evictable_size(self) -> int: ...
    @property
    def protected_size(self) -> int: ...
    @property
    def pinned_size(self) -> int: ...
    @property
    def total_size(self) -> int: ...
    @property
    def num_nodes(self) -> int: ...
    def namespaces(self) -> list[tuple[str | None, str | None]]: ...
    def namespace_size(self, extra_key: str | None = None, salt: str | None = None) -> int: ...
    # looking
    def walk(self, node: int | None = None) -> Iterator[NodeInfo]: ...
    def node(self, node: int) -> NodeInfo: ...
    def node_tokens(self, node: int) -> npt.NDArray[np.int64]: ...
    def node_slots(self, node: int) -> Slots: ...
    def dfs_weight_order(self, nodes: Sequence[int]) -> list[int]: ...
    def memory_bytes(self) -> int: ...
    # evidence
    def check(self, pool: SlotPool | None = None, *, uncached: int = 0) -> None: ...
    @property
    def decision_digest(self) -> int: ...
    @property
    def tree_digest(self) -> int: ...
    def journal(self) -> list[Record]: ...
    def journal_bytes(self) -> bytes: ...
    def take_events(self) -> list[BlockStored | BlockRemoved | AllBlocksCleared]: ...
    # what it was made with
    @property
    def root(self) -> NodeHandle: ...
    @property
    def page_size(self) -> int: ...
    @property
    def policy(self) -> str: ...
    @property
    def bigram(self) -> bool: ...
    # a copy would be a second owner of the same slots: InputTypeError
    def __copy__(self) -> NoReturn: ...
    def __deepcopy__(self, memo: Any) -> NoReturn: ...

class IsoradixError(Exception):
    """Base class of every error this package raises on purpose."""

class InvalidInputError(IsoradixError, ValueError):
    """A value is out of its range, or lengths do not fit together. Nothing changed."""

class InputTypeError(IsoradixError, TypeError):
    """A key, a slot array or an option has a type or dtype that is not accepted. Nothing changed."""

class StaleHandleError(IsoradixError, LookupError):
    """A node handle outlived its node. Nothing changed."""

class ReceiptError(IsoradixError, LookupError):
    """A lock or pin receipt was given back before, or was never given out. Nothing changed."""

class HeldError(IsoradixError, RuntimeError):
    """The operation would remove tokens that are locked or pinned. Nothing changed."""

class OutOfSlotsError(IsoradixError, MemoryError):
    """The slot pool has fewer free slots than were asked for. Nothing changed."""

class DoubleFreeError(IsoradixError, ValueError):
    """A slot was given back that is free already, or twice in one call. Nothing changed."""

class PolicyError(IsoradixError, RuntimeError):
    """A user-defined key function raised, or returned something that is not a key. Nothing changed."""

class InvariantError(IsoradixError, AssertionError):
    """`check` found a broken invariant; the message names the node and the figures."""

class ConcurrentUseError(IsoradixError, RuntimeError):
    """A cache was entered again from its own key function, or used in a forked child."""
