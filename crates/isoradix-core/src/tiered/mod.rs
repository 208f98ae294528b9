//! The cache over two tiers: tree, host pages and operations as one deterministic machine.
//!
//! Verbs change the tree at once and wish for copies; closing a step turns the wishes of one kind into one
//! operation (each prefetch is one by itself); applied frames move the operations, and their actions change tree and host pool. All of it is logical: what a
//! verb answers, and what a close issues, is a function of the calls and of the frames applied, on every rank alike. The
//! physical side, which slots and pages a copy touches, leaves as [`Effect`]s and decides nothing.
//!
//! | wish | made by | operation |
//! |---|---|---|
//! | load-back | `load_back`: its nodes are on the device at once, locked until it is done | host to device |
//! | prefetch | `prefetch`: its tokens come into the tree when it ends | storage to host |
//! | backup | an insert that reaches the threshold, or early cleaning | device to host |
//! | store | a delivered backup, where there is storage | host to storage |
//!
//! Who owns a host page: the pool, then the operation from `reserve` to `settle`, then the tree until its node leaves host,
//! then the pool. A reset hands what open operations touch to *limbo*, until they have ended.
//!
//! Files, each importing only from those before it: `config`, `answers`, `effects`, `error`, `totals`; `jobs`, `wishes`, `limbo`;
//! `components`, `switching`, `breaking`, `attaching`, `loading`, `issue`, `retrying`, `apply`, `reset`, `look`, and `planted`, the mistakes that tests ask for.

mod answers;
mod apply;
mod attaching;
mod breaking;
mod components;
mod config;
mod effects;
mod error;
mod issue;
mod jobs;
mod limbo;
mod loading;
mod look;
#[cfg(feature = "planted-defects")]
mod planted;
mod reset;
mod retrying;
mod switching;
mod totals;
mod wishes;

pub use answers::{PrefetchState, PrefetchTicket, TieredMatch};
pub use attaching::Attachment;
pub use breaking::BreakerChange;
pub use config::{DeviceRoom, PrefetchPatience, Tiers, Writing};
pub use effects::{Effect, StoredRun, Transfer};
pub use error::StepError;
pub use totals::{OperationTotals, TierTotals};

use crate::cache::{Config, Evicted, Insert, PrefixCache, Resume};
use crate::components::Components;
use crate::defects::Planted;
use crate::error::Error;
use crate::events::KvEvent;
use crate::evidence::Record;
use crate::holds::{LockReceipt, PinReceipt};
use crate::host::{Backing, HostPool};
use crate::ints::Ints;
use crate::namespace::Namespace;
use crate::node::NodeHandle;
use crate::operation::{OperationTable, Pools};
use crate::ordinal::Ordinal;
use crate::protocol::{Breaker, TopTier, WINDOW_MAX};
use crate::provenance::Agreed;
use breaking::Guard;
use jobs::Jobs;
use limbo::Limbo;
use wishes::Wishes;

/// A prefix cache over device and host, equal on all ranks at every step. One rank's [`Rank`](crate::Rank) drives it.
#[derive(Debug)]
pub struct TieredCache {
    tiers: Tiers,
    /// What the model keeps beside keys and values.
    components: Components,
    cache: PrefixCache,
    host: HostPool,
    operations: OperationTable,
    jobs: Jobs,
    wishes: Wishes,
    /// The highest tier that is on.
    top: TopTier,
    /// What keeps storage that fails from being asked.
    guard: Guard,
    /// Whether there is external storage.
    attachment: Attachment,
    /// While it is being detached: what backups before this one bring to host is stored.
    stored_before: Ordinal,
    /// It was detached once.
    was_detached: bool,
    /// Times that all ranks were asked to open it.
    openings: u64,
    limbo: Limbo,
    /// Prefetches wished for so far.
    tickets: u64,
    /// The leader's clock in the frame applied last.
    now: Option<Agreed<u64>>,
    effects: Vec<Effect>,
    totals: TierTotals,
    planted: Planted,
    /// What only planted mistakes look at.
    #[cfg(feature = "planted-defects")]
    own: planted::Own,
}

