//! What unit tests share.

/// A small generator (Steele et al., "Fast splittable pseudorandom number generators", 2014).
pub(crate) struct SplitMix64(pub(crate) u64);

impl SplitMix64 {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `limit`.
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        u32::try_from(self.next() % u64::from(limit)).expect("below a u32")
    }

    /// An index into `len` things.
    pub(crate) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.next() % len as u64).expect("below a usize")
    }
}
