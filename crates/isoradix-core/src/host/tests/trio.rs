//! Three pools of different physical sizes, driven by one logical sequence and by the MIN of their votes.

use super::naive::Naive;
use super::step::{Step, step};
use super::*;
use crate::host::{HostError, Stage};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::BTreeMap;

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Done,
    Declined,
    Short,
    /// Not allowed in the operation's stage: every rank said so, and nothing changed.
    Refused,
    /// Nothing to do yet: not all ranks have voted.
    Idle,
}

struct Trio {
    pools: Vec<HostPool>,
    naive: Naive,
}

impl Trio {
    fn new(physical: [u32; 3], capacity: u32) -> Self {
        let pools = physical.into_iter().map(|pages| voting(pages, capacity)).collect();
        Self { pools, naive: Naive::new(physical, capacity) }
    }

    /// Runs a step on the pools and on the model, and compares them.
    fn run(&mut self, step: Step) -> Outcome {
        let outcome = match step {
            Step::Ask { pages } => self.ask(pages),
            Step::Reserve { ranks, k, most } => {
                let k = self.pick(k);
                let on_some = (0..3).filter(|rank| ranks >> rank & 1 == 1).map(|rank| self.reserve(rank, k, most));
                on_some.min().unwrap_or(Outcome::Idle)
            }
            Step::Grant { k } => self.grant(k),
            Step::Settle { k, keep } => self.keep(k, keep, false, |pool, k, keep| pool.settle(k, agreed(keep))),
            Step::DrainRest { k, keep } => {
                self.keep(k, Some(keep), true, |pool, k, keep| pool.drain_rest(k, agreed(keep)))
            }
            Step::Drain { k } => {
                self.move_on(k, &[Stage::Asked, Stage::Committed], HostPool::drain, |naive, k| naive.keep(k, 0, true))
            }
            Step::Finish { k } => self.move_on(k, &[Stage::Draining], HostPool::finished, |naive, k| {
                naive.operations.get_mut(&k).unwrap().stage = Stage::Finished;
            }),
            Step::Abort { k } => {
                let stages = [Stage::Asked, Stage::Committed, Stage::Finished];
                self.move_on(k, &stages, HostPool::abort, Naive::abort)
            }
            Step::Release { k, mask } => self.release(k, mask),
            Step::Withdraw { rank, pages } => {
                let got = self.pools[rank].withdraw(PerRank::observe(pages)).unwrap().into_ballot();
                assert_eq!(got, self.naive.withdraw(rank, pages));
                Outcome::Done
            }
            Step::Restore { rank, pages } => {
                let got = self.pools[rank].restore(PerRank::observe(pages)).into_ballot();
                assert_eq!(got, self.naive.restore(rank, pages));
                Outcome::Done
            }
            Step::Vote => self.vote(),
        };
        self.compare();
        outcome
    }

    /// Mostly an operation that occupies something; now and then one that has ended or was declined.
    fn pick(&self, k: u8) -> u64 {
        let live = self.naive.operations.keys().copied();
        let any = u64::from(k) % self.naive.asks.max(1);
        if k < 224 { live.cycle().nth(k.into()).unwrap_or(any) } else { any }
    }

    fn ask(&mut self, pages: u32) -> Outcome {
        let k = Ordinal(self.naive.asks);
        let answers: Vec<_> = self.pools.iter_mut().map(|pool| pool.ask(k, pages).unwrap()).collect();
        assert!(answers.iter().all(|answer| answer == &answers[0]), "{answers:?}");
        let admitted = self.naive.ask(pages);
        assert_eq!(answers[0].is_ok(), admitted);
        if admitted { Outcome::Done } else { Outcome::Declined }
    }

    fn reserve(&mut self, rank: usize, k: u64, most: Option<u32>) -> Outcome {
        let allowed = self.naive.stage(k) == Some(Stage::Asked) && !self.naive.has_reserved(rank, k);
        let before = self.pools[rank].clone();
        let pool = &mut self.pools[rank];
        let answer = match most {
            None => pool.reserve(Ordinal(k)),
            Some(most) => pool.reserve_up_to(Ordinal(k), PerRank::observe(most)),
        };
        match answer {
            Ok(got) => {
                assert!(allowed);
                assert_eq!(got.into_ballot(), self.naive.reserve(rank, k, most.unwrap_or(u32::MAX)));
                Outcome::Done
            }
            Err(error) => {
                assert!(!allowed, "{error}");
                assert!(*pool == before, "{error}");
                Outcome::Refused
            }
        }
    }

