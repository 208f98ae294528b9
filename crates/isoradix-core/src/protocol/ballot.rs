//! A rank's own ballots: the last ones, by the ordinal of their vote.

use super::layout::{self, Gap};
use std::hash::{Hash, Hasher};

/// What the ring can say about one of this rank's ballots.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kept<'a> {
    /// The ballot itself.
    Exact(&'a [i64]),
    /// It is gone; this is the oldest that is left. Numbers that only grow are not smaller in it.
    Later(&'a [i64]),
    /// It was never filled.
    Never,
}

/// The last ballots that this rank filled.
///
/// A scheduler that is slow, in a long forward pass, finds a frame with a vote that its own vote thread has left far behind. The ring
/// is bounded all the same: once a ballot has left it, the oldest one left stands in for it. What the check is for still
/// holds: this rank *has* whatever is framed, now if not then.
///
/// It takes memory as it fills, up to its capacity.
#[derive(Debug, Clone)]
pub(super) struct BallotRing {
    words: Vec<i64>,
    width: usize,
    /// Ballots kept at most.
    capacity: u32,
    filled: u64,
}

/// What the ring holds is history: two boards that go on alike may have come here on different ways. So the hash of a board
/// leaves it out.
impl Hash for BallotRing {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.width, self.capacity, self.filled).hash(state);
    }
}

impl BallotRing {
    pub(super) fn new(width: usize, capacity: u32) -> Self {
        Self { words: Vec::new(), width, capacity, filled: 0 }
    }

    fn place(&self, vote: u64) -> usize {
        usize::try_from(vote % u64::from(self.capacity)).unwrap_or_default() * self.width
    }

    /// Keeps the next ballot.
    pub(super) fn push(&mut self, ballot: &[i64]) {
        let place = self.place(self.filled);
        match self.words.get_mut(place..place + self.width) {
            Some(kept) => kept.copy_from_slice(ballot),
            None => self.words.extend_from_slice(ballot),
        }
        self.filled += 1;
    }

    /// The ballot kept last is this one instead.
    pub(super) fn replace(&mut self, ballot: &[i64]) {
        let Some(last) = self.filled.checked_sub(1) else { return };
        let place = self.place(last);
        self.words[place..place + self.width].copy_from_slice(ballot);
    }

    /// Ballots filled so far.
    pub(super) fn filled(&self) -> u64 {
        self.filled
    }

    /// This rank's ballot of that vote.
    pub(super) fn get(&self, vote: u64) -> Kept<'_> {
        if vote >= self.filled {
            return Kept::Never;
        }
        let oldest = self.filled.saturating_sub(self.capacity.into());
        let place = self.place(vote.max(oldest));
        let ballot = &self.words[place..place + self.width];
        if vote < oldest { Kept::Later(ballot) } else { Kept::Exact(ballot) }
    }
}

impl Kept<'_> {
    /// The first word of an agreed vector that is above this rank's own: what this rank lacks.
    pub(super) fn lacks(&self, agreed: &[i64]) -> Option<Gap> {
        match self {
            Self::Never => None,
            Self::Exact(own) => layout::first_above(agreed, own),
            // The pairs, the digest, `backable` and `running` may be smaller later on; what only grows may not.
            Self::Later(own) => layout::first_backward(agreed, own),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ordinal::Ordinal;

    fn gap(field: &'static str, operation: Option<Ordinal>, left: i64, right: i64) -> Gap {
        Gap { field, operation, left, right }
    }

    fn ballot(vote: i64) -> Vec<i64> {
        let mut words = vec![vote; layout::ballot_words(2)];
        words[layout::BASE] = 0;
        words
    }

    fn ring(filled: i64) -> BallotRing {
        let mut ring = BallotRing::new(layout::ballot_words(2), 4);
        (0..filled).for_each(|vote| ring.push(&ballot(vote)));
        ring
    }

    #[test]
    fn a_ballot_is_exact_then_stood_in_for_and_never_made_up() {
        let ring = ring(10);
        assert_eq!(ring.get(7), Kept::Exact(&ballot(7)));
        assert_eq!(ring.get(6), Kept::Exact(&ballot(6)));
        assert_eq!(ring.get(5), Kept::Later(&ballot(6)));
        assert_eq!(ring.get(10), Kept::Never);
    }

    #[test]
    fn a_replaced_ballot_is_still_of_its_vote() {
        for filled in [1, 4, 10] {
            let mut ring = ring(filled);
            let vote = filled.cast_unsigned() - 1;
            ring.replace(&ballot(77));
            assert_eq!((ring.get(vote), ring.get(vote + 1)), (Kept::Exact(&ballot(77)[..]), Kept::Never));
            ring.push(&ballot(78));
            assert_eq!(ring.get(vote), Kept::Exact(&ballot(77)));
        }
    }

    #[test]
    fn what_stands_in_still_shows_what_this_rank_lacks() {
        let ring = ring(10);
        let mut agreed = ballot(2);
        assert_eq!(ring.get(2).lacks(&agreed), None);
        let ready = layout::BALLOT_HEADER_WORDS + 3;
        agreed[ready] = 9;
        assert_eq!(ring.get(2).lacks(&agreed), Some(gap("ready", Some(Ordinal(0)), 9, 6)));
        agreed[ready] = 2;
        agreed[layout::BACKABLE] = 1000; // this rank's pool may have shrunk since
        assert_eq!(ring.get(2).lacks(&agreed), None);
        agreed = ballot(8);
        agreed[layout::BACKABLE] = 1000;
        assert_eq!(ring.get(8).lacks(&agreed), Some(gap("backable", None, 1000, 8)));
    }
}
