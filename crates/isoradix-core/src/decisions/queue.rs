//! The queue of one rank.

use std::collections::{BTreeMap, VecDeque};

use super::error::DecisionError;
use super::report::{self, DECISION_RANKS_MAX, Report};
use super::ruling::Ruling;
use super::token::{Decided, State, Token, Verdict};
use super::vote::{BASE, DECISION_HEADER_WORDS, DecisionVote, RETIRED, VOTE};
#[cfg(feature = "planted-defects")]
use crate::defects::Planted;
use crate::hash;
use crate::provenance::PerRank;

/// The widest window of open questions.
pub const DECISION_WINDOW_MAX: u32 = 4096;

/// Requests that are remembered at a time: each from its first question until it is forgotten.
pub const DECISION_REQUESTS_MAX: u32 = 65_536;

/// What is known of a request.
#[derive(Debug, Default)]
pub(super) struct Request {
    epoch: u32,
    /// The ordinal of its open token.
    open: Option<u64>,
    /// A failure that this rank reported when its epoch was settled here: its report of the next one.
    pub(super) failed_late: bool,
    /// Whether this rank's report of this epoch is that it failed: said again, that is nothing new.
    failed: bool,
}

/// The questions of one rank, equal on all ranks but for what this rank itself has reported.
pub struct DecisionQueue {
    pub(super) rank: u32,
    window: u32,
    patience_ms: u64,
    tokens: VecDeque<Token>,
    /// Ordinal of the first of `tokens`.
    base: u64,
    pub(super) requests: BTreeMap<u64, Request>,
    step: u64,
    now_ms: u64,
    digest: u64,
    /// Of the last applied vote; a token is given only to what fits into it.
    agreed_base: u64,
    /// Ordinal of the last applied vote, and 1.
    votes_applied: u64,
    /// The next vote, and the ordinal of its first token.
    vote: u64,
    vote_base: u64,
    #[cfg(feature = "planted-defects")]
    pub(super) planted: Planted,
}

impl DecisionQueue {
    /// An empty one, equal on all ranks.
    ///
    /// `rank` is below [`DECISION_RANKS_MAX`], `window` is 1 to [`DECISION_WINDOW_MAX`] open questions, `patience_ms` how long each may take.
    ///
    /// # Errors
    /// The rank or the window is out of its range.
    pub fn new(rank: u32, window: u32, patience_ms: u64) -> Result<Self, DecisionError> {
        if window == 0 || window > DECISION_WINDOW_MAX {
            let (given, expected) = (window.into(), window.clamp(1, DECISION_WINDOW_MAX).into());
            return Err(DecisionError::Mismatch { what: "window", given, expected });
        }
        same("rank", rank.into(), rank.min(DECISION_RANKS_MAX - 1).into())?;
        Ok(Self {
            rank,
            window,
            patience_ms,
            tokens: VecDeque::new(),
            base: 0,
            requests: BTreeMap::new(),
            step: 0,
            now_ms: 0,
            digest: 0,
            agreed_base: 0,
            votes_applied: 0,
            vote: 0,
            vote_base: 0,
            #[cfg(feature = "planted-defects")]
            planted: Planted::default(),
        })
    }

    /// Questions without a verdict.
    #[must_use]
    pub fn open(&self) -> usize {
        self.tokens.iter().filter(|token| token.state == State::Open).count()
    }

    /// Whether a request has a question without a verdict.
    #[must_use]
    pub fn is_open(&self, request: u64) -> bool {
        self.ordinal(request).is_ok()
    }

