//! The vector that all ranks reduce by MIN.
//!
//! | word | |
//! |---|---|
//! | 0, 1 | ordinal of the vote and its complement |
//! | 2, 3 | ordinal of the first token, and its complement: `retired` of the vote before |
//! | 4 | leading tokens that have their verdict, in rulings applied here |
//! | 5.. | each token's report (-1 none yet, 0 failed, 1 pending, 2 ready) times 4,096, plus the rank; `i64::MAX` it has its verdict |

/// Words before the first token's.
pub const DECISION_HEADER_WORDS: usize = 5;

pub(super) const VOTE: usize = 0;
pub(super) const BASE: usize = 2;
pub(super) const RETIRED: usize = 4;

/// A vote that all ranks have made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecisionVote {
    /// Its ordinal.
    pub(super) vote: u64,
    /// The token of its first report.
    pub(super) base: u64,
    pub(super) reports: Vec<i64>,
}
