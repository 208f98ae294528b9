//! Every rank but the leader: believes a frame only as far as its own state bears it out.

use super::applied::AppliedFrame;
use super::ballot::Kept;
use super::board::Board;
use super::divergence_mode::{DivergenceMode, Observed};
use super::error::Divergence;
use super::frame::{Frame, Member};
use super::layout::{self, Gap};
use super::reduced::Reduced;

/// A follower's side of the frames: `check`, once a step, in the order in which they were stamped.
#[derive(Debug, Clone, Hash)]
pub struct Follower {
    member: Member,
    next_step: u64,
    now_ms: u64,
    /// The vote framed last.
    framed: Option<Reduced>,
    stopped: bool,
    /// Whether it took part in the votes, so that it can check what frames say of them.
    votes: bool,
    observed: Observed,
}

impl Follower {
    /// A follower before it applies `first_step`, which is the same on all ranks.
    #[must_use]
    pub fn new(member: Member, first_step: u64) -> Self {
        let observed = Observed::default();
        Self { member, next_step: first_step, now_ms: 0, framed: None, stopped: false, votes: true, observed }
    }

    /// One that is given the frames of an earlier run. It has voted on nothing, so it believes what they say of votes.
    #[must_use]
    pub fn of_the_past(member: Member, first_step: u64) -> Self {
        Self { votes: false, ..Self::new(member, first_step) }
    }

    /// What a difference from the leader's digest does.
    pub(crate) fn set_mode(&mut self, mode: DivergenceMode) {
        self.observed.mode = mode;
    }

    /// The first difference from the leader's digest that was observed.
    #[must_use]
    pub fn parted(&self) -> Option<&Divergence> {
        self.observed.first.as_ref()
    }

    /// The step that is applied next.
    #[must_use]
    pub fn next_step(&self) -> u64 {
        self.next_step
    }

    /// Checks the next frame against this rank's own state, and makes it ready to be applied. `digest` is this rank's decision
    /// digest at this moment.
    ///
    /// # Errors
    /// If this rank and the leader have parted; digests that differ count only where the mode enforces them. The board and this machine are then as they were: nothing was taken.
    pub fn check(&mut self, frame: Frame, digest: u64, board: &mut Board) -> Result<AppliedFrame, Divergence> {
        self.check_place(&frame)?;
        let Member { rank, .. } = self.member;
        let parted = Divergence::Leader { rank, step: frame.step, leader: frame.digest, own: digest };
        self.observed.take(|| if frame.digest == digest { Ok(()) } else { Err(parted) })?;
        if let Some(vote) = &frame.vote {
            if self.votes {
                self.check_vote(frame.step, vote, board)?;
            }
            self.framed = Some(vote.clone());
        }
        self.next_step += 1;
        self.now_ms = frame.now_ms;
        self.stopped = frame.stops();
        Ok(AppliedFrame::new(frame, digest, board))
    }

    /// Whether this is the frame of this rank's next step.
    fn check_place(&self, frame: &Frame) -> Result<(), Divergence> {
        let Member { domain, epoch, rank } = self.member;
        let step = self.next_step;
        if self.stopped {
            return Err(Divergence::AfterStop { rank, step: frame.step, stopped: step - 1 });
        }
        let differs = |field, got, expected| Err(Divergence::Frame { rank, step, field, got, expected });
        if frame.domain != domain {
            return differs("domain", frame.domain.into(), domain.into());
        }
        if frame.epoch != epoch {
            return differs("epoch", frame.epoch, epoch);
        }
        if frame.step != step {
            return differs("step", frame.step, step);
        }
        if frame.now_ms < self.now_ms {
            return differs("now_ms, which never goes back,", frame.now_ms, self.now_ms);
        }
        Ok(())
    }

    /// Whether the vote is newer than the last, whole, and what this rank reduced itself; or no more than it voted, if its own vote
    /// thread has not come so far.
    fn check_vote(&self, step: u64, vote: &Reduced, board: &Board) -> Result<(), Divergence> {
        let (rank, ordinal, words) = (self.member.rank, vote.vote(), vote.words());
        if let Some(last) = &self.framed
            && ordinal <= last.vote()
        {
            let (field, expected) = ("vote", last.vote() + 1);
            return Err(Divergence::Frame { rank, step, field, got: ordinal, expected });
        }
        let width = layout::ballot_words(board.admission().width());
        if words.len() != width {
            return Err(Divergence::Shape { rank, got: words.len() as u64, expected: width as u64 });
        }
        match board.completed(ordinal) {
            Some(own) => self.check_reduction(step, vote, own)?,
            None => self.check_ballot(step, vote, board)?,
        }
        match self.framed.as_ref().and_then(|last| layout::first_backward(last.words(), words)) {
            Some(Gap { field, operation, left: before, right: now }) => {
                Err(Divergence::Backwards { rank, vote: ordinal, operation, field, before, now, own: false })
            }
            None => Ok(()),
        }
    }

    /// Whether the vote is what this rank's own vote thread reduced, and checked then.
    fn check_reduction(&self, step: u64, vote: &Reduced, own: &Reduced) -> Result<(), Divergence> {
        match layout::first_unequal(vote.words(), own.words()) {
            Some(Gap { field, operation, left: framed, right: own }) => {
                let (rank, vote) = (self.member.rank, vote.vote());
                Err(Divergence::Reduction { rank, step, vote, operation, field, framed, own })
            }
            None => Ok(()),
        }
    }

    /// Whether the vote is no more than this rank itself voted.
    fn check_ballot(&self, step: u64, vote: &Reduced, board: &Board) -> Result<(), Divergence> {
        let (rank, ordinal, kept) = (self.member.rank, vote.vote(), board.ballot(vote.vote()));
        if kept == Kept::Never {
            let filled = board.ballots.filled();
            return Err(Divergence::NeverVoted { rank, step, vote: ordinal, filled });
        }
        let negative = [layout::ISSUED, layout::RETIRED].into_iter().find(|at| vote.words()[*at] < 0);
        if let Some(at) = negative {
            let (field, got) = (layout::name(vote.words(), at).0, vote.words()[at].cast_unsigned());
            return Err(Divergence::Frame { rank, step, field, got, expected: 0 });
        }
        self.check_pairs(ordinal, vote.words(), &kept)?;
        match kept.lacks(vote.words()) {
            Some(Gap { field, operation, left: agreed, right: own }) => {
                let (step, vote) = (Some(step), ordinal);
                Err(Divergence::AboveBallot { rank, step, vote, operation, field, agreed, own })
            }
            None => Ok(()),
        }
    }

    /// Whether the pairs say what every rank voted, as the leader's own vote machine must have seen to.
    fn check_pairs(&self, vote: u64, words: &[i64], kept: &Kept<'_>) -> Result<(), Divergence> {
        for at in layout::PAIRS {
            let (min, max) = (words[at], !words[at + 1]);
            let own = match kept {
                Kept::Exact(own) => own[at],
                _ if at == layout::EPOCH => self.member.epoch.cast_signed(),
                _ => min,
            };
            if min != own || max != own {
                let (rank, field) = (self.member.rank, layout::name(words, at).0);
                return Err(Divergence::Unequal { rank, vote, field, min, max, own });
            }
        }
        Ok(())
    }
}
