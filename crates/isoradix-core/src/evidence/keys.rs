//! Keys as a journal writes them: what each has beyond an earlier one.
//!
//! | bytes | |
//! |---|---|
//! | 0..4 | number of an earlier key, 0 for none |
//! | 4..8 | how many of its tokens come first |
//! | 8..12 | how many tokens follow, packed: see [`packing`](super::packing) |
//! | 12 | bits of each of these |
//! | 13.. | these |
//!
//! All numbers are little-endian. Keys are numbered from 1, without those that are an earlier one again, and those that are longer
//! than 4 Mi tokens. Only the last 4,096 are referred to.

use std::collections::VecDeque;

use super::packing;
use crate::hash;
use crate::ints::{Ints, common_prefix};

/// Keys that are kept at most.
const KEYS_MAX: usize = 4096;
/// Tokens that are kept at most.
const TOKENS_MAX: usize = 1 << 22;
/// Pieces of a key at most.
const PIECES_MAX: usize = 64;
/// Tokens that two keys have in common at least where one is written beyond the other.
const SHORTEST: usize = 16;
/// Beginnings of as many tokens, and of twice and three times as many, are looked up.
const STRIDE: usize = 512;
/// Tokens at the end of a beginning by which it is looked up.
const NAMED: usize = 4;
/// Places of the table of beginnings, a power of two.
const PLACES: usize = 1 << 16;
/// Tokens that are compared at a time.
const COMPARED: usize = 1024;

/// The last keys that were written, and where their beginnings are found again.
///
/// A key is looked up by a few tokens at the ends of its beginnings, the longest first, and what is found is compared. The
/// table of beginnings may forget, and name the wrong key; that costs bytes, and nothing else.
#[derive(Debug)]
pub struct KeyLog {
    kept: VecDeque<Kept>,
    /// The number of the first kept key.
    first: u32,
    /// What was written of each key, in a ring.
    tokens: Box<[u32]>,
    /// Tokens that have been put into the ring, and places that were passed over at its end.
    put: u64,
    /// Numbers of keys, by the hash of a beginning.
    beginnings: Box<[u32]>,
}

/// A key as pieces of the ring.
#[derive(Debug, Default)]
struct Kept {
    length: usize,
    /// By when each was put there, and its length.
    pieces: Vec<(u64, usize)>,
}

impl Default for KeyLog {
    fn default() -> Self {
        Self {
            kept: VecDeque::new(),
            first: 1,
            // Not zeros, which are memory that the machine gives piece by piece, while a scheduler waits.
            tokens: vec![u32::MAX; TOKENS_MAX].into(),
            put: 0,
            beginnings: vec![0; PLACES].into(),
        }
    }
}

impl KeyLog {
    /// Appends a key to `out`. Only the low 32 bits of its values count.
    pub fn append(&mut self, key: Ints<'_>, out: &mut Vec<u8>) {
        match key {
            Ints::U32(key) => self.append_tokens(key, out),
            other => {
                let mut tokens = vec![0; other.len()];
                other.write_to(&mut tokens);
                self.append_tokens(&tokens, out);
            }
        }
    }

    /// Forgets all keys: the next one is number 1.
    pub fn clear(&mut self) {
        self.kept.clear();
        (self.first, self.put) = (1, 0);
        self.beginnings.fill(0);
    }

    fn append_tokens(&mut self, key: &[u32], out: &mut Vec<u8>) {
        let (number, shared) = self.find(key);
        let earlier = self.get(number);
        let again = earlier.is_some_and(|earlier| earlier.length == shared && key.len() == shared);
        if !again {
            let mut pieces = earlier.map_or_else(Vec::new, |earlier| earlier.beginning(shared));
            let old = self.put.saturating_sub(self.tokens.len() as u64 / 2);
            if pieces.len() >= PIECES_MAX || pieces.iter().any(|(put, _)| *put < old) {
                pieces.clear(); // what goes on being used is put anew
            }
            self.keep(key, pieces);
        }
        let rest = &key[shared..];
        for field in [number, narrow(shared), narrow(rest.len())] {
            out.extend(field.to_le_bytes());
        }
        packing::append(rest, out);
    }

    /// An earlier key that begins as this one does, and how far; number 0 if there is none.
    fn find(&self, key: &[u32]) -> (u32, usize) {
        let mut best = (0, 0);
        for length in beginnings(key.len()) {
            let number = self.beginnings[place(&key[..length])];
            if number == best.0 {
                continue;
            }
            let Some(earlier) = self.get(number) else { continue };
            let shared = self.common(key, earlier);
            if shared > best.1 && shared >= SHORTEST.min(key.len()) {
                best = (number, shared);
            }
            if best.1 >= length {
                break;
            }
        }
        best
    }

