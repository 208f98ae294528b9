//! What was asked and decided in a run.

use super::phase::{Group, Phase};

/// Counts of a run with decisions, by its leaders; all 0 in a run with caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Requests that arrived.
    pub requests: u64,
    /// Questions: pairs of a request and an epoch, of each group.
    pub questions: u64,
    /// Verdicts of prefill's queue and of decode's: ready, failed, aborted, timed out, missing.
    pub verdicts: [[u64; 5]; 2],
    /// Requests that were given up, by the [`Phase`] that they were in.
    pub aborted_in: [u64; Phase::ALL.len()],
    /// Requests that were sent back to the queue.
    pub retracted: u64,
    /// Requests that came to the end of their answer.
    pub finished: u64,
    /// Chunks of prompts.
    pub chunks: u64,
    /// Of these, chunks whose length the agreed coefficients made.
    pub fitted_chunks: u64,
    /// Reports of ranks that came too late to count.
    pub late_reports: u64,
}

impl Tally {
    /// Requests that were given up.
    #[must_use]
    pub fn aborted(&self) -> u64 {
        self.aborted_in.iter().sum()
    }

    /// Verdicts of both queues, in the order of their kinds.
    #[must_use]
    pub fn of_both(&self) -> [u64; 5] {
        let [prefill, decode] = self.verdicts;
        std::array::from_fn(|kind| prefill[kind] + decode[kind])
    }

    pub(super) fn verdict(&mut self, group: Group, verdict: isoradix_core::decisions::Verdict) {
        self.verdicts[group as usize][verdict as usize] += 1;
    }

    /// Adds another run's.
    pub(crate) fn join(&mut self, other: &Self) {
        self.requests += other.requests;
        self.questions += other.questions;
        for (own, other) in self.verdicts.as_flattened_mut().iter_mut().zip(other.verdicts.as_flattened()) {
            *own += other;
        }
        self.aborted_in.iter_mut().zip(&other.aborted_in).for_each(|(own, other)| *own += other);
        self.retracted += other.retracted;
        self.finished += other.finished;
        self.chunks += other.chunks;
        self.fitted_chunks += other.fitted_chunks;
        self.late_reports += other.late_reports;
    }
}
