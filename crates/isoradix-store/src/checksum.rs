//! The checksum of a page's bytes: it tells what was put from what a disk, a network or a torn write made of it.
//!
//! Eight pairs of lanes of 64 bits take 64 bytes a step: one lane adds the words up, so that a change within one word always
//! changes it, the other the products of the words' halves under keys that differ from step to step. After sixty-four steps each
//! lane is scrambled by a bijection. The construction is akin to XXH3 (Yann Collet, 2019), without its exchange of neighbours,
//! which compilers do not turn into good vector code; the constants are from `SplitMix64`. It is chosen for what it
//! costs: 64 bytes in a few vector instructions, while they are still in a core's cache from being read. It does not
//! authenticate: who can write to a store can write what fits.

const LANES: usize = 8;
const STEP: usize = LANES * size_of::<u64>();
const STEPS: usize = 64;
const BLOCK: usize = STEP * STEPS;
const SCRAMBLE: u64 = 0x9e37_79b1;

/// One word for each lane and step, each step's one word further.
const KEYS: [u64; LANES + STEPS] = keys();

const fn keys() -> [u64; LANES + STEPS] {
    let mut keys = [0; LANES + STEPS];
    let mut state: u64 = 0x6973_6f72_6164_6978;
    let mut at = 0;
    while at < keys.len() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        keys[at] = word ^ (word >> 31);
        at += 1;
    }
    keys
}

/// Sums and products.
type Lanes = [[u64; LANES]; 2];

/// 128 bits over some bytes: see the module.
#[must_use]
pub fn checksum(bytes: &[u8]) -> [u64; 2] {
    let mut sum = Checksum::new();
    sum.update(bytes);
    sum.finish()
}

/// A checksum under way.
#[derive(Clone)]
pub(crate) struct Checksum {
    lanes: Lanes,
    /// The bytes of the unfinished block: the first `length % BLOCK`.
    buffer: [u8; BLOCK],
    length: u64,
    blocks: fn(&mut Lanes, &[[u8; BLOCK]]),
}

impl Checksum {
    pub(crate) fn new() -> Self {
        let keys = |from: usize| *KEYS[from..].first_chunk().expect("more keys than lanes");
        Self { lanes: [keys(0), keys(LANES)], buffer: [0; BLOCK], length: 0, blocks: widest() }
    }

    /// Takes more bytes; how they are cut into calls does not matter.
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        let held = self.held();
        self.length += bytes.len() as u64;
        if held > 0 {
            let taken = bytes.len().min(BLOCK - held);
            self.buffer[held..held + taken].copy_from_slice(&bytes[..taken]);
            if held + taken < BLOCK {
                return;
            }
            (self.blocks)(&mut self.lanes, std::slice::from_ref(&self.buffer));
            bytes = &bytes[taken..];
        }
        let (blocks, rest) = bytes.as_chunks();
        (self.blocks)(&mut self.lanes, blocks);
        self.buffer[..rest.len()].copy_from_slice(rest);
    }

    /// 128 bits over all of it.
    pub(crate) fn finish(mut self) -> [u64; 2] {
        let held = self.held();
        if held > 0 {
            self.buffer[held..].fill(0);
            (self.blocks)(&mut self.lanes, std::slice::from_ref(&self.buffer));
        }
        let merge = |seed: u64, keys: &[u64]| {
            let lanes = self.lanes.as_flattened().iter();
            lanes
                .zip(keys.iter().cycle())
                .fold(seed ^ self.length, |sum, (lane, key)| fold(sum ^ key, lane ^ sum.rotate_left(29)))
        };
        [merge(KEYS[3], &KEYS[LANES..]), merge(KEYS[5], &KEYS[STEPS..])]
    }

    fn held(&self) -> usize {
        const IN_BLOCK: u64 = BLOCK as u64 - 1;
        usize::try_from(self.length & IN_BLOCK).expect("below 4096")
    }
}

/// 64 x 64 -> 128 bit multiplication, halves xored, operands added back.
#[expect(clippy::cast_possible_truncation, reason = "the two halves")]
fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    ((wide as u64) ^ ((wide >> 64) as u64)).wrapping_add(a.rotate_left(23) ^ b.rotate_left(41))
}

/// The same arithmetic, in the widest vectors that this processor has.
fn widest() -> fn(&mut Lanes, &[[u8; BLOCK]]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        return avx2::mix_blocks;
    }
    mix_blocks
}

fn mix_blocks(lanes: &mut Lanes, blocks: &[[u8; BLOCK]]) {
    for block in blocks {
        let mut added: Lanes = [[0; LANES]; 2];
        for (step, bytes) in block.as_chunks::<STEP>().0.iter().enumerate() {
            for (at, bytes) in bytes.as_chunks().0.iter().enumerate() {
                let word = u64::from_le_bytes(*bytes);
                let keyed = word ^ KEYS[step + at];
                added[0][at] = added[0][at].wrapping_add(word);
                added[1][at] = added[1][at].wrapping_add((keyed & 0xffff_ffff).wrapping_mul(keyed >> 32));
            }
        }
        take(lanes, &added);
    }
}

