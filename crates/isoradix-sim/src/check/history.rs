//! One canonical history for each run: the leader's. Every other rank must have the same.

use super::dump::Dump;
use crate::rng::mix;
use crate::scheduler::Call;
use crate::world::at;
use isoradix_core::{Record, TieredCache};
use std::collections::VecDeque;

/// What a rank leaves behind at the end of a step.
#[derive(Debug)]
struct Left {
    by: usize,
    calls: Vec<Call>,
    dump: Dump,
}

/// One step.
#[derive(Debug, Default)]
struct Entry {
    /// With which digest it was entered.
    digest: u64,
    /// What the leader asked before its forward pass, and was answered.
    decided: Vec<Call>,
    /// What the leader left behind.
    canon: Option<Left>,
    /// What others left behind before it.
    early: Vec<Left>,
    /// Ranks that have left it.
    ranks: usize,
}

/// The history, as far as some rank still has to come by.
#[derive(Debug)]
pub(crate) struct History {
    ranks: usize,
    base: u64,
    entries: VecDeque<Entry>,
    chain: u64,
}

/// A rank that differs from the leader, and how.
#[derive(Debug)]
pub(crate) struct Parted {
    pub(crate) rank: usize,
    pub(crate) how: String,
    /// Whether its cache is another one, and not only what was asked of it.
    pub(crate) in_state: bool,
}

impl History {
    /// Of so many ranks, from the first step on.
    pub(crate) fn new(ranks: usize, first_step: u64) -> Self {
        Self { ranks, base: first_step, entries: VecDeque::new(), chain: 0 }
    }

    /// The hash chain over all steps so far.
    pub(crate) fn chain(&self) -> u64 {
        self.chain
    }

    /// A rank enters a step. The leader is always the first.
    pub(crate) fn enter(&mut self, rank: usize, step: u64, digest: u64) -> Result<(), Parted> {
        let place = at(step - self.base);
        if let Some(entry) = self.entries.get(place) {
            let expected = entry.digest;
            let how = || format!("it enters step {step} with digest {digest:#018x}, expected {expected:#018x}");
            return if digest == expected { Ok(()) } else { Err(Parted { rank, how: how(), in_state: true }) };
        }
        self.chain = mix(self.chain, digest);
        self.entries.push_back(Entry { digest, ..Entry::default() });
        Ok(())
    }

    /// A rank has decided what a step computes. The leader is always the first. Who would compute something else may never come to
    /// the end of the step: its peers do not meet it.
    pub(crate) fn decide(&mut self, rank: usize, step: u64, calls: &[Call]) -> Result<(), Parted> {
        let entry = &mut self.entries[at(step - self.base)];
        if rank == 0 {
            entry.decided = calls.to_vec();
            return Ok(());
        }
        compare(calls, &entry.decided).map_err(|how| Parted { rank, how, in_state: false })
    }

    /// A rank has done all that belongs to a step. What the leader did is what all must have done; who is before it waits for it.
    pub(crate) fn leave(&mut self, by: usize, step: u64, calls: &mut Vec<Call>, dump: Dump) -> Result<(), Parted> {
        let entry = &mut self.entries[at(step - self.base)];
        let left = Left { by, calls: std::mem::take(calls), dump };
        entry.ranks += 1;
        let mut compared = Ok(());
        match &entry.canon {
            Some(canon) => compared = left.compare(canon),
            None if by > 0 => entry.early.push(left),
            None => {
                compared = entry.early.drain(..).try_for_each(|early| early.compare(&left));
                entry.canon = Some(left);
            }
        }
        while self.entries.front().is_some_and(|entry| entry.ranks == self.ranks) {
            if let Some(Entry { canon: Some(Left { calls, .. }), .. }) = self.entries.pop_front() {
                self.chain = calls.iter().fold(self.chain, |chain, call| mix(chain, call.answer[0] ^ call.answer[1]));
            }
            self.base += 1;
        }
        compared
    }
}

impl Left {
    fn compare(&self, canon: &Self) -> Result<(), Parted> {
        let (asked, difference) = (compare(&self.calls, &canon.calls), self.dump.difference(&canon.dump));
        let in_state = difference.is_some();
        let same = asked.and(difference.map_or(Ok(()), Err));
        same.map_err(|how| Parted { rank: self.by, how, in_state })
    }
}

/// What a rank asked in a step, and was answered, is what the leader was.
fn compare(own: &[Call], leaders: &[Call]) -> Result<(), String> {
    if let Some((own, other)) = own.iter().zip(leaders).find(|(own, other)| own != other) {
        return Err(format!("it was answered {own}, the leader {other}"));
    }
    let (count, other) = (own.len(), leaders.len());
    if count == other {
        return Ok(());
    }
    let next = own.get(other).or(leaders.get(count)).map(ToString::to_string).unwrap_or_default();
    Err(format!("it made {count} calls in this step, the leader {other}; the first other one: {next}"))
}

/// The first record in which two journals differ, in words; both are rings, so only what both still hold is compared.
pub(crate) fn first_record(own: &TieredCache, other: &TieredCache) -> Option<String> {
    let [own, other] = [own.cache().journal(), other.cache().journal()];
    let from = own.first()?.step.max(other.first()?.step);
    let since = |records: &'_ [Record]| records.iter().position(|record| record.step > from).unwrap_or_default();
    let (own, other) = (&own[since(&own)..], &other[since(&other)..]);
    let (own, other) = own.iter().zip(other).find(|(own, other)| own != other)?;
    Some(format!("first other record: {}\n  expected: {}", show(own), show(other)))
}

/// A record in words.
pub(crate) fn show(record: &Record) -> String {
    let Record { step, seq, kind, node, a, b, content, .. } = record;
    format!("{step}.{seq} {} node {node}, a {a}, b {b}, content {content:#x}", kind.as_str())
}
