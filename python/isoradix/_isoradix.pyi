"""Types of the compiled module. Everything here is re-exported by `isoradix`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from os import PathLike
from typing import Any, Final, Literal, NoReturn, TypeAlias, final

import numpy as np
import numpy.typing as npt

from isoradix._typing import (
    BytesLike,
    BytesRows,
    EvictionKey,
    HostLockReceipt,
    IntSequence,
    LockReceipt,
    NamespaceLike,
    NodeHandle,
    Pages,
    Parts,
    PinReceipt,
    ResumePoint,
    Slots,
    Words,
)

_Kind: TypeAlias = Literal["backup", "load_back", "prefetch", "store"]
_Reason: TypeAlias = Literal["short", "miss", "failed", "terminate", "time_out", "abort"]

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
    def host_ref(self) -> int:
        """Outstanding host locks on the node or below it."""
    @property
    def on_device(self) -> bool:
        """Whether the device has it."""
    @property
    def on_host(self) -> bool:
        """Whether host memory has it; never in a cache of one tier."""
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
        "demote",
        "evict_host",
        "host_lock",
        "host_unlock",
        "issue",
        "decline",
        "commit",
        "deliver",
        "settle",
        "cancel",
        "return",
        "over",
        "backed",
        "load_back",
        "prefetch",
        "ledger",
        "stored",
        "give_up",
        "tiers",
        "breaker",
        "attachment",
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

def read_records(records: BytesLike) -> list[Record]:
    """The decisions that these bytes are, as `journal_bytes` writes them."""

@final
class JournalLog:
    """The entries of a journal until a block of them is taken."""

    def __new__(cls) -> JournalLog: ...
    def entry(self, kind: int, data: bytes) -> int:
        """Adds an entry of that kind; bytes in the block now."""
    def call(self, cache: TieredCache, code: int, forms: str, arguments: tuple[Any, ...]) -> int:
        """Adds a call that has succeeded, and what came of it; bytes in the block now."""
    def decisions(self, cache: TieredCache) -> None:
        """Adds what the cache has decided since it was asked last."""
    def take(self) -> JournalBlock | None:
        """Takes the entries so far; None if there are none."""
    @property
    def added(self) -> int:
        """Bytes of all entries so far."""
    def forget(self) -> None:
        """Forgets all keys: those that follow stand by themselves."""
    def end(self) -> None:
        """Nothing is added any more."""

@final
class JournalBlock:
    """Entries that were taken together."""

    def __len__(self) -> int: ...
    def __bytes__(self) -> bytes: ...

@final
class JournalFile:
    """A new file, for a segment of a journal."""

    def __new__(cls, path: str | PathLike[str], mark: bytes) -> JournalFile: ...
    def write(self, block: JournalBlock) -> int:
        """Appends a block with its length and checksum; bytes written."""

def checksum(data: BytesLike) -> int:
    """The checksum of a journal's block."""

def unpack_tokens(data: BytesLike, count: int, width: int) -> npt.NDArray[np.uint32]:
    """Tokens of a journal's key, of `width` bits each."""

@final
class BlockStored:
    """Blocks that are in a tier from now on: a run of pages under one parent."""

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
        """Where the blocks lie: "GPU" on the device, "CPU_PINNED" on host."""
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
    """Blocks that are no longer in a tier."""

    @property
    def block_hashes(self) -> list[int]:
        """Hash of each page, as in the `BlockStored` that announced it."""
    @property
    def medium(self) -> str:
        """Where the blocks lay: "GPU" on the device, "CPU_PINNED" on host."""
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

@final
class TieredMatchResult:
    """What `TieredCache.match_prefix` found. Pass it as `resume=` to a call with a longer key."""

    @property
    def hit_tokens(self) -> int:
        """Length of the longest prefix on the device, in tokens; a multiple of the page size."""
    @property
    def node(self) -> NodeHandle:
        """Handle of the node where that prefix ends; `cache.root` if nothing matched."""
    @property
    def host_tokens(self) -> int:
        """Tokens that follow on host alone: what `host_lock(host_node)` and `load_back` bring to the device."""
    @property
    def host_node(self) -> NodeHandle:
        """Handle of the node where these end; `node` if there are none."""
    @property
    def length(self) -> int:
        """Depth of `node`, in tokens: equal to `hit_tokens`."""

@final
class EvictResult:
    """What `TieredCache.evict` did, in tokens."""

    @property
    def slots(self) -> Slots:
        """All freed device slots: the caller's from now on."""
    @property
    def freed(self) -> int:
        """Tokens that were freed: the length of `slots`."""
    @property
    def demoted(self) -> int:
        """Of these, what stays on host."""
    @property
    def dropped_dirty(self) -> int:
        """Of these, what was still to be written to host and is lost; always 0 under write-through."""

@final
class PrefetchTicket:
    """Names a prefetch from its wish to its end, in the cache that gave it out."""

@final
class TierSizes:
    """Sizes of a tiered cache at one moment, in tokens. Equal on all ranks at every step."""

    @property
    def total(self) -> int:
        """All that is on the device."""
    @property
    def protected(self) -> int:
        """Of this, what locks or pins protect."""
    @property
    def pinned(self) -> int:
        """Of this, what pins protect."""
    @property
    def evictable(self) -> int:
        """What `evict` could free."""
    @property
    def clean(self) -> int:
        """What is in both tiers and not held: `evict` loses nothing of it."""
    @property
    def host_total(self) -> int:
        """All that is on host."""
    @property
    def host_only(self) -> int:
        """Of this, what is on host alone."""

