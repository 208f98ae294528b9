//! What a frame does to the operations, worked out again from the words of the vote that it carries.

use super::rows::Row;
use crate::violation::{Wrong, ensure};
use isoradix_core::Ordinal;
use isoradix_core::host::Backing;
use isoradix_core::operation::{Action, Effect, Event, Kind, Operation, OperationTable, Pools, State, transition};
use isoradix_core::protocol::words::{BACKABLE, BASE, FINISHED, ISSUED};
use isoradix_core::protocol::{BALLOT_HEADER_WORDS, Control, NO_STAKE, SLOT_WORDS, SlotField, UNKNOWN};
use std::collections::BTreeMap;
use std::fmt;

/// What a frame carries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Framed<'a> {
    /// The words of its vote, if it has one.
    pub(crate) vote: Option<&'a [i64]>,
    pub(crate) controls: &'a [Control],
}

impl Framed<'_> {
    /// Host pages that every rank could back, if the vote says.
    pub(crate) fn backable(&self) -> Option<u32> {
        let word = *self.vote?.get(BACKABLE)?;
        if word == NO_STAKE { None } else { u32::try_from(word).ok() }
    }
}

/// A transition that was taken.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) operation: Ordinal,
    pub(crate) row: Row,
    pub(crate) effect: Effect,
}

/// One operation, as far as it is mirrored.
#[derive(Debug, Clone)]
struct Entry {
    operation: Operation,
    state: State,
    is_committed: bool,
}

/// Follows the operations of one rank.
#[derive(Debug)]
pub(crate) struct Mirror {
    page_tokens: u64,
    prefetch_min: u64,
    /// Whether prefetches are all or nothing, up to an end that ranks search for.
    is_whole: bool,
    /// What the last vote said of each operation.
    heard: BTreeMap<Ordinal, [i64; SLOT_WORDS]>,
    entries: BTreeMap<Ordinal, Entry>,
    finished: [u64; Kind::ALL.len()],
    taken: Vec<Taken>,
}

impl Mirror {
    pub(crate) fn new(page: u32, prefetch_min: u64, is_whole: bool) -> Self {
        Self {
            page_tokens: page.into(),
            prefetch_min,
            is_whole,
            heard: BTreeMap::new(),
            entries: BTreeMap::new(),
            finished: [0; Kind::ALL.len()],
            taken: Vec::new(),
        }
    }

    /// Looks at the operations before a frame is applied.
    pub(crate) fn before(&mut self, table: &OperationTable) {
        self.taken.clear();
        self.entries.clear();
        self.heard.retain(|operation, _| operation.0 >= table.base());
        for operation in table.iter() {
            let (state, is_committed) = (operation.state(), operation.committed().is_some());
            self.entries.insert(operation.ordinal(), Entry { operation: operation.clone(), state, is_committed });
        }
        self.finished = Kind::ALL.map(|kind| table.finished(kind));
    }

    /// Follows a frame, compares with what the core came to, and gives what was taken.
    pub(crate) fn after(&mut self, framed: &Framed<'_>, table: &OperationTable) -> Result<&[Taken], Wrong> {
        if let Some(vote) = framed.vote {
            self.vote(vote)?;
        }
        for control in framed.controls {
            match *control {
                Control::Terminate(operation) => self.step(operation, Event::Terminate)?,
                Control::TimeOut(operation) => self.step(operation, Event::TimeOut)?,
                Control::Abort(operation) => self.step(operation, Event::Abort)?,
                _ => {}
            }
        }
        for (ordinal, entry) in &self.entries {
            let Some(operation) = table.operation(*ordinal) else { continue };
            ensure(operation.state() == entry.state, "operations", || {
                let (state, expected) = (operation.state().as_str(), entry.state.as_str());
                format!("{} {ordinal} is {state}, and by its votes it should be {expected}", operation.kind().as_str())
            })?;
        }
        Ok(&self.taken)
    }

    fn vote(&mut self, vote: &[i64]) -> Result<(), Wrong> {
        let (base, issued) = (vote[BASE].cast_unsigned(), vote[ISSUED].cast_unsigned());
        for (ordinal, words) in (base..issued).zip(vote[BALLOT_HEADER_WORDS..].chunks_exact(SLOT_WORDS)) {
            self.hear(Ordinal(ordinal), words)?;
        }
        for kind in Kind::ALL {
            let word = vote[FINISHED + kind.fifo()];
            let watermark = if word == NO_STAKE { issued } else { u64::try_from(word).unwrap_or(0) };
            let passed = self.entries.range(Ordinal(self.finished[kind.fifo()])..Ordinal(watermark));
            let passed: Vec<Ordinal> =
                passed.filter(|(_, entry)| entry.operation.kind() == kind).map(|(ordinal, _)| *ordinal).collect();
            passed.into_iter().try_for_each(|ordinal| self.step(ordinal, Event::Passed))?;
        }
        Ok(())
    }

    fn hear(&mut self, ordinal: Ordinal, words: &[i64]) -> Result<(), Wrong> {
        let Some(entry) = self.entries.get(&ordinal) else { return Ok(()) };
        if entry.state.is_terminal() {
            return Ok(());
        }
        for (field, now) in SlotField::ALL.into_iter().zip(words) {
            let entry = &self.entries[&ordinal];
            let late = matches!(field, SlotField::Progress | SlotField::Ready);
            let premature = *now == NO_STAKE && late && !entry.is_committed;
            let event = self.event(entry, field, *now);
            let heard = &mut self.heard.entry(ordinal).or_insert([UNKNOWN; SLOT_WORDS])[field as usize];
            if *heard == *now || premature {
                continue;
            }
            *heard = *now;
            if let Some(event) = event {
                self.step(ordinal, event)?;
            }
        }
        Ok(())
    }