    /// Requests that are remembered.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.requests.len()
    }

    /// Steps so far.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Digest of all questions, retractions and verdicts so far: equal on all ranks at each step.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Words of a vote.
    #[must_use]
    pub fn words(&self) -> usize {
        DECISION_HEADER_WORDS + self.window as usize
    }

    // logical calls: all ranks, in the same order

    /// Asks whether a request is ready everywhere.
    ///
    /// # Errors
    /// It has a token of this epoch or a later one, or an open one; or there is no room for another token or another request.
    pub fn ask(&mut self, request: u64, epoch: u32) -> Result<(), DecisionError> {
        let known = self.requests.get(&request);
        if let Some(known) = known {
            if known.open.is_some() {
                return Err(DecisionError::Open { request, epoch: known.epoch });
            }
            if epoch <= known.epoch {
                return Err(DecisionError::Epoch { request, epoch, last: known.epoch });
            }
        } else if self.requests.len() >= DECISION_REQUESTS_MAX as usize {
            return Err(DecisionError::Crowded { limit: DECISION_REQUESTS_MAX });
        }
        let ordinal = self.base + self.tokens.len() as u64;
        if ordinal >= self.agreed_base + u64::from(self.window) {
            return Err(DecisionError::Full { window: self.window });
        }
        let failed = known.is_some_and(|known| known.failed_late);
        let own = failed.then_some(Report::Failed);
        let deadline_ms = self.clock_ms(self.now_ms).saturating_add(self.patience_ms);
        self.tokens.push_back(Token::new(request, epoch, deadline_ms, own));
        self.requests.insert(request, Request { epoch, open: Some(ordinal), failed_late: false, failed });
        self.record(0, request, epoch);
        Ok(())
    }

    /// Takes a question back, without a verdict: the request may be asked about again in a later epoch.
    ///
    /// # Errors
    /// It has none that is open.
    pub fn retract(&mut self, request: u64) -> Result<(), DecisionError> {
        let ordinal = self.ordinal(request)?;
        let epoch = self.close(ordinal);
        self.record(1, request, epoch);
        self.settle();
        Ok(())
    }

    /// The request is over: its epochs are not remembered any more.
    ///
    /// # Errors
    /// It is not known, or has an open question.
    pub fn forget(&mut self, request: u64) -> Result<(), DecisionError> {
        match self.requests.get(&request) {
            None => Err(DecisionError::Unknown { request }),
            Some(Request { open: Some(_), epoch, .. }) => Err(DecisionError::Open { request, epoch: *epoch }),
            Some(_) => {
                self.requests.remove(&request);
                Ok(())
            }
        }
    }

    /// Applies a ruling: the verdicts of this step, in the order of their questions.
    ///
    /// # Errors
    /// It is not of the next step, its digest is another one, or its vote was applied before.
    pub fn apply(&mut self, ruling: &Ruling) -> Result<Vec<Decided>, DecisionError> {
        same("step of the ruling", ruling.step, self.step + 1)?;
        same("digest of the ruling", ruling.digest, self.digest)?;
        same("clock of the ruling", ruling.now_ms, ruling.now_ms.max(self.now_ms))?;
        if let Some(vote) = &ruling.vote {
            same("vote of the ruling", vote.vote, vote.vote.max(self.votes_applied))?;
            same("first question of the vote", vote.base, vote.base.clamp(self.agreed_base, self.base))?;
            self.votes_applied = vote.vote + 1;
            self.agreed_base = vote.base;
            self.take_reports(vote);
        }
        let now_ms = self.clock_ms(ruling.now_ms);
        if self.step == 0 {
            // the clock begins with the first ruling, and so does the patience for what was asked before
            let deadline_ms = now_ms.saturating_add(self.patience_ms);
            for token in &mut self.tokens {
                token.deadline_ms = deadline_ms;
            }
        }
        (self.step, self.now_ms) = (ruling.step, ruling.now_ms);
        let mut decided = Vec::new();
        for at in 0..self.tokens.len() {
            let token = &self.tokens[at];
            if token.state == State::Open
                && let Some((verdict, rank)) = verdict(token, ruling, now_ms)
            {
                #[cfg(feature = "planted-defects")]
                let (verdict, rank) = self.planted_poll(token, verdict, rank);
                let (request, epoch) = (token.request, token.epoch);
                self.close(self.base + at as u64);
                self.record(2 + verdict as u64, request, epoch);
                decided.push(Decided { request, epoch, verdict, rank });
            }
        }
        self.settle();
        Ok(decided)
    }

    // this rank's own

    /// What this rank sees of a request. Whether it counts for this epoch; a failure that comes too late for it is this rank's report
    /// of the next one. What is said of an earlier epoch is dropped.
    ///
    /// # Errors
    /// The request is not known, or not in this epoch yet.
    pub fn report(&mut self, request: u64, epoch: u32, report: PerRank<Report>) -> Result<bool, DecisionError> {
        let report = report.into_ballot();
        let known = self.requests.get_mut(&request).filter(|known| epoch <= known.epoch);
        let known = known.ok_or(DecisionError::Unknown { request })?;
        if epoch < known.epoch {
            return Ok(false);
        }
        let at = known.open.map(|ordinal| index(ordinal, self.base));
        let counts = at.is_some_and(|at| self.tokens[at].report(report));
        if report == Report::Failed {
            known.failed_late |= !counts && !known.failed;
            known.failed |= counts;
        }
        Ok(counts)
    }

    /// Fills this rank's ballot.
    ///
    /// # Errors
    /// `out` has another number of words.
    pub fn fill(&mut self, out: &mut [i64]) -> Result<(), DecisionError> {
        same("words of the ballot", out.len() as u64, self.words() as u64)?;
        let rank = self.rank;
        set_pair(out, VOTE, self.vote);
        set_pair(out, BASE, self.vote_base);
        out[RETIRED] = self.base.cast_signed();
        for (ordinal, word) in (self.vote_base..).zip(&mut out[DECISION_HEADER_WORDS..]) {
            *word = match ordinal.checked_sub(self.base) {
                None => i64::MAX,
                Some(_) => self
                    .tokens
                    .get_mut(index(ordinal, self.base))
                    .map_or(report::word(None, rank), |token| token.word(rank)),
            };
        }
        Ok(())
    }

    /// Takes the vector that the group reduced by MIN: to be given to [`DecisionQueue::rule`] on the leader, and dropped elsewhere.
    ///
    /// # Errors
    /// It is no reduction of ballots of this vote: the ranks have parted.
    pub fn complete(&mut self, reduced: &[i64]) -> Result<DecisionVote, DecisionError> {
        same("words of the vote", reduced.len() as u64, self.words() as u64)?;
        same_pair("smallest and largest vote", reduced, VOTE, self.vote)?;
        same_pair("smallest and largest first question", reduced, BASE, self.vote_base)?;
        let retired = reduced[RETIRED].cast_unsigned();
        same("retired questions", retired, retired.clamp(self.vote_base, self.base))?;
        let reports = reduced[DECISION_HEADER_WORDS..].to_vec();
        let made = DecisionVote { vote: self.vote, base: self.vote_base, reports };
        (self.vote, self.vote_base) = (self.vote + 1, retired);
        Ok(made)
    }

    // the leader's

    /// The ruling of the next step. It is applied on this rank by `apply`, as on all others. Of `aborts` it takes those that have a
    /// question without a verdict.
    #[must_use]
    pub fn rule(&self, now_ms: u64, newest: Option<&DecisionVote>, aborts: &[u64]) -> Ruling {
        let vote = newest.filter(|vote| vote.vote >= self.votes_applied).map(|vote| self.asked_in(vote));
        let now_ms = now_ms.max(self.now_ms);
        let aborts = aborts.iter().copied().filter(|request| self.is_open(*request)).collect();
        Ruling { step: self.step + 1, now_ms, digest: self.digest, vote, aborts }
    }

    // inside

    /// By which clock a question is late: that of the ruling.
    #[cfg(not(feature = "planted-defects"))]
    #[expect(clippy::unused_self, reason = "with the feature it is read")]
    const fn clock_ms(&self, of_ruling: u64) -> u64 {
        of_ruling
    }

    fn ordinal(&self, request: u64) -> Result<u64, DecisionError> {
        let known = self.requests.get(&request).and_then(|known| known.open);
        known.ok_or(DecisionError::Unknown { request })
    }

    /// A token is over; its epoch.
    fn close(&mut self, ordinal: u64) -> u32 {
        let token = &mut self.tokens[index(ordinal, self.base)];
        token.state = State::Closed;
        if let Some(known) = self.requests.get_mut(&token.request) {
            known.open = None;
        }
        token.epoch
    }

    /// Leading tokens that are over make room.
    fn settle(&mut self) {
        while self.tokens.front().is_some_and(|token| token.state == State::Closed) {
            self.tokens.pop_front();
            self.base += 1;
        }
    }

    /// A vote without its words about what was never asked.
    fn asked_in(&self, vote: &DecisionVote) -> DecisionVote {
        let asked = index(self.base + self.tokens.len() as u64, vote.base);
        let reports = vote.reports.iter().copied().take(asked).collect();
        DecisionVote { vote: vote.vote, base: vote.base, reports }
    }

    fn take_reports(&mut self, vote: &DecisionVote) {
        for (ordinal, word) in (vote.base..).zip(&vote.reports) {
            let at = ordinal.checked_sub(self.base).map(|_| index(ordinal, self.base));
            if let Some(token) = at.and_then(|at| self.tokens.get_mut(at)) {
                token.agreed = Some(report::parts(*word));
            }
        }
    }

    fn record(&mut self, kind: u64, request: u64, epoch: u32) {
        let about = hash::mix(request, u64::from(epoch) << 8 | kind);
        self.digest = hash::mix(self.digest, hash::mix(self.step, about));
    }
}

