//! Hashes of the beginnings of a key, for a journal to find them again.

use crate::hash;

/// Tokens of a block, and words of two tokens each.
const BLOCK: usize = 256;
const WORDS: usize = BLOCK / 2;
/// The prime that hashes of blocks are added up by.
const PRIME: u64 = (1 << 61) - 1;

/// What hashes of beginnings are keyed by: two keys of a user's choice have one only by chance, as long as he does not know it.
#[derive(Debug)]
pub(super) struct Secret {
    words: [u64; WORDS],
    /// Of a point: itself, its square and its cube.
    powers: [u64; 3],
}

impl Secret {
    pub(super) fn new(seed: u64) -> Self {
        let words = std::array::from_fn(|at| hash::mix(seed, at as u64));
        let point = reduce(hash::mix(seed, WORDS as u64).into());
        let times = |one: u64| reduce(u128::from(one) * u128::from(point));
        Self { words, powers: [point, times(point), times(times(point))] }
    }
}

/// A key hashed piece by piece. Pieces are multiples of four tokens that fill whole blocks, but for the last.
///
/// Each block is hashed by the sum of products of NH (Black, Halevi, Krawczyk, Krovetz, Rogaway, "UMAC", CRYPTO 1999), two tokens a
/// word, and blocks by a polynomial in a secret point modulo 2^61 - 1, as in VHASH (Krovetz, Dai, 2007). Both are universal: that
/// different keys of one length meet has, over the secrets, a probability of 3 / 2^61 at most for each block. A journal hashes every
/// key of every call, so this takes a quarter of a nanosecond for a token.
pub(super) struct Beginnings<'a> {
    secret: &'a Secret,
    /// Of the whole blocks.
    polynomial: u64,
    /// Of the block that is not over, and its tokens.
    sum: u128,
    filled: usize,
    length: usize,
}

impl<'a> Beginnings<'a> {
    pub(super) fn new(secret: &'a Secret) -> Self {
        Self { secret, polynomial: 1, sum: 0, filled: 0, length: 0 }
    }

    /// Takes more tokens, not beyond the end of a block.
    pub(super) fn update(&mut self, tokens: &[u32]) {
        debug_assert!(self.filled.is_multiple_of(4) && self.filled + tokens.len() <= BLOCK, "pieces that fill blocks");
        let (quads, rest) = tokens.as_chunks::<4>();
        let (keys, _) = self.secret.words[self.filled / 2..].as_chunks();
        let mut sum = self.sum;
        for (quad, key) in quads.iter().zip(keys) {
            sum = sum.wrapping_add(product(*quad, *key));
        }
        if !rest.is_empty() {
            let mut last = [0; 4];
            last[..rest.len()].copy_from_slice(rest);
            sum = sum.wrapping_add(product(last, keys[quads.len()]));
        }
        self.sum = sum;
        self.filled += tokens.len();
        self.length += tokens.len();
        if self.filled == BLOCK {
            (self.polynomial, self.sum, self.filled) = (self.with_block(), 0, 0);
        }
    }

    /// Of all tokens so far.
    pub(super) fn hash(&self) -> u64 {
        let blocks = if self.filled > 0 { self.with_block() } else { self.polynomial };
        reduce(u128::from(blocks) * u128::from(self.secret.powers[0]) + self.length as u128)
    }

    /// The polynomial with the block at hand, whose sum is three coefficients.
    fn with_block(&self) -> u64 {
        const PART: u128 = (1 << 60) - 1;
        let [point, square, cube] = self.secret.powers.map(u128::from);
        let [high, middle, low] = [self.sum >> 120, self.sum >> 60 & PART, self.sum & PART];
        reduce(u128::from(self.polynomial) * cube + high * square + middle * point + low)
    }
}

#[inline]
fn product(tokens: [u32; 4], keys: [u64; 2]) -> u128 {
    let word = |at: usize| u64::from(tokens[at]) | u64::from(tokens[at + 1]) << 32;
    u128::from(word(0).wrapping_add(keys[0])) * u128::from(word(2).wrapping_add(keys[1]))
}

/// Modulo 2^61 - 1, of less than 2^124.
fn reduce(value: u128) -> u64 {
    const BITS: u32 = PRIME.count_ones();
    let low = u64::try_from(value & u128::from(PRIME)).expect("61 bits");
    let sum = low + u64::try_from(value >> BITS).expect("63 bits");
    let sum = (sum & PRIME) + (sum >> BITS);
    if sum >= PRIME { sum - PRIME } else { sum }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(tokens: &[u32], length: usize) -> u64 {
        let secret = Secret::new(7);
        let mut beginnings = Beginnings::new(&secret);
        tokens.chunks(length).for_each(|piece| beginnings.update(piece));
        beginnings.hash()
    }

    fn hash(tokens: &[u32]) -> u64 {
        pieces(tokens, BLOCK)
    }

    #[test]
    fn zeros_of_different_lengths_differ() {
        let mut hashes: Vec<u64> = (0..600).map(|length| hash(&vec![0; length])).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 600);
    }

    #[test]
    fn another_secret_gives_another_hash() {
        let (one, other) = (Secret::new(1), Secret::new(2));
        let of = |secret| {
            let mut beginnings = Beginnings::new(secret);
            beginnings.update(&[1, 2, 3]);
            beginnings.hash()
        };
        assert_ne!(of(&one), of(&other));
    }

    #[test]
    fn the_remainder_is_that_of_division() {
        for value in [0, 1, PRIME - 1, PRIME, PRIME + 1, u64::MAX].map(u128::from) {
            assert_eq!(u128::from(reduce(value)), value % u128::from(PRIME));
        }
        for value in [u128::from(PRIME - 1).pow(2), (1 << 122) - 1, (1 << 124) - 1] {
            assert_eq!(u128::from(reduce(value)), value % u128::from(PRIME));
        }
    }

    proptest! {
        #[test]
        fn every_bit_of_every_token_counts(
            tokens in prop::collection::vec(any::<u32>(), 1..600), at in any::<prop::sample::Index>(), bit in 0..32u32,
        ) {
            let mut other = tokens.clone();
            other[at.index(tokens.len())] ^= 1 << bit;
            prop_assert_ne!(hash(&tokens), hash(&other));
        }

        #[test]
        fn the_order_of_tokens_counts(
            mut tokens in prop::collection::vec(any::<u32>(), 2..600), indices in any::<[prop::sample::Index; 2]>(),
        ) {
            let [one, other] = indices.map(|index| index.index(tokens.len()));
            let before = hash(&tokens);
            prop_assume!(tokens[one] != tokens[other]);
            tokens.swap(one, other);
            prop_assert_ne!(hash(&tokens), before);
        }

        #[test]
        fn pieces_do_not_matter(tokens in prop::collection::vec(any::<u32>(), 0..600), half in 0..4usize) {
            prop_assert_eq!(pieces(&tokens, BLOCK >> half), hash(&tokens));
        }
    }
}
