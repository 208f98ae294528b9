//! Where the mistakes of [`Defect`] are made, but for those that are one word in the right place.

use super::TieredCache;
use super::answers::PrefetchTicket;
use super::jobs::{Fetch, Work};
use crate::defects::Defect;
use crate::hash;
use crate::operation::{Kind, Subject};
use crate::ordinal::Ordinal;
use crate::protocol::{Board, Frame};
use crate::provenance::{Agreed, Applied, PerRank};
use std::collections::{BTreeMap, BTreeSet};

/// Own copies that wait, at which a rank that looks at its own queue finds it long.
const LONG_QUEUE: usize = 2;

/// What this rank alone knows.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// Its monotonic clock, in milliseconds.
    clock_ms: u64,
    /// Its copies that have not ended.
    pub(super) copying: BTreeMap<Ordinal, Kind>,
    /// Its operations that storage has failed here.
    failed: BTreeSet<Ordinal>,
    /// Pages that its storage had for its prefetches.
    found: BTreeMap<Ordinal, u32>,
    /// First pages, as hashes, of what its storage had nothing of.
    missed: BTreeSet<u64>,
}

impl TieredCache {
    pub(crate) fn plant(&mut self, defect: Defect) {
        self.planted.defect = Some(defect);
        self.cache.plant(self.planted);
        self.operations.planted = self.planted;
    }

    pub(crate) fn set_clocks(&mut self, wall: u64, own_ms: u64) {
        (self.planted.wall_clock, self.own.clock_ms) = (wall, own_ms);
        self.cache.plant(self.planted);
    }

    /// Operations open, as this rank counts them.
    pub(super) fn planted_open(&self, open: u64) -> u64 {
        let long = self.planted.is(Defect::OwnQueueLength) && self.own.copying.len() >= LONG_QUEUE;
        if long { self.tiers.window.into() } else { open }
    }

    /// Whether the prefetch's deadline has passed by this rank's own clock.
    pub(super) fn planted_late(&self, ticket: PrefetchTicket) -> bool {
        let late = |work: &Work| match work {
            Work::Prefetch(Fetch { deadline: Some(deadline), ticket: of, .. }) => {
                *of == ticket && deadline.at_ms() <= self.own.clock_ms
            }
            _ => false,
        };
        self.planted.is(Defect::TimeoutJudgedLocally) && self.jobs.values().any(|job| late(&job.work))
    }

    /// Whether the step's backups are left to the next step.
    pub(super) fn planted_merge(&self) -> bool {
        let busy = self.own.copying.values().any(|kind| *kind == Kind::Backup);
        self.planted.is(Defect::MergedAtLocalBoundary) && busy
    }

    /// Storage has failed an operation here.
    pub(crate) fn failed_here(&mut self, k: Ordinal) {
        self.own.failed.insert(k);
        if self.planted.is(Defect::LocalBreaker) {
            self.judge(k, Some(false));
        }
    }

    /// Whether an operation that has failed somewhere is tried again.
    pub(super) fn planted_retry(&self, k: Ordinal) -> bool {
        !self.planted.is(Defect::RetryJudgedLocally) || self.own.failed.contains(&k)
    }

    /// Storage is taken for attached before any rank has opened it.
    pub(super) fn planted_attach(&mut self) {
        if self.planted.is(Defect::AttachWithoutPrepare) {
            self.opened(true);
        }
    }

    /// Whether a switch of tiers is left out.
    pub(super) fn planted_keeps_tiers(&self) -> bool {
        self.planted.is(Defect::TiersKeptWhileCopying) && !self.own.copying.is_empty()
    }

    /// Evicts what this rank lacks for a reservation.
    pub(super) fn planted_reserve(&mut self, k: Ordinal, subjects: &[Subject]) {
        let asked: u32 = subjects.iter().map(|subject| subject.pages).sum();
        let missing = asked.saturating_sub(u32::try_from(self.host.pages(k).len()).unwrap_or(u32::MAX));
        if self.planted.is(Defect::EvictionInReserve) && missing > 0 {
            self.evict_host(missing);
        }
    }

    /// Polls this rank's own copy again, after the agreement.
    pub(super) fn planted_poll(&mut self, k: Ordinal) {
        let under_way = self.own.copying.get(&k) == Some(&Kind::Prefetch);
        if let Some(job) = self.jobs.get_mut(&k)
            && self.planted.is(Defect::SecondPoll)
        {
            job.unwanted |= under_way;
        }
    }

    /// Keeps in mind what this rank's storage has of a prefetch.
    pub(super) fn planted_found(&mut self, k: Ordinal, pages: PerRank<u32>) -> PerRank<u32> {
        let (pages, seen) = pages.fork();
        if let Some(Work::Prefetch(fetch)) = self.jobs.get(&k).map(|job| &job.work) {
            let found = seen.into_ballot();
            self.own.found.insert(k, found);
            if found == 0 {
                self.own.missed.insert(self.first_page(&fetch.key, fetch.above));
            }
        }
        pages
    }

    /// Host pages that an operation keeps, of those that it has taken.
    pub(super) fn planted_commit(&self, k: Ordinal, agreed: u32) -> u32 {
        let own = self.own.found.get(&k).filter(|_| self.planted.is(Defect::OwnHitLength));
        let taken = u32::try_from(self.host.pages(k).len()).unwrap_or(u32::MAX);
        own.map_or(agreed, |own| (*own).min(taken))
    }

    /// Whether this rank holds that storage has nothing of the key above so many units.
    pub(super) fn planted_absent(&self, key: &[u32], above: u64) -> bool {
        self.planted.is(Defect::LocalExistenceCache) && self.own.missed.contains(&self.first_page(key, above))
    }

    /// A hash of the key up to the first page above so many units.
    fn first_page(&self, key: &[u32], above: u64) -> u64 {
        let end = usize::try_from(above + u64::from(self.cache.page_size())).unwrap_or(usize::MAX);
        key[..end.min(key.len())].iter().fold(0, |hash, token| hash::mix(hash, u64::from(*token) + 1))
    }

    /// The frame as the follower misreads it.
    pub(crate) fn planted_frame(&self, frame: Frame, board: &Board) -> Frame {
        match board.newest() {
            Some(newest) if self.planted.is(Defect::FollowerReadsOwnVote) => frame.with_vote(newest),
            _ => frame,
        }
    }

    /// What goes wrong before a step is closed.
    pub(crate) fn planted_close(&mut self, board: &mut Board) {
        if let Some(newest) = board.newest()
            && self.planted.is(Defect::WindowSlidesByVote)
        {
            let retired = Agreed::mint(&Applied::after_all_checks(), newest.retired_here());
            // A base that would go back is left alone.
            let _ = self.operations.slide(retired);
        }
        if self.planted.is(Defect::CounterResetByFlush) && std::mem::take(&mut self.planted.flushed) {
            board.forget_counters();
        }
    }

    /// A lock is given back when the copy has ended here, and not when all ranks know that it has ended everywhere.
    pub(crate) fn copy_ended_here(&mut self, k: Ordinal) {
        self.own.copying.remove(&k);
        if !self.planted.is(Defect::UnlockedByCompletion) {
            return;
        }
        let Some(job) = self.jobs.get_mut(&k) else { return };
        if let Work::Backup(subjects) | Work::LoadBack(subjects) = &mut job.work {
            for held in std::mem::take(subjects) {
                let _ = self.give_back(&held);
            }
        }
    }
}
