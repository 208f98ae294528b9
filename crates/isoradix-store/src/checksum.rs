//! The checksum of a page's bytes: it tells what was put from what a disk, a network or a torn write made of it.
//!
//! Eight lanes of 64 bits take 64 bytes a step: the product of a word's halves under a key, and the word itself into the
//! neighbouring lane, so that a change within one word always changes a lane. After sixteen steps each lane is scrambled by a
//! bijection. The construction follows XXH3 (Yann Collet, 2019); the constants are from `SplitMix64`. It is chosen for what it
//! costs: 64 bytes in a few vector instructions, while they are still in a core's cache from being read. It does not
//! authenticate: who can write to a store can write what fits.

const LANES: usize = 8;
const STEP: usize = LANES * size_of::<u64>();
const STEPS: usize = 16;
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

type Lanes = [u64; LANES];

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
        let mut lanes = [0; LANES];
        lanes.copy_from_slice(&KEYS[..LANES]);
        Self { lanes, buffer: [0; BLOCK], length: 0, blocks: widest() }
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
            self.lanes
                .iter()
                .zip(keys)
                .fold(seed ^ self.length, |sum, (lane, key)| fold(sum ^ key, lane ^ sum.rotate_left(29)))
        };
        [merge(KEYS[3], &KEYS[LANES..]), merge(KEYS[5], &KEYS[STEPS..])]
    }

    fn held(&self) -> usize {
        const IN_BLOCK: u64 = BLOCK as u64 - 1;
        usize::try_from(self.length & IN_BLOCK).expect("below 1024")
    }
}

/// 64 x 64 -> 128 bit multiplication, halves xored, operands added back.
#[expect(clippy::cast_possible_truncation, reason = "the two halves")]
fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    ((wide as u64) ^ ((wide >> 64) as u64)).wrapping_add(a.rotate_left(23) ^ b.rotate_left(41))
}

/// The same arithmetic, compiled for the widest vectors that this processor has.
fn widest() -> fn(&mut Lanes, &[[u8; BLOCK]]) {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512dq") {
            return x86_64::avx512;
        }
        if std::arch::is_x86_feature_detected!("avx2") {
            return x86_64::avx2;
        }
    }
    plain
}

fn plain(lanes: &mut Lanes, blocks: &[[u8; BLOCK]]) {
    mix_blocks(lanes, blocks);
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::{BLOCK, Lanes, mix_blocks};

    pub(super) fn avx2(lanes: &mut Lanes, blocks: &[[u8; BLOCK]]) {
        #[target_feature(enable = "avx2")]
        fn wide(lanes: &mut Lanes, blocks: &[[u8; BLOCK]]) {
            mix_blocks(lanes, blocks);
        }
        // SAFETY: `widest` gives this function out only where the processor has these instructions.
        unsafe { wide(lanes, blocks) }
    }

    pub(super) fn avx512(lanes: &mut Lanes, blocks: &[[u8; BLOCK]]) {
        #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2")]
        fn wide(lanes: &mut Lanes, blocks: &[[u8; BLOCK]]) {
            mix_blocks(lanes, blocks);
        }
        // SAFETY: as above; no processor has the first two without the others.
        unsafe { wide(lanes, blocks) }
    }
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled once for each width of vectors")]
fn mix_blocks(lanes: &mut Lanes, blocks: &[[u8; BLOCK]]) {
    let mut own = *lanes;
    for block in blocks {
        for (step, bytes) in block.as_chunks::<STEP>().0.iter().enumerate() {
            mix_step(&mut own, bytes, &KEYS[step..step + LANES]);
        }
        for (lane, key) in own.iter_mut().zip(&KEYS[STEPS..]) {
            *lane = (*lane ^ (*lane >> 47) ^ key).wrapping_mul(SCRAMBLE);
        }
    }
    *lanes = own;
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "compiled once for each width of vectors")]
fn mix_step(lanes: &mut Lanes, bytes: &[u8; STEP], keys: &[u64]) {
    let mut words = [0; LANES];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    for at in 0..LANES {
        let keyed = words[at] ^ keys[at];
        let product = (keyed & 0xffff_ffff).wrapping_mul(keyed >> 32);
        lanes[at] = lanes[at].wrapping_add(product).wrapping_add(words[at ^ 1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(parts: &[&[u8]]) -> [u64; 2] {
        let mut sum = Checksum::new();
        parts.iter().for_each(|part| sum.update(part));
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
        narrow.blocks = plain;
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
            assert_ne!(of(&[&blocks[..length]]), of(&[&blocks[..length + 1]]), "{length} zeros");
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
        [13_949_457_838_047_021_496, 4_118_126_010_111_478_547],
        [14_332_229_286_657_539_011, 11_792_423_108_599_332_769],
        [6_117_507_424_594_161_971, 2_228_246_674_988_748_503],
        [13_916_976_385_937_609_377, 13_727_239_586_466_192_119],
    ];
}