@final
class HostLedger:
    """Capacity and occupancy of the host pool at one moment, in pages. Equal on all ranks at every step."""

    @property
    def capacity(self) -> int:
        """Pages that may be occupied now: what every rank can back, as far as it is agreed."""
    @property
    def start_capacity(self) -> int:
        """The capacity agreed at start, above which it never rises."""
    @property
    def occupied(self) -> int:
        """Pages asked for, granted or kept."""
    @property
    def available(self) -> int:
        """Pages that can be asked for now."""
    @property
    def excess(self) -> int:
        """Pages occupied above the capacity, since it was lowered: the next close evicts them."""

@final
class TierTotals:
    """What a tiered cache has done so far, in tokens. Equal on all ranks at every step; no decision reads it."""

    @property
    def evicted_tokens(self) -> int:
        """What `evict` freed on the device."""
    @property
    def demoted_tokens(self) -> int:
        """Of these, what stayed on host."""
    @property
    def dropped_dirty_tokens(self) -> int:
        """Of these, what was still to be written to host and was lost; always 0 under write-through."""
    @property
    def host_evicted_tokens(self) -> int:
        """What evictions freed on host, those of a closing step among them."""
    @property
    def reclaimed_tokens(self) -> int:
        """What host gave up for room while it stayed on the device; always 0 under write-through."""
    @property
    def backed_up_tokens(self) -> int:
        """What backups brought to host."""
    @property
    def loaded_back_tokens(self) -> int:
        """What load-backs brought to the device, once the copies have ended on every rank."""
    @property
    def prefetched_tokens(self) -> int:
        """What prefetches brought to host, and the tree had a use for."""
    @property
    def stored_tokens(self) -> int:
        """What stores brought to external storage."""
    @property
    def given_up_tokens(self) -> int:
        """What was to be stored and is given up."""
    @property
    def breaker_opened(self) -> int:
        """Times that the breaker in front of external storage has opened."""
    @property
    def breaker_closed(self) -> int:
        """Times that it has closed again."""
    @property
    def limbo_tokens(self) -> int:
        """Tokens whose device slots resets have kept back, in all."""
    @property
    def limbo_slots(self) -> int:
        """Device slots that are kept back now; they come as `FreeSlots`."""
    @property
    def limbo_pages(self) -> int:
        """Host pages that are kept back now."""
    @property
    def issued(self) -> dict[_Kind, int]:
        """Operations that were issued, by kind."""
    @property
    def done(self) -> dict[_Kind, int]:
        """Operations that have ended well, by kind."""
    @property
    def retried(self) -> dict[_Kind, int]:
        """Operations that storage failed, and whose work was taken up by another one, by kind."""
    @property
    def declined(self) -> dict[_Kind, int]:
        """Wishes, or parts of a step's wishes, that became no operation, by kind."""
    @property
    def aborted(self) -> dict[tuple[_Kind, _Reason], int]:
        """Operations that have ended early, by kind and reason; some may still drain."""

@final
class OperationInfo:
    """An operation in the window, as all ranks know it."""

    @property
    def operation(self) -> int:
        """Its ordinal: what a Query, Start or Cancel calls it."""
    @property
    def kind(self) -> _Kind:
        """What it moves."""
    @property
    def state(
        self,
    ) -> Literal["issued", "queried", "reserved", "committed", "copying", "draining", "done", "aborted"]:
        """How far it is."""
    @property
    def pages(self) -> int:
        """Pages asked for; 0 for a store."""
    @property
    def tokens(self) -> int:
        """Tokens asked for."""
    @property
    def progress(self) -> int:
        """Tokens that have arrived on every rank."""
    @property
    def committed(self) -> int | None:
        """Tokens that it will deliver at most; None before that is agreed."""
    @property
    def delivered(self) -> int | None:
        """Tokens that it has delivered; None before it has."""

