//! The physical side of one operation on one rank.

use isoradix_core::operation::Kind;
use std::hash::Hash;

/// How far the copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Run {
    /// It touches nothing yet.
    Waiting,
    /// It may touch its pages.
    Running,
    /// It has failed, and may touch its pages still.
    Leaving,
    /// It touches no page, or never will.
    Off,
}

/// What this rank's engines know of an operation, and which pages they may touch for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Copy {
    pub(super) kind: Kind,
    /// Pages that it is to move.
    pub(super) asked: u32,
    /// Whether this rank has a part in it.
    pub(super) stake: bool,
    pub(super) found: Option<u32>,
    pub(super) reserved: Option<u32>,
    pub(super) committed: Option<u32>,
    pub(super) run: Run,
    /// It has started, and neither ballot nor frame has seen that yet.
    pub(super) unseen: bool,
    pub(super) cancelled: bool,
    /// Pages that are whole here.
    pub(super) arrived: u32,
    /// Pages of the pool that its kind takes pages from, those that are delivered already left out.
    pub(super) touches: Vec<u32>,
    /// Host pages of the tree that it reads.
    pub(super) reads: Vec<u32>,
}

impl Copy {
    pub(super) fn new(kind: Kind, asked: u32, stake: bool, reads: Vec<u32>) -> Self {
        Self {
            kind,
            asked,
            stake,
            found: None,
            reserved: None,
            committed: None,
            run: Run::Waiting,
            unseen: false,
            cancelled: false,
            arrived: 0,
            touches: Vec::new(),
            reads,
        }
    }

    /// All but which pages it touches.
    pub(super) fn facts(&self) -> impl Hash {
        let numbers = (self.asked, self.found, self.reserved, self.committed, self.arrived);
        (self.kind, self.run, numbers, self.stake, self.unseen, self.cancelled)
    }

    /// Whether it takes pages for which all ranks vote.
    pub(super) fn votes_pages(&self) -> bool {
        matches!(self.kind, Kind::Backup | Kind::Prefetch)
    }

    /// Pages that it can move here; `None` while that is not known.
    pub(super) fn limit(&self) -> Option<u32> {
        let found = if self.kind == Kind::Prefetch { self.found? } else { self.asked };
        let reserved = if self.votes_pages() { self.reserved? } else { self.asked };
        Some(found.min(reserved).min(self.committed.unwrap_or(u32::MAX)))
    }

    /// Whether it could begin now.
    pub(super) fn may_start(&self) -> bool {
        self.run == Run::Waiting && !self.cancelled && self.stake && self.limit().is_some_and(|limit| limit > 0)
    }

    /// Whether it is under way, or could be.
    pub(super) fn may_move(&self) -> bool {
        self.may_start() || (self.run == Run::Running && !self.cancelled)
    }

    /// Whether it is off its pages for good.
    pub(super) fn is_off(&self) -> bool {
        self.run == Run::Off
    }

    /// All is over, here and in the table: what is left to know of it is nothing.
    pub(super) fn forget(&mut self) {
        *self = Self { run: Run::Off, ..Self::new(self.kind, 0, false, Vec::new()) };
    }
}