    /// The key of that number, while all of it is kept.
    fn get(&self, number: u32) -> Option<&Kept> {
        let kept = self.kept.get(number.checked_sub(self.first)? as usize)?;
        let oldest = self.put.saturating_sub(self.tokens.len() as u64);
        kept.pieces.iter().all(|(put, _)| *put >= oldest).then_some(kept)
    }

    /// How many leading tokens are equal.
    fn common(&self, key: &[u32], earlier: &Kept) -> usize {
        let mut equal = 0;
        for (put, length) in &earlier.pieces {
            let at = self.at(*put);
            let found = common(&key[equal..], &self.tokens[at..at + length]);
            equal += found;
            if found < *length {
                break;
            }
        }
        equal
    }

    /// Where in the ring something was put.
    #[expect(clippy::cast_possible_truncation, reason = "a place in the ring")]
    fn at(&self, put: u64) -> usize {
        (put % self.tokens.len() as u64) as usize
    }

    /// Keeps a key, which begins with these pieces.
    fn keep(&mut self, key: &[u32], mut pieces: Vec<(u64, usize)>) {
        let rest = &key[pieces.iter().map(|(_, length)| length).sum()..];
        if key.len() > self.tokens.len() {
            return;
        }
        let left = self.tokens.len() - self.at(self.put);
        if left < rest.len() {
            self.put += left as u64; // a piece lies together
        }
        if !rest.is_empty() {
            let at = self.at(self.put);
            self.tokens[at..at + rest.len()].copy_from_slice(rest);
            pieces.push((self.put, rest.len()));
            self.put += rest.len() as u64;
        }
        let number = self.first + narrow(self.kept.len());
        self.kept.push_back(Kept { length: key.len(), pieces });
        if self.kept.len() > KEYS_MAX {
            self.kept.pop_front();
            self.first += 1;
        }
        for length in beginnings(key.len()) {
            self.beginnings[place(&key[..length])] = number;
        }
    }
}

impl Kept {
    /// Its pieces up to a length.
    fn beginning(&self, length: usize) -> Vec<(u64, usize)> {
        let mut left = length;
        let mut pieces = Vec::with_capacity(self.pieces.len() + 1);
        for (put, length) in &self.pieces {
            if left == 0 {
                break;
            }
            let taken = left.min(*length);
            pieces.push((*put, taken));
            left -= taken;
        }
        pieces
    }
}

/// Lengths of the beginnings of a key by which it is looked up, the longest first: all of it, multiples of 512, and then half of
/// the one before down to 16.
fn beginnings(length: usize) -> impl Iterator<Item = usize> {
    let strides = (1..=length.saturating_sub(1) / STRIDE).rev().map(|stride| stride * STRIDE);
    let halves = [256, 128, 64, 32, SHORTEST].into_iter().filter(move |half| *half < length);
    (length > 0).then_some(length).into_iter().chain(strides).chain(halves)
}

/// Where a beginning, of 16 tokens at least or a whole key, is in the table.
#[expect(clippy::cast_possible_truncation, reason = "some of the hash's bits")]
fn place(beginning: &[u32]) -> usize {
    let [a, b, c, d] = beginning.last_chunk::<NAMED>().copied().unwrap_or_default().map(u64::from);
    hash::mix(a | b << 32, c ^ d << 32 ^ (beginning.len() as u64) << 40) as usize % PLACES
}

/// How many leading tokens are equal: most of it a plain comparison of memory.
fn common(one: &[u32], other: &[u32]) -> usize {
    let pairs = one.chunks_exact(COMPARED).zip(other.chunks_exact(COMPARED));
    let equal = pairs.take_while(|(one, other)| one == other).count() * COMPARED;
    equal + common_prefix(&one[equal..], &other[equal..])
}

