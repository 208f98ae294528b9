//! One operation: what it asked for, what is agreed about it, and what it asks of its caller next.

use super::effects::Action;
use super::error::{Declined, OperationError};
use super::kind::{Kind, Pools, Share, Subject};
use super::state::{self, Effect, Event, State, Transition};
use crate::host::Backing;
use crate::ordinal::Ordinal;
use crate::protocol::{Found, NO_STAKE, SLOT_WORDS, SlotField, UNKNOWN, found_end};
use std::hash::{Hash, Hasher};

/// What a frame says of one operation, before it is compared with what the operation asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fact {
    Hit(u64),
    Granted(u64),
    Progress(u64),
    Ready(bool),
    Passed,
    Terminate,
    TimeOut,
    Abort,
}

impl Fact {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hit(_) => "hit",
            Self::Granted(_) => "granted",
            Self::Progress(_) => "progress",
            Self::Ready(_) => "ready",
            Self::Passed => "finished",
            Self::Terminate => "terminate",
            Self::TimeOut => "time_out",
            Self::Abort => "abort",
        }
    }
}

/// Why an operation has ended early. A report: no step reads it, so operations that differ in nothing else go on alike, and hash
/// alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Why(Option<Event>);

impl Hash for Why {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// What changes while an operation lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Life {
    pub(super) state: State,
    /// Agreed hit length; what was asked for, until then.
    hit: u64,
    /// Agreed grant; what was asked for, until then.
    granted: u32,
    /// Tokens that have arrived on every rank.
    progress: u64,
    committed: Option<Share>,
    delivered: Option<Share>,
    ended_by: Why,
    /// What the last vector said.
    pub(super) heard: [i64; SLOT_WORDS],
}

/// One operation, as every rank knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Operation {
    ordinal: Ordinal,
    kind: Kind,
    /// How its pool is backed; `None` if it takes no pages.
    backing: Option<Backing>,
    pages: u32,
    pages_min: u32,
    tokens: u64,
    /// Tokens of one page of a prefetch.
    page_tokens: u64,
    /// A prefetch that is all or nothing, up to the end that all ranks search for.
    is_whole: bool,
    subjects: Box<[Subject]>,
    pub(super) life: Life,
}

impl Operation {
    /// Of a prefetch, `pages_min` pages are enough; of anything else, the whole first subject.
    pub(super) fn new(
        ordinal: Ordinal,
        kind: Kind,
        pools: Pools,
        subjects: &[Subject],
        pages_min: u32,
    ) -> Result<Self, Declined> {
        let asked @ Share { pages, tokens, .. } = sizes(kind, subjects)?;
        let backing = pools.of(kind);
        let pages_min = pages_min.clamp(1, pages.max(1));
        let page_tokens = tokens / u64::from(pages.max(1));
        let state = State::first(kind, pools);
        let committed = (state == State::Committed).then_some(asked);
        let life = Life {
            state,
            hit: tokens,
            granted: pages,
            progress: 0,
            committed,
            delivered: None,
            ended_by: Why(None),
            heard: [UNKNOWN; SLOT_WORDS],
        };
        let (is_whole, subjects) = (false, subjects.into());
        Ok(Self { ordinal, kind, backing, pages, pages_min, tokens, page_tokens, is_whole, subjects, life })
    }

    /// The same prefetch, all or nothing.
    pub(super) fn whole(self) -> Self {
        Self { is_whole: true, ..self }
    }

    /// Whether it delivers all up to an end that ranks search for, or nothing.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Its name.
    #[must_use]
    pub fn ordinal(&self) -> Ordinal {
        self.ordinal
    }

    /// What it moves.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// How far it has come.
    #[must_use]
    pub fn state(&self) -> State {
        self.life.state
    }

    /// What it is about, in order.
    #[must_use]
    pub fn subjects(&self) -> &[Subject] {
        &self.subjects
    }

    /// Pages asked for.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Tokens asked for.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// What it will deliver at most, once that is agreed.
    #[must_use]
    pub fn committed(&self) -> Option<Share> {
        self.life.committed
    }

    /// What it has delivered.
    #[must_use]
    pub fn delivered(&self) -> Option<Share> {
        self.life.delivered
    }

