//! All operations that are not retired on every rank.

use super::agreed::AgreedEvent;
use super::effects::Action;
use super::error::{Declined, OperationError};
use super::kind::{Kind, Pools, Subject};
use super::live::{Fact, Life, Operation};
use super::state::{Event, State};
use crate::defects::Planted;
use crate::ordinal::Ordinal;
use crate::protocol::{FIFOS, ProtocolError, SLOT_WORDS, SlotField, Window};
use crate::provenance::Agreed;
use std::collections::VecDeque;

/// Hands out ordinals, admits operations and moves them through their lives.
///
/// It reads logical and agreed values only, so it is equal on all ranks at each step; the rank is there for error messages. A
/// refused call changes nothing. Costs: O(1) an event; a watermark costs what it passes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OperationTable {
    rank: u32,
    /// Its base is the ordinal of the first entry: operations below it are retired on all ranks.
    window: Window,
    pools: Pools,
    /// Leading operations that are terminal here.
    retired: u64,
    entries: VecDeque<Operation>,
    /// One watermark a FIFO.
    finished: [u64; FIFOS],
    pub(crate) planted: Planted,
}

/// What a refused frame is undone with.
pub(super) struct Snapshot {
    lives: Vec<Life>,
    retired: u64,
    finished: [u64; FIFOS],
}

impl OperationTable {
    /// An empty table, for a window of `width` operations, as wide as the [`Board`](crate::protocol::Board)'s.
    ///
    /// # Errors
    /// If the width is out of range.
    pub fn new(rank: u32, width: u32, pools: Pools) -> Result<Self, ProtocolError> {
        let window = Window::new(width)?;
        let planted = Planted::default();
        Ok(Self { rank, window, pools, retired: 0, entries: VecDeque::new(), finished: [0; FIFOS], planted })
    }

    /// Issues an operation about one thing. A prefetch takes whatever part of its pages is granted.
    ///
    /// # Errors
    /// See [`Declined`]; no ordinal is taken then.
    pub fn issue(&mut self, kind: Kind, pages: u32, tokens: u64, subject: u64) -> Result<Ordinal, Declined> {
        self.admit(kind, &[Subject { id: subject, pages, tokens }], 1)
    }

    /// Issues a prefetch that is not worth its while below `pages_min` pages: with less it ends, as with nothing.
    ///
    /// # Errors
    /// See [`Declined`]; no ordinal is taken then.
    pub fn issue_prefetch(
        &mut self,
        pages: u32,
        tokens: u64,
        pages_min: u32,
        subject: u64,
    ) -> Result<Ordinal, Declined> {
        self.admit(Kind::Prefetch, &[Subject { id: subject, pages, tokens }], pages_min)
    }

    /// Issues a prefetch as [`issue_prefetch`](Self::issue_prefetch) does, that is all or nothing: its hits are words of a search for
    /// the deepest end that is usable on every rank, and with less than up to there it delivers nothing.
    ///
    /// # Errors
    /// See [`Declined`]; no ordinal is taken then.
    pub fn issue_whole_prefetch(
        &mut self,
        pages: u32,
        tokens: u64,
        pages_min: u32,
        subject: u64,
    ) -> Result<Ordinal, Declined> {
        let k = self.admit(Kind::Prefetch, &[Subject { id: subject, pages, tokens }], pages_min)?;
        let last = self.entries.pop_back().map(Operation::whole);
        self.entries.extend(last);
        Ok(k)
    }

    /// Issues what one step has for one FIFO as one operation. A grant that is too small is enough for the leading subjects
    /// that fit, each whole; so parents stand before their children.
    ///
    /// # Errors
    /// See [`Declined`]; no ordinal is taken then. A prefetch has one subject: its hit and progress are those of one run.
    pub fn issue_batch(&mut self, kind: Kind, subjects: &[Subject]) -> Result<Ordinal, Declined> {
        self.admit(kind, subjects, 1)
    }

    fn admit(&mut self, kind: Kind, subjects: &[Subject], pages_min: u32) -> Result<Ordinal, Declined> {
        let next = Ordinal(self.issued());
        let operation = Operation::new(next, kind, self.pools, subjects, pages_min)?;
        if !self.window.contains(next) {
            return Err(Declined::WindowFull { next, base: self.base(), window: self.window() });
        }
        self.entries.push_back(operation);
        Ok(next)
    }

