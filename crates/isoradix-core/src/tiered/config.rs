//! What a tiered cache is made with, beside what every cache is made with.

use crate::protocol::{Backoff, BreakerRule};

/// When what is on the device comes to host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// Once so many inserts have passed through a node: 1 writes everything through, 2 what was used again.
    Through {
        /// Inserts, at least 1.
        hits: u32,
    },
    /// Early cleaning: the oldest nodes are backed up while what is free on the device, or could be evicted without
    /// loss, is below this. Host gives up copies of what is on the device for it; what is on host alone it evicts only below half
    /// of this.
    Back {
        /// Tokens.
        low_water: u64,
    },
}

/// What a step's close is told of the device's pool, by its logical count: equal on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceRoom {
    /// Free slots.
    pub free: u64,
    /// Tokens for which room was promised that they have not taken yet: backups lock no more than leaves so many free or evictable.
    pub promised: u64,
}

impl From<u64> for DeviceRoom {
    /// So many free slots, and nothing promised.
    fn from(free: u64) -> Self {
        Self { free, promised: 0 }
    }
}

/// How long a request waits for a prefetch, from the first [`poll_prefetch`](super::TieredCache::poll_prefetch) on, before the
/// leader ends it; see [`prefetch_patience_ms`](crate::protocol::prefetch_patience_ms).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefetchPatience {
    /// Milliseconds for any prefetch.
    pub base_ms: u64,
    /// Milliseconds more for each 1,024 tokens begun.
    pub per_ki_token_ms: u64,
    /// Milliseconds at most.
    pub most_ms: u64,
}

/// What a tiered cache is made with. Agreed by all ranks at start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tiers {
    /// When what is on the device comes to host.
    pub writing: Writing,
    /// Fewest tokens that are worth loading back from host.
    pub load_back_min: u64,
    /// Fewest tokens that are worth fetching from storage.
    pub prefetch_min: u64,
    /// Whether what comes to host is written on to external storage.
    pub storage: bool,
    /// Operations that may be open at a time: the width of the ballots' window, 1 to [`WINDOW_MAX`](crate::protocol::WINDOW_MAX).
    pub window: u32,
    /// When a request has waited for a prefetch for long enough; never, if there is none.
    pub patience: Option<PrefetchPatience>,
    /// When external storage is left alone for a while because it fails or is too slow; never, if there is none.
    pub breaker: Option<BreakerRule>,
    /// How often a prefetch or a store that storage failed is tried at most. A prefetch is tried again at once, since a request waits
    /// for it; stores after a pause.
    pub retry: Backoff,
}

/// The lengths and times that `SGLang`'s hierarchical cache has by default (version 0.5.23).
impl Default for Tiers {
    fn default() -> Self {
        Self {
            writing: Writing::Through { hits: 1 },
            load_back_min: 10,
            prefetch_min: 256,
            storage: false,
            window: 64,
            patience: Some(PrefetchPatience { base_ms: 1_000, per_ki_token_ms: 250, most_ms: 10_000 }),
            breaker: Some(BreakerRule { failures_max: 5, open_ms: 10_000, trials: 2, slow_ms: 30_000 }),
            retry: Backoff { first_ms: 100, longest_ms: 5_000, attempts_max: 3 },
        }
    }
}
