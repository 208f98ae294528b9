//! Up to where the tiers are on: a switch of the whole domain, which the leader throws.

/// The highest tier that is on, and with it those below.
///
/// What lies above it keeps what it holds, and is neither read nor written: no copy begins there, and no hit is offered. What is
/// under way ends as it would have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum TopTier {
    /// The device alone (L1).
    Device = 1,
    /// Device and host (L2).
    Host = 2,
    /// All of them, external storage (L3) as well.
    #[default]
    Storage = 3,
}

impl TopTier {
    /// All of them, from below.
    pub const ALL: [Self; 3] = [Self::Device, Self::Host, Self::Storage];

    /// Its name: "l1", "l2" or "l3".
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Device => "l1",
            Self::Host => "l2",
            Self::Storage => "l3",
        }
    }

    /// The tier of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.as_str() == name)
    }

    /// Its number, as frames and records have it: 1 to 3.
    #[must_use]
    pub fn number(self) -> u64 {
        self as u64
    }

    pub(super) fn from_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|tier| tier.number() == number)
    }
}