    /// As a frame does: nothing before all have voted, an abort for a grant of 0, a lower capacity for a short one.
    fn grant(&mut self, k: u8) -> Outcome {
        let k = self.pick(k);
        if self.naive.stage(k) != Some(Stage::Asked) {
            return self.all_refuse(|pool| pool.commit(Ordinal(k), agreed(1)));
        }
        match self.naive.votes(k) {
            None => Outcome::Idle,
            Some(0) => {
                self.pools.iter_mut().for_each(|pool| pool.abort(Ordinal(k)).unwrap());
                self.naive.abort(k);
                Outcome::Declined
            }
            Some(granted) => self.commit(k, granted),
        }
    }

    fn commit(&mut self, k: u64, granted: u32) -> Outcome {
        let asked = self.naive.operations[&k].own;
        self.naive.commit(k, granted);
        for (pool, rank) in self.pools.iter_mut().zip(&self.naive.ranks) {
            pool.commit(Ordinal(k), agreed(granted)).unwrap();
            assert_eq!(pool.pages(Ordinal(k)), rank.holdings[&k].own);
        }
        if granted == asked {
            return Outcome::Done;
        }
        let backable = self.backable();
        self.pools.iter_mut().for_each(|pool| pool.lower(agreed(backable)));
        self.naive.capacity = self.naive.capacity.min(backable);
        Outcome::Short
    }

    fn vote(&mut self) -> Outcome {
        let backable = self.backable();
        self.pools.iter_mut().for_each(|pool| pool.raise(agreed(backable)));
        self.naive.capacity = self.naive.capacity.max(backable.min(self.naive.start));
        Outcome::Done
    }

    fn backable(&self) -> u32 {
        let backable = self.pools.iter().map(|pool| pool.backable().into_ballot()).min().unwrap();
        assert_eq!(backable, self.naive.backable());
        backable
    }

    fn keep(
        &mut self,
        k: u8,
        keep: Option<u32>,
        drain: bool,
        verb: fn(&mut HostPool, Ordinal, u32) -> Result<(), HostError>,
    ) -> Outcome {
        let k = self.pick(k);
        let granted = self.naive.operations.get(&k).map_or(0, |operation| operation.own);
        let keep = keep.unwrap_or(granted);
        if self.naive.stage(k) != Some(Stage::Committed) || keep > granted {
            return self.all_refuse(|pool| verb(pool, Ordinal(k), keep));
        }
        self.pools.iter_mut().for_each(|pool| verb(pool, Ordinal(k), keep).unwrap());
        self.naive.keep(k, keep, drain);
        Outcome::Done
    }

    fn move_on(
        &mut self,
        k: u8,
        from: &[Stage],
        verb: fn(&mut HostPool, Ordinal) -> Result<(), HostError>,
        naive: fn(&mut Naive, u64),
    ) -> Outcome {
        let k = self.pick(k);
        if !self.naive.stage(k).is_some_and(|stage| from.contains(&stage)) {
            return self.all_refuse(|pool| verb(pool, Ordinal(k)));
        }
        self.pools.iter_mut().for_each(|pool| verb(pool, Ordinal(k)).unwrap());
        naive(&mut self.naive, k);
        Outcome::Done
    }

    /// The same places on every rank, which are other page numbers; and then once more, which must be refused.
    fn release(&mut self, k: u8, mask: u8) -> Outcome {
        let k = self.pick(k);
        let kept = self.naive.operations.get(&k).map_or(vec![], |operation| operation.kept.clone());
        let places: Vec<usize> = kept.into_iter().filter(|place| mask >> (place % 8) & 1 == 1).collect();
        let numbers: Vec<_> = (0..3).map(|rank| self.naive.numbers(rank, k, &places)).collect();
        for (pool, numbers) in self.pools.iter_mut().zip(&numbers) {
            pool.release(numbers).unwrap();
        }
        self.naive.release(k, &places);
        if places.is_empty() {
            return Outcome::Idle;
        }
        for (pool, numbers) in self.pools.iter_mut().zip(&numbers) {
            let before = pool.clone();
            let error = pool.release(numbers).unwrap_err();
            assert_eq!(error, HostError::DoubleRelease { page: numbers[0], within_call: false });
            assert!(*pool == before);
        }
        Outcome::Done
    }

