//! One rank's side of the votes: what the next ballot asks about, and what a reduced vector must be.

use super::board::{Board, Heading};
use super::divergence_mode::{DivergenceMode, Observed};
use super::error::{Divergence, ProtocolError};
use super::layout::{self, Gap};
use super::reduced::Reduced;
use super::window::Window;

/// How long the vote thread waits between votes, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pacing {
    /// While some operation that is issued everywhere is not retired everywhere.
    pub busy_ms: u32,
    /// While there is none.
    pub idle_ms: u32,
    /// While some rank is paused.
    pub paused_ms: u32,
}

impl Default for Pacing {
    fn default() -> Self {
        Self { busy_ms: 0, idle_ms: 2, paused_ms: 50 }
    }
}

/// When the next vote is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// So many milliseconds after the last one.
    After {
        /// Milliseconds.
        ms: u32,
    },
    /// Never: every rank has applied the stop frame. All vote threads leave after the same vote.
    Leave,
}

/// Votes of one rank: `fill`, reduce over the group, `complete`, and again.
///
/// What a ballot asks about (ordinal, base, the step compared) and when it is due are functions of the previous reduced vector alone.
/// So all ranks vote equally often and about the same things, whatever their schedulers do meanwhile.
#[derive(Debug, Clone, Hash)]
pub struct VoteMachine {
    rank: u32,
    epoch: u64,
    pacing: Pacing,
    /// The vote to be filled next, or the one in flight.
    next: u64,
    in_flight: bool,
    /// The ballot filled last.
    own: Box<[i64]>,
    /// The vector completed last.
    seen: Option<Reduced>,
    uncompared: u64,
    observed: Observed,
}

impl VoteMachine {
    /// The machine of one rank, before its first vote.
    ///
    /// # Errors
    /// If the window's width is out of range.
    pub fn new(rank: u32, epoch: u64, width: u32, pacing: Pacing) -> Result<Self, ProtocolError> {
        let own = vec![layout::UNKNOWN; layout::ballot_words(Window::new(width)?.width())].into();
        let observed = Observed::default();
        Ok(Self { rank, epoch, pacing, next: 0, in_flight: false, own, seen: None, uncompared: 0, observed })
    }

    /// The machine with another mode than [`DivergenceMode::Enforce`], equal on all ranks.
    #[must_use]
    pub fn with_mode(mut self, mode: DivergenceMode) -> Self {
        self.observed.mode = mode;
        self
    }

    /// The first vote that showed unequal digests, where that is observed. All ranks see it in the same vector.
    #[must_use]
    pub fn parted(&self) -> Option<&Divergence> {
        self.observed.first.as_ref()
    }

    /// Words of a ballot.
    #[must_use]
    pub fn words(&self) -> usize {
        self.own.len()
    }

    /// Ordinal of the vote that is filled next, or in flight.
    #[must_use]
    pub fn vote(&self) -> u64 {
        self.next
    }

    /// Whether a ballot is filled and its vote not completed.
    #[must_use]
    pub fn is_in_flight(&self) -> bool {
        self.in_flight
    }

