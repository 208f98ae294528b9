//! Every way in which the host pool can refuse a call.
//!
//! A refused call changes nothing. [`Declined`] is no error but an answer: it depends on logical values alone, so every
//! rank gets it alike.

use super::ledger::Stage;
use crate::ordinal::Ordinal;
use std::fmt;

/// The pool has no room for what was asked. Equal on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Declined {
    /// Pages asked for.
    pub asked: u32,
    /// Pages that are occupied, logically.
    pub occupied: u32,
    /// The pool's logical capacity in pages.
    pub capacity: u32,
}

impl Declined {
    /// Pages that have to be evicted before the same question is admitted; more than all if it never will be.
    #[must_use]
    pub fn short_by(&self) -> u64 {
        (u64::from(self.occupied) + u64::from(self.asked)).saturating_sub(self.capacity.into())
    }
}

impl fmt::Display for Declined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, occupied, capacity } = self;
        write!(
            f,
            "{asked} host pages asked for, {occupied} of {capacity} are occupied\n\
             hint: evict {} host pages first, or go without",
            self.short_by()
        )
    }
}

/// An operation that holds pages and has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenOperation {
    /// The operation.
    pub operation: Ordinal,
    /// How far it is.
    pub stage: Stage,
    /// Pages that it occupies, logically.
    pub pages: u32,
}

/// Why a call was refused. The pool is as it was before the call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostError {
    /// An argument is 0 that must not be.
    Zero {
        /// Its name.
        what: &'static str,
    },
    /// A budget holds more tokens than can be counted.
    Budget {
        /// Tokens before they are rounded up to whole pages.
        tokens: u64,
        /// Tokens of one page.
        page_size: u32,
    },
    /// The pool is to be fully backed and is not.
    Unbacked {
        /// Pages that this rank has.
        physical: u32,
        /// The agreed capacity in pages.
        capacity: u32,
    },
    /// There is no memory for the books of so many pages.
    OutOfMemory {
        /// Pages of the pool.
        pages: u32,
        /// Bytes that their books take.
        bytes: u64,
    },
    /// An operation asks that does not come after every operation that asked before.
    OutOfOrder {
        /// The operation.
        operation: Ordinal,
        /// The smallest ordinal that may ask.
        least: u64,
    },
    /// The operation has no entry: it never asked, or was declined, or has ended.
    Unknown {
        /// The operation.
        operation: Ordinal,
        /// What was to be done with it.
        verb: &'static str,
    },
    /// The operation is not in a stage in which this can be done.
    Stage {
        /// The operation.
        operation: Ordinal,
        /// How far it is.
        stage: Stage,
        /// What was to be done with it.
        verb: &'static str,
    },
    /// This rank has reserved for the operation already.
    Reserved {
        /// The operation.
        operation: Ordinal,
        /// What it got.
        pages: u32,
    },
    /// A part of a fixed pool was asked for.
    Fixed {
        /// What was to be done with it.
        verb: &'static str,
    },
    /// A grant is above what this rank has reserved and voted (form B).
    AboveReservation {
        /// The operation.
        operation: Ordinal,
        /// Pages that were granted.
        granted: u32,
        /// Pages that this rank reserved, `None` if it has not reserved at all.
        reserved: Option<u32>,
    },
    /// More pages are to be kept than the operation was granted.
    AboveGrant {
        /// The operation.
        operation: Ordinal,
        /// Pages to be kept.
        keep: u32,
        /// Pages that were granted.
        granted: u32,
    },
    /// No page of the pool has this number.
    NoSuchPage {
        /// The number.
        page: u32,
        /// Pages of the pool on this rank.
        physical: u32,
    },
    /// The page is free already.
    DoubleRelease {
        /// The page.
        page: u32,
        /// Whether it appears twice in this very call.
        within_call: bool,
    },
    /// The page is still an operation's and not the tree's.
    NotSettled {
        /// The page.
        page: u32,
        /// The operation.
        operation: Ordinal,
    },
    /// Operations that have not ended at shutdown.
    Leaked {
        /// All of them, in order.
        open: Vec<OpenOperation>,
    },
    /// An invariant does not hold.
    Invariant {
        /// The broken invariant, with figures.
        what: String,
    },
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.what(f)?;
        write!(f, "\nhint: {}", self.hint())
    }
}

