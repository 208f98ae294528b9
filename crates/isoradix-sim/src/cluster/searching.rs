//! Searches for trailing state: where a model has a state of its own at some ends only, the ranks go down together to the deepest
//! end that all of them have, on a plane beside the votes.

use super::step::refused;
use super::{Cluster, Event};
use crate::rng::{self, Purpose, roll};
use crate::violation::{Wrong, ensure};
use isoradix_core::protocol::{Trailing, TrailingVote, reduce_min};
use isoradix_core::{Ordinal, StoredRun};

/// Of a thousand pages, so many have a state at their end; and of those, so many on each rank.
const STATES_PERMILLE: [u64; 2] = [700, 900];

/// The search of one prefetch, over all ranks.
#[derive(Debug)]
pub(super) struct Search {
    /// The deepest end that is asked for, equal on all ranks.
    limit: u64,
    /// By rank: how far it is, and its usable ends; nothing before its storage has answered.
    ranks: Vec<Option<(TrailingVote, Vec<u64>)>>,
    /// Ranks that have voted in this round, and the smallest of their words.
    voted: usize,
    pair: [i64; 2],
    settled: usize,
}

impl Search {
    pub(super) fn new(ranks: usize, run: &StoredRun, page: usize) -> Self {
        let tokens = run.key.len() as u64 - run.from;
        let limit = tokens - tokens % page as u64;
        Self { limit, ranks: (0..ranks).map(|_| None).collect(), voted: 0, pair: [i64::MAX; 2], settled: 0 }
    }

    /// A rank votes in this round; gives the reduced pair once all have.
    fn vote(&mut self, rank: usize) -> Option<[i64; 2]> {
        let (vote, ends) = self.ranks[rank].as_ref()?;
        reduce_min(&mut self.pair, &vote.ballot(ends));
        self.voted += 1;
        if self.voted < self.ranks.len() {
            return None;
        }
        self.voted = 0;
        Some(std::mem::replace(&mut self.pair, [i64::MAX; 2]))
    }

    /// What is settled is the deepest end that every rank has, by looking at all of them.
    fn check(&self, settled: u64) -> Result<(), Wrong> {
        let has = |ends: &Vec<u64>, end: u64| ends.binary_search(&end).is_ok();
        let all: Vec<&Vec<u64>> = self.ranks.iter().flatten().map(|(_, ends)| ends).collect();
        if let Some(lacking) = all.iter().position(|ends| settled > 0 && !has(ends, settled)) {
            let what = format!("token {settled} is settled for, and it has a state at {:?} only", all[lacking]);
            return Err(Wrong { rank: Some(lacking), ..Wrong::new("trailing", what) });
        }
        let deepest = all[0].iter().rev().find(|end| all.iter().all(|ends| has(ends, **end))).copied().unwrap_or(0);
        ensure(settled == deepest, "trailing", || format!("token {settled} is settled for, all ranks have {deepest}"))
    }
}

impl Cluster<'_> {
    /// Storage has answered on a rank: it votes, whether or not it still wants the prefetch. A rank that has given it up has no end.
    pub(super) fn join_search(&mut self, rank: usize, operation: Ordinal, question: Option<&StoredRun>, tokens: u64) {
        let page = self.scenario.page as usize;
        let names = question.map(|run| self.stations[rank].world.storage.leading(run, page)).unwrap_or_default();
        let seed = self.scenario.seed;
        let has_state = |name: u64| {
            let words = [roll(seed, Purpose::State, [name, 0, 0]), roll(seed, Purpose::State, [name, 1, rank as u64])];
            words.iter().zip(STATES_PERMILLE).all(|(word, permille)| rng::below(*word, 1000) < permille)
        };
        let ends = names.iter().zip(1..).filter(|(name, _)| has_state(**name)).map(|(_, at)| at * page as u64);
        let ends = ends.take_while(|end| *end <= tokens).collect();
        let Some(search) = self.searches.get_mut(&operation) else { return };
        let mut vote = TrailingVote::new(search.limit);
        if let Some(defect) = self.scenario.defect {
            defect.plant_search(rank, &mut vote);
        }
        search.ranks[rank] = Some((vote, ends));
        self.vote_end(rank, operation);
    }

    fn vote_end(&mut self, rank: usize, operation: Ordinal) {
        let Some(search) = self.searches.get_mut(&operation) else { return };
        let Some(pair) = search.vote(rank) else { return };
        for rank in 0..self.stations.len() {
            let of = [rank as u64, operation.0, pair[0].cast_unsigned()];
            let delay = self.about(self.scenario.timings.vote, Purpose::VoteLatency, of);
            self.queue.after(delay, Event::Searched { rank, operation, pair });
        }
    }

    /// A round has come back to a rank.
    pub(super) fn searched(&mut self, rank: usize, operation: Ordinal, pair: [i64; 2]) -> Result<(), Wrong> {
        let Some(search) = self.searches.get_mut(&operation) else { return Ok(()) };
        let Some((vote, _)) = &mut search.ranks[rank] else { return Ok(()) };
        let done = vote.complete(pair).map_err(|error| Wrong::new("trailing", error.to_string()))?;
        let Trailing::Settled(end) = done else {
            self.vote_end(rank, operation);
            return Ok(());
        };
        search.check(pair[0].cast_unsigned())?;
        search.settled += 1;
        if search.settled == search.ranks.len() {
            self.searches.remove(&operation);
        }
        let station = &mut self.stations[rank];
        station.core.found(&mut station.board, operation, end).map_err(refused("found"))?;
        self.effects(rank)
    }
}
