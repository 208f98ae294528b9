//! The vectors that this rank's own vote thread completed last.

use super::reduced::Reduced;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

/// The last vectors, by the ordinal of their vote. They share their words with whoever else holds them.
#[derive(Debug, Clone)]
pub(super) struct CompletedRing {
    /// Of consecutive votes.
    kept: VecDeque<Reduced>,
    /// Vectors kept at most.
    capacity: u32,
}

/// As for a ballot ring: what it holds is history, and the hash of a board leaves that out.
impl Hash for CompletedRing {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.capacity, self.kept.back().map(Reduced::vote)).hash(state);
    }
}

impl CompletedRing {
    pub(super) fn new(capacity: u32) -> Self {
        Self { kept: VecDeque::new(), capacity }
    }

    /// Keeps the vector of the next vote.
    pub(super) fn push(&mut self, reduced: Reduced) {
        debug_assert!(self.kept.back().is_none_or(|last| last.vote() + 1 == reduced.vote()));
        if self.kept.len() >= self.capacity as usize {
            self.kept.pop_front();
        }
        self.kept.push_back(reduced);
    }

    /// The vector kept last.
    #[cfg(feature = "planted-defects")]
    pub(super) fn newest(&self) -> Option<&Reduced> {
        self.kept.back()
    }

    /// The vector of that vote, if it is completed here and not too old.
    pub(super) fn get(&self, vote: u64) -> Option<&Reduced> {
        let place = vote.checked_sub(self.kept.front()?.vote())?;
        self.kept.get(usize::try_from(place).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::layout;

    fn reduced(vote: i64) -> Reduced {
        let mut words = vec![0; layout::ballot_words(1)];
        layout::set_pair(&mut words, layout::VOTE, vote);
        Reduced::from_words(words.into())
    }

    #[test]
    fn holds_the_last_vectors_and_makes_none_up() {
        let mut ring = CompletedRing::new(3);
        assert_eq!(ring.get(0), None);
        (5..10).for_each(|vote| ring.push(reduced(vote)));
        let votes = [4, 6, 7, 9, 10].map(|vote| ring.get(vote).map(Reduced::vote));
        assert_eq!(votes, [None, None, Some(7), Some(9), None]);
    }
}
