//! Hashes of the beginnings of a key, for a journal to find them again.

use crate::hash;

/// Tokens that all lanes take at a time.
const ROW: usize = 4 * LANES;
const LANES: usize = 8;
/// 2^64 divided by the golden ratio: odd, so that to multiply by it loses nothing.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A key hashed piece by piece. Pieces are multiples of [`ROW`] tokens, but for the last.
///
/// Each of eight lanes rotates, takes two tokens by exclusive or, multiplies, and takes two more by addition: a step is a bijection of
/// the lane, and of each of the two that it takes. A journal hashes every key of every call, and what comes of it stays in memory, so
/// it is made for speed: half the time of the hash that digests are made of.
pub(super) struct Beginnings {
    lanes: [u64; LANES],
    rest: u64,
    length: usize,
}

impl Beginnings {
    pub(super) fn new() -> Self {
        Self { lanes: std::array::from_fn(|lane| GOLDEN << lane), rest: 0, length: 0 }
    }

    pub(super) fn update(&mut self, tokens: &[u32]) {
        debug_assert_eq!(self.length % ROW, 0, "only the last piece may be ragged");
        let mut lanes = self.lanes;
        let (rows, rest) = tokens.as_chunks::<ROW>();
        for row in rows {
            for (lane, [a, b, c, d]) in lanes.iter_mut().zip(row.as_chunks().0) {
                *lane = step(*lane, pair(*a, *b)).wrapping_add(pair(*c, *d));
            }
        }
        self.lanes = lanes;
        self.rest = rest.iter().fold(0, |state, token| step(state, u64::from(*token)));
        self.length += tokens.len();
    }

    /// Of all tokens so far.
    pub(super) fn hash(&self) -> u64 {
        let [a, b, c, d, e, f, g, h] = self.lanes;
        let halves = [(a, b), (c, d), (e, f), (g, h)].map(|(one, other)| step(one, other));
        let quarters = hash::mix(halves[0], halves[1]) ^ hash::mix(halves[2], halves[3]).rotate_left(32);
        hash::mix(quarters, self.rest ^ self.length as u64)
    }
}

#[inline]
fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[inline]
fn step(lane: u64, taken: u64) -> u64 {
    (lane.rotate_left(5) ^ taken).wrapping_mul(GOLDEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hash(tokens: &[u32]) -> u64 {
        let mut beginnings = Beginnings::new();
        beginnings.update(tokens);
        beginnings.hash()
    }

    #[test]
    fn zeros_of_different_lengths_differ() {
        let mut hashes: Vec<u64> = (0..100).map(|length| hash(&vec![0; length])).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 100);
    }

    proptest! {
        #[test]
        fn every_bit_of_every_token_counts(
            tokens in prop::collection::vec(any::<u32>(), 1..200), at in any::<prop::sample::Index>(), bit in 0..32u32,
        ) {
            let mut other = tokens.clone();
            other[at.index(tokens.len())] ^= 1 << bit;
            prop_assert_ne!(hash(&tokens), hash(&other));
        }

        #[test]
        fn the_order_of_tokens_counts(
            mut tokens in prop::collection::vec(any::<u32>(), 2..200), indices in any::<[prop::sample::Index; 2]>(),
        ) {
            let [one, other] = indices.map(|index| index.index(tokens.len()));
            let before = hash(&tokens);
            prop_assume!(tokens[one] != tokens[other]);
            tokens.swap(one, other);
            prop_assert_ne!(hash(&tokens), before);
        }

        #[test]
        fn pieces_do_not_matter(tokens in prop::collection::vec(any::<u32>(), 0..200), cut in 0..12usize) {
            let cut = (cut * ROW).min(tokens.len() / ROW * ROW);
            let mut beginnings = Beginnings::new();
            beginnings.update(&tokens[..cut]);
            beginnings.update(&tokens[cut..]);
            prop_assert_eq!(beginnings.hash(), hash(&tokens));
        }
    }
}
