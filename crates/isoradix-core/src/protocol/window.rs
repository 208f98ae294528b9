//! Which operations a vector has slots for, and which may be issued.

use super::error::ProtocolError;
use super::layout::WINDOW_MAX;
use crate::ordinal::Ordinal;

/// The operations `base .. base + width`.
///
/// Two windows of one width are in use. A *vote's* base is `retired` of the vote before it. The *admission* base is `retired` of
/// the vote in the last applied frame. A frame follows its vote, so the second never passes the first: whatever may be issued
/// has a slot in the next ballot of every rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Window {
    base: u64,
    width: u32,
}

impl Window {
    /// The first window of `width` operations.
    ///
    /// # Errors
    /// If the width is 0 or above [`WINDOW_MAX`].
    pub fn new(width: u32) -> Result<Self, ProtocolError> {
        let hint = "64 operations are enough for a few steps of latency";
        ProtocolError::in_range("window", width.into(), 1, WINDOW_MAX.into(), hint)?;
        Ok(Self { base: 0, width })
    }

    /// The first ordinal inside.
    #[must_use]
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Operations inside.
    #[must_use]
    pub fn width(&self) -> u32 {
        self.width
    }

    /// The first ordinal past the window.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.base.saturating_add(self.width.into())
    }

    /// Whether the operation has a slot.
    #[must_use]
    pub fn contains(&self, k: Ordinal) -> bool {
        (self.base..self.end()).contains(&k.0)
    }

    /// Moves the base up.
    ///
    /// # Errors
    /// If it would go back.
    pub fn slide(&mut self, base: u64) -> Result<(), ProtocolError> {
        let hint = "bases come from retired counts, which are never reset";
        ProtocolError::in_range("window base", base, self.base, u64::MAX, hint)?;
        self.base = base;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_a_limit_and_never_goes_back() {
        assert!(Window::new(0).is_err());
        assert!(Window::new(WINDOW_MAX + 1).is_err());
        let mut window = Window::new(4).unwrap();
        window.slide(10).unwrap();
        let inside: Vec<u64> = (0..20).filter(|k| window.contains(Ordinal(*k))).collect();
        assert_eq!(inside, [10, 11, 12, 13]);
        assert!(window.slide(9).is_err());
        assert_eq!(window.base(), 10);
    }
}
