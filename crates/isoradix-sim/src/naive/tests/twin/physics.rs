//! This rank's copies, storage, votes and memory: all that physics decides.

use isoradix_core::operation::Kind;
use isoradix_core::{Effect, Ints, Ordinal, PerRank, Presence, Transfer};

use super::{HOST_PAGES, PAGE, Twins};

/// A copy under way, in tokens.
pub(super) struct Copying {
    kind: Kind,
    done: u64,
    tokens: u64,
}

impl Twins {
    pub(super) fn vote(&mut self) {
        let mut ballot = vec![0; self.votes.words()];
        self.votes.fill(&mut self.board, &mut ballot).unwrap();
        let reduced = self.votes.complete(&mut self.board, &ballot).unwrap();
        self.newest = Some((reduced, ballot));
    }

    /// What the rank asks its engines to do; gives the slots freed.
    pub(super) fn carry_out(&mut self) -> u64 {
        let mut freed = 0;
        for effect in self.rank.take_effects() {
            match effect {
                Effect::Query { operation, run } => self.queries.push((operation, run.key.len() as u64 - run.from)),
                Effect::Start(transfer) => self.start(&transfer),
                Effect::Cancel { operation } => {
                    self.queries.retain(|(query, _)| *query != operation);
                    self.copies.remove(&operation);
                    self.opening = self.opening.filter(|opening| *opening != operation);
                    // What has ended has finished before.
                    let _ = self.board.finish(operation);
                }
                Effect::Open { operation } => self.opening = Some(operation),
                Effect::Attached | Effect::Refused | Effect::Detached => self.opening = None,
                Effect::FreeSlots(slots) => {
                    freed += slots.len() as u64;
                    self.free(slots);
                }
            }
        }
        freed
    }

    fn start(&mut self, transfer: &Transfer) {
        if transfer.kind == Kind::Prefetch && !transfer.parts.is_empty() {
            self.count("prefetch", "brings parts");
        }
        let tokens = (transfer.pages.len() * PAGE as usize) as u64;
        self.copies.insert(transfer.operation, Copying { kind: transfer.kind, done: 0, tokens });
    }

    /// One thing that happens outside of the scheduler.
    pub(super) fn work(&mut self) {
        match self.random.below(12) {
            0 => drop(self.rank.withdraw(PerRank::observe(self.random.below(HOST_PAGES))).unwrap()),
            1 | 2 => drop(self.rank.restore(PerRank::observe(self.random.below(HOST_PAGES)))),
            3..6 => self.answer(),
            _ => self.copy(),
        }
    }

    fn answer(&mut self) {
        if let Some(operation) = self.opening.take() {
            let well = self.random.below(3) > 0;
            return self.board.ended(operation, PerRank::observe(well)).unwrap();
        }
        let Some((operation, asked)) = self.queries.pop() else { return };
        if self.random.below(4) == 0 {
            return self.board.ended(operation, PerRank::observe(false)).unwrap();
        }
        let found = if self.random.below(3) == 0 { asked / 2 } else { asked };
        if self.model.settings.trailing.is_some() {
            let rare = 2 + self.random.below(6);
            let parts = (0..found / u64::from(PAGE))
                .map(|_| 7 ^ (u8::from(self.random.below(rare) == 0) << self.random.below(3)));
            let parts = parts.collect();
            self.rank.found_presence(&mut self.board, operation, &Presence::observe(parts)).unwrap();
        } else {
            self.rank.found(&mut self.board, operation, PerRank::observe(found)).unwrap();
        }
        self.carry_out();
    }

    fn copy(&mut self) {
        let numbers: Vec<Ordinal> = self.copies.keys().copied().collect();
        let Some(k) = self.random.pick(&numbers).copied() else { return };
        let (fails, more) = (self.random.below(6) == 0, u64::from(self.random.below(3) * PAGE));
        let copy = self.copies.get_mut(&k).unwrap();
        copy.done = (copy.done + more).min(copy.tokens);
        if copy.kind == Kind::Prefetch {
            self.board.post_progress(k, PerRank::observe(copy.done)).unwrap();
        }
        let fails = fails && copy.kind != Kind::LoadBack;
        if fails || copy.done == copy.tokens {
            self.board.ended(k, PerRank::observe(!fails)).unwrap();
            self.copies.remove(&k);
        }
    }

    /// The pool wants the slots of each page in order.
    pub(super) fn free(&mut self, mut slots: Vec<i64>) {
        slots.chunks_exact_mut(PAGE as usize).for_each(<[i64]>::sort_unstable);
        self.pool.free(Ints::I64(&slots)).unwrap();
    }
}
