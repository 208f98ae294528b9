//! A state as 128 bits, and the set of those seen.
//!
//! Two independent 64-bit chains with fixed seeds, so that equal states give equal fingerprints in every build and run. With `n`
//! states, two different ones share a fingerprint with a chance of about n^2 / 2^129: 10^-24 for ten million.

use std::hash::{Hash, Hasher};

const SEEDS: [u64; 2] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344];
const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];

/// Gathers what a state consists of.
#[derive(Clone, Copy)]
pub(super) struct Fingerprint {
    lanes: [u64; 2],
}

impl Fingerprint {
    pub(super) fn new() -> Self {
        Self { lanes: SEEDS }
    }

    /// The fingerprint of one value.
    pub(super) fn of(value: &impl Hash) -> u128 {
        let mut fingerprint = Self::new();
        value.hash(&mut fingerprint);
        fingerprint.finish128()
    }

    pub(super) fn finish128(self) -> u128 {
        let [high, low] = self.lanes;
        u128::from(fold(high, FACTORS[1])) << 64 | u128::from(fold(low, FACTORS[0]))
    }

    #[inline]
    fn word(&mut self, word: u64) {
        let [left, right] = self.lanes;
        self.lanes = [
            fold(left ^ word, FACTORS[0]).wrapping_add(left.rotate_left(29)),
            fold(right ^ word.rotate_left(32), FACTORS[1]).wrapping_add(right.rotate_left(17)),
        ];
    }
}

/// The product's halves, xored.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the two halves")]
fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    (wide as u64) ^ ((wide >> 64) as u64)
}

impl Hasher for Fingerprint {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
        let rest = chunks.remainder();
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.word(u64::from_le_bytes(word) ^ (rest.len() as u64) << 56);
        }
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.word(value.into());
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.word(value.into());
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.word(value);
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.word(value as u64);
    }

    fn finish(&self) -> u64 {
        fold(self.lanes[0], FACTORS[1])
    }
}

/// Fingerprints, in a table with open addresses: 16 bytes a place, at most three quarters full.
pub(super) struct Seen {
    places: Vec<u128>,
    count: usize,
}

/// No fingerprint in practice; one that is 0 would only be visited again.
const EMPTY: u128 = 0;

impl Seen {
    pub(super) fn new() -> Self {
        Self { places: vec![EMPTY; 1 << 10], count: 0 }
    }

    pub(super) fn len(&self) -> u64 {
        self.count as u64
    }

    /// Whether it was not there before.
    pub(super) fn insert(&mut self, fingerprint: u128) -> bool {
        if 4 * (self.count + 1) > 3 * self.places.len() {
            self.grow();
        }
        let fresh = put(&mut self.places, fingerprint);
        self.count += usize::from(fresh);
        fresh
    }

    pub(super) fn contains(&self, fingerprint: u128) -> bool {
        self.places[place(&self.places, fingerprint)] == fingerprint
    }

    /// All of them as one number, whatever their order.
    pub(super) fn sum(&self) -> u128 {
        self.places.iter().fold(0, |sum, fingerprint| sum.wrapping_add(*fingerprint))
    }

    fn grow(&mut self) {
        let mut larger = vec![EMPTY; 2 * self.places.len()];
        for &fingerprint in self.places.iter().filter(|fingerprint| **fingerprint != EMPTY) {
            put(&mut larger, fingerprint);
        }
        self.places = larger;
    }
}

fn put(places: &mut [u128], fingerprint: u128) -> bool {
    let at = place(places, fingerprint);
    let fresh = places[at] == EMPTY;
    places[at] = fingerprint;
    fresh
}

/// Where it stands, or would. The length is a power of two.
fn place(places: &[u128], fingerprint: u128) -> usize {
    let mask = places.len() - 1;
    let mut at = usize::try_from(fingerprint & mask as u128).unwrap_or(0);
    while places[at] != EMPTY && places[at] != fingerprint {
        at = (at + 1) & mask;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_lanes_see_every_word() {
        let words = [0_u64, 1, u64::MAX, SEEDS[0], SEEDS[1]];
        let mut fingerprints: Vec<u128> = Vec::new();
        for a in words {
            for b in words {
                fingerprints.push(Fingerprint::of(&[a, b]));
            }
        }
        for lane in [0, 64] {
            let mut lanes: Vec<u64> = fingerprints
                .iter()
                .map(|fingerprint| u64::try_from(fingerprint >> lane & u128::from(u64::MAX)).unwrap())
                .collect();
            lanes.sort_unstable();
            lanes.dedup();
            assert_eq!(lanes.len(), words.len() * words.len());
        }
    }

    #[test]
    fn a_set_keeps_what_it_was_given() {
        let mut seen = Seen::new();
        let fingerprint = |i: u64| Fingerprint::of(&i);
        assert!((0..5000).all(|i| seen.insert(fingerprint(i))));
        assert!(!(0..5000).any(|i| seen.insert(fingerprint(i))));
        assert!((0..5000).all(|i| seen.contains(fingerprint(i))) && !seen.contains(fingerprint(5000)));
        assert_eq!(seen.len(), 5000);
        let sum = (0..5000).fold(0_u128, |sum, i| sum.wrapping_add(fingerprint(i)));
        assert_eq!(seen.sum(), sum);
    }
}
