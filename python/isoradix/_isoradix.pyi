"""Types of the compiled module. Everything here is re-exported by `isoradix`."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Literal, NoReturn, final

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
    """What `match_prefix` found. Pass it as `resume=` to a call with a longer key."""

    @property
    def hit_tokens(self) -> int:
        """Length of the longest cached prefix, in tokens; a multiple of the page size."""
    @property
    def node(self) -> NodeHandle:
        """Handle of the node where that prefix ends; `cache.root` if nothing matched."""
    @property
    def length(self) -> int:
        """Depth of `node`, in tokens: equal to `hit_tokens`."""

@final
class InsertResult:
    """What `insert` did. Pass it as `resume=` to a call with a longer key."""

    @property
    def prefix_len(self) -> int:
        """Tokens that were cached before; the slots given for them are still the caller's."""
    @property
    def new_tokens(self) -> int:
        """Tokens that were added; the cache owns their slots now."""
    @property
    def node(self) -> NodeHandle:
        """Handle of the node where the key ends."""
    @property
    def length(self) -> int:
        """Depth of `node`, in tokens: the length of the key, cut down to whole pages."""

@final
class NodeFacts:
    """The Logical facts of one node that an eviction policy may read."""

    @property
    def step(self) -> int:
        """Step of the clock in which the node was last matched, inserted or touched."""
    @property
    def seq(self) -> int:
        """Running number of that access; it alone orders accesses."""
    @property
    def created_step(self) -> int:
        """Step of the clock in which the node was made."""
    @property
    def created_seq(self) -> int:
        """Running number of the event that made the node."""
    @property
    def hits(self) -> int:
        """How many inserts passed or made the node."""
    @property
    def priority(self) -> int:
        """The greatest priority of any insert that passed or made the node."""
    @property
    def length(self) -> int:
        """Tokens of the node itself."""
    @property
    def depth(self) -> int:
        """Tokens from the root to the end of the node."""
    @property
    def reach(self) -> int:
        """The greatest depth of anything ever inserted below the node, in tokens."""
    @property
    def namespace(self) -> tuple[str | None, str | None]:
        """Extra key and salt of the node's namespace."""

@final
class NodeInfo:
    """One node of the tree, as it was when the iteration reached it."""

    @property
    def handle(self) -> NodeHandle:
        """Handle of the node: what `lock`, `touch` and `resume=` take."""
    @property
    def parent(self) -> NodeHandle:
        """Handle of its parent; the root is its own parent."""
    @property
    def sequence(self) -> int:
        """Number of the node in order of making; never used again."""
    @property
    def depth(self) -> int:
        """Tokens from the root to the end of the node."""
    @property
    def length(self) -> int:
        """Tokens of the node itself."""
    @property
    def children(self) -> int:
        """Number of its children."""
    @property
    def hits(self) -> int:
        """How many inserts passed or made the node."""
    @property
    def priority(self) -> int:
        """The greatest priority of any insert that passed or made the node."""
    @property
    def lock_ref(self) -> int:
        """Outstanding locks on the node or below it."""
    @property
    def pin_ref(self) -> int:
        """Outstanding pins on the node or below it."""
    @property
    def created(self) -> tuple[int, int]:
        """Clock (step, seq) of its making."""
    @property
    def last_access(self) -> tuple[int, int]:
        """Clock (step, seq) of its last access."""
    @property
    def namespace(self) -> tuple[str | None, str | None]:
        """Extra key and salt of the node's namespace."""