    /// Applies one agreed event. Gives what is to be done now, in order.
    ///
    /// An operation that is retired on all ranks is over, and nothing happens to it any more.
    ///
    /// # Errors
    /// If the event does not fit this table: the ranks have parted, or a load-back failed after commit.
    pub fn apply(&mut self, event: AgreedEvent) -> Result<Vec<Action>, OperationError> {
        let mut actions = Vec::new();
        self.take(event, &mut actions)?;
        Ok(actions)
    }

    /// See [`OperationTable::apply`].
    pub(super) fn take(&mut self, event: AgreedEvent, actions: &mut Vec<Action>) -> Result<(), OperationError> {
        let (operation, fact) = match event {
            AgreedEvent::Hit { operation, tokens } => (operation, Fact::Hit(tokens.get())),
            AgreedEvent::Granted { operation, pages } => (operation, Fact::Granted(pages.get().into())),
            AgreedEvent::Progress { operation, tokens } => (operation, Fact::Progress(tokens.get())),
            AgreedEvent::Ready { operation, succeeded } => (operation, Fact::Ready(succeeded.get())),
            AgreedEvent::Finished { fifo, watermark } => {
                return self.finish(fifo, watermark.get(), actions);
            }
            AgreedEvent::Terminate { operation } => (operation.get(), Fact::Terminate),
            AgreedEvent::TimeOut { operation } => (operation.get(), Fact::TimeOut),
            AgreedEvent::Abort { operation } => (operation.get(), Fact::Abort),
        };
        let rank = self.rank;
        if let Some(entry) = self.entry(operation, fact.name())? {
            entry.step(rank, fact, actions)?;
            self.retire();
        }
        Ok(())
    }

    /// Applies the words of one operation in a vote, in the order of [`SlotField`]: only what
    /// they did not say before, so that the same vote may come again.
    ///
    /// # Errors
    /// As for [`OperationTable::apply`]; also if a number went back.
    pub fn apply_slot(
        &mut self,
        operation: Ordinal,
        words: [Agreed<i64>; SLOT_WORDS],
    ) -> Result<Vec<Action>, OperationError> {
        let mut actions = Vec::new();
        self.hear(operation, words.map(Agreed::get), &mut actions)?;
        Ok(actions)
    }

    /// See [`OperationTable::apply_slot`].
    pub(super) fn hear(
        &mut self,
        operation: Ordinal,
        votes: [i64; SLOT_WORDS],
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let known = votes.iter().position(|vote| *vote >= 0);
        if known.is_none() && operation.0 >= self.issued() {
            return Ok(());
        }
        let (rank, said) = (self.rank, SlotField::ALL[known.unwrap_or(0)].as_str());
        let Some(entry) = self.entry(operation, said)? else { return Ok(()) };
        // A rank on which the operation is over votes no stake in it; what the others still say is no smallest vote any more.
        if entry.life.heard == votes || entry.state().is_terminal() {
            return Ok(());
        }
        let (life, before) = (entry.life, actions.len());
        if let Err(error) = entry.hear(rank, votes, actions) {
            entry.life = life;
            actions.truncate(before);
            return Err(error);
        }
        self.retire();
        Ok(())
    }

    /// Moves a FIFO's watermark, over draining operations in particular.
    pub(super) fn finish(
        &mut self,
        fifo: Kind,
        watermark: u64,
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        let (rank, before) = (self.rank, self.finished[fifo.fifo()]);
        if watermark > self.issued() {
            let what = "finished watermark";
            return Err(OperationError::Ahead { rank, what, agreed: watermark, own: self.issued() });
        }
        if watermark < before {
            let (what, before, now) = ("finished watermark", before.cast_signed(), watermark.cast_signed());
            return Err(OperationError::Backwards { rank, operation: None, what, before, now });
        }
        let passed = self.place(before)..self.place(watermark);
        let of_fifo = |entry: &&Operation| entry.kind() == fifo;
        self.entries.range(passed.clone()).filter(of_fifo).try_for_each(|entry| entry.accepts(rank, Event::Passed))?;
        for entry in self.entries.range_mut(passed).filter(|entry| entry.kind() == fifo) {
            entry.step(rank, Fact::Passed, actions)?;
        }
        self.finished[fifo.fifo()] = watermark;
        self.retire();
        Ok(())
    }

    /// Moves the window's base to what is retired on all ranks, and forgets the operations below it.
    ///
    /// # Errors
    /// If the base would go back, or past what is retired here.
    pub fn slide(&mut self, base: Agreed<u64>) -> Result<(), OperationError> {
        let (rank, base) = (self.rank, base.get());
        if base > self.retired {
            return Err(OperationError::Ahead { rank, what: "retired", agreed: base, own: self.retired });
        }
        let (what, before, now) = ("retired", self.base().cast_signed(), base.cast_signed());
        let leaving = ..self.place(base);
        self.window.slide(base).map_err(|_| OperationError::Backwards { rank, operation: None, what, before, now })?;
        self.entries.drain(leaving);
        Ok(())
    }

