//! How far a prefix is usable where its last part has a state of its own: a sliding window, a recurrent model's snapshot.
//!
//! Of plain keys and values every leading part is usable, so the smallest of all ranks' lengths is too, and MIN is right: see
//! [`leading_run`]. Trailing state is there at some ends only, and each rank may lack it at others. The smallest of all ranks' deepest
//! ends may then be an end that another rank lacks: with ends {4, 8} on one rank and {4, 6} on the other MIN gives 6, and 4 is right. Sets
//! do not survive a MIN either, packed into bits or not. So ranks go down together, round by round:
//!
//! ```text
//! bound = limit
//! again:  each rank votes (e, !e), where e is its deepest usable end not beyond the bound, 0 if it has none
//!         MIN over all ranks gives the smallest e and, by the complement, the largest
//!         equal, or the smallest is 0: that is the end. Else bound = the smallest, and again
//! ```
//!
//! No common end is ever passed over, since every rank votes it or a deeper one. The bound falls in every round to an end of some rank, so
//! there are no more rounds than there are ends. Rounds depend on reduced numbers alone: all ranks have equally many.
//!
//! **How it travels.** The slots of a ballot cannot carry the rounds: [`Hit`](super::SlotField::Hit) keeps its first post, only ever grows
//! where ends go down, and has no complement beside it; two more words a slot, free to go down, would do. Until a layout has them,
//! the pairs of all requests that are under way are reduced by MIN in a vector of the driver's own, as votes are: on a plane of its
//! own, by all ranks, equally often. What comes out is known to this rank's thread alone, at a moment of its own. So it is a
//! [`PerRank`] value still, there to be posted as the hit of the prefetch's slot. All ranks post the same; it decides once a frame that
//! carries it is applied.
//!
//! What a prefetch delivers may end before its hit, after a short grant or a termination, and there no state need be. The caller that
//! inserts such a prefetch has to look for a state at or before that end, or to drop it, on all ranks alike.

use super::error::ProtocolError;
use super::layout;
use crate::defects::{Defect, Planted};
use crate::provenance::PerRank;

/// What a round came to.
#[must_use]
pub enum Trailing {
    /// Ranks differ: another round, with a smaller bound.
    Again,
    /// The deepest end that is usable on every rank, 0 if there is none: to be posted as the operation's hit.
    Settled(PerRank<u64>),
}

/// The search of one request for the deepest end, in tokens, that is usable on every rank: `ballot`, reduce by MIN, `complete`.
///
/// The usable ends of a rank may change between rounds, as its storage does. An end that settles was voted by all ranks in one round.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TrailingVote {
    /// The deepest end that is still in question.
    bound: u64,
    planted: Planted,
}

impl TrailingVote {
    /// A search up to `limit` tokens, which is equal on all ranks: what is asked for, or what was agreed about the rest of the state.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self { bound: limit, planted: Planted::default() }
    }

    /// This rank's pair for the next round. `ends` are its usable ends in ascending order; they leave this call as a ballot only.
    #[must_use]
    pub fn ballot(&self, ends: &[u64]) -> [i64; 2] {
        debug_assert!(ends.is_sorted());
        let within = ends.partition_point(|end| *end <= self.bound);
        let deepest = ends[..within].last().map_or(0, |end| layout::counter(*end));
        let mut pair = [0; 2];
        layout::set_pair(&mut pair, 0, deepest);
        pair
    }

    /// Takes the pair that the group reduced by MIN, word by word. After the end is settled, further rounds settle it again.
    ///
    /// # Errors
    /// If it is no reduction of ballots of this round: some rank is in another one. The search is then as it was.
    pub fn complete(&mut self, [smallest, largest]: [i64; 2]) -> Result<Trailing, ProtocolError> {
        let hint = "all ranks vote in each round of a request, with the same bound; compare with isoradix diff DIR";
        let within = |what, value: i64, max| {
            let value = u64::try_from(value).unwrap_or(u64::MAX);
            ProtocolError::in_range(what, value, 0, max, hint).map(|()| value)
        };
        let largest = within("largest trailing end voted", !largest, self.bound)?;
        let smallest = within("smallest trailing end voted", smallest, largest)?;
        self.bound = smallest;
        if smallest == largest || smallest == 0 || self.planted.is(Defect::SmallestOfDeepestEnds) {
            return Ok(Trailing::Settled(PerRank::observe(smallest)));
        }
        Ok(Trailing::Again)
    }

    /// Plants a mistake in this rank's search.
    #[cfg(feature = "planted-defects")]
    pub fn plant(&mut self, defect: Defect) {
        self.planted.defect = Some(defect);
    }
}

