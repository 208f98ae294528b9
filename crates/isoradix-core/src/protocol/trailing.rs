//! How far a prefix is usable where its last part has a state of its own: a sliding window, a recurrent model's snapshot.
//!
//! Of plain keys and values every leading part is usable, so the smallest of all ranks' lengths is too, and MIN is right. Trailing state
//! is there at some ends only, and each rank may lack it at others. The smallest of all ranks' deepest
//! ends may then be an end that another rank lacks: with ends {4, 8} on one rank and {4, 6} on the other MIN gives 6, and 4 is right. Sets
//! do not survive a MIN either, packed into bits or not. So ranks go down together, round by round:
//!
//! ```text
//! bound = what is asked for
//! again:  each rank votes its deepest usable end not beyond the bound, 0 if it has none
//!         the smallest is the bound: every rank has voted it, and that is the end. It is 0: there is none
//!         else bound = the smallest, and again
//! ```
//!
//! No common end is ever passed over, since every rank votes it or a deeper one. The bound falls in every round to an end of some rank, so
//! there is at most one round more than there are ends. An end that is found was voted by all ranks in one round.
//!
//! **How it travels.** In the [`Hit`](super::SlotField::Hit) word of the prefetch's slot, so it costs no message of its own. One word is
//! enough, though it only ever grows and is reduced by MIN:
//!
//! ```text
//! bits 33..63  the round, from 1 on: so that a word grows where its end goes down
//! bit  32      whether the end is the bound: MIN keeps it if every rank has set it
//! bits 0..32   the end, in pages
//! ```
//!
//! 0, which is less than any of these, says that this rank's storage has failed the question: then all know it, whatever they have found
//! themselves. They copy nothing before the end is agreed, and so have nothing to say in `ready` that could tell it.
//!
//! The bound of a round is read off the vector of the vote before, so every rank is in the same round in the same vote, and no scheduler
//! takes part: a search goes on at the pace of the votes. A vector tells by itself whether the search is at its end, so a frame may carry any of
//! them. Only applying the frame makes the end [`Agreed`](crate::Agreed).
//!
//! A pair `(e, !e)` would end a search one vote earlier where all ranks vote the same end above a bound that none has; it would take a
//! word more for every operation in every vote, whether or not it searches.

use super::layout::{NO_STAKE, UNKNOWN};
use crate::components::Ends;
use crate::defects::{Defect, Planted};

const ROUND: u32 = 33;
const AT_BOUND: i64 = 1 << 32;

/// The word of a rank whose storage has failed the question.
pub(super) const FAILED: i64 = 0;

/// Rounds that fit into a word: far more than a prefix has pages.
const ROUNDS_MAX: u32 = (1 << 30) - 2;

/// One rank's part in the search for the deepest end that is usable on every rank.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Search {
    /// This rank's own, in pages.
    ends: Ends,
    /// The deepest end that is still in question.
    bound: u32,
    round: u32,
}

impl Search {
    /// A search up to so many pages, equal on all ranks.
    pub(super) fn new(ends: Ends, pages: u32) -> Self {
        Self { ends, bound: pages, round: 1 }
    }

    /// This rank's word in the present round.
    pub(super) fn word(&self) -> i64 {
        let end = self.ends.deepest(self.bound);
        let at_bound = if end == self.bound { AT_BOUND } else { 0 };
        i64::from(self.round) << ROUND | at_bound | i64::from(end)
    }

    /// Takes the word that the group reduced: the next round begins with it, unless it is the last.
    pub(super) fn complete(&mut self, reduced: i64, planted: Planted) {
        let unknown = reduced == UNKNOWN || reduced == NO_STAKE;
        if unknown || found(reduced).is_some() || round(reduced) != self.round {
            return;
        }
        self.bound = pages(reduced);
        self.round = (self.round + 1).min(ROUNDS_MAX);
        if planted.is(Defect::SmallestOfDeepestEnds) {
            self.ends.insert(self.bound);
        }
    }
}

fn pages(word: i64) -> u32 {
    u32::try_from(word & (AT_BOUND - 1)).unwrap_or(u32::MAX)
}

fn round(word: i64) -> u32 {
    u32::try_from(word >> ROUND).unwrap_or(u32::MAX)
}

/// What a search has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The end in pages; 0 if there is none.
    End(u32),
    /// Some rank's storage could not be asked.
    Failed,
}