impl HostError {
    fn what(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero { what } => write!(f, "{what} 0 is out of range: at least 1"),
            Self::Budget { tokens, page_size } => {
                write!(f, "a budget of {tokens} tokens in pages of {page_size} does not fit 64 bits")
            }
            Self::Unbacked { physical, capacity } => {
                write!(f, "a fixed pool of capacity {capacity} has {physical} pages on this rank")
            }
            Self::OutOfMemory { pages, bytes } => {
                write!(f, "no memory for the books of {pages} host pages: {bytes} bytes")
            }
            Self::OutOfOrder { operation, least } => {
                write!(f, "operation {operation} asks out of order: {least} to {}", Ordinal::LAST)
            }
            Self::Unknown { operation, verb } => write!(f, "operation {operation} holds no host pages to {verb}"),
            Self::Stage { operation, stage, verb } => write!(f, "operation {operation} is {stage}: cannot {verb}"),
            Self::Reserved { operation, pages } => {
                write!(f, "operation {operation} has reserved already, and got {pages} pages")
            }
            Self::Fixed { verb } => write!(f, "a fixed pool cannot {verb}"),
            Self::AboveReservation { operation, granted, reserved: None } => {
                write!(f, "operation {operation} is granted {granted} pages before this rank has reserved any (form B)")
            }
            Self::AboveReservation { operation, granted, reserved: Some(reserved) } => write!(
                f,
                "operation {operation} is granted {granted} pages, above this rank's reservation of {reserved} (form B)"
            ),
            Self::AboveGrant { operation, keep, granted } => {
                write!(f, "operation {operation} is to keep {keep} pages, above its grant of {granted}")
            }
            Self::NoSuchPage { page, physical } => write!(f, "page {page} is out of range: below {physical}"),
            Self::DoubleRelease { page, within_call: true } => write!(f, "page {page} is released twice in one call"),
            Self::DoubleRelease { page, within_call: false } => write!(f, "page {page} is free already"),
            Self::NotSettled { page, operation } => write!(f, "page {page} is held by operation {operation}"),
            Self::Leaked { open } => {
                write!(f, "{} operations hold host pages at shutdown:", open.len())?;
                let mut separator = " ";
                for OpenOperation { operation, stage, pages } in open {
                    write!(f, "{separator}{operation} ({stage}, {pages} pages)")?;
                    separator = ", ";
                }
                Ok(())
            }
            Self::Invariant { what } => write!(f, "invariant broken: {what}"),
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::Zero { .. } => "take both from the model's and the cache's configuration",
            Self::Budget { .. } => "check the budget's unit: it is in bytes",
            Self::Unbacked { .. } => "agree on the MIN over all ranks of the pages that fit, or let the pool vote",
            Self::OutOfMemory { .. } => "make a pool of the pages that this rank has memory for",
            Self::OutOfOrder { .. } => "ordinals are handed out in one order, and each asks once, when it is issued",
            Self::Unknown { .. } => "an operation ends once: by abort, or by settle and the release of its pages",
            Self::Stage { .. } => {
                "reserve, commit and settle come once each; abort a draining operation once its copies have finished"
            }
            Self::Reserved { .. } => "what was reserved first has been voted; abort the operation to return it",
            Self::Fixed { .. } => {
                "a fixed pool gives all or nothing, and keeps its pages; make it with Backing::Voting"
            }
            Self::AboveReservation { .. } => {
                "a grant is the MIN over the votes of all ranks; compare with isoradix diff DIR"
            }
            Self::AboveGrant { .. } => "keep what the framed progress says, which no rank's copy exceeds",
            Self::NoSuchPage { .. } => "release only pages that a commit of this pool gave",
            Self::DoubleRelease { .. } => "each page has one owner; look for overlapping ranges",
            Self::NotSettled { .. } => "abort the operation, or settle it before the tree releases its pages",
            Self::Leaked { .. } => "apply the frames that end them before the stop frame",
            Self::Invariant { .. } => "this is a defect of the pool",
        }
    }
}

impl std::error::Error for HostError {}