    /// What has ended it early, once something has.
    #[must_use]
    pub fn ended_by(&self) -> Option<Event> {
        self.life.ended_by.0
    }

    /// Tokens that have arrived on every rank; of a prefetch, only whole pages of them are ever delivered.
    #[must_use]
    pub fn progress(&self) -> u64 {
        self.life.progress
    }

    /// Whether a copy, or the question before it, has failed on some rank: of an operation that has ended early, known once every rank
    /// has said how it ended there.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        let question = self.is_whole && found_end(self.life.heard[SlotField::Hit as usize]) == Some(Found::Failed);
        question || self.life.heard[SlotField::Ready as usize] == 0
    }

    /// What the event would do now; `None` if it would be refused. For a leader that is about to decide.
    #[must_use]
    pub fn transition(&self, event: Event) -> Option<&'static Transition> {
        state::transition(self.kind, self.life.state, event)
    }

    /// Takes a step for each vote that says something new: is known, was not heard before, and is one of this kind.
    pub(super) fn hear(
        &mut self,
        rank: u32,
        votes: [i64; SLOT_WORDS],
        actions: &mut Vec<Action>,
    ) -> Result<(), OperationError> {
        for (field, now) in SlotField::ALL.into_iter().zip(votes) {
            let before = self.life.heard[field as usize];
            if now < before {
                let (operation, what) = (Some(self.ordinal), field.as_str());
                return Err(OperationError::Backwards { rank, operation, what, before, now });
            }
            if now == before || self.is_premature(field, now) {
                continue;
            }
            self.life.heard[field as usize] = now;
            if self.has_stake(field)
                && let Some(fact) = self.fact(field, now)
            {
                self.step(rank, fact, actions)?;
            }
        }
        Ok(())
    }

    /// No rank has a stake in how much of what is committed arrives, and nothing is committed: it is heard later.
    fn is_premature(&self, field: SlotField, vote: i64) -> bool {
        vote == NO_STAKE && matches!(field, SlotField::Progress | SlotField::Ready) && self.life.committed.is_none()
    }

    /// Whether ranks vote on this number for an operation of this kind.
    fn has_stake(&self, field: SlotField) -> bool {
        match field {
            SlotField::Hit => self.kind == Kind::Prefetch,
            SlotField::Pages => self.backing == Some(Backing::Voting),
            SlotField::Progress | SlotField::Ready => true,
        }
    }

    /// A known vote as a fact. Where no rank has a stake, nothing is in the way of all of it. Nothing while ranks search for an end.
    fn fact(&self, field: SlotField, vote: i64) -> Option<Fact> {
        let whole = |all: u64| if vote == NO_STAKE { all } else { vote.cast_unsigned() };
        Some(match field {
            SlotField::Hit if self.is_whole && vote != NO_STAKE => match found_end(vote)? {
                Found::End(pages) => Fact::Hit(u64::from(pages) * self.page_tokens),
                Found::Failed => Fact::Ready(false),
            },
            SlotField::Hit => Fact::Hit(whole(self.tokens)),
            SlotField::Pages => Fact::Granted(whole(self.pages.into())),
            SlotField::Progress => Fact::Progress(whole(self.progress_max())),
            SlotField::Ready => Fact::Ready(vote != 0),
        })
    }

    /// Takes one step, or is left as it was.
    pub(super) fn step(&mut self, rank: u32, fact: Fact, actions: &mut Vec<Action>) -> Result<(), OperationError> {
        let event = self.event(rank, fact)?;
        let row = self.row(rank, event)?;
        if row.to.is_counting() {
            self.note(fact);
        } else if row.to == State::Draining && self.life.state.is_counting() {
            self.life.ended_by = Why(Some(event));
        }
        self.life.state = row.to;
        self.effect(row.action, actions);
        Ok(())
    }

    fn note(&mut self, fact: Fact) {
        match fact {
            Fact::Hit(tokens) => self.life.hit = tokens,
            Fact::Granted(pages) => self.life.granted = u32::try_from(pages).unwrap_or(self.pages),
            Fact::Progress(tokens) => self.life.progress = tokens,
            _ => {}
        }
    }

    /// Whether the step would be taken.
    pub(super) fn accepts(&self, rank: u32, event: Event) -> Result<(), OperationError> {
        self.row(rank, event).map(|_| ())
    }

    fn row(&self, rank: u32, event: Event) -> Result<&'static Transition, OperationError> {
        let (operation, kind, state) = (self.ordinal, self.kind, self.life.state);
        match self.transition(event) {
            Some(Transition { action: Effect::Fatal, .. }) => Err(OperationError::Fatal { rank, operation, kind }),
            Some(row) => Ok(row),
            None => Err(OperationError::Refused { rank, operation, kind, state, event }),
        }
    }

    /// Compares a fact with what was asked for.
    fn event(&self, rank: u32, fact: Fact) -> Result<Event, OperationError> {
        Ok(match fact {
            Fact::Hit(tokens) => {
                self.at_most(rank, "hit", tokens, self.tokens)?;
                let falls_short = self.falls_short(State::Reserved, self.granted_tokens(), tokens);
                if tokens < self.worthwhile_tokens() || falls_short { Event::Miss } else { Event::Hit }
            }
            Fact::Granted(pages) => {
                self.at_most(rank, "grant", pages, self.pages.into())?;
                let granted = pages.saturating_mul(self.page_tokens);
                let falls_short = self.falls_short(State::Queried, granted, self.life.hit);
                let too_little = pages < self.worthwhile_pages();
                match () {
                    // Ranks reserve up to their deepest end, before they have agreed on one: storage has answered all of them.
                    () if too_little && self.is_whole && self.life.state != State::Queried => Event::Miss,
                    () if too_little || falls_short => Event::Short,
                    () => Event::Granted,
                }
            }
            Fact::Progress(tokens) => {
                self.at_most(rank, "progress", tokens, self.progress_max())?;
                self.no_less(rank, tokens)?;
                Event::Progress
            }
            Fact::Ready(true) => Event::Succeeded,
            Fact::Ready(false) => Event::Failed,
            Fact::Passed => Event::Passed,
            Fact::Terminate => Event::Terminate,
            Fact::TimeOut => Event::TimeOut,
            Fact::Abort => Event::Abort,
        })
    }

    fn at_most(&self, rank: u32, what: &'static str, agreed: u64, own: u64) -> Result<(), OperationError> {
        let (operation, kind) = (self.ordinal, self.kind);
        if agreed <= own {
            return Ok(());
        }
        Err(OperationError::TooMuch { rank, operation, kind, what, agreed, own })
    }

    fn no_less(&self, rank: u32, progress: u64) -> Result<(), OperationError> {
        let before = self.life.progress;
        if progress >= before {
            return Ok(());
        }
        let (before, now) = (before.cast_signed(), progress.cast_signed());
        Err(OperationError::Backwards { rank, operation: Some(self.ordinal), what: "progress", before, now })
    }

    /// The farthest that the slowest rank can come: no rank finds or reserves less than what is agreed.
    fn progress_max(&self) -> u64 {
        match self.life.committed {
            Some(_) if self.kind == Kind::Prefetch => self.life.hit.min(self.granted_tokens()),
            Some(share) => share.tokens,
            None => self.tokens,
        }
    }

    /// Whether a grant is too small for the end that was found, once the other of the two is known: there is no use in a part.
    fn falls_short(&self, other_is_known: State, granted: u64, hit: u64) -> bool {
        self.is_whole && self.life.state == other_is_known && granted < hit
    }

    fn granted_tokens(&self) -> u64 {
        u64::from(self.life.granted) * self.page_tokens
    }

    /// The shortest hit that is worth loading.
    fn worthwhile_tokens(&self) -> u64 {
        if self.kind == Kind::Prefetch { u64::from(self.pages_min) * self.page_tokens } else { 1 }
    }

    /// The smallest grant that is worth keeping: of a prefetch its minimum, else whatever the first subject needs.
    fn worthwhile_pages(&self) -> u64 {
        if self.kind == Kind::Prefetch { self.pages_min.into() } else { self.subjects[0].pages.into() }
    }

    /// What a grant and a hit are enough for: of a prefetch a leading run of pages, else leading subjects, each whole.
    fn share(&self) -> Share {
        if self.kind == Kind::Prefetch {
            return self.leading_pages(self.life.hit.min(self.granted_tokens()));
        }
        let mut share = Share { pages: 0, tokens: 0, subjects: 0 };
        for subject in &self.subjects {
            if share.pages + subject.pages > self.life.granted {
                break;
            }
            share.pages += subject.pages;
            share.tokens += subject.tokens;
            share.subjects += 1;
        }
        share
    }

    /// The pages of a prefetch that its first tokens fill. A part of a page is no page.
    fn leading_pages(&self, tokens: u64) -> Share {
        let pages = u32::try_from(tokens / self.page_tokens).unwrap_or(self.pages);
        Share { pages, tokens: u64::from(pages) * self.page_tokens, subjects: u32::from(pages > 0) }
    }

    /// Carries out an effect on the operation itself, and says what is left to the caller.
    fn effect(&mut self, effect: Effect, actions: &mut Vec<Action>) {
        let operation = self.ordinal;
        match effect {
            Effect::Nothing | Effect::Fatal => {}
            Effect::Commit => self.commit(actions),
            Effect::Finish => {
                let keep = self.deliver(actions);
                self.push_paged(actions, Action::Settle { operation, keep });
                actions.push(Action::Unlock { operation });
            }
            Effect::Cancel => actions.push(Action::Cancel { operation, keep: 0 }),
            Effect::Keep => {
                let keep = self.deliver(actions);
                actions.push(Action::Cancel { operation, keep });
            }
            Effect::Return => {
                let from = self.life.delivered.map_or(0, |share| share.pages);
                self.push_paged(actions, Action::Return { operation, from });
                actions.push(Action::Unlock { operation });
            }
        }
    }

    fn push_paged(&self, actions: &mut Vec<Action>, action: Action) {
        if self.backing.is_some() {
            actions.push(action);
        }
    }

    /// A fixed pool has committed everything already, and what is too much of it goes back at the end.
    fn commit(&mut self, actions: &mut Vec<Action>) {
        let share = self.share();
        self.life.committed = Some(share);
        if self.backing == Some(Backing::Voting) {
            actions.push(Action::Commit { operation: self.ordinal, share });
        }
    }

    /// Delivers what there is; gives its pages.
    fn deliver(&mut self, actions: &mut Vec<Action>) -> u32 {
        let Some(committed) = self.life.committed else { return 0 };
        let prefetch = self.kind == Kind::Prefetch;
        let share = match prefetch {
            true if !self.is_whole => self.leading_pages(self.life.progress),
            // What ends before the agreed end is not usable there, nor is what lacks parts that it needs there.
            true if self.life.progress < committed.tokens || self.has_failed() => self.leading_pages(0),
            _ => committed,
        };
        self.life.delivered = Some(share);
        if share.tokens > 0 {
            actions.push(Action::Deliver { operation: self.ordinal, share });
        }
        share.pages
    }
}