/// What a reduced word says; nothing while the search goes on. Also not for a word that no rank has a stake in, or that is not known.
#[must_use]
pub(crate) fn found(word: i64) -> Option<Found> {
    let end = pages(word);
    match word {
        FAILED => Some(Found::Failed),
        ..0 | NO_STAKE => None,
        _ => (end == 0 || word & AT_BOUND != 0).then_some(Found::End(end)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::SplitMix64;
    use std::collections::BTreeSet;

    type Set = BTreeSet<u32>;

    /// All ranks, until it is settled; the end, and the votes that it took.
    fn settle(limit: u32, ranks: &[Set]) -> (u32, usize) {
        let mut searches: Vec<Search> =
            ranks.iter().map(|ends| Search::new(ends.iter().copied().collect(), limit)).collect();
        let mut last = vec![UNKNOWN; ranks.len()];
        for vote in 1.. {
            let words: Vec<i64> = searches.iter().map(Search::word).collect();
            assert!(words.iter().zip(&last).all(|(now, before)| now >= before), "{words:?} after {last:?}");
            let reduced = *words.iter().min().unwrap();
            for search in &mut searches {
                search.complete(reduced, Planted::default());
            }
            if let Some(Found::End(end)) = found(reduced) {
                // It stays settled, whatever is voted after it.
                assert_eq!(searches.iter().map(Search::word).min(), Some(reduced));
                return (end, vote);
            }
            last = words;
        }
        unreachable!("votes are counted up to the end of time")
    }

    /// The maximum of the intersection, by trying every end.
    fn deepest_common(limit: u32, ranks: &[Set]) -> u32 {
        (1..=limit).rev().find(|end| ranks.iter().all(|ends| ends.contains(end))).unwrap_or(0)
    }

    #[test]
    fn the_deepest_common_end_is_found_in_one_vote_more_than_there_are_ends() {
        let mut found = [0; 2];
        for seed in 0..5_000 {
            let mut random = SplitMix64(seed);
            let (limit, share) = (random.below(60), 1 + random.below(8));
            let mut ends = || (1..64).filter(|_| random.below(8) < share).collect();
            let ranks: Vec<Set> = (0..=seed % 4).map(|_| ends()).collect();
            let (end, votes) = settle(limit, &ranks);
            assert_eq!(end, deepest_common(limit, &ranks), "seed {seed}");
            let distinct: Set = ranks.iter().flatten().copied().filter(|end| *end <= limit).collect();
            assert!(votes <= distinct.len() + 1, "seed {seed}: {votes} votes, {} ends", distinct.len());
            found[usize::from(end > 0 && votes > 2)] += 1;
        }
        assert!(found[1] > 500, "searches that go down to an end: {found:?}");
    }

    #[test]
    fn the_smallest_of_the_deepest_ends_would_be_wrong() {
        let ranks = [Set::from([4, 8]), Set::from([4, 6])];
        let smallest = ranks.iter().filter_map(Set::last).min().copied().unwrap();
        assert_eq!((smallest, ranks[0].contains(&smallest)), (6, false), "what MIN gives is no end of rank 0");
        assert_eq!(settle(10, &ranks), (4, 3));
    }

    #[test]
    fn ranks_that_agree_are_done_in_two_votes_or_at_once() {
        let set = |ends: &[u32]| ends.iter().copied().collect::<Set>();
        assert_eq!(settle(96, &[set(&[64, 96]), set(&[32, 96])]), (96, 1), "all that is asked for");
        assert_eq!(settle(100, &[set(&[64, 96]), set(&[32, 96])]), (96, 2));
        assert_eq!(settle(100, &[set(&[64, 96]), set(&[])]), (0, 1), "a rank without ends settles for all");
        assert_eq!(settle(0, &[set(&[64]), set(&[64])]), (0, 1));
        assert_eq!(settle(8, &[set(&[2, 4, 6, 8]), set(&[1, 3, 5, 7])]), (0, 8), "the longest search there is");
    }

    #[test]
    fn what_is_not_known_or_of_another_round_moves_nothing() {
        let mut search = Search::new([2, 4].into_iter().collect(), 5);
        let before = search.clone();
        for word in [UNKNOWN, NO_STAKE, FAILED, 2 << ROUND | 3, 1 << ROUND, 1 << ROUND | AT_BOUND | 5] {
            search.complete(word, Planted::default());
            assert_eq!(search, before, "{word:#x}");
        }
        let words = [UNKNOWN, NO_STAKE, 1 << ROUND | 4, 1 << ROUND | AT_BOUND | 4, 7 << ROUND, FAILED];
        let end = |pages| Some(Found::End(pages));
        assert_eq!(words.map(found), [None, None, None, end(4), end(0), Some(Found::Failed)]);
        assert!(words[2..5].iter().all(|word| *word > FAILED), "it wins the MIN");
    }
}
