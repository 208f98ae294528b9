//! Tokens in as few bits each as the largest of them needs.
//!
//! A byte says how many bits. Then come the tokens, each from its lowest bit on, from the lowest bit of the first byte on; what is
//! left of the last byte is 0.

/// Tokens that are packed at a time: as many words of 64 bits as a token has bits.
const GROUP: usize = 64;

/// Appends the number of bits and the tokens.
pub(super) fn append(tokens: &[u32], out: &mut Vec<u8>) {
    let seen = tokens.iter().fold(0, |all, token| all | token);
    let width = seen.checked_ilog2().unwrap_or(0) as usize + 1;
    out.push(width.to_le_bytes()[0]);
    out.reserve(tokens.len().div_ceil(GROUP) * width * size_of::<u64>());
    let pack = PACKERS[width - 1];
    let (groups, rest) = tokens.as_chunks();
    groups.iter().for_each(|group| pack(group, out));
    if !rest.is_empty() {
        let end = out.len() + (rest.len() * width).div_ceil(8);
        let mut last = [0; GROUP];
        last[..rest.len()].copy_from_slice(rest);
        pack(&last, out);
        out.truncate(end);
    }
}

/// The tokens that these bytes are, of `width` bits each, 1 to 32. Nothing if there are fewer bytes.
#[must_use]
pub fn unpack(bytes: &[u8], count: usize, width: usize) -> Option<Vec<u32>> {
    if !(1..=32).contains(&width) || count.checked_mul(width)?.div_ceil(8) > bytes.len() {
        return None;
    }
    let token = |at: usize| {
        let (begin, shift) = (at * width / 8, at * width % 8);
        let mut word = [0; 8];
        let there = &bytes[begin..bytes.len().min(begin + word.len())];
        word[..there.len()].copy_from_slice(there);
        let bits = u64::from_le_bytes(word) >> shift & (u64::MAX >> (64 - width));
        u32::try_from(bits).expect("32 bits at most")
    };
    Some((0..count).map(token).collect())
}

type Packer = fn(&[u32; GROUP], &mut Vec<u8>);

/// For each number of bits, from 1.
const PACKERS: [Packer; 32] = {
    macro_rules! packers {
        ($($width:literal)*) => { [$(pack::<$width>),*] };
    }
    packers!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32)
};

/// The compiler makes straight code of it: each width is a function of its own.
fn pack<const WIDTH: usize>(group: &[u32; GROUP], out: &mut Vec<u8>) {
    let mut words = [[0; 8]; WIDTH];
    let (mut word, mut bits, mut at) = (0, 0, 0);
    for token in group {
        let token = u64::from(*token);
        word |= token << bits;
        bits += WIDTH;
        if bits >= 64 {
            words[at] = word.to_le_bytes();
            at += 1;
            bits -= 64;
            word = token >> (WIDTH - bits);
        }
    }
    out.extend_from_slice(words.as_flattened());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tokens_take_the_fewest_bits() {
        for (token, width) in [(0, 1), (1, 1), (2, 2), (255, 8), (256, 9), (151_935, 18), (u32::MAX, 32)] {
            let mut out = Vec::new();
            append(&[token; 100], &mut out);
            assert_eq!((usize::from(out[0]), out.len()), (width, 1 + (100 * width).div_ceil(8)), "{token}");
        }
    }

    #[test]
    fn bytes_that_must_stay() {
        let mut out = Vec::new();
        append(&[5, 2, 7, 1], &mut out);
        assert_eq!(out, [3, 0b1101_0101, 0b0011], "5 is 101, 2 is 010, 7 is 111, 1 is 001");
    }

    #[test]
    fn what_is_too_short_is_nothing() {
        let bytes = [0xff; 9];
        assert_eq!(unpack(&bytes, 4, 18), Some(vec![(1 << 18) - 1; 4]));
        for (count, width) in [(5, 18), (73, 1), (1, 0), (1, 33), (usize::MAX, 32)] {
            assert_eq!(unpack(&bytes, count, width), None, "{count} of {width}");
        }
    }

    proptest! {
        #[test]
        fn tokens_are_read_as_they_were_written(tokens in prop::collection::vec(any::<u32>(), 0..300), shift in 0..32u32) {
            let tokens: Vec<u32> = tokens.iter().map(|token| token >> shift).collect();
            let mut out = Vec::new();
            append(&tokens, &mut out);
            prop_assert_eq!(unpack(&out[1..], tokens.len(), out[0].into()), Some(tokens));
        }
    }
}