impl TieredCache {
    /// An empty cache in front of a pool of host pages, each as large as a page of the device.
    ///
    /// # Errors
    /// A configuration out of range; a fixed pool.
    pub fn new(rank: u32, config: Config, tiers: Tiers, host: HostPool) -> Result<Self, Error> {
        if tiers.writing == (Writing::Through { hits: 0 }) {
            let hint = "1 writes everything through, 2 what is used again";
            return Err(out_of_range("write-through hits", 0, u32::MAX, hint));
        }
        if host.backing() == Backing::Fixed {
            let hint = "make it with Backing::Voting: what a rank can back is found out when it is asked";
            return Err(Error::Invalid { what: "a fixed pool of host pages".to_owned(), hint });
        }
        check_storage(&tiers)?;
        let cache = match tiers.writing {
            Writing::Through { .. } => PrefixCache::new(config)?,
            Writing::Back { .. } => PrefixCache::clean_first(config)?,
        };
        let hint = "64 operations are enough for a few steps of latency";
        let operations = OperationTable::new(rank, tiers.window, Pools::USUAL)
            .map_err(|_| out_of_range("window", tiers.window, WINDOW_MAX, hint))?;
        Ok(Self {
            tiers,
            components: Components::default(),
            cache,
            host,
            operations,
            jobs: Jobs::new(),
            wishes: Wishes::default(),
            top: TopTier::default(),
            guard: Guard::new(tiers.breaker.map(Breaker::new)),
            attachment: if tiers.storage { Attachment::Attached } else { Attachment::Absent },
            stored_before: Ordinal(0),
            was_detached: false,
            openings: 0,
            limbo: Limbo::default(),
            tickets: 0,
            now: None,
            effects: Vec::new(),
            totals: TierTotals::default(),
            planted: Planted::default(),
            #[cfg(feature = "planted-defects")]
            own: planted::Own::default(),
        })
    }

    /// The longest cached prefix of `key` over both tiers; otherwise as [`PrefixCache::match_prefix`]. Where host is switched off,
    /// nothing on it is offered. Of a cache with components, each of the two ends is the deepest one that is usable for all of them.
    ///
    /// # Errors
    /// As there.
    pub fn match_prefix(
        &mut self,
        key: Ints<'_>,
        namespace: &Namespace,
        resume: Option<Resume>,
    ) -> Result<TieredMatch, Error> {
        let found = self.cache.match_prefix(key, namespace, resume)?;
        if !self.components.is_empty() {
            return self.usable(found.node);
        }
        let (node, hit_tokens) = self.cache.on_device(found.node)?;
        if !self.is_on(TopTier::Host) {
            return Ok(TieredMatch { hit_tokens, node, host_tokens: 0, host_node: node });
        }
        Ok(TieredMatch { hit_tokens, node, host_tokens: found.hit_tokens - hit_tokens, host_node: found.node })
    }

    /// Caches `key` on the device, as [`PrefixCache::insert`]; what of it is on host alone takes its slots as well.
    ///
    /// Under write-through, whatever has the hits now is wished for on host.
    ///
    /// Of a cache with components, what is on the device may lack parts that computing a page gives: it came from storage. From the
    /// first such node on that nothing holds, the tree takes the caller's slots, so `prefix_len` ends there, and those that it had come as
    /// [`Effect::FreeSlots`] when the step is closed. So a caller holds what it has matched until the insert, and below that passes slots of its own.
    /// Where something holds a node that lacks parts, and the key's end would not be usable because of it, the insert ends before: `length` is
    /// the deepest end that is, 0 perhaps, and what comes after stays the caller's.
    ///
    /// # Errors
    /// As there; also if the resume point is deeper than what is on the device.
    pub fn insert(
        &mut self,
        key: Ints<'_>,
        slots: Ints<'_>,
        namespace: &Namespace,
        priority: i64,
        resume: Option<Resume>,
    ) -> Result<Insert, Error> {
        let insert = self.cache.insert(key, slots, namespace, priority, resume)?;
        if let Writing::Through { .. } = self.tiers.writing
            && self.is_on(TopTier::Host)
        {
            self.wishes.backups.add(self.cache.path_without_backup(insert.node));
        }
        Ok(insert)
    }