@final
class TieredCache:
    """A prefix cache over device (L1) and host (L2), equal on all ranks at every step."""

    def __new__(
        cls,
        *,
        rank: int,
        host_pages: int | None,
        agreement: Agreement,
        page_size: int = 1,
        policy: str | Callable[[NodeFacts], EvictionKey] = "lru",
        bigram: bool = False,
        journal_records: int = 4096,
        kv_events: bool = False,
        writing: str = "through:1",
        load_back_min: int = 10,
        prefetch_min: int = 256,
        storage: bool = False,
        window: int = 64,
        prefetch_patience: tuple[int, int, int] | None = (1000, 250, 10000),
        storage_breaker: tuple[int, int, int, int] | None = (5, 10000, 2, 30000),
        storage_retry: tuple[int, int, int] = (3, 100, 5000),
        components: Iterable[str] = (),
        components_elsewhere: Iterable[str] = (),
    ) -> TieredCache: ...
    # walking and growing
    def match_prefix(
        self, key: IntSequence, namespace: NamespaceLike = None, *, resume: ResumePoint | None = None
    ) -> TieredMatchResult:
        """Find the longest cached prefix of `key` over both tiers, and count it as used now."""
    def probe(self, key: IntSequence, namespace: NamespaceLike = None) -> int:
        """Length of the longest cached prefix of `key` over both tiers. Changes nothing at all."""
    def insert(
        self,
        key: IntSequence,
        slots: IntSequence,
        namespace: NamespaceLike = None,
        *,
        priority: int = 0,
        resume: ResumePoint | None = None,
    ) -> InsertResult:
        """Cache `key` on the device; what of it is on host alone takes its slots as well."""
    def touch(self, node: NodeHandle) -> None:
        """Count `node` and the nodes above it as used now."""
    def keep_states(self, node: NodeHandle) -> None:
        """The states at the end of `node` are kept on the device from now on."""
    def parts(self, node: NodeHandle) -> list[Parts]:
        """What is beside each page of `node`, on the device and on host: a bit a component."""
    @property
    def components(self) -> tuple[str, ...]:
        """What the model keeps beside keys and values, each at the place of its bit."""
    def slots(self, node: NodeHandle) -> Slots:
        """Slots of the path from the root to `node`, as far as it is on the device."""
    # holding
    def lock(self, node: NodeHandle) -> LockReceipt:
        """Keep `node` and every node above it in the tiers in which they are, until `unlock`."""
    def unlock(self, receipt: LockReceipt) -> None:
        """End the lock that `receipt` stands for."""
    def pin(self, node: NodeHandle) -> PinReceipt:
        """As `lock`, counted on its own: for what is kept longer than one request."""
    def unpin(self, receipt: PinReceipt) -> None:
        """End the pin that `receipt` stands for."""
    def host_lock(self, node: NodeHandle) -> HostLockReceipt:
        """Keep what is on host of `node` and of every node above it, until `unlock_host` or `load_back`."""
    def unlock_host(self, receipt: HostLockReceipt) -> None:
        """End the host lock that `receipt` stands for."""
    # between the tiers
    def load_back_need(self, receipt: HostLockReceipt) -> int:
        """Device slots that `load_back` takes; 0 if it would decline."""
    def load_back(self, receipt: HostLockReceipt, slots: IntSequence) -> int:
        """Bring what is on host alone, up to the locked node, onto the device; the tokens, 0 if declined."""
    def prefetch(
        self, key: IntSequence, namespace: NamespaceLike = None, *, anchor: NodeHandle | None = None
    ) -> PrefetchTicket | None:
        """Wish for what external storage has of `key` below `anchor`; None if it is declined."""
    def prefetch_state(self, ticket: PrefetchTicket) -> Literal["wished", "issued", "over"]:
        """How far a prefetch is."""
    def poll_prefetch(self, ticket: PrefetchTicket) -> Literal["wished", "issued", "over"]:
        """How far it is, for a request that waits for it: patience begins with the leader's first such call."""
    def prefetch_operation(self, ticket: PrefetchTicket) -> int | None:
        """The operation of a prefetch that is under way, for a `Control`; else None."""
    # shrinking
    def evict(self, num_tokens: int) -> EvictResult:
        """Drop from the device until `num_tokens` are freed; what is on host too stays there."""
    def evict_host(self, pages: int) -> int:
        """Drop leaves on host alone until `pages` are freed; how many were."""
    def remove_namespace(self, namespace: tuple[str | None, str | None]) -> Slots:
        """Drop everything in a namespace from both tiers; the freed slots. The default one is (None, None)."""
    def reset(self) -> Slots:
        """Drop everything from both tiers; the slots that are free now. Others come later, as `FreeSlots`."""
    # clock and sizes
    @property
    def clock(self) -> tuple[int, int]:
        """The logical clock: (step, seq). The step is that of the frame applied last."""
    @property
    def sizes(self) -> TierSizes:
        """Sizes of both tiers, in tokens."""
    @property
    def totals(self) -> TierTotals:
        """What the cache has done so far: tokens moved and evicted, operations by their ends."""
    @property
    def evictable_size(self) -> int:
        """Tokens that `evict` could free from the device."""
    @property
    def protected_size(self) -> int:
        """Tokens on the device that locks or pins protect."""
    @property
    def pinned_size(self) -> int:
        """Tokens on the device that pins protect."""
    @property
    def total_size(self) -> int:
        """Tokens on the device."""
    @property
    def num_nodes(self) -> int:
        """Nodes in the tree, the root not counted."""
    @property
    def host_ledger(self) -> HostLedger:
        """Capacity and occupancy of the host pool, in pages, as decisions read them."""
    @property
    def top_tier(self) -> Literal["l1", "l2", "l3"]:
        """The highest tier that is on: what `Control.tiers` said last."""
    @property
    def breaker(self) -> Literal["closed", "open", "trial"] | None:
        """What the breaker in front of external storage lets through; None without one."""
    @property
    def breaker_changes(self) -> list[tuple[int, Literal["closed", "open", "trial"]]]:
        """Its last changes, at most 64, the oldest first: (step, state from there on)."""
    @property
    def attachment(self) -> Literal["absent", "opening", "attached", "detaching"]:
        """Whether there is external storage to write to."""
    @property
    def issued(self) -> int:
        """Operations issued so far: the next one's ordinal."""
    @property
    def retired(self) -> int:
        """Leading operations that are over: equal to `issued` when nothing is under way."""
    def operations(self) -> list[OperationInfo]:
        """The operations that are not retired on all ranks, oldest first."""
    def namespaces(self) -> list[tuple[str | None, str | None]]:
        """The namespaces that hold something in either tier, in their own order."""
    def namespace_size(self, namespace: NamespaceLike = None) -> int:
        """Tokens in a namespace over both tiers; 0 if nothing is cached there."""
    # looking
    def walk(self, node: NodeHandle | None = None) -> Iterator[NodeInfo]:
        """Iterate over `node` and all below it, depth first, parents first."""
    def node(self, node: NodeHandle) -> NodeInfo:
        """The present state of one node; it says in which tiers the node is."""
    def node_tokens(self, node: NodeHandle) -> npt.NDArray[np.int64]:
        """Tokens of `node` itself (one more in bigram mode)."""
    def node_slots(self, node: NodeHandle) -> Slots:
        """Slots of `node` itself; empty if it is on host alone."""
    def node_pages(self, node: NodeHandle) -> Pages:
        """Host pages of `node` itself, in the order of its tokens; empty if it is not on host."""
    def dfs_weight_order(self, nodes: Iterable[NodeHandle]) -> list[int]:
        """Indices into `nodes` in the order that shares the most: the heaviest subtree first."""
    def memory_bytes(self) -> int:
        """Bytes that the tree has reserved."""
    # evidence
    def check(self, pool: SlotPool | None = None, *, uncached: int = 0) -> None:
        """Check every invariant, and with `pool` that each of its slots has one owner."""
    def check_ended(self) -> None:
        """Check that no operation holds host pages: to be asked at shutdown."""
    @property
    def decision_digest(self) -> int:
        """Digest of all decisions so far: equal on every rank that made the same ones."""
    @property
    def tree_digest(self) -> int:
        """Digest of the tree as it is, with its tiers, without slots and pages."""
    def journal(self) -> list[Record]:
        """The last decisions, oldest first: `journal_records` of them at most."""
    def journal_bytes(self) -> bytes:
        """The journal as bytes: 64 a record, little-endian, oldest first."""
    def take_records(self) -> bytes:
        """The decisions since the last call, as `journal_bytes`; kept from the first call on."""
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
    @property
    def rank(self) -> int:
        """The rank."""
    @property
    def window(self) -> int:
        """Operations that may be open at a time."""

