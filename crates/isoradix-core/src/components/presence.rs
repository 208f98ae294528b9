//! What one rank's storage has of a run, beside its keys and values.

use crate::provenance::PerRank;
use std::fmt;

/// The leading pages that this rank's storage has, and the parts of each: a bit a component. Per-rank, so it can be voted and not
/// looked at.
#[must_use = "what storage has is there to be voted"]
pub struct Presence {
    parts: Vec<u8>,
}

impl Presence {
    /// Marks what this rank has seen. The only way in.
    pub fn observe(parts: Vec<u8>) -> Self {
        Self { parts }
    }

    /// So many leading pages, with nothing beside their keys and values.
    pub(crate) fn bare(pages: PerRank<u32>) -> Self {
        Self { parts: vec![0; pages.into_ballot() as usize] }
    }

    /// The leading pages.
    pub(crate) fn pages(&self) -> PerRank<u32> {
        PerRank::observe(u32::try_from(self.parts.len()).unwrap_or(u32::MAX))
    }

    /// The parts themselves, for the ballot. Nothing else may call this.
    pub(super) fn parts(&self) -> &[u8] {
        &self.parts
    }
}

#[cfg(debug_assertions)]
impl fmt::Debug for Presence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Presence").field(&self.parts).finish()
    }
}

#[cfg(not(debug_assertions))]
impl fmt::Debug for Presence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Presence(..)")
    }
}
