//! Tokens in as few bits each as the largest of them needs.
//!
//! A byte says how many bits. Then come groups of 128 tokens, as far as they are whole. Every fourth token of a group is of one
//! column: there each token follows the one before, from its lowest bit on, in words of 32 bits; the first words of the four columns
//! come first, then the second ones, and so on. So a processor packs four tokens by the instructions for one. The tokens that are
//! left follow each other likewise, from the lowest bit of the first byte on; what is left of the last byte is 0.

/// Columns of a group.
const COLUMNS: usize = 4;
/// Tokens of a group: each column has as many words of 32 bits as a token has bits.
const GROUP: usize = 32 * COLUMNS;
/// Bytes of the words at one place of all columns.
const ROW: usize = 4 * COLUMNS;

/// Appends the number of bits and the tokens.
pub(super) fn append(tokens: &[u32], out: &mut Vec<u8>) {
    let seen = tokens.iter().fold(0, |all, token| all | token);
    let width = seen.checked_ilog2().unwrap_or(0) + 1;
    out.push(width.to_le_bytes()[0]);
    let (groups, rest) = tokens.as_chunks();
    PACKERS[width as usize - 1](groups, out);
    let (mut word, mut bits) = (0, 0);
    for token in rest {
        word |= u64::from(*token) << bits;
        bits += width;
        while bits >= u8::BITS {
            out.push(word.to_le_bytes()[0]);
            word >>= u8::BITS;
            bits -= u8::BITS;
        }
    }
    if bits > 0 {
        out.push(word.to_le_bytes()[0]);
    }
}

/// The tokens that these bytes are, of `width` bits each, 1 to 32. Nothing if there are fewer bytes.
#[must_use]
pub fn unpack(bytes: &[u8], count: usize, width: usize) -> Option<Vec<u32>> {
    if !(1..=32).contains(&width) || count.checked_mul(width)?.div_ceil(8) > bytes.len() {
        return None;
    }
    let whole = count / GROUP * GROUP;
    let (groups, rest) = bytes.split_at(whole * width / 8);
    let mut tokens = Vec::with_capacity(count);
    for group in groups.chunks_exact(GROUP * width / 8) {
        let token = |at: usize| token(group, at / COLUMNS * width, width, |word| word * COLUMNS + at % COLUMNS);
        tokens.extend((0..GROUP).map(token));
    }
    tokens.extend((0..count - whole).map(|at| token(rest, at * width, width, |word| word)));
    Some(tokens)
}

/// The token from that bit of a column on, whose words are at these places.
fn token(bytes: &[u8], bit: usize, width: usize, place: impl Fn(usize) -> usize) -> u32 {
    let word = |at: usize| {
        let there = bytes.get(place(at) * 4..).unwrap_or_default();
        let mut word = [0; 4];
        let length = there.len().min(word.len());
        word[..length].copy_from_slice(&there[..length]);
        u64::from(u32::from_le_bytes(word))
    };
    let (at, shift) = (bit / 32, bit % 32);
    let bits = (word(at) | word(at + 1) << 32) >> shift & (u64::MAX >> (64 - width));
    u32::try_from(bits).expect("32 bits at most")
}

type Packer = fn(&[[u32; GROUP]], &mut Vec<u8>);

/// For each number of bits, from 1.
const PACKERS: [Packer; 32] = {
    macro_rules! packers {
        ($($width:literal)*) => { [$(pack::<$width>),*] };
    }
    packers!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32)
};

/// Each width is a function of its own, and each word in it a few shifts by known numbers.
fn pack<const WIDTH: usize>(groups: &[[u32; GROUP]], out: &mut Vec<u8>) {
    let begin = out.len();
    out.resize(begin + groups.len() * WIDTH * ROW, 0);
    for (group, words) in groups.iter().zip(out[begin..].chunks_exact_mut(WIDTH * ROW)) {
        let tokens = group.as_chunks().0;
        macro_rules! words {
            ($($at:literal)*) => {
                $(if $at < WIDTH {
                    let row = row::<WIDTH, $at>(tokens).map(u32::to_le_bytes);
                    words[$at * ROW..][..ROW].copy_from_slice(row.as_flattened());
                })*
            };
        }
        words!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
    }
}

/// The words at one place of all columns: of each column the tokens whose bits are in there.
#[inline]
fn row<const WIDTH: usize, const AT: usize>(tokens: &[[u32; COLUMNS]]) -> [u32; COLUMNS] {
    let (begin, end) = (AT * 32, AT * 32 + 32);
    let mut row = [0; COLUMNS];
    let first = begin / WIDTH;
    for (at, tokens) in tokens[first..end.div_ceil(WIDTH)].iter().enumerate() {
        let bit = (first + at) * WIDTH;
        for (word, token) in row.iter_mut().zip(tokens) {
            *word |= if bit < begin { token >> (begin - bit) } else { token << (bit - begin) };
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tokens_take_the_fewest_bits() {
        for (token, width) in [(0, 1_usize), (1, 1), (2, 2), (255, 8), (256, 9), (151_935, 18), (u32::MAX, 32)] {
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
        let group: Vec<u32> = (0..128).map(|at| at / 64 + 2 * (at % 4)).collect();
        out.clear();
        append(&group, &mut out);
        let column = |at: u32| (0..32).fold(0u128, |all, row| all | u128::from(row / 16 + 2 * at) << (3 * row));
        let word = |at: u32, word: usize| column(at).to_le_bytes()[4 * word..4 * word + 4].to_vec();
        let words = (0..3).flat_map(|at| (0..4).flat_map(move |column| word(column, at)));
        assert_eq!(out[1..], words.collect::<Vec<u8>>());
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
        fn tokens_are_read_as_they_were_written(tokens in prop::collection::vec(any::<u32>(), 0..600), shift in 0..32u32) {
            let tokens: Vec<u32> = tokens.iter().map(|token| token >> shift).collect();
            let mut out = Vec::new();
            append(&tokens, &mut out);
            prop_assert_eq!(unpack(&out[1..], tokens.len(), out[0].into()), Some(tokens));
        }
    }
}
