//! Mistakes that tests ask for, to see them caught: what a rank sees for itself decides.

use super::queue::DecisionQueue;
use super::token::{Token, Verdict};
use crate::defects::Defect;

impl DecisionQueue {
    /// Plants a mistake, to see it caught.
    pub fn plant(&mut self, defect: Defect) {
        self.planted.defect = Some(defect);
    }

    /// This rank's own clock, in milliseconds, which only planted mistakes read.
    pub fn set_clock(&mut self, own_ms: u64) {
        self.planted.wall_clock = own_ms;
    }

    /// A timeout that each rank judges by itself.
    pub(super) fn clock_ms(&self, of_ruling: u64) -> u64 {
        if self.planted.is(Defect::VerdictTimedOutLocally) { self.planted.wall_clock } else { of_ruling }
    }

    /// A second poll: what was agreed to be ready is dropped, as it has failed here meanwhile.
    pub(super) fn planted_poll(&self, token: &Token, verdict: Verdict, rank: Option<u32>) -> (Verdict, Option<u32>) {
        let failed = self.requests.get(&token.request).is_some_and(|known| known.failed_late);
        if self.planted.is(Defect::PollAfterVerdict) && verdict == Verdict::Ready && failed {
            return (Verdict::Failed, Some(self.rank));
        }
        (verdict, rank)
    }
}