/// Tokens of the leading pages that are there without a gap: all that a prefix can use, whatever else is there behind the gap.
///
/// Keys and values beside the main ones, of a draft model say, clamp to it: a page counts where all of its parts are there. Every
/// part of a leading run is one, so the MIN over all ranks needs no rounds: this is posted as a hit.
pub fn leading_run(page_tokens: u32, is_there: impl IntoIterator<Item = bool>) -> PerRank<u64> {
    let pages = is_there.into_iter().take_while(|is_there| *is_there).count() as u64;
    PerRank::observe(pages.saturating_mul(page_tokens.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::reduce_min;
    use crate::testing::SplitMix64;
    use std::collections::BTreeSet;

    type Ends = BTreeSet<u64>;

    /// All ranks, until it is settled; the end, and the rounds that it took.
    fn settle(limit: u64, ranks: &[Ends]) -> (u64, usize) {
        let sorted: Vec<Vec<u64>> = ranks.iter().map(|ends| ends.iter().copied().collect()).collect();
        let mut votes = vec![TrailingVote::new(limit); ranks.len()];
        for round in 1.. {
            let mut reduced = [i64::MAX; 2];
            votes.iter().zip(&sorted).for_each(|(vote, ends)| reduce_min(&mut reduced, &vote.ballot(ends)));
            let ends = votes.iter_mut().map(|vote| match vote.complete(reduced).unwrap() {
                Trailing::Again => None,
                Trailing::Settled(end) => Some(end.into_ballot()),
            });
            let ends: Vec<Option<u64>> = ends.collect();
            assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
            if let Some(end) = ends[0] {
                return (end, round);
            }
        }
        unreachable!("rounds are counted up to the end of time")
    }

    /// The maximum of the intersection, by trying every end.
    fn deepest_common(limit: u64, ranks: &[Ends]) -> u64 {
        (1..=limit).rev().find(|end| ranks.iter().all(|ends| ends.contains(end))).unwrap_or(0)
    }

    fn ends<const N: usize>(ends: [u64; N]) -> Ends {
        ends.into()
    }

    #[test]
    fn the_deepest_common_end_is_found_in_no_more_rounds_than_there_are_ends() {
        let mut found = [0; 2];
        for seed in 0..5_000 {
            let mut random = SplitMix64(seed);
            let (limit, share) = (random.below(60), 1 + random.below(8));
            let mut ends = || (1..64).filter(|_| random.below(8) < share).collect();
            let ranks: Vec<Ends> = (0..=seed % 4).map(|_| ends()).collect();
            let (end, rounds) = settle(limit.into(), &ranks);
            assert_eq!(end, deepest_common(limit.into(), &ranks), "seed {seed}");
            let distinct: Ends = ranks.iter().flatten().copied().filter(|end| *end <= limit.into()).collect();
            assert!(rounds <= distinct.len().max(1), "seed {seed}: {rounds} rounds, {} ends", distinct.len());
            found[usize::from(end > 0 && rounds > 2)] += 1;
        }
        assert!(found[1] > 500, "searches that go down to an end: {found:?}");
    }

    #[test]
    fn the_smallest_of_the_deepest_ends_would_be_wrong() {
        let ranks = [ends([4, 8]), ends([4, 6])];
        let smallest = ranks.iter().filter_map(Ends::last).min().copied().unwrap();
        assert_eq!((smallest, ranks[0].contains(&smallest)), (6, false), "what MIN gives is no end of rank 0");
        assert_eq!(settle(10, &ranks), (4, 3));
    }

    #[test]
    fn ranks_that_agree_are_done_at_once_and_a_rank_without_ends_settles_for_all() {
        assert_eq!(settle(100, &[ends([64, 96]), ends([32, 96])]), (96, 1));
        assert_eq!(settle(100, &[ends([64, 96]), ends([])]), (0, 1));
        assert_eq!(settle(95, &[ends([64, 96]), ends([32, 64])]), (64, 1), "what is beyond the limit is not asked for");
        assert_eq!(settle(0, &[ends([64]), ends([64])]), (0, 1));
        let stairs = [ends([2, 4, 6, 8]), ends([1, 3, 5, 7])];
        assert_eq!(settle(8, &stairs), (0, 8), "the longest search there is: one round an end");
    }

    #[test]
    fn a_settled_search_stays_settled_and_a_strange_pair_is_refused() {
        let mut vote = TrailingVote::new(100);
        let pair = vote.ballot(&[32, 64]);
        assert_eq!(pair, [64, !64]);
        for _ in 0..2 {
            let Ok(Trailing::Settled(end)) = vote.complete(pair) else { panic!("all ranks voted alike") };
            assert_eq!(end.into_ballot(), 64);
        }
        let before = vote.clone();
        for (strange, text) in [
            ([32, !96], "largest trailing end voted 96 is out of range: 0 to 64"),
            ([96, !64], "smallest trailing end voted 96 is out of range: 0 to 64"),
            ([-1, !64], "smallest trailing end voted 18446744073709551615 is out of range: 0 to 64"),
        ] {
            let Err(refused) = vote.complete(strange) else { panic!("{strange:?} was taken") };
            assert!(refused.to_string().starts_with(text), "{refused}");
        }
        assert_eq!(vote, before);
    }

    #[test]
    fn a_run_ends_at_its_first_gap() {
        let run = |pages: &[bool]| leading_run(64, pages.iter().copied()).into_ballot();
        assert_eq!(run(&[true, true, false, true]), 128);
        assert_eq!(run(&[]), 0);
        // Pages 0 and 1 of 128 are absent.
        assert_eq!(leading_run(64, (0..128).map(|page| page >= 2)).into_ballot(), 0);
    }

    /// Why these need no rounds: the smallest run is the run of the pages that all ranks have.
    #[test]
    fn the_smallest_run_is_the_run_of_what_all_have() {
        for seed in 0..500 {
            let mut random = SplitMix64(seed);
            let ranks: Vec<Vec<bool>> = (0..3).map(|_| (0..12).map(|_| random.below(8) > 0).collect()).collect();
            let runs = ranks.iter().map(|pages| leading_run(1, pages.iter().copied()).into_ballot());
            let all = (0..12).map(|page| ranks.iter().all(|pages| pages[page]));
            assert_eq!(runs.min().unwrap(), leading_run(1, all).into_ballot(), "seed {seed}");
        }
    }
}