# start
@final
class StartRecord:
    """What one rank brings to the agreement at start."""

    def __new__(cls, rank: int, ranks: int, capacity_pages: int | None = None) -> StartRecord: ...
    def set(self, name: str, value: str) -> None:
        """Add a setting that must be equal on all ranks."""
    def to_bytes(self) -> bytes:
        """The record as bytes, to be gathered from all ranks."""
    @staticmethod
    def from_bytes(data: BytesLike) -> StartRecord:
        """What `to_bytes` wrote, on this rank or another one."""

@final
class Agreement:
    """What all ranks agreed upon at start."""

    @property
    def capacity_pages(self) -> int:
        """Host pages: the most that every rank with a pool can back; 0 if none has a pool."""

def agree(records: Iterable[BytesLike]) -> Agreement:
    """Compare the records of all ranks, in the order of their ranks."""

# frames
@final
class Control:
    """A decision that only the leader may take. All ranks apply it at one step."""

    @staticmethod
    def terminate(operation: int) -> Control:
        """Enough of a prefetch has arrived: keep what is agreed, drop the rest."""
    @staticmethod
    def time_out(operation: int) -> Control:
        """The operation's deadline has passed."""
    @staticmethod
    def abort(operation: int) -> Control:
        """The operation is wanted no more."""
    @staticmethod
    def mode(key: int, value: int) -> Control:
        """One of the embedding program's own switches is set."""
    @staticmethod
    def stop() -> Control:
        """The last frame."""
    @staticmethod
    def tiers(top: str) -> Control:
        """The tiers up to "l1", "l2" or "l3" are on from here, and those above are off."""
    @staticmethod
    def attach() -> Control:
        """All ranks open external storage; it is there once all of them have, and nowhere if one cannot."""
    @staticmethod
    def detach() -> Control:
        """External storage is left, once what was to be stored is stored or given up."""
    @property
    def kind(self) -> Literal["terminate", "time_out", "abort", "mode", "stop", "tiers", "attach", "detach"]:
        """What it decides."""
    @property
    def top(self) -> Literal["l1", "l2", "l3"] | None:
        """The highest tier that is on from here, of a switch of tiers; else None."""
    @property
    def operation(self) -> int | None:
        """The operation that it is about; None for a mode, a stop or tiers."""
    @property
    def key(self) -> int | None:
        """The switch that a mode sets; else None."""
    @property
    def value(self) -> int | None:
        """The value that a mode sets; else None."""

@final
class FrameInfo:
    """What can be seen of a frame. Its numbers are for the cache alone."""

    @property
    def step(self) -> int:
        """The step at which all ranks apply it."""
    @property
    def vote(self) -> int | None:
        """Ordinal of the vote that it carries; None if it carries no new one."""
    @property
    def applied_step(self) -> int | None:
        """The last step that every rank had applied, as that vote says; None without one, and before the first."""
    @property
    def controls(self) -> list[Control]:
        """The leader's decisions, in the order in which they are applied."""
    @property
    def stops(self) -> bool:
        """Whether it is the last frame."""

def read_frame(frame: BytesLike) -> FrameInfo:
    """What can be seen of the frame that these bytes are."""

@final
class RunAhead:
    """Frames in flight on each edge from one rank, bounded by the pipeline's depth plus one."""

    def __new__(cls, edges: int, depth: int) -> RunAhead: ...
    def send(self) -> None:
        """One frame leaves on every edge, or none: BackpressureError."""
    def delivered(self, edge: int, frames: int = 1) -> None:
        """So many frames arrived over an edge."""
    @property
    def full_edge(self) -> int | None:
        """The edge that has no room for one more frame; None if all have."""

# decisions
@final
class DecisionVote:
    """One vote's result, closed: for the leader's `DecisionQueue.rule`."""

@final
class Decided:
    """A verdict about one request in one epoch, the same on all ranks at one step."""

    @property
    def request(self) -> int:
        """The request."""
    @property
    def epoch(self) -> int:
        """Its epoch."""
    @property
    def verdict(self) -> Literal["ready", "failed", "aborted", "timed_out", "missing"]:
        """What was decided."""
    @property
    def rank(self) -> int | None:
        """The first rank of the domain that failed, waits or has not reported."""

