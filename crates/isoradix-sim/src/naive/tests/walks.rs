//! Random walks: the model's own rules hold after every call, and at the end nothing is left over.

use std::collections::BTreeMap;

use isoradix_core::operation::{Action, Kind, Share};
use isoradix_core::{Ordinal, Writing};

use super::super::answers::Issued;
use super::super::{Model, Settings};
use super::{SETTINGS, drained, good_end, space, whole};
use crate::rng::Rng;

/// Random numbers, and keys.
pub(super) struct Random(Rng);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(Rng::new(seed, 0))
    }

    pub(super) fn below(&mut self, limit: u32) -> u32 {
        u32::try_from(self.0.below(limit.into())).unwrap()
    }

    pub(super) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        (!from.is_empty()).then(|| self.0.pick(from))
    }

    /// Up to four pages of four tokens, and some that are no page.
    pub(super) fn key(&mut self) -> Vec<u32> {
        let length = self.below(18);
        let letters: Vec<u32> = (0..5).map(|_| self.below(2)).collect();
        (0..length as usize).map(|at| letters[at / 4]).collect()
    }
}

struct Walk {
    random: Random,
    model: Model,
    receipts: Vec<u64>,
    open: BTreeMap<Ordinal, Issued>,
    /// Given up, with what they have delivered.
    draining: BTreeMap<Ordinal, u32>,
    /// Of which kind, and whether well.
    ended: Vec<(Kind, bool)>,
}

impl Walk {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let writing = if random.below(2) == 0 {
            Writing::Through { hits: 1 + random.below(2) }
        } else {
            Writing::Back { low_water: 40 }
        };
        let settings = Settings {
            page: 4,
            writing,
            load_back_min: 5,
            prefetch_min: 4,
            storage: true,
            window: 6,
            capacity: 12,
            ..SETTINGS
        };
        let model = Model::new(settings);
        Self { random, model, receipts: vec![], open: BTreeMap::new(), draining: BTreeMap::new(), ended: vec![] }
    }

    fn node(&mut self) -> u64 {
        let nodes = self.model.state().nodes;
        self.random.pick(&nodes).map_or(0, |node| node.sequence)
    }

    fn verb(&mut self) {
        let key = self.random.key();
        match self.random.below(12) {
            0..3 => drop(self.model.match_prefix(&key, &space())),
            3..6 => drop(self.model.insert(&key, &space(), 0, 0)),
            6 => {
                let tokens = u64::from(self.random.below(20));
                self.model.evict(tokens);
            }
            7 => {
                let pages = self.random.below(3);
                self.model.evict_host(pages);
            }
            8 => {
                let node = self.node();
                self.receipts.extend(self.model.host_lock(node));
            }
            9 => {
                if let Some(receipt) = self.random.pick(&self.receipts).copied() {
                    let need = self.model.load_back_need(receipt);
                    assert_eq!(self.model.load_back(receipt), need);
                    if self.random.below(2) == 0 && need == Ok(0) {
                        self.model.unlock_host(receipt).unwrap();
                    }
                    self.receipts.retain(|held| self.model.load_back_need(*held).is_ok());
                }
            }
            10 => {
                let anchor = self.node();
                let _ = self.model.prefetch(&key, &space(), anchor);
            }
            _ => {
                if self.random.below(10) == 0 {
                    self.model.reset();
                    self.receipts.clear();
                }
            }
        }
    }

    /// An open operation ends well, is given up, or drains.
    fn frame(&mut self) {
        let numbers: Vec<Ordinal> = self.open.keys().copied().collect();
        let Some(operation) = self.random.pick(&numbers).copied() else { return };
        let issued = self.open[&operation].clone();
        if let Some(kept) = self.draining.remove(&operation) {
            let skip = usize::from(issued.kind == Kind::Store);
            self.ended.push((issued.kind, false));
            self.finish(operation, &drained(operation, kept)[skip..]);
        } else if issued.kind == Kind::LoadBack || self.random.below(3) > 0 {
            self.ended.push((issued.kind, true));
            self.finish(operation, &good_end(&issued));
        } else {
            let share = whole(&issued);
            let kept = if issued.kind == Kind::Prefetch { self.random.below(share.pages + 1) } else { 0 };
            if kept > 0 {
                let share = Share { pages: kept, tokens: u64::from(kept) * 4, subjects: 1 };
                self.model.apply_all(&[Action::Deliver { operation, share }]);
            }
            self.model.apply_all(&[Action::Cancel { operation, keep: kept }]);
            self.draining.insert(operation, kept);
        }
    }

    fn finish(&mut self, operation: Ordinal, actions: &[Action]) {
        self.model.apply_all(actions);
        self.open.remove(&operation);
        let issued = self.model.next_ordinal;
        self.model.slide(self.open.keys().next().map_or(issued, |oldest| oldest.0));
    }

    fn close_step(&mut self) {
        self.model.close_step(8);
        self.open.extend(self.model.issued().iter().map(|issued| (issued.ordinal, issued.clone())));
    }

    fn check(&self) {
        self.model.check().unwrap();
        assert!(self.model.occupied() <= 12, "{} pages", self.model.occupied());
    }

    fn run(&mut self) {
        for turn in 0..120 {
            match turn % 6 {
                4 => self.close_step(),
                5 => self.frame(),
                _ => self.verb(),
            }
            self.check();
        }
        for receipt in std::mem::take(&mut self.receipts) {
            self.model.unlock_host(receipt).unwrap();
        }
        while !self.open.is_empty() || !self.model.stores.is_empty() {
            self.frame();
            self.close_step();
        }
        for node in self.model.state().nodes {
            assert_eq!((node.lock_ref, node.host_ref, node.pending), (0, 0, false), "{node:?}");
        }
        self.model.evict(u64::MAX);
        self.model.evict_host(u32::MAX);
        assert_eq!((self.model.state().nodes.len(), self.model.occupied()), (0, 0));
    }
}

#[test]
fn random_walks_break_no_rule_and_leave_nothing() {
    let mut ended: BTreeMap<(Kind, bool), u32> = BTreeMap::new();
    for seed in 0..300 {
        let mut walk = Walk::new(seed);
        walk.run();
        walk.ended.into_iter().for_each(|end| *ended.entry(end).or_default() += 1);
    }
    let ways = Kind::ALL.into_iter().flat_map(|kind| [(kind, true), (kind, false)]);
    for way in ways.filter(|way| *way != (Kind::LoadBack, false)) {
        assert!(ended.get(&way).is_some_and(|times| *times > 30), "{way:?} is too rare: {ended:?}");
    }
}

#[test]
fn a_broken_rule_is_found() {
    let mut model = Model::new(SETTINGS);
    let node = model.insert_whole(&[1, 2, 3]);
    model.nodes.iter_mut().filter(|it| it.sequence == node).for_each(|it| it.on_device = false);
    assert!(model.check().is_err_and(|what| what.starts_with("a node is on some tier")));
}
