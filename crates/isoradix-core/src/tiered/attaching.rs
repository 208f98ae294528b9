//! External storage attached and detached while ranks run, at one step on all of them.
//!
//! | what | when | on all ranks |
//! |---|---|---|
//! | the leader wants storage | [`Control::Attach`](crate::protocol::Control::Attach) | each opens its own: an operation of the kind store that stores nothing |
//! | every rank has voted `ready` 1 | the frame that says so | attached |
//! | some rank has voted 0 | the frame that says so | refused: nothing has changed |
//! | the leader wants none | [`Control::Detach`](crate::protocol::Control::Detach) | no prefetch begins; what is to be stored is stored |
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
use crate::protocol::{AppliedControl, AppliedFrame, Board};

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
    }

    /// Storage is detached once nothing of it is under way or to be stored. What cannot be stored now is given up.
    pub(super) fn end_detach(&mut self) {
        if self.attachment != Attachment::Detaching {
            return;
        }
        if !self.breaker_lets() {
            let stores = std::mem::take(&mut self.wishes.stores);
            self.give_up_stores(&stores);
        }
        let of_storage = |job: &Job| matches!(job.work, Work::Prefetch(_) | Work::Store(_));
        if !self.wishes.stores.is_empty() || self.jobs.values().any(of_storage) {
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
