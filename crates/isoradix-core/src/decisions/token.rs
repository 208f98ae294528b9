//! One question about one request in one epoch.

use super::report::{self, Report};
use crate::provenance::PerRank;

/// What was decided about a request, on all ranks alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Verdict {
    /// Every rank has it.
    Ready = 0,
    /// Some rank will not get it.
    Failed = 1,
    /// The leader gave it up.
    Aborted = 2,
    /// Over its deadline: all ranks have reported, and some still waits.
    TimedOut = 3,
    /// Over its deadline, and some rank has not reported at all.
    Missing = 4,
}

/// A verdict, and what it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decided {
    /// The request.
    pub request: u64,
    /// Its epoch.
    pub epoch: u32,
    /// What was decided.
    pub verdict: Verdict,
    /// The first rank that was not ready, of a verdict for which there is one: what it has reported is why. None too where no vote had
    /// spoken of the question.
    pub rank: Option<u32>,
}

/// Where a token is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// No verdict yet.
    Open,
    /// It has its verdict, or was retracted.
    Closed,
}

/// A token.
pub(super) struct Token {
    pub(super) request: u64,
    pub(super) epoch: u32,
    /// When it is over, by the clock in rulings.
    pub(super) deadline_ms: u64,
    pub(super) state: State,
    /// The smallest report and whose it is, as the last ruling that carried a vote says: none where some rank has none.
    pub(super) agreed: Option<(Option<Report>, u32)>,
    own: Option<PerRank<Report>>,
    /// Whether what this rank has reported is its last word.
    settled: bool,
}

impl Token {
    pub(super) fn new(request: u64, epoch: u32, deadline_ms: u64, own: Option<Report>) -> Self {
        let own_report = own.map(PerRank::observe);
        Self { request, epoch, deadline_ms, state: State::Open, agreed: None, own: own_report, settled: own.is_some() }
    }

    /// Takes this rank's report. Whether it counts: a report after ready or failed does not.
    pub(super) fn report(&mut self, report: Report) -> bool {
        let counts = !self.settled && self.state == State::Open;
        if counts {
            self.own = Some(PerRank::observe(report));
            self.settled = report != Report::Pending;
        }
        counts
    }

    /// Its word in the ballot of a rank; no stake where it has its verdict.
    pub(super) fn word(&mut self, rank: u32) -> i64 {
        if self.state == State::Closed {
            return i64::MAX;
        }
        let Some(own) = self.own.take() else { return report::word(None, rank) };
        let (kept, voted) = own.fork();
        self.own = Some(kept);
        report::word(Some(voted.into_ballot()), rank)
    }
}
