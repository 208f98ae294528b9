//! One history: the leader's. Every other rank does the same in each step.

use super::deeds::Deeds;
use crate::rng::mix;
use crate::violation::{Wrong, ensure};
use std::collections::VecDeque;

/// The leader's steps, as far as some rank still has to come by.
#[derive(Debug)]
pub(super) struct History {
    ranks: usize,
    /// The first step that is kept.
    base: u64,
    /// What was done, and by how many ranks.
    steps: VecDeque<(Deeds, usize)>,
    chain: u64,
}

impl History {
    pub(super) fn new(ranks: usize) -> Self {
        Self { ranks, base: 1, steps: VecDeque::new(), chain: 0 }
    }

    /// The hash chain over all steps so far.
    pub(super) fn chain(&self) -> u64 {
        self.chain
    }

    /// The leader is always the first.
    pub(super) fn enter(&mut self, rank: usize, step: u64, deeds: Deeds) -> Result<(), Wrong> {
        if rank == 0 {
            self.chain = mix(self.chain, deeds.word());
            self.steps.push_back((deeds, 1));
            return Ok(());
        }
        let place = usize::try_from(step - self.base).unwrap_or(usize::MAX);
        let (leaders, ranks) = &mut self.steps[place];
        *ranks += 1;
        let difference = deeds.difference(leaders);
        while self.steps.front().is_some_and(|(_, ranks)| *ranks == self.ranks) {
            self.steps.pop_front();
            self.base += 1;
        }
        ensure(difference.is_none(), "divergence", || difference.unwrap_or_default())
    }
}
