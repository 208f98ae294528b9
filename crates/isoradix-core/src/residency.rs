//! In which tiers a node's KV is.

/// The tiers that hold a node's KV, and what is under way with it. Logical: equal on all ranks.
///
/// A node of the tree is in one tier at least. Nodes on the device are closed upwards, and so are nodes on host: what is
/// in a tier hangs below something that is in it too. So do those in external storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Residency(u8);

impl Residency {
    /// On the device (L1).
    pub(crate) const DEVICE: Self = Self(1);
    /// On host (L2).
    pub(crate) const HOST: Self = Self(2);
    /// An operation that is not over is to bring it to host.
    pub(crate) const PENDING: Self = Self(4);
    /// In external storage (L3), with all above it, as far as this tree has brought it there or got it from there.
    pub(crate) const STORED: Self = Self(8);

    #[inline]
    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    #[inline]
    pub(crate) const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    #[inline]
    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    #[inline]
    pub(crate) const fn on_device(self) -> bool {
        self.has(Self::DEVICE)
    }

    #[inline]
    pub(crate) const fn on_host(self) -> bool {
        self.has(Self::HOST)
    }

    /// What a digest says of it: nothing for a node on the device alone, so that one tier has the digests it always had.
    #[inline]
    pub(crate) const fn word(self) -> u64 {
        (self.0 ^ Self::DEVICE.0) as u64
    }
}
