//! The one mixing function behind child lookup, content hashes and digests.
//!
//! `fold` multiplies two 64-bit words to 128 bits and folds the halves together, as wyhash and its family do
//! (Wang Yi, "wyhash and wyrand", 2019). Seeds are fixed: equal inputs give equal hashes on every rank, always.
//! These hashes detect divergence between honest ranks; they do not authenticate against an adversary.

const K0: u64 = 0xa076_1d64_78bd_642f;
const K1: u64 = 0xe703_7ed1_a0b4_28db;
const K2: u64 = 0x8ebc_6af0_9c88_c6e3;
const K3: u64 = 0x5899_65cc_7537_4cc3;

/// 64 x 64 -> 128 bit multiplication, halves xored, operands added back.
///
/// A product alone would forget one operand where the other is 0, 1 or -1, and tokens are users' input.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the two halves")]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    let product = (wide as u64) ^ ((wide >> 64) as u64);
    product.wrapping_add(a.rotate_left(23) ^ b.rotate_left(41))
}

/// Mixes two words into one.
#[inline]
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    fold(a ^ K0, b ^ K1)
}

#[inline]
fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Hash of `n` tokens under `seed`; four tokens a multiplication, two independent chains.
#[inline]
pub(crate) fn page(seed: u64, n: usize, token: impl Fn(usize) -> u32) -> u64 {
    let (mut left, mut right) = (seed ^ K2, !seed);
    let mut i = 0;
    while i + 8 <= n {
        left = fold(pair(token(i), token(i + 1)) ^ K0, pair(token(i + 2), token(i + 3)) ^ left);
        right = fold(pair(token(i + 4), token(i + 5)) ^ K1, pair(token(i + 6), token(i + 7)) ^ right);
        i += 8;
    }
    while i < n {
        left = fold(left ^ K3, u64::from(token(i)) ^ K0);
        i += 1;
    }
    fold(left ^ K1, right ^ n as u64)
}

/// Hash of a stored run of tokens: what a node's content is, in digests.
pub(crate) fn run(tokens: &[u32]) -> u64 {
    let mut hasher = RunHasher::new();
    hasher.update(tokens);
    hasher.finish()
}

/// Hashes a run piece by piece. Pieces are multiples of [`RunHasher::BLOCK`] tokens, but for the last.
///
/// Four independent chains keep the multiplier busy, so that hashing an inserted run costs less than copying it.
pub(crate) struct RunHasher {
    lanes: [u64; 4],
    tail: u64,
    length: u64,
}

impl RunHasher {
    pub(crate) const BLOCK: usize = 16;

    pub(crate) fn new() -> Self {
        Self { lanes: [K0, K1, K2, K3], tail: 0, length: 0 }
    }

    #[inline]
    pub(crate) fn update(&mut self, tokens: &[u32]) {
        debug_assert_eq!(self.length % Self::BLOCK as u64, 0, "only the last piece may be ragged");
        let mut lanes = self.lanes;
        let mut blocks = tokens.chunks_exact(Self::BLOCK);
        for block in &mut blocks {
            for (lane, quad) in lanes.iter_mut().zip(block.chunks_exact(4)) {
                *lane = fold(pair(quad[0], quad[1]) ^ K0, pair(quad[2], quad[3]) ^ *lane);
            }
        }
        self.lanes = lanes;
        let rest = blocks.remainder();
        self.tail = page(K2, rest.len(), |i| rest[i]);
        self.length += tokens.len() as u64;
    }

    #[inline]
    pub(crate) fn finish(self) -> u64 {
        let [a, b, c, d] = self.lanes;
        let folded = fold(a ^ c.rotate_left(23), b ^ d.rotate_left(41));
        mix(folded ^ self.length, self.tail)
    }
}

/// Hash of bytes, for namespaces.
pub(crate) fn bytes(seed: u64, data: &[u8]) -> u64 {
    let mut state = mix(seed, data.len() as u64);
    for chunk in data.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        state = mix(state, u64::from_le_bytes(word));
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_of_a_run_counts() {
        for n in [1, 3, 8, 16, 17, 64, 100] {
            let base: Vec<u32> = (0..n).collect();
            let hash = run(&base);
            for i in 0..base.len() {
                let mut other = base.clone();
                other[i] ^= 1 << 31;
                assert_ne!(run(&other), hash, "token {i} of {n}");
            }
            assert_ne!(run(&base[..base.len() - 1]), hash);
        }
    }

    #[test]
    fn no_operand_absorbs_the_other() {
        for fixed in [0, 1, u64::MAX, 1 << 63, K0, K1] {
            for (a, b) in [(3, 4), (0, 1), (1 << 40, 1 << 41), (u64::MAX, u64::MAX - 1)] {
                assert_ne!(fold(fixed, a), fold(fixed, b), "{fixed:#x} {a:#x} {b:#x}");
                assert_ne!(fold(a, fixed), fold(b, fixed), "{a:#x} {b:#x} {fixed:#x}");
            }
        }
        // Tokens that cancel a constant must not hide their neighbours.
        let cancelling = |x: u32| [0x78bd_642f, 0xa076_1d64, x, x].repeat(4);
        assert_ne!(run(&cancelling(7)), run(&cancelling(8)));
    }

    #[test]
    fn zero_runs_of_different_lengths_differ() {
        let zeros = [0; 70];
        let mut hashes: Vec<u64> = (0..70).map(|n| run(&zeros[..n])).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 70);
    }
}