    fn all_refuse(&mut self, verb: impl Fn(&mut HostPool) -> Result<(), HostError>) -> Outcome {
        let refusals: Vec<_> = (self.pools.iter_mut())
            .map(|pool| {
                let before = pool.clone();
                let error = verb(pool).unwrap_err();
                assert!(*pool == before, "{error}");
                error
            })
            .collect();
        assert!(refusals.iter().all(|refusal| *refusal == refusals[0]), "{refusals:?}");
        Outcome::Refused
    }

    fn compare(&self) {
        for (pool, rank) in self.pools.iter().zip(&self.naive.ranks) {
            pool.check().unwrap();
            assert_eq!(pool.ledger(), self.pools[0].ledger(), "the ranks' logical states are one");
            for k in 0..self.naive.asks {
                let holding = rank.holdings.get(&k).cloned().unwrap_or_default();
                assert_eq!(pool.pages(Ordinal(k)), holding.own, "operation {k}");
                assert_eq!(pool.surplus(Ordinal(k)), holding.surplus, "operation {k}");
            }
        }
        let ledger = self.pools[0].ledger();
        assert_eq!((ledger.capacity(), ledger.occupied()), (self.naive.capacity, self.naive.occupied()));
        assert_eq!(ledger.available(), self.naive.capacity.saturating_sub(self.naive.occupied()));
        assert_eq!(ledger.excess(), self.naive.occupied().saturating_sub(self.naive.capacity));
        for k in 0..self.naive.asks {
            assert_eq!(ledger.stage(Ordinal(k)), self.naive.stage(k), "operation {k}");
        }
        let open = self.naive.operations.values().filter(|operation| operation.stage != Stage::Settled).count();
        assert_eq!(ledger.open_operations().count(), open);
        assert_eq!(self.pools[0].leaks().is_ok(), open == 0);
    }
}

fn seeded(config: Config) -> TestRunner {
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

#[test]
fn three_ranks_of_different_sizes_keep_one_logical_state() {
    let config = Config { cases: 300, max_shrink_iters: 4_000, failure_persistence: None, ..Config::default() };
    let inputs = ([0..30_u32, 10..30, 10..30], 8..30_u32, prop::collection::vec(step(), 1..80));
    let outcome = seeded(config).run(&inputs, |(physical, capacity, steps)| {
        let mut trio = Trio::new(physical, capacity);
        for step in steps {
            trio.run(step);
        }
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// Which steps came to what, over long walks. Every step is done at some time, and refused where it can be.
#[test]
fn long_walks_meet_every_outcome() {
    let mut met: BTreeMap<(String, Outcome), u32> = BTreeMap::new();
    let mut runner = seeded(Config::default());
    for (physical, capacity) in [([24, 17, 40], 20), ([12, 12, 12], 12), ([64, 9, 30], 40)] {
        let mut trio = Trio::new(physical, capacity);
        for _ in 0..2_000 {
            let step = step().new_tree(&mut runner).unwrap().current();
            let name = format!("{step:?}").split_whitespace().next().unwrap_or_default().to_owned();
            *met.entry((name, trio.run(step))).or_default() += 1;
        }
    }
    let count = |name: &str, outcome| met.get(&(name.to_owned(), outcome)).copied().unwrap_or(0);
    for name in ["Reserve", "Grant", "Settle", "Drain", "DrainRest", "Finish", "Abort"] {
        assert!(count(name, Outcome::Done) >= 10 && count(name, Outcome::Refused) >= 10, "{name}: {met:#?}");
    }
    for name in ["Ask", "Release", "Withdraw", "Restore", "Vote"] {
        assert!(count(name, Outcome::Done) >= 10, "{name}: {met:#?}");
    }
    for (name, outcome) in [("Ask", Outcome::Declined), ("Grant", Outcome::Declined), ("Grant", Outcome::Short)] {
        assert!(count(name, outcome) >= 10, "{name}: {met:#?}");
    }
}