@final
class DecisionQueue:
    """Questions about requests whose answer each rank finds out by itself: is it ready everywhere?"""

    def __new__(cls, rank: int, window: int, patience_ms: int) -> DecisionQueue: ...
    def ask(self, request: int, epoch: int) -> None:
        """Asks whether a request is ready everywhere."""
    def retract(self, request: int) -> None:
        """Takes a question back without a verdict."""
    def forget(self, request: int) -> None:
        """The request is over: nothing is remembered of it any more."""
    def apply(self, ruling: BytesLike) -> list[Decided]:
        """Applies a ruling: the verdicts of this step."""
    def report(self, request: int, epoch: int, report: Literal["pending", "ready", "failed"]) -> bool:
        """What this rank sees of a request; whether it counts for this epoch."""
    def fill(self, out: Words) -> None:
        """Writes this rank's ballot."""
    def complete(self, reduced: Words) -> DecisionVote:
        """Takes what the ranks have reduced."""
    def rule(self, now_ms: int, newest: DecisionVote | None = None, aborts: Sequence[int] = ()) -> bytes:
        """The leader's ruling of the next step."""
    def is_open(self, request: int) -> bool:
        """Whether a request has a question without a verdict."""
    @property
    def open(self) -> int:
        """Questions without a verdict."""
    @property
    def remembered(self) -> int:
        """Requests that are remembered."""
    @property
    def digest(self) -> int:
        """Digest of all questions, retractions and verdicts."""
    @property
    def step(self) -> int:
        """Steps so far."""
    @property
    def words(self) -> int:
        """Items of a ballot."""

# effects
@final
class StoredRun:
    """A run of pages as external storage knows it: by the tokens up to its end."""

    __match_args__: Final = ("namespace", "key", "start")
    @property
    def namespace(self) -> tuple[str | None, str | None]:
        """Extra key and salt of the namespace in which it lives."""
    @property
    def key(self) -> npt.NDArray[np.uint32]:
        """All tokens up to the run's end, from the start of the key."""
    @property
    def start(self) -> int:
        """Tokens before the run: it is what follows."""

@final
class Query:
    """Ask external storage how much of a run it has, as a leading part, and tell `Rank.found`."""

    __match_args__: Final = ("operation", "run")
    @property
    def operation(self) -> int:
        """The prefetch."""
    @property
    def run(self) -> StoredRun:
        """What is asked for."""

@final
class Start:
    """Begin a copy, and report it to the `Board`: `post_progress` for a prefetch, then `ended`."""

    __match_args__: Final = ("operation", "kind", "slots", "pages", "stored", "parts")
    @property
    def operation(self) -> int:
        """The operation that the copy belongs to."""
    @property
    def kind(self) -> _Kind:
        """From where to where: device to host, host to device, storage to host, host to storage."""
    @property
    def slots(self) -> Slots:
        """Device slots, one a token; empty if the device takes no part."""
    @property
    def pages(self) -> Pages:
        """Host pages, one a page, in the order of the tokens."""
    @property
    def stored(self) -> tuple[StoredRun, ...]:
        """What storage is asked for or given, part by part; empty if it takes no part."""
    @property
    def parts(self) -> Parts:
        """What is copied beside each page: a bit a component; empty where there are none."""

@final
class Cancel:
    """Stop a copy, if it was begun; then, or once it is off its slots and pages, call `Board.finish`."""

    __match_args__: Final = ("operation",)
    @property
    def operation(self) -> int:
        """The operation."""

@final
class Open:
    """Open external storage, and tell the `Board` whether that went well."""

    __match_args__: Final = ("operation",)
    @property
    def operation(self) -> int:
        """The operation."""

@final
class Attachment:
    """What has become of external storage, on every rank at this step."""

    __match_args__: Final = ("state",)
    @property
    def state(self) -> Literal["attached", "refused", "detached"]:
        """What has become of it."""

@final
class FreeSlots:
    """Device slots that copies kept back when the cache was reset: free them in the device's pool."""

    __match_args__: Final = ("slots",)
    @property
    def slots(self) -> Slots:
        """The slots."""

# boards and votes
@final
class Board:
    """Where the threads of one rank meet. The posts give False if nobody will ask."""

    def __new__(cls, rank: int, window: int = 64) -> Board: ...
    def post_hit(self, operation: int, tokens: int) -> bool:
        """Post the tokens that storage has for a prefetch. The first post stands."""
    def post_pages(self, operation: int, pages: int) -> bool:
        """Post the host pages reserved for an operation. The first post stands; a `Rank` posts them itself."""
    def post_progress(self, operation: int, tokens: int) -> bool:
        """Post how many tokens of an operation have arrived. The largest post stands."""
    def post_ready(self, operation: int, succeeded: bool) -> bool:
        """Post how an operation ended here. The first post stands."""
    def abstain(self, operation: int, field: Literal["hit", "pages", "progress", "ready"]) -> bool:
        """This rank has no stake in one number of an operation."""
    def abstain_finished(self, kind: _Kind) -> None:
        """This rank never copies anything of a kind."""
    def ended(self, operation: int, succeeded: bool) -> None:
        """This rank's copy of an operation is over: `post_ready`, then `finish`, in one."""
    def finish(self, operation: int) -> None:
        """This rank's copy of an operation touches no slot and no page any more, or never will."""
    def pause(self, paused: bool = True) -> None:
        """This rank pauses, for example to capture graphs, or goes on."""
    def digest(self, step: int) -> int | None:
        """The decision digest with which this rank entered a step; None if it is too old."""
    def digest_ring_bytes(self) -> bytes:
        """These digests, to be gathered for `blame`: step and digest as little-endian u64, oldest first."""
    @property
    def rank(self) -> int:
        """The rank."""
    @property
    def window(self) -> int:
        """Operations that may be open at a time."""