/// Adds what a block comes to, and scrambles, so that blocks do not change places unseen.
#[inline]
fn take(lanes: &mut Lanes, added: &Lanes) {
    for (lanes, added) in lanes.iter_mut().zip(added) {
        for at in 0..LANES {
            let lane = lanes[at].wrapping_add(added[at]);
            lanes[at] = (lane ^ (lane >> 47) ^ KEYS[STEPS + at]).wrapping_mul(SCRAMBLE);
        }
    }
}

/// By hand, since compilers make vectors of the steps instead of the lanes, and gather them.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm256_add_epi64, _mm256_loadu_si256, _mm256_mul_epu32, _mm256_setzero_si256, _mm256_srli_epi64,
        _mm256_xor_si256,
    };

    use super::{BLOCK, KEYS, Lanes, STEP, STEPS, take};

    /// Lanes of a vector.
    const WIDTH: usize = 4;

    pub(super) fn mix_blocks(lanes: &mut Lanes, blocks: &[[u8; BLOCK]]) {
        // SAFETY: `widest` gives this function out only where the processor has these instructions.
        unsafe { mix(lanes, blocks) }
    }

    #[target_feature(enable = "avx2")]
    fn mix(lanes: &mut Lanes, blocks: &[[u8; BLOCK]]) {
        for block in blocks {
            let mut added = [[_mm256_setzero_si256(); 2]; 2];
            for step in 0..STEPS {
                for half in 0..2 {
                    let word = load(&block[step * STEP + half * size_of::<__m256i>()..]);
                    let keyed = _mm256_xor_si256(word, load(&KEYS[step + half * WIDTH..]));
                    let product = _mm256_mul_epu32(keyed, _mm256_srli_epi64::<32>(keyed));
                    added[0][half] = _mm256_add_epi64(added[0][half], word);
                    added[1][half] = _mm256_add_epi64(added[1][half], product);
                }
            }
            // SAFETY: both are 128 bytes, of which any are numbers; lanes are in order on this little-endian architecture.
            take(lanes, &unsafe { std::mem::transmute::<[[__m256i; 2]; 2], Lanes>(added) });
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load<T>(from: &[T]) -> __m256i {
        assert!(size_of_val(from) >= size_of::<__m256i>(), "a whole vector");
        // SAFETY: as many bytes are there, and need no alignment.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(parts: &[&[u8]]) -> [u64; 2] {
        let mut sum = Checksum::new();
        for part in parts {
            sum.update(part);
        }
        sum.finish()
    }

    /// Stored pages depend on it: a change of these values is a new version of the seal.
    #[test]
    fn values_that_must_stay() {
        let bytes: Vec<u8> = (0..=255).cycle().take(3000).collect();
        let seen = [of(&[]), of(&[b"a"]), of(&[&bytes[..1024]]), of(&[&bytes])];
        assert_eq!(seen, PINNED);
    }

    #[test]
    fn every_width_computes_the_same() {
        let blocks: Vec<[u8; BLOCK]> =
            (0..9u8).map(|n| std::array::from_fn(|i| n.wrapping_mul(31) ^ i.to_le_bytes()[0])).collect();
        let mut narrow = Checksum::new();
        narrow.blocks = mix_blocks;
        narrow.update(blocks.as_flattened());
        assert_eq!(narrow.finish(), of(&[blocks.as_flattened()]));
    }

    #[test]
    fn every_bit_counts() {
        let mut bytes: Vec<u8> = (0..2100u32).map(|n| n.to_le_bytes()[0].wrapping_mul(7)).collect();
        let right = of(&[&bytes]);
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(of(&[&bytes]), right, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn places_count() {
        let blocks: Vec<u8> = (0..8192u32).map(|n| (n / 512).to_le_bytes()[0]).collect();
        let right = of(&[&blocks]);
        for size in [8, 16, 64, 128, 512, 1024, 4096] {
            let mut swapped = blocks.clone();
            let (left, rest) = swapped.split_at_mut(4096);
            left[4096 - size..].swap_with_slice(&mut rest[..size]);
            assert_ne!(of(&[&swapped]), right, "{size} bytes changed places");
        }
        for length in 0..200 {
            assert_ne!(of(&[&blocks[..length]]), of(&[&blocks[..=length]]), "{length} zeros");
        }
    }

    proptest! {
        #[test]
        fn the_parts_of_it_do_not_matter(bytes in prop::collection::vec(any::<u8>(), 0..5000), cut in any::<prop::sample::Index>()) {
            let (left, right) = bytes.split_at(cut.index(bytes.len() + 1));
            prop_assert_eq!(of(&[left, &[], right]), of(&[&bytes]));
        }
    }

    const PINNED: [[u64; 2]; 4] = [
        [4_746_907_817_341_239_404, 11_437_079_122_929_219_356],
        [8_592_447_212_314_487_484, 11_550_121_107_986_856_862],
        [7_639_157_799_612_321_446, 6_495_562_421_146_899_430],
        [8_881_184_219_434_015_191, 5_222_067_809_030_511_293],
    ];
}
