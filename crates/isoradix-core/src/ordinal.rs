//! The name of an operation: its place in the one logical order of all operations.

use std::fmt;

/// An operation's number, counted from 0 over all kinds in the order in which operations are issued.
///
/// Logical: equal on all ranks, never used twice, never reset. A ballot carries it in an `i64`, so it is below 2^63 - 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ordinal(pub u64);

impl Ordinal {
    /// The largest ordinal. At a million operations a second it is reached after 292,000 years.
    pub const LAST: Self = Self((1 << 63) - 2);
}

impl fmt::Display for Ordinal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
