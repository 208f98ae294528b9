//! The deterministic state machines of isoradix.
//!
//! A prefix cache for LLM serving is a radix tree over tokens. Every rank of a deployment holds one of its own, and they stay
//! equal only if equal calls give equal decisions. So this crate holds no I/O, no wall clock, no thread, no randomness and no
//! hash order; every order is total, every integer in state has a stated width, and every decision leaves a record.
//!
//! Start at [`PrefixCache`] for one rank and one tier, at [`Rank`] for many ranks and two. Layers, each importing only from those
//! before it:
//!
//! 1. `error`, `limits`, `hash`, `ints`, `clock`, `namespace`, `sha256`, `page_hash`: values; `defects`: mistakes that tests ask for
//! 2. `residency`, `node`, `edges`, `extent`, `runs`: storage
//! 3. `tree`: structure, sizes, invariants
//! 4. `order`: which node is evicted next
//! 5. `holds`, `evidence`, `events`, `pool`, `accounting`: receipts, records, KV events, device slots
//! 6. `cache`: the verbs
//! 7. `provenance`, `ordinal`: which values may decide
//! 8. `host`: the two-phase allocator of host pages
//! 9. `protocol`: ballots, votes, frames, timers, agreement at start
//! 10. `operation`: the life of an asynchronous operation
//! 11. `tiered`: cache, host pages and operations as one machine
//! 12. `rank`: that machine at its seat, leader or follower
//! 13. `decisions`: what is ready on every rank; from `hash` and `provenance` alone
//!
//! `chunking` stands by itself: how long the next chunk of a prefill is.
#![forbid(unsafe_code)]

mod accounting;
mod cache;
pub mod chunking;
mod clock;
mod components;
pub mod decisions;
#[cfg(feature = "planted-defects")]
pub mod defects;
#[cfg(not(feature = "planted-defects"))]
#[expect(
    dead_code,
    unreachable_pub,
    reason = "what is planted is named where it would be made, and only with the feature made"
)]
mod defects;
mod edges;
mod error;
mod events;
mod evidence;
mod extent;
mod hash;
mod holds;
pub mod host;
mod ids;
mod ints;
mod limits;
mod namespace;
mod node;
pub mod operation;
mod order;
mod ordinal;
mod page_hash;
mod pool;
pub mod protocol;
mod provenance;
mod rank;
mod residency;
mod runs;
mod segments;
mod sha256;
#[cfg(test)]
mod testing;
mod tiered;
mod tree;

pub use cache::{Config, Evicted, Insert, Match, NodeInfo, PrefixCache, Resume, Sizes, TierSizes};
pub use clock::Stamp;
pub use components::{COMPONENTS_MAX, Component, ComponentKind, Components, Ends, Presence};
pub use error::{Error, ErrorKind};
pub use events::{KvEvent, Tier};
pub use evidence::{KeyLog, Record, RecordKind, unpack};
pub use holds::{HostLockReceipt, LockReceipt, PinReceipt};
pub use ints::Ints;
pub use limits::{EVENT_ENTRIES_MAX, JOURNAL_RECORDS_DEFAULT, PAGE_SIZE_MAX, SLOT_LIMIT, TOKEN_LIMIT};
pub use namespace::Namespace;
pub use node::NodeHandle;
pub use order::{Builtin, Eviction, NodeFacts, Policy, PolicyFailure, PolicyKey};
pub use ordinal::Ordinal;
pub use page_hash::{PageHash, page_hashes};
pub use pool::SlotPool;
pub use provenance::{Agreed, PerRank};
pub use rank::Rank;
pub use tiered::{
    Attachment, BreakerChange, DeviceRoom, Effect, OperationTotals, PrefetchPatience, PrefetchState, PrefetchTicket,
    StepError, StoredRun, TierTotals, TieredCache, TieredMatch, Tiers, Transfer, Writing,
};
