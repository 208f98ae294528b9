//! One rank: its cache, and its seat at the table where steps are agreed.
//!
//! ```text
//! lead / follow  -->  verbs of the cache  -->  close_step  -->  take_effects  -->  copies, forward pass
//!       ^                                                                               |
//!       '---- frame <---- vote <---- Board <---- what the copies report <--------------'
//! ```
//!
//! A driver holds one `Rank`, one [`Board`] and, for its vote thread, one [`VoteMachine`](crate::protocol::VoteMachine). The
//! scheduler's thread calls what is in here; I/O threads post to the board, and nothing else.

use crate::components::Presence;
use crate::operation::Event;
use crate::ordinal::Ordinal;
use crate::protocol::{
    AppliedFrame, Board, Control, Divergence, DivergenceMode, FRAME_CONTROLS_MAX, Follower, Frame, Leader, Member,
    ProtocolError, Reduced, RunAhead,
};
use crate::provenance::PerRank;
use crate::tiered::{Attachment, DeviceRoom, Effect, StepError, TieredCache};

/// Which part a rank takes in the frames.
#[derive(Debug)]
enum Seat {
    Leader(Leader),
    Follower(Follower),
}

/// One rank of a consensus domain.
#[derive(Debug)]
pub struct Rank {
    seat: Seat,
    cache: TieredCache,
    /// The step that was entered and is not closed.
    open: Option<u64>,
    /// A frame could be applied only in part.
    broken: bool,
}

impl Rank {
    /// The rank that stamps the frames, before it stamps `first_step`.
    #[must_use]
    pub fn leader(member: Member, first_step: u64, ahead: RunAhead, cache: TieredCache) -> Self {
        Self { seat: Seat::Leader(Leader::new(member, first_step, ahead)), cache, open: None, broken: false }
    }

    /// Any other rank, before it applies `first_step`.
    #[must_use]
    pub fn follower(member: Member, first_step: u64, cache: TieredCache) -> Self {
        Self { seat: Seat::Follower(Follower::new(member, first_step)), cache, open: None, broken: false }
    }

    /// A rank alone, which does again what another one, leader or follower, has done: it is given the same frames and calls, and
    /// believes what those frames say of votes.
    #[must_use]
    pub fn of_the_past(member: Member, first_step: u64, cache: TieredCache) -> Self {
        Self { seat: Seat::Follower(Follower::of_the_past(member, first_step)), cache, open: None, broken: false }
    }

    /// The rank with another mode than [`DivergenceMode::Enforce`], equal on all ranks. The leader compares nothing here: it finds in
    /// votes that ranks have parted.
    #[must_use]
    pub fn with_mode(mut self, mode: DivergenceMode) -> Self {
        if let Seat::Follower(follower) = &mut self.seat {
            follower.set_mode(mode);
        }
        self
    }

    /// The first difference from the leader's digest that was observed, where a mode lets the rank go on.
    #[must_use]
    pub fn parted(&self) -> Option<&Divergence> {
        match &self.seat {
            Seat::Follower(follower) => follower.parted(),
            Seat::Leader(_) => None,
        }
    }

    /// The leader enters its next step: stamps a frame, applies it, and gives it to be sent on.
    ///
    /// `newest` is the newest vote that its vote thread holds, `now` its monotonic clock in milliseconds. Prefetches whose
    /// deadline has passed are ended beside what `controls` decide.
    ///
    /// # Errors
    /// With nothing changed: backpressure, too many controls or one that no rank could apply, a stop frame before this, a step that is not closed, a follower's
    /// seat. Fatally, what [`TieredCache`] finds in the frame.
    pub fn lead(
        &mut self,
        board: &mut Board,
        newest: Option<&Reduced>,
        now: PerRank<u64>,
        controls: &[Control],
    ) -> Result<Frame, StepError> {
        self.leader_seat()?;
        self.may_enter("lead", board)?;
        controls.iter().try_for_each(|control| self.check_control(*control))?;
        let digest = self.digest();
        // Whoever is still opening storage that is wanted no more may never answer: the operation is not waited for.
        let called_off = if controls.contains(&Control::Detach) { self.cache.opening() } else { None };
        let called_off = called_off.map(Control::Abort);
        let room = FRAME_CONTROLS_MAX.saturating_sub(controls.len() + called_off.iter().len());
        let late: Vec<Control> = self.cache.overdue().into_iter().map(Control::TimeOut).take(room).collect();
        let leader = self.leader_seat()?;
        let frame = leader.stamp(newest, now, digest, &[controls, called_off.as_slice(), &late].concat())?;
        let applied = leader.apply(frame.clone(), board)?;
        self.apply(&applied, board)?;
        Ok(frame)
    }