/// A length of a key, whose tokens a cache has taken.
fn narrow(length: usize) -> u32 {
    u32::try_from(length).expect("fewer than 2^32 tokens and keys")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Who reads, done plainly.
    #[derive(Default)]
    struct Reader {
        kept: Vec<Vec<u32>>,
    }

    impl Reader {
        fn read(&mut self, bytes: &[u8]) -> Vec<u32> {
            let field = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
            let (number, shared, count, width) = (field(0), field(4), field(8), usize::from(bytes[12]));
            let mut key = if number == 0 { Vec::new() } else { self.kept[number - 1][..shared].to_vec() };
            assert_eq!(bytes.len(), 13 + (count * width).div_ceil(8));
            key.extend(packing::unpack(&bytes[13..], count, width).unwrap());
            let kept = key.len() <= TOKENS_MAX;
            if kept && (number == 0 || count > 0 || shared < self.kept[number - 1].len()) {
                self.kept.push(key.clone());
            }
            key
        }
    }

    fn written(log: &mut KeyLog, key: &[u32]) -> Vec<u8> {
        let mut out = Vec::new();
        log.append(Ints::U32(key), &mut out);
        out
    }

    fn counted(from: u32, length: u32) -> Vec<u32> {
        (from..from + length).collect()
    }

    #[test]
    fn a_key_takes_what_it_has_beyond_an_earlier_one() {
        let mut log = KeyLog::default();
        let key = counted(70_000, 5000);
        assert_eq!(written(&mut log, &key).len(), 13 + 17 * 5000 / 8);
        assert_eq!(written(&mut log, &key).len(), 13, "the same again");
        let longer = [&key[..], &[1, 2, 3]].concat();
        assert_eq!(written(&mut log, &longer).len(), 13 + 1);
        let other = [&key[..4700], &[300; 50]].concat();
        assert_eq!(written(&mut log, &other).len(), 13 + (9 * 50_usize).div_ceil(8), "from where the two part");
        assert_eq!(written(&mut log, &key[..1000]).len(), 13, "a beginning");
        assert_eq!(written(&mut log, &[]).len(), 13);
    }

    #[test]
    fn only_the_last_keys_are_kept() {
        let mut log = KeyLog::default();
        for key in 0..6000 {
            written(&mut log, &counted(key << 10, 1000));
        }
        assert_eq!(log.kept.len(), KEYS_MAX);
        assert!(written(&mut log, &counted(0, 1000)).len() > 1000, "the first is forgotten");
        assert_eq!(written(&mut log, &counted(5999 << 10, 1000)).len(), 13);
        log.clear();
        assert!(written(&mut log, &counted(5999 << 10, 1000)).len() > 1000);
    }

    #[test]
    fn tokens_are_kept_as_long_as_they_are_used() {
        let (mut log, mut reader) = (KeyLog::default(), Reader::default());
        let (hot, cold) = (counted(1 << 20, 1000), counted(1 << 21, 1000));
        let mut write = |key: &[u32]| {
            let bytes = written(&mut log, key);
            assert_eq!(reader.read(&bytes), key);
            bytes.len()
        };
        write(&cold);
        for filler in 0..40 {
            assert!(filler == 0 || write(&[&hot[..], &[filler]].concat()) < 100, "{filler}");
            if filler == 0 {
                write(&hot);
            }
            write(&counted(filler << 24, narrow(TOKENS_MAX / 9)));
        }
        assert!(write(&cold) > 1000, "overwritten");
        let longest = vec![7; TOKENS_MAX];
        assert_eq!((write(&longest) > 1000, write(&longest)), (true, 13));
        let too_long = vec![9; TOKENS_MAX + 1];
        assert_eq!((write(&too_long) > 1000, write(&too_long) > 1000), (true, true));
        assert_eq!(write(&longest), 13);
    }

    #[test]
    fn keys_that_grow_bit_by_bit_are_read_as_they_were_written() {
        let (mut log, mut reader) = (KeyLog::default(), Reader::default());
        for length in (16..6000).step_by(16) {
            let key = counted(0, length);
            let bytes = written(&mut log, &key);
            assert_eq!(reader.read(&bytes), key);
            assert!(length == 16 || bytes.len() < 100, "{length}");
            assert!(log.kept.back().unwrap().pieces.len() <= PIECES_MAX);
        }
    }

    proptest! {
        #[test]
        fn keys_are_read_as_they_were_written(
            made in prop::collection::vec((0..4usize, 0..2000usize, prop::collection::vec(any::<u32>(), 0..20)), 1..20),
        ) {
            let sources: [Vec<u32>; 4] = std::array::from_fn(|n| {
                (0..2000u32).map(|at| if at < 700 { at } else { at.wrapping_mul(2_654_435_761) >> (8 * n) }).collect()
            });
            let (mut log, mut reader) = (KeyLog::default(), Reader::default());
            for (source, length, rest) in made {
                let key = [&sources[source][..length], &rest].concat();
                let bytes = written(&mut log, &key);
                prop_assert_eq!(reader.read(&bytes), key);
            }
        }

        #[test]
        fn any_width_of_the_caller_is_the_same(key in prop::collection::vec(any::<u32>(), 0..50)) {
            let wide: Vec<i64> = key.iter().map(|token| i64::from(*token)).collect();
            let mut out = Vec::new();
            KeyLog::default().append(Ints::I64(&wide), &mut out);
            prop_assert_eq!(out, written(&mut KeyLog::default(), &key));
        }
    }
}