    /// What a word says, if the operation has a stake in it.
    fn event(&self, entry: &Entry, field: SlotField, word: i64) -> Option<Event> {
        let operation = &entry.operation;
        let or = |all: u64| if word == NO_STAKE { all } else { word.cast_unsigned() };
        let prefetch = operation.kind() == Kind::Prefetch;
        let least = self.prefetch_min.div_ceil(self.page_tokens).clamp(1, u64::from(operation.pages()).max(1));
        match field {
            SlotField::Hit if prefetch && self.is_whole && word != NO_STAKE => {
                if word == 0 {
                    return Some(Event::Failed);
                }
                let end = end_of_search(word)?;
                let granted = if entry.state == State::Reserved { self.granted(operation) } else { u64::MAX };
                Some(if end >= least && end <= granted { Event::Hit } else { Event::Miss })
            }
            SlotField::Hit if prefetch => {
                let enough = or(operation.tokens()) >= least * self.page_tokens;
                Some(if enough { Event::Hit } else { Event::Miss })
            }
            SlotField::Pages if Pools::USUAL.of(operation.kind()) == Some(Backing::Voting) => {
                let first = operation.subjects().first().map_or(0, |subject| u64::from(subject.pages));
                let found =
                    if prefetch && self.is_whole && entry.state == State::Queried { self.found(operation) } else { 0 };
                let enough = or(operation.pages().into()) >= if prefetch { least.max(found) } else { first };
                Some(if enough { Event::Granted } else { Event::Short })
            }
            SlotField::Progress => Some(Event::Progress),
            SlotField::Ready => Some(if word == 0 { Event::Failed } else { Event::Succeeded }),
            _ => None,
        }
    }

    /// Pages up to the end that was found, and pages that were granted: as the last words that were heard say.
    fn found(&self, operation: &Operation) -> u64 {
        let word = self.heard.get(&operation.ordinal()).map_or(UNKNOWN, |words| words[SlotField::Hit as usize]);
        if word == NO_STAKE { operation.pages().into() } else { end_of_search(word).unwrap_or(0) }
    }

    fn granted(&self, operation: &Operation) -> u64 {
        let word = self.heard.get(&operation.ordinal()).map_or(UNKNOWN, |words| words[SlotField::Pages as usize]);
        if word == NO_STAKE { operation.pages().into() } else { word.try_into().unwrap_or(0) }
    }

    fn step(&mut self, ordinal: Ordinal, event: Event) -> Result<(), Wrong> {
        let Some(entry) = self.entries.get_mut(&ordinal) else { return Ok(()) };
        let (kind, state) = (entry.operation.kind(), entry.state);
        let Some(row) = transition(kind, state, event) else {
            let (kind, state, event) = (kind.as_str(), state.as_str(), event.as_str());
            return Err(Wrong::new("operations", format!("{kind} {ordinal} is {state}, and was told {event}")));
        };
        self.taken.push(Taken { operation: ordinal, row: Row { kind, state, event }, effect: row.action });
        entry.state = row.to;
        entry.is_committed |= row.action == Effect::Commit;
        Ok(())
    }
}

/// The end, in pages, that a word of a search settles for: the low half says it, once the bit above is set, or if it is 0.
fn end_of_search(word: i64) -> Option<u64> {
    let (end, at_bound) = (word.cast_unsigned() & 0xffff_ffff, word >> 32 & 1 == 1);
    (end == 0 || at_bound).then_some(end)
}

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Row { kind, state, event } = self.row;
        let (kind, state, event) = (kind.as_str(), state.as_str(), event.as_str());
        write!(f, "{kind} {} {state} + {event}: {}", self.operation, self.effect.as_str())
    }
}

impl Taken {
    /// What the core was asked to do by it, with the shares that it came to.
    pub(crate) fn actions(&self, table: &OperationTable) -> Vec<Action> {
        let Some(entry) = table.operation(self.operation) else { return Vec::new() };
        let (operation, backing) = (self.operation, Pools::USUAL.of(self.row.kind));
        let delivered = entry.delivered().unwrap_or_default();
        let deliver = (delivered.tokens > 0).then_some(Action::Deliver { operation, share: delivered });
        let paged = |action: Action| backing.is_some().then_some(action);
        let keep = delivered.pages;
        let actions = match self.effect {
            Effect::Nothing | Effect::Fatal => [None, None, None],
            Effect::Commit => {
                let share = entry.committed().unwrap_or_default();
                [(backing == Some(Backing::Voting)).then_some(Action::Commit { operation, share }), None, None]
            }
            Effect::Finish => [deliver, paged(Action::Settle { operation, keep }), Some(Action::Unlock { operation })],
            Effect::Cancel => [Some(Action::Cancel { operation, keep: 0 }), None, None],
            Effect::Keep => [deliver, Some(Action::Cancel { operation, keep }), None],
            Effect::Return => {
                [paged(Action::Return { operation, from: keep }), Some(Action::Unlock { operation }), None]
            }
        };
        actions.into_iter().flatten().collect()
    }
}
