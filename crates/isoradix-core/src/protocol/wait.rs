//! How long a wait may last: first it is reported, then it is fatal.
//!
//! A pure machine on a given clock, in milliseconds. That clock is this rank's own, and may be: a report changes no decision, and
//! a fatal wait ends the rank.

use super::error::ProtocolError;
use super::reduced::Reduced;
use super::vote::VoteMachine;

/// The two thresholds of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    report_ms: u64,
    fatal_ms: u64,
}

impl Patience {
    /// Reports after every `report_ms`, and ends the rank after `fatal_ms`, which is no shorter than the server's watchdog.
    ///
    /// # Errors
    /// If the watchdog would come first, or the report is not below the end.
    pub fn new(report_ms: u64, fatal_ms: u64, watchdog_ms: u64) -> Result<Self, ProtocolError> {
        let hint = "a wait must not end a rank that the server's own watchdog would still leave alone";
        ProtocolError::in_range("fatal threshold in ms", fatal_ms, watchdog_ms, u64::MAX, hint)?;
        let hint = "a wait is reported before it is fatal";
        ProtocolError::in_range("report threshold in ms", report_ms, 1, fatal_ms, hint)?;
        Ok(Self { report_ms, fatal_ms })
    }
}

/// What a wait has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Nothing to say.
    Quiet,
    /// Another report is due, once.
    Report {
        /// How long it has lasted, pauses left out.
        waited_ms: u64,
    },
    /// It is over: the plane is lost.
    Fatal {
        /// How long it has lasted, pauses left out.
        waited_ms: u64,
    },
}

/// One wait.
#[derive(Debug, Clone, Copy)]
pub struct Waiting {
    patience: Patience,
    last_ms: u64,
    waited_ms: u64,
    reports: u64,
}

impl Waiting {
    /// A wait that begins now.
    #[must_use]
    pub fn begin(patience: Patience, now_ms: u64) -> Self {
        Self { patience, last_ms: now_ms, waited_ms: 0, reports: 0 }
    }

    /// What the wait has come to. Time since the last look does not count while `paused`: a long capture is no fault.
    pub fn look(&mut self, now_ms: u64, paused: bool) -> Wait {
        let passed = now_ms.saturating_sub(self.last_ms);
        self.last_ms = self.last_ms.max(now_ms);
        if !paused {
            self.waited_ms = self.waited_ms.saturating_add(passed);
        }
        let (waited_ms, due) = (self.waited_ms, self.waited_ms / self.patience.report_ms);
        if waited_ms >= self.patience.fatal_ms {
            return Wait::Fatal { waited_ms };
        }
        if due <= self.reports {
            return Wait::Quiet;
        }
        self.reports = due;
        Wait::Report { waited_ms }
    }
}

/// Watches that every rank keeps applying steps. A rank whose scheduler died while its vote thread lives shows as a frozen step.
#[derive(Debug)]
pub struct Stall {
    patience: Patience,
    step: Option<u64>,
    waiting: Waiting,
}

/// What [`Stall::look`] saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stalled {
    /// How long the slowest rank has been at its step.
    pub wait: Wait,
    /// That step, nothing before the first.
    pub step: Option<u64>,
    /// This rank, if it is the slowest or one of them: each names itself, since MIN hides who it was.
    pub rank: Option<u32>,
}

impl Stall {
    /// A watch that begins now.
    #[must_use]
    pub fn begin(patience: Patience, now_ms: u64) -> Self {
        Self { patience, step: None, waiting: Waiting::begin(patience, now_ms) }
    }

    /// To be called by the vote thread after every completed vote.
    pub fn look(&mut self, votes: &VoteMachine, now_ms: u64) -> Stalled {
        let step = votes.seen().and_then(Reduced::applied_step);
        if step != self.step {
            (self.step, self.waiting) = (step, Waiting::begin(self.patience, now_ms));
        }
        let paused = votes.seen().is_some_and(|seen| !seen.running());
        let wait = self.waiting.look(now_ms, paused);
        Stalled { wait, step, rank: votes.is_slowest().then(|| votes.rank()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patience() -> Patience {
        Patience::new(1_000, 5_000, 5_000).unwrap()
    }

    #[test]
    fn thresholds_are_in_order() {
        assert!(Patience::new(1_000, 299_999, 300_000).is_err());
        assert!(Patience::new(0, 300_000, 300_000).is_err());
        assert!(Patience::new(300_001, 300_000, 300_000).is_err());
        assert!(Patience::new(5_000, 300_000, 300_000).is_ok());
    }

    #[test]
    fn a_wait_is_reported_once_a_threshold_and_then_fatal() {
        let mut waiting = Waiting::begin(patience(), 10_000);
        let looks: Vec<Wait> =
            [10_999, 11_000, 11_001, 13_500, 14_999, 15_000].map(|now| waiting.look(now, false)).into();
        let report = |waited_ms| Wait::Report { waited_ms };
        let expected =
            [Wait::Quiet, report(1000), Wait::Quiet, report(3500), report(4999), Wait::Fatal { waited_ms: 5000 }];
        assert_eq!(looks, expected);
    }

    #[test]
    fn a_pause_does_not_count_and_a_clock_that_goes_back_is_harmless() {
        let mut waiting = Waiting::begin(patience(), 0);
        assert_eq!(waiting.look(900, false), Wait::Quiet);
        assert_eq!(waiting.look(900_000, true), Wait::Quiet);
        assert_eq!(waiting.look(800_000, false), Wait::Quiet);
        assert_eq!(waiting.look(900_099, false), Wait::Quiet);
        assert_eq!(waiting.look(900_100, false), Wait::Report { waited_ms: 1000 });
    }
}
