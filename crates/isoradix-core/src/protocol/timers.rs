//! Timers on the agreed clock: deadlines, retries and a circuit breaker.
//!
//! All are functions of framed numbers and of [`AppliedFrame::now_ms`](super::AppliedFrame::now_ms), so they run out at the same step on
//! every rank. None counts steps: an idle loop turns at some kHz, a busy one at 10 Hz. All times are in milliseconds.

use crate::ordinal::Ordinal;
use crate::provenance::Agreed;

/// A moment on the agreed clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    at_ms: u64,
}

impl Deadline {
    /// So long after `now`; at the end of time if that is too long.
    #[must_use]
    pub fn after(now: Agreed<u64>, delay_ms: u64) -> Self {
        Self { at_ms: now.get().saturating_add(delay_ms) }
    }

    /// The moment itself.
    #[must_use]
    pub fn at_ms(self) -> u64 {
        self.at_ms
    }

    /// Whether the moment has come.
    #[must_use]
    pub fn has_passed(self, now: Agreed<u64>) -> bool {
        now.get() >= self.at_ms
    }
}

/// How long to wait for a prefetch of so many tokens: a base, and a part for each 1,024 tokens begun, up to a most.
#[must_use]
pub fn prefetch_patience_ms(base_ms: u64, per_ki_token_ms: u64, most_ms: u64, tokens: u64) -> u64 {
    base_ms.saturating_add(per_ki_token_ms.saturating_mul(tokens.div_ceil(1024))).min(most_ms)
}

/// When to try again: twice as long after every failure, up to a longest wait and a number of attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The wait after the first failure.
    pub first_ms: u64,
    /// The longest wait.
    pub longest_ms: u64,
    /// Attempts in all, the first one included.
    pub attempts_max: u32,
}

impl Backoff {
    fn delay_ms(&self, failures: u32) -> u64 {
        let doubled = 1_u64.checked_shl(failures - 1).map_or(u64::MAX, |factor| self.first_ms.saturating_mul(factor));
        doubled.min(self.longest_ms)
    }
}

/// The attempts at one thing so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Retry {
    failures: u32,
}

impl Retry {
    /// One more attempt failed: when the next is due, or nothing if that was the last.
    pub fn failed(&mut self, now: Agreed<u64>, backoff: &Backoff) -> Option<Deadline> {
        self.failures = self.failures.saturating_add(1);
        let again = self.failures < backoff.attempts_max;
        again.then(|| Deadline::after(now, backoff.delay_ms(self.failures)))
    }

    /// An attempt succeeded.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// Failures since the last success.
    #[must_use]
    pub fn failures(self) -> u32 {
        self.failures
    }
}

/// When a circuit breaker opens and closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerRule {
    /// Failures in a row that open it, at least 1.
    pub failures_max: u32,
    /// How long it stays open before a trial.
    pub open_ms: u64,
    /// Trials in a row that must succeed before it closes, at least 1.
    pub trials: u32,
    /// An operation that is not over so long after it was issued counts as failed.
    pub slow_ms: u64,
}

/// Whether work is let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// All of it.
    Closed {
        /// Failures in a row.
        failures: u32,
    },
    /// None, until the deadline.
    Open {
        /// When a trial is let through.
        until: Deadline,
    },
    /// One operation at a time.
    Trial {
        /// The operation let through that has not ended.
        operation: Option<Ordinal>,
        /// Trials that succeeded.
        succeeded: u32,
    },
}

impl BreakerState {
    /// Its name: "closed", "open" or "trial".
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed { .. } => "closed",
            Self::Open { .. } => "open",
            Self::Trial { .. } => "trial",
        }
    }

    /// Its number, as records have it: 0 closed, 1 open, 2 trial.
    #[must_use]
    pub fn number(self) -> u64 {
        match self {
            Self::Closed { .. } => 0,
            Self::Open { .. } => 1,
            Self::Trial { .. } => 2,
        }
    }
}

/// A circuit breaker in front of a storage back end: a dead one costs one timeout, not one a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    rule: BreakerRule,
    state: BreakerState,
}

impl Breaker {
    /// A closed breaker.
    #[must_use]
    pub fn new(rule: BreakerRule) -> Self {
        Self { rule, state: BreakerState::Closed { failures: 0 } }
    }

    /// What it lets through.
    #[must_use]
    pub fn state(&self) -> BreakerState {
        self.state
    }

    /// Whether an operation might be issued now; [`admits`](Self::admits) says which one is.
    #[must_use]
    pub fn lets(&self, now: Agreed<u64>) -> bool {
        match self.state {
            BreakerState::Closed { .. } | BreakerState::Trial { operation: None, .. } => true,
            BreakerState::Open { until } => until.has_passed(now),
            BreakerState::Trial { operation: Some(_), .. } => false,
        }
    }

    /// Whether the operation may be issued at this step.
    pub fn admits(&mut self, k: Ordinal, now: Agreed<u64>) -> bool {
        match self.state {
            BreakerState::Closed { .. } => true,
            BreakerState::Open { until } if until.has_passed(now) => {
                self.state = BreakerState::Trial { operation: Some(k), succeeded: 0 };
                true
            }
            BreakerState::Trial { operation: None, succeeded } => {
                self.state = BreakerState::Trial { operation: Some(k), succeeded };
                true
            }
            BreakerState::Open { .. } | BreakerState::Trial { operation: Some(_), .. } => false,
        }
    }

