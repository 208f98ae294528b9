//! What each open operation is about: nodes, and what is held for it.

use super::answers::PrefetchTicket;
use super::effects::StoredRun;
use crate::cache::Segment;
use crate::holds::{HostLockReceipt, LockReceipt};
use crate::namespace::Namespace;
use crate::node::NodeHandle;
use crate::operation::Kind;
use crate::ordinal::Ordinal;
use crate::protocol::{Deadline, Retry};
use std::collections::BTreeMap;

/// A prefetch, from its wish on.
#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) ticket: PrefetchTicket,
    pub(super) namespace: Namespace,
    /// Tokens from the start, as far as they are asked for.
    pub(super) key: Vec<u32>,
    pub(super) anchor: NodeHandle,
    /// Units above the anchor's end.
    pub(super) above: u64,
    /// Pages asked for.
    pub(super) pages: u32,
    /// Keeps the anchor on host.
    pub(super) lock: HostLockReceipt,
    /// Until when a request waits for it, from this rank's first poll on: only the leader ends it for that.
    pub(super) deadline: Option<Deadline>,
    /// How often storage has failed it.
    pub(super) retry: Retry,
    /// Parts of the pages directly above the anchor's end, as far as an end may depend on them.
    pub(super) above_parts: Vec<u8>,
    /// Parts of the first pages that are asked for, which are in the tree already and stay as they are.
    pub(super) there: Vec<u8>,
    /// Parts that come with its pages, once its end is agreed.
    pub(super) parts: Vec<u8>,
}

impl Fetch {
    /// What storage is asked for.
    pub(super) fn run(&self) -> StoredRun {
        StoredRun { namespace: self.namespace.clone(), key: self.key.clone(), from: self.above }
    }
}

/// A segment that an operation moves, and what is held for it.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) segment: Segment,
    pub(super) lock: LockReceipt,
    /// Where host copies are given up: keeps on host what is read there, or what the segment is to hang below.
    pub(super) host: Option<HostLockReceipt>,
    /// What is copied beside the keys and values of each page; empty where there are no components.
    pub(super) parts: Vec<u8>,
}

/// What an operation moves.
#[derive(Debug)]
pub(super) enum Work {
    Backup(Vec<Held>),
    LoadBack(Vec<Held>),
    Prefetch(Fetch),
    Store(Vec<(Segment, HostLockReceipt)>),
    /// Every rank opens storage. A store of nothing, so that its end is voted like any other.
    Open,
}

impl Work {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Backup(_) => Kind::Backup,
            Self::LoadBack(_) => Kind::LoadBack,
            Self::Prefetch(_) => Kind::Prefetch,
            Self::Store(_) | Self::Open => Kind::Store,
        }
    }
}

/// An open operation.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug)]
pub(super) struct Job {
    pub(super) work: Work,
    /// The cache was reset: the nodes are gone, and the receipts with them.
    pub(super) void: bool,
    /// Its namespace was removed: what it brings is not wanted any more.
    pub(super) unwanted: bool,
    /// Of the pages delivered, those that the tree took: from the first to before the second. The others go back.
    pub(super) used: Option<(u32, u32)>,
    /// When it has taken too long, as far as the breaker has to know: nothing, once it has been judged.
    pub(super) slow_at: Option<Deadline>,
    /// The leader has ended it: it is not tried again.
    pub(super) given_up: bool,
    /// Storage has failed it, and it is to be tried again once it is over.
    pub(super) again: bool,
}

impl Job {
    pub(super) fn new(work: Work) -> Self {
        Self { work, void: false, unwanted: false, used: None, slow_at: None, given_up: false, again: false }
    }

    /// An operation of external storage.
    pub(super) fn of_storage(work: Work, slow_at: Option<Deadline>) -> Self {
        Self { slow_at, ..Self::new(work) }
    }

    pub(super) fn is_backup(&self) -> bool {
        matches!(self.work, Work::Backup(_))
    }

    pub(super) fn is_store(&self) -> bool {
        matches!(self.work, Work::Store(_))
    }

    /// Pages that a load-back reads on host, if this is one, and its nodes are there.
    pub(super) fn pages_read(&self) -> u64 {
        match &self.work {
            Work::LoadBack(subjects) if !self.void => subjects.iter().map(|held| u64::from(held.segment.pages)).sum(),
            _ => 0,
        }
    }
}

/// All open operations.
pub(super) type Jobs = BTreeMap<Ordinal, Job>;
