//! What storage has failed is tried again: by an operation of its own, as often as all ranks have agreed at start.
//!
//! That an operation has failed is what a frame says of it, and when the next attempt is due goes by the framed clock.

use super::TieredCache;
use super::error::StepError;
use super::jobs::{Fetch, Work};
use crate::cache::Segment;
use crate::holds::HostLockReceipt;
use crate::operation::Kind;
use crate::ordinal::Ordinal;
use crate::protocol::{AppliedControl, AppliedFrame, TopTier};

impl TieredCache {
    /// An operation has ended early: whether it is tried again once it is over.
    pub(super) fn plan_retry(&mut self, k: Ordinal) {
        let failed = self.operations.operation(k).is_some_and(Self::has_failed);
        #[cfg(feature = "planted-defects")]
        let failed = failed && self.planted_retry(k);
        let (Some(now), Some(job), true) = (self.now, self.jobs.get_mut(&k), failed) else { return };
        job.again = match &mut job.work {
            Work::Prefetch(fetch) => !job.given_up && fetch.retry.failed(now, &self.tiers.retry).is_some(),
            Work::Store(_) => {
                self.wishes.store_due = self.wishes.store_retry.failed(now, &self.tiers.retry);
                self.wishes.store_due.is_some()
            }
            Work::Backup(_) | Work::LoadBack(_) | Work::Open => false,
        };
    }

    /// What the leader ends is not tried again, however it ends: known before what the frame does to it.
    pub(super) fn give_up_retries(&mut self, frame: &AppliedFrame) {
        for control in frame.controls() {
            let (AppliedControl::Terminate(k) | AppliedControl::TimeOut(k) | AppliedControl::Abort(k)) = control else {
                continue;
            };
            if let Some(job) = self.jobs.get_mut(&k.get())
                && matches!(job.work, Work::Prefetch(_))
            {
                (job.given_up, job.again) = (true, false);
            }
        }
    }

    /// A prefetch that has failed is over: it is issued anew when the step is closed, with its anchor still kept.
    pub(super) fn fetch_again(&mut self, fetch: Fetch) -> Result<(), StepError> {
        if self.asks_storage() && self.is_on(TopTier::Storage) && self.has_room() && self.breaker_lets() {
            self.totals.of_mut(Kind::Prefetch).retried += 1;
            self.wishes.fetches.push(fetch);
            return Ok(());
        }
        self.decline(Kind::Prefetch, fetch.pages);
        self.cache.unlock_host(fetch.lock)?;
        Ok(())
    }

    /// A store is over: what it has not brought to storage is wished for again, before all else, or given up.
    pub(super) fn store_over(
        &mut self,
        subjects: Vec<(Segment, HostLockReceipt)>,
        done: bool,
        again: bool,
    ) -> Result<(), StepError> {
        let mut segments = Vec::with_capacity(subjects.len());
        for (segment, lock) in subjects {
            self.cache.unlock_host(lock)?;
            segments.push(segment);
        }
        if again && self.is_on(TopTier::Storage) {
            self.totals.of_mut(Kind::Store).retried += 1;
            segments.append(&mut self.wishes.stores);
            self.wishes.stores = segments;
            return Ok(());
        }
        self.wishes.store_retry.succeeded();
        self.wishes.store_due = None;
        if !done {
            self.give_up_stores(&segments);
        }
        Ok(())
    }

    /// These will not be stored, unless something below them is, or they come to host anew.
    pub(super) fn give_up_stores(&mut self, segments: &[Segment]) {
        let pages = segments.iter().fold(0_u32, |sum, segment| sum.saturating_add(segment.pages));
        if pages > 0 {
            self.decline(Kind::Store, pages);
            self.totals.given_up_tokens += self.cache.units_of(pages);
        }
    }
}