    /// Whether some rank is paused, as the vote completed last says.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.seen().is_some_and(|seen| !seen.running())
    }

    /// When the next vote is due.
    #[must_use]
    pub fn pace(&self) -> Pace {
        match &self.seen {
            None => Pace::After { ms: self.pacing.busy_ms },
            Some(seen) if seen.stopping() => Pace::Leave,
            Some(_) if self.is_paused() => Pace::After { ms: self.pacing.paused_ms },
            Some(seen) if seen.issued() > seen.retired() => Pace::After { ms: self.pacing.busy_ms },
            Some(_) => Pace::After { ms: self.pacing.idle_ms },
        }
    }

    /// Whether the next vote would say anything of which the last one did not say the end: operations are under way, or
    /// this rank pauses, stops, or could back another number of pages. For a rank that is alone in its domain: where there
    /// are others they may have news, and all vote equally often.
    #[must_use]
    pub fn has_news(&self, board: &Board) -> bool {
        self.seen().is_none_or(|seen| board.has_news(seen.words()))
    }

    /// Writes this rank's next ballot to `out`, and keeps it on the board.
    ///
    /// # Errors
    /// If the vote before is not completed, all ranks have left, or `out`, or a ballot of the board, has another length than
    /// [`VoteMachine::words`].
    /// [`Divergence::Backwards`], naming this rank, if a number that only grows went back; `out` then holds the ballot all the
    /// same, and the vote is in flight: the other ranks wait for it.
    pub fn fill(&mut self, board: &mut Board, out: &mut [i64]) -> Result<(), ProtocolError> {
        if self.in_flight {
            return Err(ProtocolError::OutOfOrder { call: "fill", why: "the vote before is not completed" });
        }
        if self.pace() == Pace::Leave {
            return Err(ProtocolError::OutOfOrder { call: "fill", why: "every rank has stopped" });
        }
        self.same_shape(board, out)?;
        board.fill(&self.heading(), out);
        board.ballots.push(out);
        self.in_flight = true;
        self.keep(out)
    }

    /// Writes the ballot that is in flight anew, with what the board knows now. It replaces the one that was kept; its vote and
    /// what it asks about stay, and every number that only grows can only have grown.
    ///
    /// For a rank that has not sent it yet: what was sent is what the others reduce, and must be what is kept.
    ///
    /// # Errors
    /// If no vote is in flight, or a length is wrong as for [`VoteMachine::fill`]. [`Divergence::Backwards`] as there.
    pub fn refill(&mut self, board: &mut Board, out: &mut [i64]) -> Result<(), ProtocolError> {
        if !self.in_flight {
            return Err(ProtocolError::OutOfOrder { call: "refill", why: "no vote is in flight" });
        }
        self.same_shape(board, out)?;
        board.fill(&self.heading(), out);
        board.ballots.replace(out);
        self.keep(out)
    }

    fn same_shape(&self, board: &Board, out: &[i64]) -> Result<(), ProtocolError> {
        ProtocolError::same_length("ballot", out.len(), self.own.len())?;
        let of_board = layout::ballot_words(board.admission().width());
        ProtocolError::same_length("the board's ballot", of_board, self.own.len())
    }

    /// The ballot is this rank's own from now on, even if a number went back: the other ranks wait for it.
    fn keep(&mut self, ballot: &[i64]) -> Result<(), ProtocolError> {
        // What a new machine holds is nowhere above anything.
        let back = layout::first_backward(&self.own, ballot);
        self.own.copy_from_slice(ballot);
        match back {
            Some(back) => Err(self.backwards(back, true).into()),
            None => Ok(()),
        }
    }

    /// Checks the vector that the group reduced, makes it the base of the next vote, and keeps it on the board: a follower compares
    /// with it whatever a frame says of this vote.
    ///
    /// # Errors
    /// If no vote is in flight, or the vector shows that ranks have parted. The vote then stays in flight.
    pub fn complete(&mut self, board: &mut Board, reduced: &[i64]) -> Result<Reduced, ProtocolError> {
        if !self.in_flight {
            return Err(ProtocolError::OutOfOrder { call: "complete", why: "no vote is in flight" });
        }
        self.check(reduced)?;
        let reduced = Reduced::from_words(reduced.into());
        self.seen = Some(reduced.clone());
        board.complete(reduced.clone());
        self.uncompared += u64::from(layout::lacks_digest(&self.own));
        self.next += 1;
        self.in_flight = false;
        Ok(reduced)
    }

    /// Votes in which this rank took no part in the comparison of digests, though there was a step to compare: it has entered so many
    /// steps since that one that its [`DigestRing`](super::DigestRing) no longer holds it. For a report, not for a decision.
    ///
    /// What such a vote cannot find, the next frame does: each follower compares its own digest with the leader's before it applies.
    #[must_use]
    pub fn uncompared(&self) -> u64 {
        self.uncompared
    }

    /// The vector completed last: for the vote thread's own waits, see [`Stall`](super::Stall).
    pub(super) fn seen(&self) -> Option<&Reduced> {
        self.seen.as_ref()
    }

    /// The rank whose votes these are.
    pub(super) fn rank(&self) -> u32 {
        self.rank
    }

    /// Whether no rank has applied fewer steps than this one, as far as the vector completed last tells.
    pub(super) fn is_slowest(&self) -> bool {
        self.seen().is_some_and(|seen| seen.words()[layout::APPLIED_STEP] == self.own[layout::APPLIED_STEP])
    }

    fn heading(&self) -> Heading {
        Heading {
            vote: self.next,
            epoch: self.epoch,
            base: self.seen().map_or(0, Reduced::retired),
            digest_step: self.seen().and_then(Reduced::applied_step),
        }
    }

    fn check(&mut self, reduced: &[i64]) -> Result<(), Divergence> {
        let (rank, vote) = (self.rank, self.next);
        let (got, expected) = (reduced.len() as u64, self.own.len() as u64);
        if got != expected {
            return Err(Divergence::Shape { rank, got, expected });
        }
        for at in layout::PAIRS {
            let (min, max, own) = (reduced[at], !reduced[at + 1], self.own[at]);
            if min != own || max != own {
                let field = layout::name(reduced, at).0;
                return Err(Divergence::Unequal { rank, vote, field, min, max, own });
            }
        }
        let compared = self.check_digest(reduced);
        self.observed.take(|| compared)?;
        if let Some(Gap { field, operation, left: agreed, right: own }) = layout::first_above(reduced, &self.own) {
            return Err(Divergence::AboveBallot { rank, step: None, vote, operation, field, agreed, own });
        }
        match self.seen().and_then(|before| layout::first_backward(before.words(), reduced)) {
            Some(back) => Err(self.backwards(back, false)),
            None => Ok(()),
        }
    }

    /// Whether all ranks that voted a digest voted the same.
    fn check_digest(&self, reduced: &[i64]) -> Result<(), Divergence> {
        let (digest, complement) = (reduced[layout::DIGEST], reduced[layout::DIGEST + 1]);
        let nobody = digest == layout::NO_STAKE && complement == layout::NO_STAKE;
        if nobody || complement == !digest {
            return Ok(());
        }
        let had = self.own[layout::DIGEST + 1] == !self.own[layout::DIGEST];
        let own = had.then(|| self.own[layout::DIGEST].cast_unsigned());
        let step = self.own[layout::DIGEST_STEP].cast_unsigned();
        Err(Divergence::Digest { rank: self.rank, vote: self.next, step, own })
    }

    fn backwards(&self, gap: Gap, own: bool) -> Divergence {
        let Gap { field, operation, left: before, right: now } = gap;
        Divergence::Backwards { rank: self.rank, vote: self.next, operation, field, before, now, own }
    }
}
