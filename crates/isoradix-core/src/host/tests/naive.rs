//! What the pool should do, in the plainest way: lists, and sums over lists.

use super::super::Stage;
use std::collections::BTreeMap;

/// An operation on all ranks.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    pub(super) stage: Stage,
    /// Its own pages, logically.
    pub(super) own: u32,
    /// Which of its pages the tree still has, by their place in the operation.
    pub(super) kept: Vec<usize>,
}

/// An operation's pages on one rank.
#[derive(Debug, Clone, Default)]
pub(super) struct Holding {
    /// Its own: still reserved, committed or draining.
    pub(super) own: Vec<u32>,
    /// What a grant left over, while a copy may touch it.
    pub(super) surplus: Vec<u32>,
    /// All that it ever handed to the tree.
    pub(super) settled: Vec<u32>,
}

/// One rank's memory.
#[derive(Debug, Clone)]
pub(super) struct Rank {
    pub(super) physical: u32,
    /// The next to go first.
    pub(super) free: Vec<u32>,
    pub(super) lost: Vec<u32>,
    pub(super) holdings: BTreeMap<u64, Holding>,
}

impl Rank {
    pub(super) fn backable(&self) -> u32 {
        self.physical - u32::try_from(self.lost.len()).unwrap()
    }

    fn give_back(&mut self, pages: Vec<u32>) {
        self.free.splice(..0, pages);
    }
}

#[derive(Debug, Clone)]
pub(super) struct Naive {
    pub(super) start: u32,
    pub(super) capacity: u32,
    /// Operations that occupy something.
    pub(super) operations: BTreeMap<u64, Operation>,
    pub(super) ranks: Vec<Rank>,
    pub(super) asks: u64,
}

impl Naive {
    pub(super) fn new(physical: [u32; 3], capacity: u32) -> Self {
        let rank = |physical| Rank { physical, free: (0..physical).collect(), lost: vec![], holdings: BTreeMap::new() };
        let ranks = physical.into_iter().map(rank).collect();
        Self { start: capacity, capacity, operations: BTreeMap::new(), ranks, asks: 0 }
    }

    pub(super) fn occupied(&self) -> u32 {
        self.operations.values().map(|operation| operation.own + u32::try_from(operation.kept.len()).unwrap()).sum()
    }

    pub(super) fn stage(&self, k: u64) -> Option<Stage> {
        Some(self.operations.get(&k)?.stage)
    }

    /// Whether it is admitted.
    pub(super) fn ask(&mut self, pages: u32) -> bool {
        let k = self.asks;
        self.asks += 1;
        let admitted = self.occupied() + pages <= self.capacity;
        if admitted {
            self.operations.insert(k, Operation { stage: Stage::Asked, own: pages, kept: vec![] });
        }
        admitted
    }

    /// What the rank gets.
    pub(super) fn reserve(&mut self, rank: usize, k: u64, most: u32) -> u32 {
        let rank = &mut self.ranks[rank];
        let count = rank.free.len().min(most.min(self.operations[&k].own) as usize);
        let own: Vec<u32> = rank.free.drain(..count).collect();
        rank.holdings.insert(k, Holding { own, ..Holding::default() });
        u32::try_from(count).unwrap()
    }

    pub(super) fn has_reserved(&self, rank: usize, k: u64) -> bool {
        self.ranks[rank].holdings.contains_key(&k)
    }

    /// The MIN over all ranks of what they have reserved, if all have.
    pub(super) fn votes(&self, k: u64) -> Option<u32> {
        let vote = |rank: &Rank| rank.holdings.get(&k).map(|holding| u32::try_from(holding.own.len()).unwrap());
        self.ranks.iter().map(vote).collect::<Option<Vec<_>>>()?.into_iter().min()
    }

    pub(super) fn commit(&mut self, k: u64, granted: u32) {
        let operation = self.operations.get_mut(&k).unwrap();
        (operation.stage, operation.own) = (Stage::Committed, granted);
        for rank in &mut self.ranks {
            let holding = rank.holdings.get_mut(&k).unwrap();
            holding.surplus = holding.own.split_off(granted as usize);
        }
    }

    /// The tree gets the first pages. The others are given back, or drain.
    pub(super) fn keep(&mut self, k: u64, keep: u32, drain: bool) {
        let operation = self.operations.get_mut(&k).unwrap();
        operation.kept = (0..keep as usize).collect();
        operation.own -= keep;
        operation.stage = Stage::Draining;
        for rank in &mut self.ranks {
            if let Some(holding) = rank.holdings.get_mut(&k) {
                let rest = holding.own.split_off(keep as usize);
                holding.settled = std::mem::replace(&mut holding.own, rest);
            }
        }
        if !drain {
            self.abort(k);
        }
    }

    pub(super) fn abort(&mut self, k: u64) {
        let operation = self.operations.get_mut(&k).unwrap();
        (operation.stage, operation.own) = (Stage::Settled, 0);
        for rank in &mut self.ranks {
            if let Some(holding) = rank.holdings.get_mut(&k) {
                let mut back = std::mem::take(&mut holding.own);
                back.append(&mut holding.surplus);
                rank.give_back(back);
            }
        }
        self.forget_the_ended();
    }

    /// The page numbers on a rank of these places of an operation.
    pub(super) fn numbers(&self, rank: usize, k: u64, places: &[usize]) -> Vec<u32> {
        places.iter().map(|&place| self.ranks[rank].holdings[&k].settled[place]).collect()
    }

    pub(super) fn release(&mut self, k: u64, places: &[usize]) {
        for rank in 0..self.ranks.len() {
            let numbers = self.numbers(rank, k, places);
            self.ranks[rank].give_back(numbers);
        }
        if let Some(operation) = self.operations.get_mut(&k) {
            operation.kept.retain(|place| !places.contains(place));
        }
        self.forget_the_ended();
    }

    pub(super) fn withdraw(&mut self, rank: usize, pages: u32) -> u32 {
        let rank = &mut self.ranks[rank];
        let count = rank.free.len().min(pages as usize);
        rank.lost.extend(rank.free.drain(..count));
        u32::try_from(count).unwrap()
    }

    pub(super) fn restore(&mut self, rank: usize, pages: u32) -> u32 {
        let rank = &mut self.ranks[rank];
        let count = rank.lost.len().min(pages as usize);
        let back = rank.lost.split_off(rank.lost.len() - count);
        rank.give_back(back);
        u32::try_from(count).unwrap()
    }

    pub(super) fn backable(&self) -> u32 {
        self.ranks.iter().map(Rank::backable).min().unwrap()
    }

    fn forget_the_ended(&mut self) {
        self.operations.retain(|_, operation| operation.stage != Stage::Settled || !operation.kept.is_empty());
        for rank in &mut self.ranks {
            rank.holdings.retain(|k, _| self.operations.contains_key(k));
        }
    }
}