    /// Operations issued so far; the next one's ordinal.
    #[must_use]
    pub fn issued(&self) -> u64 {
        self.base() + self.entries.len() as u64
    }

    /// Leading operations that are terminal here: what this rank votes.
    #[must_use]
    pub fn retired(&self) -> u64 {
        self.retired
    }

    /// Leading operations that are retired on all ranks, as of the last applied frame.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.window.base()
    }

    /// Operations that may be open above the base.
    #[must_use]
    pub fn window(&self) -> u32 {
        self.window.width()
    }

    /// The agreed watermark of a FIFO.
    #[must_use]
    pub fn finished(&self, fifo: Kind) -> u64 {
        self.finished[fifo.fifo()]
    }

    /// The operation, unless it is retired on all ranks or not issued.
    #[must_use]
    pub fn operation(&self, operation: Ordinal) -> Option<&Operation> {
        self.entries.get(usize::try_from(operation.0.checked_sub(self.base())?).ok()?)
    }

    /// The operations in the window, oldest first; terminal ones among them wait for their turn to retire.
    pub fn iter(&self) -> impl Iterator<Item = &Operation> {
        self.entries.iter()
    }

    /// Checks what must hold between calls; says what does not.
    ///
    /// # Errors
    /// The broken invariant, in words.
    pub fn check(&self) -> Result<(), String> {
        let terminal = |entry: &&Operation| entry.state().is_terminal();
        let leading = self.base() + self.iter().take_while(terminal).count() as u64;
        if self.retired != leading {
            return Err(format!("retired is {}, {leading} leading operations are terminal", self.retired));
        }
        if self.issued() > self.window.end() {
            return Err(format!("{} operations in a window of {}", self.entries.len(), self.window()));
        }
        for (ordinal, entry) in (self.base()..).zip(&self.entries) {
            let passed = ordinal < self.finished(entry.kind());
            if entry.ordinal().0 != ordinal {
                return Err(format!("operation {} stands in the place of {ordinal}", entry.ordinal()));
            }
            if passed && !entry.state().is_terminal() {
                return Err(format!("operation {ordinal} is {}, its FIFO has passed it", entry.state().as_str()));
            }
            if entry.committed().is_some_and(|share| share.pages > entry.pages() || share.tokens > entry.tokens()) {
                return Err(format!("operation {ordinal} has committed more than it asked for"));
            }
            let limit = entry.committed().unwrap_or_default();
            if entry.delivered().is_some_and(|share| share.pages > limit.pages || share.tokens > limit.tokens) {
                return Err(format!("operation {ordinal} has delivered more than it committed"));
            }
            if matches!(entry.state(), State::Committed | State::Copying | State::Done) && limit.tokens == 0 {
                return Err(format!("operation {ordinal} is {}, but committed to nothing", entry.state().as_str()));
            }
        }
        Ok(())
    }

    /// All that a frame may change.
    pub(super) fn snapshot(&self) -> Snapshot {
        Snapshot {
            lives: self.entries.iter().map(|entry| entry.life).collect(),
            retired: self.retired,
            finished: self.finished,
        }
    }

    /// Undoes everything since the snapshot; nothing was issued and the window did not slide.
    pub(super) fn restore(&mut self, snapshot: Snapshot) {
        self.entries.iter_mut().zip(snapshot.lives).for_each(|(entry, life)| entry.life = life);
        (self.retired, self.finished) = (snapshot.retired, snapshot.finished);
    }

    fn place(&self, ordinal: u64) -> usize {
        usize::try_from(ordinal.saturating_sub(self.base())).unwrap_or(usize::MAX).min(self.entries.len())
    }

    /// The entry; `None` if it is retired on all ranks.
    fn entry(&mut self, operation: Ordinal, said: &'static str) -> Result<Option<&mut Operation>, OperationError> {
        let (rank, issued) = (self.rank, self.issued());
        if operation.0 >= issued {
            return Err(OperationError::NotIssued { rank, operation, said, issued });
        }
        let place = operation.0.checked_sub(self.base()).and_then(|place| usize::try_from(place).ok());
        Ok(place.and_then(|place| self.entries.get_mut(place)))
    }

    fn retire(&mut self) {
        while self.operation(Ordinal(self.retired)).is_some_and(|entry| entry.state().is_terminal()) {
            self.retired += 1;
        }
    }
}
