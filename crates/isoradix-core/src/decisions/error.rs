//! What the decision queue refuses.

use std::fmt;

/// A refusal: nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecisionError {
    /// More tokens would be open than a vote has room for.
    Full {
        /// Tokens that a vote has room for.
        window: u32,
    },
    /// More requests would be remembered than there may be.
    Crowded {
        /// Requests that may be.
        limit: u32,
    },
    /// The request had a token of this epoch, or of a later one.
    Epoch {
        /// The request.
        request: u64,
        /// Asked for.
        epoch: u32,
        /// The last one.
        last: u32,
    },
    /// The request's token of an earlier epoch is open.
    Open {
        /// The request.
        request: u64,
        /// Of the open token.
        epoch: u32,
    },
    /// There is no such token, or none that is open.
    Unknown {
        /// The request.
        request: u64,
    },
    /// A vector or a ruling has another number than this rank.
    Mismatch {
        /// Which number.
        what: &'static str,
        /// What it is.
        given: u64,
        /// What this rank expects.
        expected: u64,
    },
}

impl fmt::Display for DecisionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { window } => write!(
                f,
                "no room for another question: {window} are open, limit {window}\nhint: ask in a later step, on all ranks alike, or make the window wider"
            ),
            Self::Crowded { limit } => write!(
                f,
                "{limit} requests are remembered, limit {limit}\nhint: forget each request that is over, on all ranks alike"
            ),
            Self::Epoch { request, epoch, last } => write!(
                f,
                "request {request} was asked about in epoch {epoch}, and its last one is {last}\nhint: a request that is admitted again has a later epoch"
            ),
            Self::Open { request, epoch } => write!(
                f,
                "request {request} has an open question of epoch {epoch}\nhint: wait for its verdict, or retract it on all ranks"
            ),
            Self::Unknown { request } => {
                write!(f, "request {request} has no open question\nhint: ask about it first, on all ranks")
            }
            Self::Mismatch { what, given, expected } => write!(
                f,
                "{what} is {given}, expected {expected}\nhint: all ranks ask, vote and apply rulings in the same order; the ranks have parted"
            ),
        }
    }
}

impl std::error::Error for DecisionError {}