    /// A follower enters its next step: checks a frame and applies it.
    ///
    /// # Errors
    /// With nothing changed: a step that is not closed, a leader's seat. Fatally: this rank and the leader have parted, and nothing
    /// was applied; or what [`TieredCache`] finds in the frame.
    pub fn follow(&mut self, board: &mut Board, frame: Frame) -> Result<(), StepError> {
        self.follower_seat()?;
        self.may_enter("follow", board)?;
        let digest = self.digest();
        #[cfg(feature = "planted-defects")]
        let frame = self.cache.planted_frame(frame, board);
        let applied = self.follower_seat()?.check(frame, digest, board)?;
        self.apply(&applied, board)
    }

    /// Issues what the step wished for. Once a step, on every rank at the same point of its scheduler: before the forward pass
    /// that needs what was loaded.
    ///
    /// `device` is the room on the device, by its logical count: its free slots, or [`DeviceRoom`] where room was promised.
    ///
    /// # Errors
    /// If no step is open; fatally, if the board refuses an operation.
    pub fn close_step(&mut self, board: &mut Board, device: impl Into<DeviceRoom>) -> Result<(), StepError> {
        let Some(step) = self.open.take() else {
            return Err(out_of_order("close_step", "no step is open"));
        };
        #[cfg(feature = "planted-defects")]
        self.cache.planted_close(board);
        self.cache.close(board, device.into())?;
        board.finish_step(step, self.cache.operations().retired())?;
        Ok(())
    }

    /// Issues what the step has wished to load back so far, ahead of its close: for a scheduler that still allots slots to the
    /// forward pass that waits for it. Backups are left to the close: they lock what they read, so it could not be evicted.
    ///
    /// # Errors
    /// If no step is open; fatally, if the board refuses the operation.
    pub fn begin_loads(&mut self, board: &mut Board) -> Result<(), StepError> {
        match self.open {
            Some(_) => self.cache.issue_loads(board),
            None => Err(out_of_order("begin_loads", "no step is open")),
        }
    }

    /// External storage has answered an [`Effect::Query`] on this rank: it has so many units, as a leading part. To be called on
    /// the scheduler's thread; a late answer is no matter.
    ///
    /// # Errors
    /// If the board does not know the operation.
    pub fn found(&mut self, board: &mut Board, k: Ordinal, units: PerRank<u64>) -> Result<(), StepError> {
        self.cache.found(board, k, units)
    }

    /// As [`found`](Self::found), of a cache with components: the leading pages that storage has, and the parts of each.
    ///
    /// # Errors
    /// If the board does not know the operation.
    pub fn found_presence(&mut self, board: &mut Board, k: Ordinal, here: &Presence) -> Result<(), StepError> {
        self.cache.found_presence(board, k, here)
    }

