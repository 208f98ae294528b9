//! What the operation table refuses.

use super::kind::Kind;
use super::state::{Event, State};
use crate::ordinal::Ordinal;
use std::fmt;

/// Why an operation was not issued. A value, not a fault: equal on all ranks, as it depends on logical and agreed numbers
/// alone. No ordinal was taken, and nothing is voted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Declined {
    /// The window is full of operations that are not retired on all ranks.
    WindowFull {
        /// The ordinal that it would have got.
        next: Ordinal,
        /// Operations retired on all ranks when the last frame was voted.
        base: u64,
        /// Operations that may be open above them.
        window: u32,
    },
    /// There is nothing to do: no subject, or one without tokens or without pages.
    Nothing {
        /// What was to be issued.
        kind: Kind,
    },
    /// A store takes no pages.
    TakesNoPages {
        /// Pages asked for.
        pages: u64,
    },
    /// The sizes do not fit together or are too large.
    Size {
        /// What was to be issued.
        kind: Kind,
        /// Pages in all.
        pages: u64,
        /// Tokens in all.
        tokens: u64,
        /// What is expected of them.
        expected: &'static str,
    },
}

impl fmt::Display for Declined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WindowFull { next, base, window } => write!(
                f,
                "operation {next} is past the window of {window} operations from {base} on\n\
                 hint: issue again in a later step; the window slides as operations retire on all ranks"
            ),
            Self::Nothing { kind } => {
                write!(
                    f,
                    "a {} of 0 tokens or 0 pages\nhint: issue nothing where there is nothing to do",
                    kind.as_str()
                )
            }
            Self::TakesNoPages { pages } => {
                write!(f, "a store of {pages} pages, limit 0\nhint: it reads host pages that are there, and takes none")
            }
            Self::Size { kind, pages, tokens, expected } => {
                write!(f, "a {} of {pages} pages and {tokens} tokens\nhint: {expected}", kind.as_str())
            }
        }
    }
}

impl std::error::Error for Declined {}

/// Why an event was refused. The table is as it was: no queue was touched.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OperationError {
    /// Form B: all ranks are said to know of an operation that this rank has not issued.
    NotIssued {
        /// The rank that lacks it.
        rank: u32,
        /// The operation.
        operation: Ordinal,
        /// What is said of it.
        said: &'static str,
        /// Operations issued on this rank.
        issued: u64,
    },
    /// Form B: all ranks are said to have finished or retired more operations than this rank has.
    Ahead {
        /// The rank that lags.
        rank: u32,
        /// What is counted.
        what: &'static str,
        /// What is agreed.
        agreed: u64,
        /// What this rank has.
        own: u64,
    },
    /// Form B: an agreed number is larger than what the operation has here.
    TooMuch {
        /// The rank that has less.
        rank: u32,
        /// The operation.
        operation: Ordinal,
        /// What it is.
        kind: Kind,
        /// What is counted.
        what: &'static str,
        /// What is agreed.
        agreed: u64,
        /// What the operation has here.
        own: u64,
    },
    /// A number that only grows went back.
    Backwards {
        /// The rank that noticed.
        rank: u32,
        /// The operation, if the number is one of an operation.
        operation: Option<Ordinal>,
        /// What is counted.
        what: &'static str,
        /// What it was.
        before: i64,
        /// What it is.
        now: i64,
    },
    /// The table has no row for this event in this state.
    Refused {
        /// The rank that noticed.
        rank: u32,
        /// The operation.
        operation: Ordinal,
        /// What it is.
        kind: Kind,
        /// Where it stands.
        state: State,
        /// What was to happen.
        event: Event,
    },
    /// A host-to-device copy failed after its pages were committed: a batch may read what is not there.
    Fatal {
        /// The rank that noticed; all do.
        rank: u32,
        /// The operation.
        operation: Ordinal,
        /// What it is.
        kind: Kind,
    },
}

impl OperationError {
    /// Whether this rank and the others have parted, as opposed to a failure that all of them see.
    #[must_use]
    pub fn is_divergence(&self) -> bool {
        !matches!(self, Self::Fatal { .. })
    }
}

const DIFF: &str = "hint: isoradix diff DIR";

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotIssued { rank, operation, said, issued } => write!(
                f,
                "divergence (form B): {said} of operation {operation} is agreed, rank {rank} has issued {issued} operations\n{DIFF}"
            ),
            Self::Ahead { rank, what, agreed, own } => {
                write!(f, "divergence (form B): {what} {agreed} is agreed, rank {rank} has {own}\n{DIFF}")
            }
            Self::TooMuch { rank, operation, kind, what, agreed, own } => write!(
                f,
                "divergence (form B): {what} {agreed} of {} {operation} is agreed, rank {rank} has {own}\n{DIFF}",
                kind.as_str()
            ),
            Self::Backwards { rank, operation, what, before, now } => {
                write!(f, "divergence: {what}")?;
                if let Some(operation) = operation {
                    write!(f, " of operation {operation}")?;
                }
                write!(f, " went back from {before} to {now}, as rank {rank} sees it\n{DIFF}")
            }
            Self::Refused { rank, operation, kind, state, event } => write!(
                f,
                "divergence: {} {operation} is {} on rank {rank}, where {} cannot happen\n{DIFF}",
                kind.as_str(),
                state.as_str(),
                event.as_str()
            ),
            Self::Fatal { rank, operation, kind } => write!(
                f,
                "{} {operation} failed after commit, seen on rank {rank}: promised tokens are not on the device\n\
                 hint: the log of the rank whose copy failed has the cause; the server has to end",
                kind.as_str()
            ),
        }
    }
}

impl std::error::Error for OperationError {}