def blame(rings: Iterable[BytesLike]) -> DivergenceError | None:
    """Where the digest rings of several ranks part first; None if nowhere."""

@final
class Reduced:
    """One vote's result, checked, and closed: it is for the leader's `Rank.lead`."""

    @property
    def vote(self) -> int:
        """Ordinal of the vote."""

@final
class VoteMachine:
    """The votes of one rank: `fill`, reduce by MIN over all ranks, `complete`, and again after `pace()`."""

    def __new__(
        cls,
        rank: int,
        epoch: int,
        window: int = 64,
        pacing: tuple[int, int, int] = (0, 2, 50),
        *,
        mode: str = "enforce",
    ) -> VoteMachine: ...
    def fill(self, board: Board, out: Words) -> None:
        """Write this rank's next ballot to `out`, `words` items of int64."""
    def refill(self, board: Board, out: Words) -> None:
        """Write the ballot that is in flight anew, with what the board knows now. Only before it is sent."""
    def complete(self, board: Board, reduced: Words) -> Reduced:
        """Check the vector that the ranks have reduced, and keep it."""
    def pace(self) -> int | None:
        """Milliseconds from the last vote to the next; None if every rank has applied the stop frame."""
    def has_news(self, board: Board) -> bool:
        """Whether the next vote would say more than the last one: for a rank that is alone in its domain."""
    @property
    def vote(self) -> int:
        """Ordinal of the vote that is filled next, or in flight."""
    @property
    def in_flight(self) -> bool:
        """Whether a ballot is filled and its vote not completed."""
    @property
    def paused(self) -> bool:
        """Whether some rank is paused, as the vote completed last says."""
    @property
    def parted(self) -> DivergenceError | None:
        """The first vote that showed unequal digests, where `mode` observes it."""
    @property
    def uncompared(self) -> int:
        """Votes in which this rank had no digest to compare. For a report."""
    @property
    def words(self) -> int:
        """Items of a ballot."""
    @property
    def rank(self) -> int:
        """The rank."""
    @property
    def window(self) -> int:
        """Operations that may be open at a time."""

# waits
@final
class Patience:
    """The two thresholds of a wait, in milliseconds."""

    def __new__(cls, report_ms: int, fatal_ms: int, watchdog_ms: int = 0) -> Patience: ...
    @property
    def report_ms(self) -> int:
        """After how long a wait is reported."""
    @property
    def fatal_ms(self) -> int:
        """After how long it is over."""

@final
class Wait:
    """What a wait has come to."""

    @property
    def kind(self) -> Literal["quiet", "report", "fatal"]:
        """Nothing to say, another report is due, or it is over."""
    @property
    def waited_ms(self) -> int | None:
        """Milliseconds that it has lasted, pauses left out; None while it is quiet."""

@final
class Waiting:
    """One wait, that begins at `now_ms` of this rank's own monotonic clock."""

    def __new__(cls, patience: Patience, now_ms: int) -> Waiting: ...
    def look(self, now_ms: int, paused: bool = False) -> Wait:
        """What the wait has come to. Time since the last look does not count while `paused`."""

@final
class Stalled:
    """What `Stall.look` saw."""

    @property
    def wait(self) -> Wait:
        """How long the slowest rank has been at its step."""
    @property
    def step(self) -> int | None:
        """The step of the slowest rank; None before the first."""
    @property
    def rank(self) -> int | None:
        """This rank, if it is the slowest or one of them, else None."""

@final
class Stall:
    """Watches that every rank keeps applying steps."""

    def __new__(cls, patience: Patience, now_ms: int) -> Stall: ...
    def look(self, votes: VoteMachine, now_ms: int) -> Stalled:
        """To be called by the vote thread after every completed vote."""

@final
class Rank:
    """One rank of a consensus domain: its cache, and its seat as leader or follower."""

    @staticmethod
    def leader(
        cache: TieredCache,
        board: Board,
        *,
        epoch: int,
        domain: int = 0,
        first_step: int = 1,
        edges: int = 0,
        depth: int = 1,
        mode: str = "enforce",
    ) -> Rank:
        """The rank that stamps the frames: stage 0, first rank."""
    @staticmethod
    def follower(
        cache: TieredCache, board: Board, *, epoch: int, domain: int = 0, first_step: int = 1, mode: str = "enforce"
    ) -> Rank:
        """Any other rank."""
    @staticmethod
    def of_the_past(
        cache: TieredCache, board: Board, *, epoch: int, domain: int = 0, first_step: int = 1, mode: str = "enforce"
    ) -> Rank:
        """A rank alone, which follows the frames of an earlier run and believes what they say of votes."""
    def lead(self, now_ms: int, newest: Reduced | None = None, controls: Iterable[Control] = ()) -> bytes:
        """The leader enters its next step; the frame to be sent to every receiver."""
    def follow(self, frame: BytesLike) -> FrameInfo:
        """A follower enters its next step: checks the leader's frame, and applies it."""
    def begin_loads(self) -> None:
        """Turn what the step has wished to load back so far into an operation, ahead of its close."""
    def close_step(self, device_free: int, promised: int | None = None) -> None:
        """Turn the wishes of the step into operations."""
    def found(self, operation: int, tokens: int) -> None:
        """External storage has answered a `Query` on this rank."""
    def found_presence(self, operation: int, parts: BytesLike) -> None:
        """As `found`, of a cache with components: a byte of bits for each leading page."""
    def take_effects(self) -> list[Query | Start | Cancel | Open | Attachment | FreeSlots]:
        """What this rank's engines do now, in order."""
    def withdraw(self, pages: int) -> None:
        """This rank loses the memory behind up to so many free host pages."""
    def restore(self, pages: int) -> None:
        """This rank has memory again behind up to so many host pages that it had lost."""
    def delivered(self, edge: int, frames: int = 1) -> None:
        """So many of the leader's frames arrived over an edge."""
    @property
    def full_edge(self) -> int | None:
        """The edge that has no room for the leader's next frame; None if all have."""
    @property
    def digest(self) -> int:
        """The decision digest at this moment."""
    @property
    def parted(self) -> DivergenceError | None:
        """The first difference from the leader's digest, where `mode` observes it."""
    @property
    def cache(self) -> TieredCache:
        """The cache, for its verbs."""
    @property
    def rank(self) -> int:
        """The rank in its domain."""
    @property
    def domain(self) -> int:
        """The consensus domain."""
    @property
    def epoch(self) -> int:
        """The group's incarnation."""
    @property
    def leads(self) -> bool:
        """Whether it stamps the frames."""

