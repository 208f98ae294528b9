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

impl Report {
    /// As a word of a vote.
    pub(super) fn word(self) -> i64 {
        i64::from(self as u8)
    }
}