    /// An operation that was let through ended. One that ended after the breaker opened, and is not its trial, changes nothing.
    pub fn ended(&mut self, k: Ordinal, succeeded: bool, now: Agreed<u64>) {
        self.state = match self.state {
            BreakerState::Closed { .. } if succeeded => BreakerState::Closed { failures: 0 },
            BreakerState::Closed { failures } if failures + 1 < self.rule.failures_max => {
                BreakerState::Closed { failures: failures + 1 }
            }
            BreakerState::Closed { .. } => self.open(now),
            BreakerState::Trial { operation, succeeded: before } if operation == Some(k) => {
                self.trial_ended(before, succeeded, now)
            }
            other => other,
        };
    }

    /// An operation that was let through ended without saying anything about the back end: it was aborted.
    pub fn withdrawn(&mut self, k: Ordinal) {
        if let BreakerState::Trial { operation, .. } = &mut self.state
            && *operation == Some(k)
        {
            *operation = None;
        }
    }

    fn open(&self, now: Agreed<u64>) -> BreakerState {
        BreakerState::Open { until: Deadline::after(now, self.rule.open_ms) }
    }

    fn trial_ended(&self, before: u32, succeeded: bool, now: Agreed<u64>) -> BreakerState {
        match succeeded {
            false => self.open(now),
            true if before + 1 >= self.rule.trials => BreakerState::Closed { failures: 0 },
            true => BreakerState::Trial { operation: None, succeeded: before + 1 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provenance::Applied;

    fn at(ms: u64) -> Agreed<u64> {
        Agreed::mint(&Applied::after_all_checks(), ms)
    }

    #[test]
    fn a_deadline_passes_at_its_moment() {
        let deadline = Deadline::after(at(100), 20);
        assert!(!deadline.has_passed(at(119)));
        assert!(deadline.has_passed(at(120)));
        assert!(!Deadline::after(at(100), u64::MAX).has_passed(at(u64::MAX - 1)));
    }

    #[test]
    fn patience_grows_with_the_tokens_up_to_a_most() {
        assert_eq!(prefetch_patience_ms(1000, 250, 10_000, 0), 1000);
        assert_eq!(prefetch_patience_ms(1000, 250, 10_000, 1), 1250);
        assert_eq!(prefetch_patience_ms(1000, 250, 10_000, 1025), 1500);
        assert_eq!(prefetch_patience_ms(1000, 250, 10_000, u64::MAX), 10_000);
    }

    #[test]
    fn retries_double_and_end() {
        let backoff = Backoff { first_ms: 10, longest_ms: 35, attempts_max: 5 };
        let mut retry = Retry::default();
        let due: Vec<Option<u64>> = (0..5).map(|_| retry.failed(at(0), &backoff).map(Deadline::at_ms)).collect();
        assert_eq!(due, [Some(10), Some(20), Some(35), Some(35), None]);
        retry.succeeded();
        assert_eq!(retry.failed(at(7), &backoff).map(Deadline::at_ms), Some(17));
        let forever = Backoff { attempts_max: u32::MAX, longest_ms: u64::MAX, ..backoff };
        assert_eq!(forever.delay_ms(200), u64::MAX);
    }

    fn breaker() -> Breaker {
        Breaker::new(BreakerRule { failures_max: 3, open_ms: 100, trials: 2, slow_ms: 500 })
    }

    fn opened() -> Breaker {
        let mut breaker = breaker();
        (0..3).for_each(|k| breaker.ended(Ordinal(k), false, at(50)));
        breaker
    }

    #[test]
    fn failures_in_a_row_open_it() {
        let mut breaker = breaker();
        for (k, succeeded) in [false, false, true, false, false].into_iter().enumerate() {
            breaker.ended(Ordinal(k as u64), succeeded, at(50));
            assert!(breaker.admits(Ordinal(9), at(50)), "after {k}");
        }
        breaker.ended(Ordinal(5), false, at(50));
        assert!(!breaker.admits(Ordinal(9), at(149)));
        assert!(breaker.admits(Ordinal(9), at(150)));
    }

    #[test]
    fn trials_go_one_at_a_time_and_close_it() {
        let mut breaker = opened();
        assert!(!breaker.lets(at(149)) && breaker.lets(at(150)), "looking changes nothing");
        assert!(breaker.admits(Ordinal(10), at(200)));
        assert!(!breaker.lets(at(200)) && !breaker.admits(Ordinal(11), at(200)), "one trial at a time");
        breaker.ended(Ordinal(2), false, at(210)); // issued before it opened
        breaker.ended(Ordinal(10), true, at(210));
        assert!(breaker.admits(Ordinal(11), at(210)));
        breaker.ended(Ordinal(11), true, at(220));
        assert_eq!(breaker.state(), BreakerState::Closed { failures: 0 });
    }

    #[test]
    fn a_failed_trial_opens_it_again_and_an_aborted_one_makes_room() {
        let mut breaker = opened();
        assert!(breaker.admits(Ordinal(10), at(200)));
        breaker.withdrawn(Ordinal(10));
        assert!(breaker.admits(Ordinal(11), at(201)));
        breaker.ended(Ordinal(11), false, at(300));
        assert!(!breaker.admits(Ordinal(12), at(399)));
        assert!(breaker.admits(Ordinal(12), at(400)));
    }
}