# batches
@final
class BatchHeader:
    """What a rank has in one batch, to be sent beside the activations and compared before the forward pass."""

    @staticmethod
    def make(
        step: int,
        requests: Iterable[tuple[str | int, int, int]],
        chunk: int | None = None,
        *,
        rank: int = 0,
        ordinal: int = 0,
    ) -> BatchHeader:
        """The header of one batch: (id, prefix length, extend length) of each request, lengths in tokens."""
    def to_bytes(self) -> bytes:
        """The header as bytes: 48, and 24 for each request."""
    @staticmethod
    def from_bytes(data: BytesLike) -> BatchHeader:
        """What `to_bytes` wrote, on this rank or another one."""
    def check(self, received: BatchHeader) -> None:
        """Compare this rank's batch with the one that it received; DivergenceError (form A) if they differ."""
    @property
    def rank(self) -> int:
        """The rank that made it."""
    @property
    def step(self) -> int:
        """The batch step."""
    @property
    def ordinal(self) -> int:
        """Number of the batch."""
    @property
    def chunk(self) -> int | None:
        """Tokens of a chunk of prefill; None if prefill is not chunked."""
    @property
    def extend_tokens(self) -> int:
        """Tokens that the forward pass computes, of all requests."""
    def __len__(self) -> int:
        """Its requests."""

# bytes
def pages_within(bytes: int, bytes_per_token: int, page_size: int) -> int:
    """Host pages that a budget of bytes holds; the last one is taken whole."""

def next_chunk(a: float, b: float, history: int, *, base: int, page_size: int, context: int, most: int) -> int | None:
    """How many tokens the next chunk of a prefill has; None where the context has no room for one."""

@final
class Simulated:
    """What a batch of runs came to."""

    @property
    def runs(self) -> int:
        """Runs that have ended; fewer than asked for after a violation."""
    @property
    def clean(self) -> int:
        """Runs in which everything came to rest."""
    @property
    def stopped(self) -> int:
        """Runs that a stop frame ended in the middle of everything."""
    @property
    def crashed(self) -> int:
        """Runs in which a rank died, and the others noticed."""
    @property
    def fatal(self) -> int:
        """Runs that a failed load-back ended on all ranks."""
    @property
    def detected(self) -> int:
        """Runs in which a lying caller was found out."""
    @property
    def rank_steps(self) -> int:
        """Steps of all ranks."""
    @property
    def steps(self) -> int:
        """Steps of the leaders."""
    @property
    def steps_min(self) -> int | None:
        """The fewest steps of a leader in a run that came to rest."""
    @property
    def modelled(self) -> int:
        """Steps held against the reference model."""
    @property
    def operations(self) -> int:
        """Operations issued."""
    @property
    def votes(self) -> int:
        """Votes of all domains."""
    @property
    def events(self) -> int:
        """Events of the simulation."""
    @property
    def time_us(self) -> int:
        """Virtual time, in microseconds."""
    @property
    def questions(self) -> int:
        """Questions that were asked, in runs that decide without a cache; so with the next three."""
    @property
    def verdicts(self) -> list[int]:
        """Ready, failed, aborted, timed out, missing."""
    @property
    def given_up(self) -> int:
        """Requests that the leader gave up, in whatever phase."""
    @property
    def chunks(self) -> int:
        """Chunks of prompts."""
    @property
    def never_met(self) -> int:
        """Pairs of a transition and a fault that never met."""
    @property
    def history(self) -> int:
        """The hash over all histories."""
    @property
    def found(self) -> Found | None:
        """The first violation, in the order of the runs."""

@final
class Found:
    """A violation, and the arguments that repeat it."""

    @property
    def seed(self) -> int:
        """Of the run."""
    @property
    def topology(self) -> str:
        """Of the run."""
    @property
    def kind(self) -> str:
        """Which promise, as a word."""
    @property
    def what(self) -> str:
        """What, where and when."""
    @property
    def again(self) -> str:
        """Arguments of `isoradix sim`."""
    @property
    def schedule(self) -> str:
        """Shape, faults, and inputs if they are few."""
    @property
    def smallest(self) -> tuple[str, str, str] | None:
        """The same, made smaller: what, arguments, schedule."""

