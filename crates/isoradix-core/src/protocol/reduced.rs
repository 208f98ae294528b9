//! The vector that a vote gives: the MIN over all ranks, word by word.

use super::layout;
use std::fmt;
use std::sync::Arc;

/// One vote's result, checked, and closed: it has no reader but a frame.
///
/// The same numbers reach every rank, but at moments that physics chose. Only [`AppliedFrame`](super::AppliedFrame) hands them
/// out, at a step that all ranks share. A clone shares the words: vote thread, frame and rank look at one copy.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Reduced {
    words: Arc<[i64]>,
}

impl Reduced {
    /// The words must be as many as some window asks for.
    pub(super) fn from_words(words: Arc<[i64]>) -> Self {
        debug_assert!(words.len() > layout::BALLOT_HEADER_WORDS);
        Self { words }
    }

    pub(super) fn words(&self) -> &[i64] {
        &self.words
    }

    /// Ordinal of the vote.
    #[must_use]
    pub fn vote(&self) -> u64 {
        self.words[layout::VOTE].cast_unsigned()
    }

    pub(super) fn base(&self) -> u64 {
        self.words[layout::BASE].cast_unsigned()
    }

    pub(super) fn retired(&self) -> u64 {
        self.words[layout::RETIRED].cast_unsigned()
    }

    /// Leading operations that are terminal everywhere: for mistakes that are planted.
    #[cfg(feature = "planted-defects")]
    pub(crate) fn retired_here(&self) -> u64 {
        self.retired()
    }

    pub(super) fn issued(&self) -> u64 {
        self.words[layout::ISSUED].cast_unsigned()
    }

    /// The last step that is applied on every rank, if there is one.
    pub(super) fn applied_step(&self) -> Option<u64> {
        u64::try_from(self.words[layout::APPLIED_STEP]).ok()
    }

    /// Whether no rank is paused.
    pub(super) fn running(&self) -> bool {
        self.words[layout::RUNNING] != 0
    }

    /// Whether every rank has applied the stop frame.
    pub(super) fn stopping(&self) -> bool {
        self.words[layout::STOPPING] == 1
    }
}

impl fmt::Debug for Reduced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reduced").field("vote", &self.vote()).finish_non_exhaustive()
    }
}

/// Reduces `into` by another rank's vector of the same length, as the group's all-reduce by MIN does.
pub fn reduce_min(into: &mut [i64], other: &[i64]) {
    debug_assert_eq!(into.len(), other.len());
    for (into, other) in into.iter_mut().zip(other) {
        *into = (*into).min(*other);
    }
}
