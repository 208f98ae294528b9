//! Dropping much at once.

use super::TieredCache;
use super::jobs::{Fetch, Work};
use super::limbo::Kept;
use super::wishes::Wishes;
use crate::cache::Busy;
use crate::error::Error;
use crate::namespace::Namespace;
use crate::node::NodeHandle;
use std::collections::BTreeSet;

impl TieredCache {
    /// Drops all of a namespace from both tiers; appends its device slots to `out` and gives their number.
    ///
    /// # Errors
    /// Any of it is locked, pinned or locked on host, by requests or by operations.
    ///
    /// # Panics
    /// If the host pool and the tree disagree about a page, which is a defect.
    pub fn remove_namespace(&mut self, namespace: &Namespace, out: &mut Vec<i64>) -> Result<u64, Error> {
        let mut pages = Vec::new();
        let on_host = self.wishes.stores.iter().filter(|segment| self.cache.is_wholly_on_host(**segment));
        let on_host: BTreeSet<NodeHandle> = on_host.map(|segment| segment.end).collect();
        let dropped = self.cache.remove_namespace_from_tiers(namespace, out, &mut pages)?;
        self.host.release(&pages).expect("the tree's pages are settled");
        self.forget_fetches(namespace)?;
        // What is removed is not given up.
        let cache = &self.cache;
        self.wishes.stores.retain(|segment| !on_host.contains(&segment.end) || cache.is_wholly_on_host(*segment));
        Ok(dropped)
    }

    /// Prefetches from the root up are not held back by a removal, and must not bring back what was removed.
    fn forget_fetches(&mut self, namespace: &Namespace) -> Result<(), Error> {
        for job in self.jobs.values_mut() {
            job.unwanted |= matches!(&job.work, Work::Prefetch(fetch) if fetch.namespace == *namespace);
        }
        let fetches = std::mem::take(&mut self.wishes.fetches);
        let (gone, kept): (Vec<Fetch>, Vec<Fetch>) =
            fetches.into_iter().partition(|fetch| fetch.namespace == *namespace);
        self.wishes.fetches = kept;
        gone.into_iter().try_for_each(|fetch| self.cache.unlock_host(fetch.lock))
    }

    /// Drops everything from both tiers, held or not, ends every receipt and forgets every wish; gives the units that were on
    /// the device.
    ///
    /// Appends to `out` the device slots that are free now. What a copy under way may touch stays occupied until all operations
    /// that are open now have ended: those slots come later, as [`Effect::FreeSlots`](super::Effect::FreeSlots). Clock, ordinals
    /// and digests go on.
    ///
    /// # Panics
    /// If the host pool and the tree disagree about a page, which is a defect.
    pub fn reset(&mut self, out: &mut Vec<i64>) -> u64 {
        let dropped = self.sizes().device.total;
        let mut busy = Busy::default();
        for job in self.jobs.values_mut() {
            if !job.void {
                mark_busy(&job.work, &mut busy);
                job.void = true;
            }
        }
        let until = self.operations.issued();
        let (free, space) = self.cache.reset_tiers(&busy);
        out.extend(free.slots);
        self.host.release(&free.pages).expect("the tree's pages are settled");
        self.totals.limbo_tokens += space.slots.len() as u64;
        self.limbo.keep(Kept { until, space });
        self.wishes = Wishes::default();
        #[cfg(feature = "planted-defects")]
        {
            self.planted.flushed = true;
        }
        dropped
    }
}

/// Which nodes a copy of this work may read or write, by tier. What an operation's own host pages are, the pool knows.
fn mark_busy(work: &Work, busy: &mut Busy) {
    match work {
        Work::Backup(subjects) => {
            busy.device.extend(subjects.iter().map(|held| held.segment));
        }
        Work::LoadBack(subjects) => {
            let segments = subjects.iter().map(|held| held.segment);
            busy.device.extend(segments.clone());
            busy.host.extend(segments);
        }
        Work::Store(subjects) => {
            busy.host.extend(subjects.iter().map(|(segment, _)| *segment));
        }
        Work::Prefetch(_) | Work::Open => {}
    }
}