def simulate(
    seeds: tuple[int, int],
    ranks: Sequence[str],
    *,
    family: str = "cache",
    spread: bool,
    threads: int,
    steps: int,
    until: int | None = None,
    faults: int,
    fatal: bool = False,
    keep_faults: Sequence[int] | None = None,
    keep_inputs: Sequence[int] | None = None,
    domain: int | None = None,
    liar: int | None = None,
    corrupt: tuple[int, int] | None = None,
    eviction: str | None = None,
    shrinks: bool = True,
    progress: Callable[[int], object],
) -> Simulated:
    """Run a batch of seeds of the simulator, without the GIL; `isoradix sim` explains the options.

    Seeds go from the first number to before the second. `progress` is called with the runs that have ended, ten times
    a second or more; what it raises ends the batch, and so does Ctrl-C.

    Raises:
        InvalidInputError: a topology, a family or a policy that there is not, an option that is not the family's, or a
            rank that the smallest topology has not.
    """

@final
class CopyProgress:
    """How far a `copy_rows` is, in pairs of buffers."""

    def __new__(cls) -> CopyProgress: ...
    def wait(self, pairs: int) -> bool:
        """Wait, without the GIL, until so many pairs are copied; False if the copy was stopped before."""
    def stop(self) -> None:
        """End the copy before its next pair, and all waits for more."""
    @property
    def pairs(self) -> int:
        """Pairs of buffers that are copied."""

def copy_rows(
    destinations: Sequence[BytesRows],
    sources: Sequence[BytesRows],
    destination_rows: IntSequence,
    source_rows: IntSequence,
    *,
    progress: CopyProgress | None = None,
) -> int:
    """Copies rows of each source to rows of the destination at the same place; gives how many runs that took."""

def read_at_once(connection: int, most: int) -> bytes | None:
    """Read what has arrived, with the GIL held: no bytes if the other end has closed, None if nothing is there."""

def write_at_once(connection: int, data: BytesLike) -> int:
    """Hand bytes over, with the GIL held; how many of them there was room for."""

@final
class StorageCall:
    """A call to a storage engine: what has become of its pages so far, and whether anybody still waits for it."""

    def __new__(cls, pages: int) -> StorageCall: ...
    def finish(self, page: int, status: int) -> None:
        """Tell what became of a page."""
    def cancel(self) -> None:
        """Nobody waits any more: the engine stops as soon as it can."""
    @property
    def cancelled(self) -> bool:
        """Whether it was given up."""
    @property
    def statuses(self) -> bytes:
        """What has become of each page so far: a byte each."""
    @property
    def failure(self) -> str | None:
        """Why the first page failed that did, as the file store says."""

@final
class FileStore:
    """Pages in a folder, each in a file of its own with a seal behind it. Any thread and any process may use it."""

    def __new__(
        cls,
        root: str | PathLike[str],
        *,
        raw: bool = False,
        limit: int | None = None,
        direct: bool = False,
        threads: int | None = None,
    ) -> FileStore: ...
    @property
    def direct(self) -> bool:
        """Whether reads and writes go around the system's cache."""
    @property
    def evicted(self) -> int:
        """Pages that this object has evicted."""
    def usage(self) -> tuple[int, int]:
        """Pages there are, and their bytes on the disk."""
    def exists(self, keys: list[bytes]) -> list[bool]:
        """Whether there is a file for each key; what is in it is not looked at."""
    def get(
        self,
        keys: list[bytes],
        memory: Any,
        offsets: IntSequence,
        pieces: int,
        piece_bytes: int,
        call: StorageCall,
    ) -> None:
        """Read pages, without the GIL. Of a page that is not done the bytes are undefined."""
    def put(
        self,
        keys: list[bytes],
        memory: Any,
        offsets: IntSequence,
        pieces: int,
        piece_bytes: int,
        call: StorageCall,
    ) -> None:
        """Publish pages, without the GIL; one that is there already is only used."""
    def remove(self, keys: list[bytes]) -> None:
        """Remove pages; one that is not there is no error."""
    def clear(self) -> None:
        """Remove all pages."""

def page_hashes(
    tokens: IntSequence, page_size: int, *, bigram: bool = False, previous: bytes | None = None
) -> list[bytes]:
    """Chained SHA-256 hashes of a key's whole pages: each names all tokens up to its end."""

def seal_pages(keys: list[bytes], memory: Any, offsets: IntSequence, pieces: int, piece_bytes: int) -> bytes:
    """The seals of pages, one after another: 32 bytes each, which fit only these bytes under this key."""

def check_pages(
    keys: list[bytes], memory: Any, offsets: IntSequence, pieces: int, piece_bytes: int, seals: BytesLike
) -> bytes:
    """Check pages against the seals that came with them; a status for each, 1 for done or 3 for corrupt."""

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

class ProtocolError(IsoradixError, RuntimeError):
    """Bytes that are no frame, ranks that refuse to start together, or a call out of order. Nothing changed."""

class BackpressureError(ProtocolError, RuntimeError):
    """Frames in flight, or open questions, are as many as may be. Nothing changed: call again when one is through."""

    edge: int | None  # which, counted from 0

class DivergenceError(IsoradixError, RuntimeError):
    """Ranks do not hold the same state, or would decide from different numbers. Fatal; no queue was touched."""

    kind: str | None  # what was unequal, e.g. "leader", "digest" or "above_ballot"
    ranks: tuple[int, ...] | None  # those that the message names
    step: int | None  # the step, where there is one
    vote: int | None  # the ordinal of the vote, where there is one

class HostPoolError(IsoradixError, RuntimeError):
    """The pool of host pages refuses an agreed number, or has operations open at its end."""

class OperationError(IsoradixError, RuntimeError):
    """A load-back failed on some rank after its tokens were promised. Fatal on every rank."""