    /// Drops what may go from the device until at least `num_tokens` are freed; what is on host too stays there.
    ///
    /// It never waits: under write-back, what is on host goes first, then what is not is dropped in its turn, and reported.
    ///
    /// # Errors
    /// As [`PrefixCache::evict`].
    pub fn evict(&mut self, num_tokens: u64, out: &mut Vec<i64>) -> Result<Evicted, Error> {
        let mut evicted = self.cache.evict_from_device(num_tokens, out)?;
        if let Writing::Back { .. } = self.tiers.writing {
            evicted.dropped_dirty = evicted.freed - evicted.demoted;
        }
        self.totals.evicted_tokens += evicted.freed;
        self.totals.demoted_tokens += evicted.demoted;
        self.totals.dropped_dirty_tokens += evicted.dropped_dirty;
        Ok(evicted)
    }

    /// Drops leaves that are on host alone until at least `pages` pages are freed; gives how many were.
    ///
    /// # Panics
    /// If the host pool and the tree disagree about a page, which is a defect.
    pub fn evict_host(&mut self, pages: u32) -> u32 {
        let mut freed = Vec::new();
        let count = self.cache.evict_from_host(pages, &mut freed);
        self.host.release(&freed).expect("the tree's pages are settled");
        self.totals.host_evicted_tokens += self.cache.units_of(count);
        count
    }

    /// See [`PrefixCache::touch`].
    ///
    /// # Errors
    /// As there.
    pub fn touch(&mut self, node: NodeHandle) -> Result<(), Error> {
        self.cache.touch(node)
    }

    /// See [`PrefixCache::lock`]. What is locked leaves neither tier.
    ///
    /// # Errors
    /// As there.
    pub fn lock(&mut self, node: NodeHandle) -> Result<LockReceipt, Error> {
        self.cache.lock(node)
    }

    /// See [`PrefixCache::unlock`].
    ///
    /// # Errors
    /// As there.
    pub fn unlock(&mut self, receipt: LockReceipt) -> Result<(), Error> {
        self.cache.unlock(receipt)
    }

    /// See [`PrefixCache::pin`].
    ///
    /// # Errors
    /// As there.
    pub fn pin(&mut self, node: NodeHandle) -> Result<PinReceipt, Error> {
        self.cache.pin(node)
    }

    /// See [`PrefixCache::unpin`].
    ///
    /// # Errors
    /// As there.
    pub fn unpin(&mut self, receipt: PinReceipt) -> Result<(), Error> {
        self.cache.unpin(receipt)
    }

    /// See [`PrefixCache::take_records`].
    pub fn take_records(&mut self) -> Vec<Record> {
        self.cache.take_records()
    }

    /// See [`PrefixCache::take_events`].
    pub fn take_events(&mut self) -> Vec<KvEvent> {
        self.cache.take_events()
    }

    /// What is to be carried out now, in order.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }
}

fn check_storage(tiers: &Tiers) -> Result<(), Error> {
    let hint = "pass 1 or more, or no breaker at all";
    let counts =
        tiers.breaker.map(|rule| [("failures of a breaker", rule.failures_max), ("trials of a breaker", rule.trials)]);
    if let Some((what, value)) = counts.into_iter().flatten().find(|(_, value)| *value == 0) {
        return Err(out_of_range(what, value, u32::MAX, hint));
    }
    match tiers.retry.attempts_max {
        0 => Err(out_of_range("attempts at a store", 0, u32::MAX, "1 never tries again")),
        _ => Ok(()),
    }
}

fn out_of_range(what: &'static str, value: u32, max: u32, hint: &'static str) -> Error {
    Error::OutOfRange { what, value: value.into(), min: 1, max: max.into(), index: None, hint }
}
