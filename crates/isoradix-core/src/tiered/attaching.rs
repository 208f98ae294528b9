//! External storage attached and detached while ranks run, at one step on all of them.
//!
//! | what | when | on all ranks |
//! |---|---|---|
//! | the leader wants storage | [`Control::Attach`](crate::protocol::Control::Attach) | each opens its own: an operation of the kind store that stores nothing |
//! | every rank has voted `ready` 1 | the frame that says so | attached |
//! | some rank has voted 0 | the frame that says so | refused: nothing has changed |
//! | the leader wants none | [`Control::Detach`](crate::protocol::Control::Detach) | no prefetch begins; what is on its way to host, or there, to be stored is stored |
//! | nothing of storage is open or wished for | the close of that step | detached |
//!
//! What the breaker, or storage itself, keeps from being stored while it is being detached is given up, and counted.

use super::TieredCache;
use super::effects::Effect;
use super::error::StepError;
use super::jobs::{Job, Work};
use crate::evidence::RecordKind;
use crate::operation::{Kind, Subject};
use crate::ordinal::Ordinal;
use crate::protocol::{AppliedControl, AppliedFrame, Board, BreakerState, TopTier};

/// Whether there is external storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attachment {
    /// Nothing is stored. Before the first detach, prefetches are asked for all the same: storage may be there to be read alone.
    Absent,
    /// Every rank is to open it, or does.
    Opening,
    /// It is there.
    Attached,
    /// What is under way ends, and what was to be stored is stored.
    Detaching,
}

impl Attachment {
    /// Its name in lower case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Opening => "opening",
            Self::Attached => "attached",
            Self::Detaching => "detaching",
        }
    }
}

/// What a record says of an attachment.
#[derive(Clone, Copy)]
#[repr(u64)]
enum Said {
    Attached = 1,
    Refused = 2,
    Detaching = 3,
    Detached = 4,
}

impl TieredCache {
    /// Whether there is external storage.
    #[must_use]
    pub fn attachment(&self) -> Attachment {
        self.attachment
    }

    /// Whether prefetches ask external storage, as far as it is a matter of attaching it.
    #[must_use]
    pub fn asks_storage(&self) -> bool {
        match self.attachment {
            Attachment::Attached => true,
            Attachment::Detaching => false,
            Attachment::Absent | Attachment::Opening => !self.was_detached,
        }
    }

    /// The operation by which every rank opens its storage.
    pub(crate) fn opening(&self) -> Option<Ordinal> {
        self.jobs.iter().find(|(_, job)| matches!(job.work, Work::Open)).map(|(k, _)| *k)
    }

    /// Takes what a frame decides about storage, after what it does to operations.
    pub(super) fn change_storage(&mut self, frame: &AppliedFrame) -> Result<(), StepError> {
        for control in frame.controls() {
            match control {
                AppliedControl::Attach if self.attachment == Attachment::Absent => {
                    self.attachment = Attachment::Opening;
                    #[cfg(feature = "planted-defects")]
                    self.planted_attach();
                }
                AppliedControl::Detach => self.begin_detach()?,
                _ => {}
            }
        }
        Ok(())
    }

    fn begin_detach(&mut self) -> Result<(), StepError> {
        match self.attachment {
            Attachment::Opening => match self.jobs.values_mut().find(|job| matches!(job.work, Work::Open)) {
                Some(job) => job.unwanted = true,
                None => self.opened(false),
            },
            Attachment::Detaching => {}
            Attachment::Absent if self.was_detached => {}
            Attachment::Absent | Attachment::Attached => {
                let stores = self.attachment == Attachment::Attached;
                self.stored_before = Ordinal(if stores { self.operations.issued() } else { 0 });
                self.attachment = Attachment::Detaching;
                self.say(Said::Detaching);
                self.forget_wished_fetches()?;
            }
        }
        Ok(())
    }

    /// Every rank is asked to open storage, once there is room for an operation.
    pub(super) fn issue_opening(&mut self, board: &mut Board) -> Result<(), StepError> {
        if self.attachment != Attachment::Opening || self.opening().is_some() || !self.has_room() {
            return Ok(());
        }
        self.openings += 1;
        let subjects = [Subject { id: self.openings, pages: 0, tokens: 1 }];
        let k = self.operations.issue_batch(Kind::Store, &subjects).expect("there is room in the window");
        self.begin(board, k, Kind::Store, &subjects)?;
        if self.host.has_memory() {
            self.effects.push(Effect::Open { operation: k });
        }
        self.jobs.insert(k, Job::new(Work::Open));
        Ok(())
    }

    /// All ranks know how it went: it is there for all of them, or for none.
    pub(super) fn opened(&mut self, well: bool) {
        if !well {
            self.attachment = Attachment::Absent;
            self.say(Said::Refused);
            self.effects.push(Effect::Refused);
            return;
        }
        self.attachment = Attachment::Attached;
        self.say(Said::Attached);
        self.effects.push(Effect::Attached);
        self.renew_breaker();
        self.cache.forget_stored();
    }

    /// Whether what a backup brings to host is to be stored: one that was issued before a detach still is.
    pub(super) fn stores_backup(&self, k: Ordinal) -> bool {
        let there = match self.attachment {
            Attachment::Attached => true,
            Attachment::Detaching => k < self.stored_before,
            Attachment::Absent | Attachment::Opening => false,
        };
        there && self.is_on(TopTier::Storage)
    }

    /// Storage is detached once nothing of it is under way or to be stored. What the breaker keeps back is given up.
    pub(super) fn end_detach(&mut self) {
        if self.attachment != Attachment::Detaching {
            return;
        }
        let is_open = matches!(self.breaker(), Some(BreakerState::Open { .. }));
        if is_open && !self.breaker_lets() {
            self.forget_stores();
        }
        let goes_on = |(k, job): (&Ordinal, &Job)| match job.work {
            Work::Prefetch(_) | Work::Store(_) => true,
            Work::Backup(_) => !job.void && self.stores_backup(*k),
            Work::LoadBack(_) | Work::Open => false,
        };
        if !self.wishes.stores.is_empty() || self.jobs.iter().any(goes_on) {
            return;
        }
        (self.attachment, self.was_detached) = (Attachment::Absent, true);
        self.say(Said::Detached);
        self.effects.push(Effect::Detached);
    }

    fn say(&mut self, said: Said) {
        self.cache.note(RecordKind::Attachment, 0, said as u64, 0, 0);
    }
}
