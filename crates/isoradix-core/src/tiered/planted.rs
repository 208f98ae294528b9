//! Where the mistakes of [`Defect`] are made, but for those that are one word in the right place.

use super::TieredCache;
use super::jobs::Work;
use crate::defects::Defect;
use crate::ordinal::Ordinal;
use crate::protocol::{Board, Frame};
use crate::provenance::{Agreed, Applied};

impl TieredCache {
    pub(crate) fn plant(&mut self, defect: Defect) {
        self.planted.defect = Some(defect);
        self.cache.plant(self.planted);
    }

    pub(crate) fn set_wall_clock(&mut self, now: u64) {
        self.planted.wall_clock = now;
        self.cache.plant(self.planted);
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
