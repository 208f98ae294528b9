//! What one rank says of one request.

/// In this order: the smallest of all ranks' decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Report {
    /// It will not come.
    Failed = 0,
    /// It has not come yet.
    Pending = 1,
    /// It is there.
    Ready = 2,
}

/// Ranks that may vote.
pub const DECISION_RANKS_MAX: u32 = 4096;

/// A rank's word about a token: its report, or that it has none, and under it which rank says so. So the smallest of all words is the
/// smallest report, and of the ranks that have it, the first.
pub(super) fn word(report: Option<Report>, rank: u32) -> i64 {
    report.map_or(-1, |report| i64::from(report as u8)) * i64::from(DECISION_RANKS_MAX) + i64::from(rank)
}

/// What a word says, and which rank says it.
pub(super) fn parts(word: i64) -> (Option<Report>, u32) {
    let ranks = i64::from(DECISION_RANKS_MAX);
    let report = match word.div_euclid(ranks) {
        0 => Some(Report::Failed),
        1 => Some(Report::Pending),
        2 => Some(Report::Ready),
        _ => None,
    };
    (report, u32::try_from(word.rem_euclid(ranks)).expect("below the number of ranks"))
}