/// What a ruling decides about an open token, and which rank is why: an abort goes before a failure, and that before what is ready or late.
fn verdict(token: &Token, ruling: &Ruling, now_ms: u64) -> Option<(Verdict, Option<u32>)> {
    if ruling.aborts.contains(&token.request) {
        return Some((Verdict::Aborted, None));
    }
    let late = now_ms >= token.deadline_ms;
    match token.agreed {
        Some((Some(Report::Failed), rank)) => Some((Verdict::Failed, Some(rank))),
        Some((Some(Report::Ready), _)) => Some((Verdict::Ready, None)),
        Some((Some(Report::Pending), rank)) => late.then_some((Verdict::TimedOut, Some(rank))),
        Some((None, rank)) => late.then_some((Verdict::Missing, Some(rank))),
        None => late.then_some((Verdict::Missing, None)),
    }
}

/// Where the token of an ordinal is.
fn index(ordinal: u64, base: u64) -> usize {
    usize::try_from(ordinal - base).expect("as many tokens as a window")
}

fn set_pair(out: &mut [i64], at: usize, value: u64) {
    out[at] = value.cast_signed();
    out[at + 1] = !value.cast_signed();
}

fn same_pair(what: &'static str, words: &[i64], at: usize, expected: u64) -> Result<(), DecisionError> {
    same(what, words[at].cast_unsigned(), expected)?;
    same(what, (!words[at + 1]).cast_unsigned(), expected)
}

fn same(what: &'static str, given: u64, expected: u64) -> Result<(), DecisionError> {
    if given == expected { Ok(()) } else { Err(DecisionError::Mismatch { what, given, expected }) }
}