@final
class Record:
    """One decision, as the journal keeps it. `journal_bytes` writes each as 64 bytes, little-endian."""

    @property
    def step(self) -> int:
        """Step of the clock."""
    @property
    def seq(self) -> int:
        """Running number of the decision's event."""
    @property
    def kind(
        self,
    ) -> Literal[
        "start",
        "match",
        "insert",
        "lock",
        "unlock",
        "pin",
        "unpin",
        "evict",
        "evicted",
        "touch",
        "remove_namespace",
        "reset",
        "step",
    ]:
        """What was decided."""
    @property
    def resumed(self) -> int:
        """Tokens above the resume point of a resumed match or insert, else 0."""
    @property
    def node(self) -> int:
        """Sequence number of the node concerned, 0 for none."""
    @property
    def a(self) -> int:
        """First figure; its meaning depends on `kind`."""
    @property
    def b(self) -> int:
        """Second figure; its meaning depends on `kind`."""
    @property
    def content(self) -> int:
        """Hash of the tokens concerned."""
    @property
    def digest(self) -> int:
        """The decision digest after this record."""

@final
class BlockStored:
    """Blocks that are cached from now on: a run of pages under one parent."""

    @property
    def block_hashes(self) -> list[int]:
        """Hash of each page: the first 8 bytes, as a big-endian signed integer, of its chained SHA-256."""
    @property
    def parent_block_hash(self) -> int | None:
        """Hash of the page before the first one; None at the start of a sequence."""
    @property
    def token_ids(self) -> list[int]:
        """Tokens of all the pages, in order."""
    @property
    def block_size(self) -> int:
        """Tokens in a page."""
    @property
    def lora_id(self) -> int | None:
        """Always None; consumers that know adapters by number read `lora_name` instead."""
    @property
    def medium(self) -> str:
        """Where the blocks lie: "GPU"."""
    @property
    def cache_salt(self) -> str | None:
        """Salt of the namespace."""
    @property
    def lora_name(self) -> str | None:
        """Extra key of the namespace."""
    def as_dict(self) -> dict[str, Any]:
        """The event as a map for msgpack or JSON, tagged "BlockStored" under "type"."""

@final
class BlockRemoved:
    """Blocks that are no longer cached."""

    @property
    def block_hashes(self) -> list[int]:
        """Hash of each page, as in the `BlockStored` that announced it."""
    @property
    def medium(self) -> str:
        """Where the blocks lay: "GPU"."""
    def as_dict(self) -> dict[str, Any]:
        """The event as a map for msgpack or JSON, tagged "BlockRemoved" under "type"."""

@final
class AllBlocksCleared:
    """The cache was reset, or too many events were waiting: then all that is cached follows anew."""

    def as_dict(self) -> dict[str, Any]:
        """The event as a map for msgpack or JSON, tagged "AllBlocksCleared" under "type"."""

