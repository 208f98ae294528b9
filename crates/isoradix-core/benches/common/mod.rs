//! What benchmarks are fed with.

/// Deterministic token ids (Steele et al., "Fast splittable pseudorandom number generators", 2014).
pub(crate) fn tokens(seed: u64, count: usize) -> Vec<i64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % 150_000).cast_signed()
    };
    (0..count).map(|_| next()).collect()
}

pub(crate) fn slots(count: usize) -> Vec<i64> {
    (0_i64..).take(count).collect()
}
