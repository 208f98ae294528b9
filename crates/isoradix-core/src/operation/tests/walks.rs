//! Every walk of one operation, every walk of up to six events of two operations, and long random ones.
//!
//! What happens next depends on table and ledger alone, so each pair of them is walked on from once: all walks are covered. One
//! operation has nothing new to show after fewer than eight events.

use super::ledger::Ledger;
use super::*;
use std::collections::BTreeSet;

fn place(k: Ordinal) -> usize {
    usize::try_from(k.0).unwrap()
}

#[derive(Clone)]
struct Walk {
    table: OperationTable,
    ledgers: Vec<Ledger>,
    pools: Pools,
}

/// Equal keys behave alike from here on.
type Key = (Vec<(crate::operation::live::Life, Ledger)>, Vec<u64>);

impl Walk {
    fn new(pools: Pools) -> Self {
        Self { table: table(pools), ledgers: vec![], pools }
    }

    fn issue(&mut self, kind: Kind, subjects: &[Subject]) {
        let k = self.table.issue_batch(kind, subjects).unwrap();
        self.ledgers.push(Ledger::new(self.table.operation(k).unwrap(), self.pools));
    }

    fn key(&self) -> Key {
        let operations = self.table.iter().zip(&self.ledgers).map(|(entry, ledger)| (entry.life, ledger.clone()));
        (operations.collect(), Kind::ALL.map(|fifo| self.table.finished(fifo)).to_vec())
    }

    /// Applies an event and books what it asks for; a refused one changes nothing. Says whether it was taken.
    fn apply(&mut self, event: AgreedEvent) -> bool {
        let before = self.table.clone();
        let Ok(actions) = self.table.apply(event) else {
            assert_eq!(self.table, before);
            return false;
        };
        match event {
            AgreedEvent::Ready { operation, succeeded } if succeeded.get() => self.end(operation),
            AgreedEvent::Finished { fifo, watermark } => {
                let passed = before.iter().filter(|entry| entry.kind() == fifo && entry.ordinal().0 < watermark.get());
                passed.for_each(|entry| self.end(entry.ordinal()));
            }
            _ => {}
        }
        for action in &actions {
            self.ledgers[place(action.operation())].book(action);
        }
        self.table.check().unwrap();
        for entry in self.table.iter() {
            self.ledgers[place(entry.ordinal())].compare(entry);
        }
        true
    }

    fn end(&mut self, k: Ordinal) {
        self.ledgers[place(k)].ended();
    }

    /// Whatever is open can be brought to an end from here.
    fn ends(mut self) {
        let open: Vec<Ordinal> = self.table.iter().map(Operation::ordinal).collect();
        for k in open {
            let promised = self.table.operation(k).unwrap().kind() == Kind::LoadBack;
            self.apply(abort(k));
            if promised && !state(&self.table, k).is_terminal() {
                self.apply(ready(k, true));
            }
        }
        for fifo in Kind::ALL {
            assert!(self.apply(finished(fifo, self.table.issued())));
        }
        assert_eq!(self.table.retired(), self.table.issued());
        assert!(Kind::ALL.iter().all(|kind| held(&self.table, self.pools, *kind) == 0));
    }
}

/// All that can be said of each operation, with numbers at what it asked for.
fn events(table: &OperationTable) -> Vec<AgreedEvent> {
    let mut events = Vec::new();
    for entry in table.iter() {
        let (k, tokens) = (entry.ordinal(), entry.tokens());
        events.extend([0, PAGE, tokens].map(|tokens| hit(k, tokens)));
        events.extend([0, 1, entry.pages()].map(|pages| granted(k, pages)));
        events.extend([PAGE, tokens].map(|tokens| progress(k, tokens)));
        events.extend([ready(k, true), ready(k, false), terminate(k), time_out(k), abort(k)]);
        events.push(finished(entry.kind(), k.0 + 1));
    }
    events
}

/// The same, and numbers around what it asked for.
fn more_events(table: &OperationTable) -> Vec<AgreedEvent> {
    let mut events = events(table);
    for entry in table.iter() {
        let (k, first) = (entry.ordinal(), entry.subjects()[0].pages);
        events.extend([PAGE - 1, entry.tokens() + 1].map(|tokens| hit(k, tokens)));
        events.extend([first, entry.pages() + 1].map(|pages| granted(k, pages)));
        events.extend([0, entry.tokens() + 1].map(|tokens| progress(k, tokens)));
        events.push(finished(entry.kind(), k.0));
    }
    events
}

/// Walks on from each key once, up to so many events; gives the number of keys, and of those at which walks were cut off.
fn walk(start: Walk, depth: usize, events: fn(&OperationTable) -> Vec<AgreedEvent>) -> (usize, usize) {
    let mut seen = BTreeSet::from([start.key()]);
    let mut edge = vec![start];
    for _ in 0..depth {
        let mut next = Vec::new();
        for walk in edge {
            for event in events(&walk.table) {
                let mut on = walk.clone();
                if on.apply(event) && seen.insert(on.key()) {
                    on.clone().ends();
                    next.push(on);
                }
            }
        }
        edge = next;
    }
    (seen.len(), edge.len())
}

fn subject(id: u64, kind: Kind, pages: u32) -> Subject {
    Subject { id, pages: if kind == Kind::Store { 0 } else { pages }, tokens: u64::from(pages) * PAGE }
}

#[test]
fn every_walk_of_one_operation_keeps_its_books() {
    for (kind, pools) in Kind::ALL.into_iter().flat_map(|kind| [(kind, VOTING), (kind, FIXED)]) {
        let batch = [subject(1, kind, 1), subject(2, kind, 2), subject(3, kind, 1)];
        for subjects in [&[subject(1, kind, 2)][..], &batch] {
            let mut start = Walk::new(pools);
            if kind == Kind::Prefetch && subjects.len() > 1 {
                continue;
            }
            start.issue(kind, subjects);
            let (keys, cut_off) = walk(start, 8, more_events);
            assert!(keys >= 10 && cut_off == 0, "{kind:?}: {keys}, {cut_off} of them cut off");
        }
    }
}

#[test]
fn every_walk_of_two_operations_keeps_their_books() {
    for second in Kind::ALL {
        let mut start = Walk::new(Pools::USUAL);
        start.issue(Kind::Prefetch, &[subject(1, Kind::Prefetch, 2)]);
        start.issue(second, &[subject(2, second, 2)]);
        let (keys, _) = walk(start, 6, events);
        assert!(keys > 500, "{second:?}: {keys}");
    }
}

#[test]
fn long_random_walks_keep_their_books_while_the_window_slides() {
    for seed in 0..20 {
        let mut random = SplitMix64(seed);
        let mut walk = Walk::new(if seed % 2 == 0 { Pools::USUAL } else { VOTING });
        for _ in 0..2_000 {
            match random.below(8) {
                0 if walk.table.iter().count() < 4 => {
                    let kind = random.pick(&Kind::ALL);
                    walk.issue(kind, &[subject(9, kind, 1 + random.below(3))]);
                }
                1 => {
                    let retired = u32::try_from(walk.table.retired() - walk.table.base()).unwrap();
                    let base = walk.table.base() + u64::from(random.below(retired + 1));
                    walk.table.slide(agreed(base)).unwrap();
                }
                _ if walk.table.iter().count() > 0 => {
                    walk.apply(random.pick(&more_events(&walk.table)));
                }
                _ => {}
            }
        }
        assert!(walk.table.base() > 20, "seed {seed}: the window slid to {}", walk.table.base());
        walk.ends();
    }
}
