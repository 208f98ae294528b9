//! External storage that fails or is too slow is left alone for a while, by all ranks from one step on.
//!
//! What tells a failure from a plain miss is the `ready` word of an operation's slot: a rank whose question, read or write has failed
//! votes 0, all others vote 1 once nothing more comes of them, and a miss is a `hit` of few tokens with `ready` 1. Frames carry both
//! already. So there is no vote of its own, and no rank can take another one's failure for a miss: MIN keeps the 0.
//!
//! The breaker is fed by applied frames and their clock, so it opens and closes at one step on all ranks:
//!
//! | an operation of storage | says of it |
//! |---|---|
//! | has come to its end | well |
//! | has failed on some rank | badly |
//! | ran into its deadline, and nothing had arrived | badly |
//! | is not over `slow_ms` after its issue | badly |
//! | was a miss that no rank calls a failure | well |
//! | was ended by anything else | nothing |

use super::TieredCache;
use super::jobs::{Job, Work};
use crate::evidence::RecordKind;
use crate::operation::{Event, Kind, Operation, State};
use crate::ordinal::Ordinal;
use crate::protocol::{Breaker, BreakerState, Deadline};
use std::collections::VecDeque;

/// Changes of the breaker that are kept for reports.
const CHANGES_KEPT: usize = 64;

/// A change of the breaker's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerChange {
    /// The batch step.
    pub step: u64,
    /// From here on.
    pub state: BreakerState,
}

/// The breaker, and what it has done.
#[derive(Debug)]
pub(super) struct Guard {
    breaker: Option<Breaker>,
    changes: VecDeque<BreakerChange>,
}

impl Guard {
    pub(super) fn new(breaker: Option<Breaker>) -> Self {
        Self { breaker, changes: VecDeque::new() }
    }
}

impl TieredCache {
    /// What the breaker in front of external storage lets through; nothing, if there is none.
    #[must_use]
    pub fn breaker(&self) -> Option<BreakerState> {
        self.guard.breaker.as_ref().map(Breaker::state)
    }

    /// The last changes of its state, the oldest first. A report: no decision reads it.
    pub fn breaker_changes(&self) -> impl Iterator<Item = BreakerChange> + '_ {
        self.guard.changes.iter().copied()
    }

    /// Whether an operation of storage might be issued now.
    pub(super) fn breaker_lets(&self) -> bool {
        self.guard.breaker.as_ref().zip(self.now).is_none_or(|(breaker, now)| breaker.lets(now))
    }

    /// Whether the next operation, of storage, may be issued.
    pub(super) fn breaker_admits(&mut self) -> bool {
        let next = Ordinal(self.operations.issued());
        let Some(now) = self.now else { return true };
        self.with_breaker(|breaker| breaker.admits(next, now)).unwrap_or(true)
    }

    /// Other storage is there: what the breaker knows is of another one.
    pub(super) fn renew_breaker(&mut self) {
        let rule = self.tiers.breaker;
        self.with_breaker(|breaker| *breaker = rule.map_or(*breaker, Breaker::new));
    }

    /// When an operation that is issued now has taken too long.
    pub(super) fn slow_deadline(&self) -> Option<Deadline> {
        let rule = self.tiers.breaker?;
        self.now.map(|now| Deadline::after(now, rule.slow_ms))
    }

    /// An operation has ended early.
    pub(super) fn judge_end(&mut self, k: Ordinal) {
        let Some(operation) = self.operations.operation(k) else { return };
        let arrived = operation.delivered().is_some_and(|share| share.tokens > 0);
        match operation.ended_by() {
            Some(Event::Failed) => self.judge(k, Some(false)),
            Some(Event::TimeOut) if !arrived => self.judge(k, Some(false)),
            _ => {}
        }
    }

    /// An operation is over on all ranks: all has been said of it.
    pub(super) fn judge_over(&mut self, k: Ordinal) {
        let Some(operation) = self.operations.operation(k) else { return };
        let well = operation.state() == State::Done || operation.ended_by() == Some(Event::Miss);
        let verdict = if operation.has_failed() { Some(false) } else { well.then_some(true) };
        self.judge(k, verdict);
    }

    /// Operations that take too long have failed, as far as the breaker knows.
    pub(super) fn judge_slow(&mut self) {
        let Some(now) = self.now else { return };
        let late = |job: &Job| job.slow_at.is_some_and(|at| at.has_passed(now));
        let slow: Vec<Ordinal> = self.jobs.iter().filter(|(_, job)| late(job)).map(|(k, _)| *k).collect();
        for k in slow {
            self.judge(k, Some(false));
        }
    }

    /// Each operation of storage is judged once: it went well, or badly, or says nothing.
    pub(super) fn judge(&mut self, k: Ordinal, verdict: Option<bool>) {
        let (Some(now), Some(job)) = (self.now, self.jobs.get_mut(&k)) else { return };
        if !matches!(job.work, Work::Prefetch(_) | Work::Store(_)) || job.slow_at.take().is_none() {
            return;
        }
        self.with_breaker(|breaker| match verdict {
            Some(well) => breaker.ended(k, well, now),
            None => breaker.withdrawn(k),
        });
    }

    /// Whether what an operation was to bring, and storage failed to, is wanted from another one.
    pub(super) fn has_failed(operation: &Operation) -> bool {
        let reasons: &[Event] = match operation.kind() {
            Kind::Store => &[Event::Failed, Event::TimeOut],
            _ => &[Event::Failed],
        };
        operation.ended_by().is_some_and(|reason| reasons.contains(&reason))
    }

    /// The one place where the breaker changes: each change of its state is a decision.
    fn with_breaker<T>(&mut self, call: impl FnOnce(&mut Breaker) -> T) -> Option<T> {
        let breaker = self.guard.breaker.as_mut()?;
        let before = breaker.state();
        let answer = call(breaker);
        let state = breaker.state();
        if state.number() != before.number() {
            self.cache.note(RecordKind::Breaker, 0, state.number(), before.number(), 0);
            self.totals.breaker_opened += u64::from(matches!(state, BreakerState::Open { .. }));
            self.totals.breaker_closed += u64::from(matches!(state, BreakerState::Closed { .. }));
            if self.guard.changes.len() == CHANGES_KEPT {
                self.guard.changes.pop_front();
            }
            self.guard.changes.push_back(BreakerChange { step: self.cache.clock().step, state });
        }
        Some(answer)
    }
}