    /// What this rank's engines do now, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        self.cache.take_effects()
    }

    /// This rank loses memory behind up to so many free host pages; gives how many.
    ///
    /// # Errors
    /// If the pool is fixed.
    pub fn withdraw(&mut self, pages: PerRank<u32>) -> Result<PerRank<u32>, StepError> {
        Ok(self.cache.host_mut().withdraw(pages)?)
    }

    /// This rank has memory again behind up to so many host pages that it had lost; gives how many.
    pub fn restore(&mut self, pages: PerRank<u32>) -> PerRank<u32> {
        self.cache.host_mut().restore(pages)
    }

    /// The cache.
    #[must_use]
    pub fn cache(&self) -> &TieredCache {
        &self.cache
    }

    /// The cache, for its verbs.
    pub fn cache_mut(&mut self) -> &mut TieredCache {
        &mut self.cache
    }

    /// The cache alone, when nothing is agreed any more.
    #[must_use]
    pub fn into_cache(self) -> TieredCache {
        self.cache
    }

    /// The decision digest at this moment.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.cache.cache().decision_digest()
    }

    /// Plants a mistake in this rank.
    #[cfg(feature = "planted-defects")]
    pub fn plant(&mut self, defect: crate::defects::Defect) {
        self.cache.plant(defect);
    }

    /// This rank's wall clock, and its monotonic one in milliseconds, which only planted mistakes read.
    #[cfg(feature = "planted-defects")]
    pub fn set_clocks(&mut self, wall: u64, own_ms: u64) {
        self.cache.set_clocks(wall, own_ms);
    }

    /// A copy of this rank has ended; only a planted mistake listens.
    #[cfg(feature = "planted-defects")]
    pub fn copy_ended_here(&mut self, k: Ordinal) {
        self.cache.copy_ended_here(k);
    }

    /// Frames in flight from the leader to its receivers.
    pub fn run_ahead(&mut self) -> Option<&mut RunAhead> {
        match &mut self.seat {
            Seat::Leader(leader) => Some(leader.ahead()),
            Seat::Follower(_) => None,
        }
    }

    /// Storage has failed an operation of this rank; only planted mistakes listen.
    #[cfg(feature = "planted-defects")]
    pub fn failed_here(&mut self, k: Ordinal) {
        self.cache.failed_here(k);
    }

    fn next_step(&self) -> u64 {
        match &self.seat {
            Seat::Leader(leader) => leader.next_step(),
            Seat::Follower(follower) => follower.next_step(),
        }
    }

    fn apply(&mut self, applied: &AppliedFrame, board: &mut Board) -> Result<(), StepError> {
        self.open = Some(applied.step());
        self.cache.apply(applied, board).inspect_err(|_| self.broken = true)
    }

    fn may_enter(&self, call: &'static str, board: &Board) -> Result<(), StepError> {
        let hint = "make board and cache with one window";
        let (width, of_cache) = (board.admission().width().into(), self.cache.operations().window().into());
        ProtocolError::in_range("the board's window", width, of_cache, of_cache, hint)?;
        let (next, now) = (self.next_step(), self.cache.cache().clock().step);
        let hint = "begin with step 1, the same on all ranks";
        ProtocolError::in_range("step", next, now + 1, u64::MAX - 1, hint)?;
        match (self.broken, self.open) {
            (true, _) => Err(out_of_order(call, "an earlier frame could not be applied: this rank is at its end")),
            (_, Some(_)) => Err(out_of_order(call, "the step before is not closed")),
            (false, None) => Ok(()),
        }
    }

    /// Refuses a decision that no rank could apply.
    fn check_control(&self, control: Control) -> Result<(), StepError> {
        let (k, event) = match control {
            Control::Terminate(k) => (k, Event::Terminate),
            Control::TimeOut(k) => (k, Event::TimeOut),
            Control::Abort(k) => (k, Event::Abort),
            Control::Attach | Control::Detach => return self.check_attachment(control),
            Control::Mode(_) | Control::Stop | Control::Tiers(_) => return Ok(()),
        };
        let operations = self.cache.operations();
        if k.0 >= operations.issued() {
            return Err(ProtocolError::NotIssued { operation: k, issued: operations.issued() }.into());
        }
        match operations.operation(k) {
            Some(operation) if operation.transition(event).is_none() => {
                Err(out_of_order("lead", "this operation takes no such decision; only a prefetch is terminated"))
            }
            _ => Ok(()),
        }
    }

    fn check_attachment(&self, control: Control) -> Result<(), StepError> {
        match (control, self.cache.attachment()) {
            (Control::Attach, Attachment::Absent) | (Control::Detach, Attachment::Attached | Attachment::Opening) => {
                Ok(())
            }
            (Control::Detach, Attachment::Absent) if self.cache.asks_storage() => Ok(()),
            (Control::Attach, Attachment::Attached) => {
                Err(out_of_order("lead", "storage is attached: detach it first"))
            }
            (Control::Attach, _) => Err(out_of_order("lead", "a change of storage is under way: let it end first")),
            _ => Err(out_of_order("lead", "there is no storage to be detached")),
        }
    }

    fn follower_seat(&mut self) -> Result<&mut Follower, StepError> {
        match &mut self.seat {
            Seat::Follower(follower) => Ok(follower),
            Seat::Leader(_) => Err(out_of_order("follow", "this rank leads")),
        }
    }

    fn leader_seat(&mut self) -> Result<&mut Leader, StepError> {
        match &mut self.seat {
            Seat::Leader(leader) => Ok(leader),
            Seat::Follower(_) => Err(out_of_order("lead", "this rank follows")),
        }
    }
}

fn out_of_order(call: &'static str, why: &'static str) -> StepError {
    ProtocolError::OutOfOrder { call, why }.into()
}
