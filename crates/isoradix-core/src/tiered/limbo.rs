//! What a reset could not free at once: copies that were under way may still touch it.

use crate::cache::Space;
use std::collections::VecDeque;

/// Slots and pages that wait for the operations that were open when the cache was reset.
#[derive(Debug)]
pub(super) struct Kept {
    /// Once this many operations have retired, nothing touches them.
    pub(super) until: u64,
    pub(super) space: Space,
}

/// All of these, one a reset.
#[derive(Debug, Default)]
pub(super) struct Limbo(VecDeque<Kept>);

impl Limbo {
    pub(super) fn keep(&mut self, kept: Kept) {
        if !kept.space.slots.is_empty() || !kept.space.pages.is_empty() {
            self.0.push_back(kept);
        }
    }

    /// What nothing touches any more.
    pub(super) fn freed(&mut self, retired: u64) -> Option<Kept> {
        let free = self.0.front().is_some_and(|kept| kept.until <= retired);
        if free { self.0.pop_front() } else { None }
    }

    pub(super) fn slots(&self) -> u64 {
        self.0.iter().map(|kept| kept.space.slots.len() as u64).sum()
    }

    pub(super) fn pages(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().flat_map(|kept| kept.space.pages.iter().copied())
    }
}