/// Pages, tokens and number of all subjects, checked.
fn sizes(kind: Kind, subjects: &[Subject]) -> Result<Share, Declined> {
    let pages: u64 = subjects.iter().map(|subject| u64::from(subject.pages)).sum();
    let tokens = subjects.iter().fold(0_u64, |sum, subject| sum.saturating_add(subject.tokens));
    let size = |expected| Declined::Size { kind, pages, tokens, expected };
    let empty = |subject: &Subject| subject.tokens == 0 || (subject.pages == 0 && kind != Kind::Store);
    if subjects.is_empty() || subjects.iter().any(empty) {
        return Err(Declined::Nothing { kind });
    }
    if kind == Kind::Store && pages > 0 {
        return Err(Declined::TakesNoPages { pages });
    }
    if tokens >= NO_STAKE.cast_unsigned() {
        return Err(size("a ballot counts fewer than 2^63 - 1 tokens"));
    }
    if kind == Kind::Prefetch && (subjects.len() > 1 || !tokens.is_multiple_of(pages)) {
        return Err(size("a prefetch is one run of pages, all equally long"));
    }
    let narrow = |count| u32::try_from(count).map_err(|_| size("an operation has fewer than 2^32 pages and subjects"));
    Ok(Share { pages: narrow(pages)?, tokens, subjects: narrow(subjects.len() as u64)? })
}
