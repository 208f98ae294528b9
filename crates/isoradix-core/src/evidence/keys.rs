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

use super::beginnings::{Beginnings, Secret};
use super::packing;
use crate::ints::Ints;

/// Keys that are kept at most.
const KEYS_MAX: usize = 4096;
/// Tokens of a key that is kept at most.
const TOKENS_MAX: usize = 1 << 22;
/// Beginnings of as many tokens, and of twice and three times as many, are looked up.
const STRIDE: usize = 256;
/// The shortest beginning that is looked up, but for a whole key.
const SHORTEST: usize = 32;
/// Places of the table of beginnings, a power of two.
const PLACES: usize = 1 << 16;

/// The last keys that were written, and where their beginnings are found again.
///
/// No token is kept: a beginning is known by its length and its hash under a secret. The table of beginnings may forget
/// one; that costs bytes, and nothing else.
#[derive(Debug)]
pub struct KeyLog {
    /// Lengths.
    kept: VecDeque<u32>,
    /// The number of the first kept key.
    first: u32,
    beginnings: Box<[Beginning]>,
    /// Those of the key at hand, the shortest first.
    marks: Vec<Beginning>,
    secret: Secret,
}

/// The first tokens of a key.
#[derive(Debug, Default, Clone, Copy)]
struct Beginning {
    hash: u64,
    length: u32,
    /// Of the key.
    number: u32,
}

impl KeyLog {
    /// One that has written nothing.
    ///
    /// Hashes are keyed by the secret, which nobody who chooses tokens may know. What is written does not depend on it.
    #[must_use]
    pub fn new(secret: u64) -> Self {
        // Not zeros, which are memory that the machine gives piece by piece, while a scheduler waits.
        let nothing = Beginning { hash: u64::MAX, length: u32::MAX, number: 0 };
        Self {
            kept: VecDeque::new(),
            first: 1,
            beginnings: vec![nothing; PLACES].into(),
            marks: Vec::new(),
            secret: Secret::new(secret),
        }
    }

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
        self.first = 1;
        self.beginnings.fill(Beginning::default());
    }

    fn append_tokens(&mut self, key: &[u32], out: &mut Vec<u8>) {
        self.mark(key);
        let (number, shared) = self.find();
        let again = shared == narrow(key.len()) && self.length(number) == Some(shared);
        if !again && key.len() <= TOKENS_MAX {
            self.keep(narrow(key.len()));
        }
        let rest = &key[shared as usize..];
        for field in [number, shared, narrow(rest.len())] {
            out.extend(field.to_le_bytes());
        }
        packing::append(rest, out);
    }

    /// Hashes the beginnings of a key: twice as many tokens each time up to the stride, then a stride more, and all of them.
    fn mark(&mut self, key: &[u32]) {
        self.marks.clear();
        let mut hashed = Beginnings::new(&self.secret);
        let (mut from, mut to) = (0, SHORTEST);
        while from < key.len() {
            let end = to.min(key.len());
            hashed.update(&key[from..end]);
            self.marks.push(Beginning { hash: hashed.hash(), length: narrow(end), number: 0 });
            (from, to) = (end, end + end.min(STRIDE));
        }
    }

    /// An earlier key that begins as the one at hand does, and how far; number 0 if there is none.
    fn find(&self) -> (u32, u32) {
        let known = |mark: &Beginning| {
            let found = self.beginnings[mark.place()];
            let same = (found.hash, found.length) == (mark.hash, mark.length) && self.length(found.number).is_some();
            same.then_some((found.number, mark.length))
        };
        self.marks.iter().rev().find_map(known).unwrap_or_default()
    }

    /// Of the key of that number, while it is kept.
    fn length(&self, number: u32) -> Option<u32> {
        self.kept.get(number.checked_sub(self.first)? as usize).copied()
    }

    /// The key at hand gets the next number.
    fn keep(&mut self, length: u32) {
        let number = self.first + narrow(self.kept.len());
        self.kept.push_back(length);
        if self.kept.len() > KEYS_MAX {
            self.kept.pop_front();
            self.first += 1;
        }
        for mark in &self.marks {
            self.beginnings[mark.place()] = Beginning { number, ..*mark };
        }
    }
}

impl Beginning {
    /// Where it is in the table.
    #[expect(clippy::cast_possible_truncation, reason = "some of the hash's bits")]
    fn place(&self) -> usize {
        self.hash as usize % PLACES
    }
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
        let mut log = KeyLog::new(1);
        let key = counted(70_000, 5000);
        assert_eq!(written(&mut log, &key).len(), 13 + 17 * 5000 / 8);
        assert_eq!(written(&mut log, &key).len(), 13, "the same again");
        let longer = [&key[..4864], &[1, 2, 3]].concat();
        assert_eq!(written(&mut log, &longer).len(), 13 + 1, "beyond 19 strides");
        let other = [&key[..4700], &[300; 50]].concat();
        let rest = 4700 - 18 * STRIDE + 50;
        assert_eq!(written(&mut log, &other).len(), 13 + (17 * rest).div_ceil(8), "from the last stride on");
        let short = [&key[..40], &[7; 10]].concat();
        assert_eq!(written(&mut log, &short).len(), 13 + (17 * 18_usize).div_ceil(8), "beyond 32 tokens");
        assert_eq!(written(&mut log, &key[..1024]).len(), 13, "a beginning");
        assert_eq!(written(&mut log, &[]).len(), 13);
    }

    #[test]
    fn only_the_last_keys_are_kept() {
        let mut log = KeyLog::new(1);
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
    fn keys_are_kept_as_long_as_they_are_used() {
        let (mut log, mut reader) = (KeyLog::new(1), Reader::default());
        let (hot, cold) = (counted(1 << 20, 1024), counted(1 << 21, 1024));
        let mut write = |key: &[u32]| {
            let bytes = written(&mut log, key);
            assert_eq!(reader.read(&bytes), key);
            bytes.len()
        };
        write(&cold);
        write(&hot);
        for filler in 0..narrow(KEYS_MAX) {
            assert!(filler % 1000 > 0 || write(&[&hot[..], &[filler]].concat()) < 20, "{filler}");
            write(&[filler; 9]);
        }
        assert!(write(&cold) > 1000, "forgotten");
        let longest = vec![7; TOKENS_MAX];
        assert_eq!((write(&longest) > 1000, write(&longest)), (true, 13));
        let too_long = vec![9; TOKENS_MAX + 1];
        assert_eq!((write(&too_long) > 1000, write(&too_long) > 1000), (true, true));
        assert_eq!(write(&longest), 13);
    }

    #[test]
    fn keys_that_grow_bit_by_bit_are_read_as_they_were_written() {
        let (mut log, mut reader) = (KeyLog::new(1), Reader::default());
        for length in (16..6000).step_by(16) {
            let key = counted(0, length);
            let bytes = written(&mut log, &key);
            assert_eq!(reader.read(&bytes), key);
            assert!(bytes.len() <= 13 + STRIDE * 13 / 8, "less than a stride: {length}");
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
            let (mut log, mut reader) = (KeyLog::new(1), Reader::default());
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
            KeyLog::new(1).append(Ints::I64(&wide), &mut out);
            prop_assert_eq!(out, written(&mut KeyLog::new(1), &key));
        }
    }
}