@final
class SlotPool:
    """A deterministic, page-granular allocator of device slots."""

    def __new__(cls, num_slots: int, *, page_size: int = 1, first_slot: int = 0) -> SlotPool: ...
    def alloc(self, num_tokens: int) -> Slots:
        """Take slots for `num_tokens` tokens, a multiple of the page size, or raise OutOfSlotsError."""
    def free(self, slots: IntSequence) -> None:
        """Give slots back, as whole pages in page order."""
    def reset(self) -> None:
        """Make every slot free again, in the order of a new pool."""
    @property
    def available(self) -> int:
        """Slots that are free."""
    @property
    def total(self) -> int:
        """Slots in the pool, free or not."""
    @property
    def page_size(self) -> int:
        """Tokens in a page."""
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
    ) -> MatchResult:
        """Find the longest cached prefix of `key`, and count it as used now."""
    def probe(self, key: IntSequence, namespace: NamespaceLike = None) -> int:
        """Length of the longest cached prefix of `key`, in tokens. Changes nothing at all."""
    def insert(
        self,
        key: IntSequence,
        slots: IntSequence,
        namespace: NamespaceLike = None,
        *,
        priority: int = 0,
        resume: ResumePoint | None = None,
    ) -> InsertResult:
        """Cache `key` with the slots that hold its KV entries."""
    def touch(self, node: NodeHandle) -> None:
        """Count `node` and the nodes above it as used now."""
    def slots(self, node: NodeHandle) -> Slots:
        """Slots of the whole path from the root to the end of `node`."""
    # holding
    def lock(self, node: NodeHandle) -> LockReceipt:
        """Protect `node` and every node above it from eviction until `unlock`."""
    def unlock(self, receipt: LockReceipt) -> None:
        """End the lock that `receipt` stands for."""
    def pin(self, node: NodeHandle) -> PinReceipt:
        """As `lock`, counted on its own: for what is kept longer than one request."""
    def unpin(self, receipt: PinReceipt) -> None:
        """End the pin that `receipt` stands for."""
    # shrinking
    def evict(self, num_tokens: int) -> Slots:
        """Drop whole leaves until `num_tokens` are freed or nothing unlocked is left; the freed slots."""
    def remove_namespace(self, namespace: tuple[str | None, str | None]) -> Slots:
        """Drop everything in a namespace; the freed slots. The default one is (None, None)."""
    def reset(self) -> int:
        """Drop everything, held or not; the number of tokens dropped."""
    # clock
    def advance_step(self, step: int | None = None) -> int:
        """Enter the next step of the logical clock, or a later one if `step` says so."""
    @property
    def clock(self) -> tuple[int, int]:
        """The logical clock: (step, seq)."""
    # sizes, in tokens
    @property
    def evictable_size(self) -> int:
        """Tokens that `evict` could free."""
    @property
    def protected_size(self) -> int:
        """Tokens that locks or pins protect."""
    @property
    def pinned_size(self) -> int:
        """Tokens that pins protect."""
    @property
    def total_size(self) -> int:
        """Tokens in the cache."""
    @property
    def num_nodes(self) -> int:
        """Nodes in the tree, the root not counted."""
    def namespaces(self) -> list[tuple[str | None, str | None]]:
        """The namespaces that hold something, in their own order."""
    def namespace_size(self, namespace: NamespaceLike = None) -> int:
        """Tokens in a namespace; 0 if nothing is cached there."""
    # looking
    def walk(self, node: NodeHandle | None = None) -> Iterator[NodeInfo]:
        """Iterate over `node` and all below it, depth first, parents first."""
    def node(self, node: NodeHandle) -> NodeInfo:
        """The present state of one node."""
    def node_tokens(self, node: NodeHandle) -> npt.NDArray[np.int64]:
        """Tokens of `node` itself (one more in bigram mode)."""
    def node_slots(self, node: NodeHandle) -> Slots:
        """Slots of `node` itself."""
    def dfs_weight_order(self, nodes: Iterable[NodeHandle]) -> list[int]:
        """Indices into `nodes` in the order that shares the most: the heaviest subtree first."""
    def memory_bytes(self) -> int:
        """Bytes that the cache has reserved: tree, eviction order, receipts, journal and KV events."""
    # evidence
    def check(self, pool: SlotPool | None = None, *, uncached: int = 0) -> None:
        """Check every invariant of the tree, and with `pool` that each of its slots has one owner."""
    @property
    def decision_digest(self) -> int:
        """Digest of all decisions so far: equal on every rank that made the same ones."""
    @property
    def tree_digest(self) -> int:
        """Digest of the tree as it is: its nodes with their tokens and namespaces, without slots."""
    def journal(self) -> list[Record]:
        """The last decisions, oldest first: `journal_records` of them at most."""
    def journal_bytes(self) -> bytes:
        """The journal as bytes: 64 a record, little-endian, oldest first."""
    def take_events(self) -> list[BlockStored | BlockRemoved | AllBlocksCleared]:
        """The KV events since the last call, oldest first."""
    # what it was made with
    @property
    def root(self) -> NodeHandle:
        """Handle of the root, whose depth is 0. It never dies, and is the same in every cache."""
    @property
    def page_size(self) -> int:
        """Tokens in a page."""
    @property
    def policy(self) -> str:
        """Name of the eviction policy, with its parameters."""
    @property
    def bigram(self) -> bool:
        """Whether keys are pairs of neighbouring tokens."""
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
