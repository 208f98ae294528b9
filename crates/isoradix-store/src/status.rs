//! What became of one page of a call.

/// What became of a page. The numbers are those that Python sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Nothing yet.
    Pending = 0,
    /// Read and checked, or published.
    Done = 1,
    /// There is no such page.
    Missing = 2,
    /// What is there is not what was put.
    Corrupt = 3,
    /// What is there has another size.
    WrongSize = 4,
    /// There is no room now.
    Full = 5,
    /// The system or the engine refused; it may work later.
    Failed = 6,
    /// The page is larger than the engine ever takes.
    TooLarge = 7,
    /// The call was given up before the page's turn, or while it was moved.
    Late = 8,
}

impl Status {
    /// The status of a number.
    #[must_use]
    pub fn of(code: u8) -> Option<Self> {
        use Status::{Corrupt, Done, Failed, Full, Late, Missing, Pending, TooLarge, WrongSize};
        [Pending, Done, Missing, Corrupt, WrongSize, Full, Failed, TooLarge, Late].get(usize::from(code)).copied()
    }
}
