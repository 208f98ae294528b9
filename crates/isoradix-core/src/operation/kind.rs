//! What an operation moves, and for what.

use crate::host::Backing;
use crate::protocol::FIFOS;

/// What an operation moves. Each kind has a FIFO of its own, in which its copies are counted as finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Device to host (L1 -> L2).
    Backup = 0,
    /// Host to device (L2 -> L1).
    LoadBack = 1,
    /// External storage to host (L3 -> L2).
    Prefetch = 2,
    /// Host to external storage (L2 -> L3).
    Store = 3,
}

impl Kind {
    /// All kinds, by the number of their FIFO.
    pub const ALL: [Self; FIFOS] = [Self::Backup, Self::LoadBack, Self::Prefetch, Self::Store];

    /// The kind's name in lower case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Backup => "backup",
            Self::LoadBack => "load_back",
            Self::Prefetch => "prefetch",
            Self::Store => "store",
        }
    }

    /// The number of its FIFO, as in a ballot.
    #[must_use]
    pub const fn fifo(self) -> usize {
        self as usize
    }
}

/// How the pools are backed that operations take pages from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pools {
    /// Host pages: of a backup and of a prefetch.
    pub host: Backing,
    /// Device slots: of a load-back.
    pub device: Backing,
}

impl Pools {
    /// The usual ones: host reservations are voted on, device slots are all there from the start.
    pub const USUAL: Self = Self { host: Backing::Voting, device: Backing::Fixed };

    /// How the pool is backed that the kind takes pages from; `None` if it takes none.
    #[must_use]
    pub fn of(self, kind: Kind) -> Option<Backing> {
        match kind {
            Kind::Backup | Kind::Prefetch => Some(self.host),
            Kind::LoadBack => Some(self.device),
            Kind::Store => None,
        }
    }
}

/// What one part of an operation is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Subject {
    /// The caller's own name for it, equal on all ranks: a node's sequence number, a request's number.
    pub id: u64,
    /// Pages that it takes from a pool; 0 for a store.
    pub pages: u32,
    /// Tokens that it moves.
    pub tokens: u64,
}

/// A part of an operation, from its start on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Share {
    /// Leading pages.
    pub pages: u32,
    /// Leading tokens.
    pub tokens: u64,
    /// Leading subjects.
    pub subjects: u32,
}
