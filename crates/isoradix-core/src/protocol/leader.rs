//! The one rank that decides whether, how much and when.

use super::applied::AppliedFrame;
use super::board::Board;
use super::error::ProtocolError;
use super::frame::{Control, Frame, Member};
use super::reduced::Reduced;
use super::run_ahead::RunAhead;
use crate::provenance::PerRank;

/// The leader's side of the frames: `stamp`, send, `apply`, once a step, before any early return, idle or busy.
#[derive(Debug, Clone, Hash)]
pub struct Leader {
    member: Member,
    next_step: u64,
    /// Ordinal of the vote framed last.
    framed: Option<u64>,
    now_ms: u64,
    /// Stamped, and not applied here yet.
    pending: Option<u64>,
    stopped: bool,
    ahead: RunAhead,
}

impl Leader {
    /// The leader before it stamps `first_step`, which is the same on all ranks.
    #[must_use]
    pub fn new(member: Member, first_step: u64, ahead: RunAhead) -> Self {
        Self { member, next_step: first_step, framed: None, now_ms: 0, pending: None, stopped: false, ahead }
    }

    /// The step that is stamped next.
    #[must_use]
    pub fn next_step(&self) -> u64 {
        self.next_step
    }

    /// Frames in flight to this rank's receivers.
    pub fn ahead(&mut self) -> &mut RunAhead {
        &mut self.ahead
    }

    /// The next step's frame, to be sent over every edge.
    ///
    /// `newest` is the newest vote that this rank holds; it is carried if no earlier frame carried it. `now` is this rank's
    /// monotonic clock in milliseconds. `digest` is this rank's decision digest at this moment.
    ///
    /// # Errors
    /// [`ProtocolError::Backpressure`] if a receiver is too far behind; too many controls; the frame before was not applied; after
    /// a stop frame.
    pub fn stamp(
        &mut self,
        newest: Option<&Reduced>,
        now: PerRank<u64>,
        digest: u64,
        controls: &[Control],
    ) -> Result<Frame, ProtocolError> {
        self.may_stamp()?;
        Frame::check_controls(controls)?;
        self.ahead.send().map_err(ProtocolError::Backpressure)?;
        let vote = newest.filter(|newest| self.framed.is_none_or(|framed| newest.vote() > framed)).cloned();
        self.framed = vote.as_ref().map(Reduced::vote).or(self.framed);
        self.now_ms = self.now_ms.max(now.into_ballot());
        let Member { domain, epoch, .. } = self.member;
        let step = self.next_step;
        self.pending = Some(step);
        self.next_step += 1;
        let frame = Frame { domain, epoch, step, now_ms: self.now_ms, digest, vote, controls: controls.to_vec() };
        self.stopped = frame.stops();
        Ok(frame)
    }

    /// Applies the frame just stamped on the leader itself.
    ///
    /// # Errors
    /// If it is not that frame.
    pub fn apply(&mut self, frame: Frame, board: &mut Board) -> Result<AppliedFrame, ProtocolError> {
        if self.pending != Some(frame.step) {
            return Err(ProtocolError::OutOfOrder { call: "apply", why: "this is not the frame stamped last" });
        }
        self.pending = None;
        let digest = frame.digest;
        Ok(AppliedFrame::new(frame, digest, board))
    }

    fn may_stamp(&self) -> Result<(), ProtocolError> {
        let refuse = |why| Err(ProtocolError::OutOfOrder { call: "stamp", why });
        match (self.stopped, self.pending) {
            (true, _) => refuse("the stop frame was the last"),
            (_, Some(_)) => refuse("the frame before is not applied"),
            _ => Ok(()),
        }
    }
}
