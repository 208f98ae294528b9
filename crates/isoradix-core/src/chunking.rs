//! How long the next chunk of a prefill is, so that every chunk takes about as long as the first.
//!
//! In a pipeline, chunks that grow slower with their history leave bubbles. With `f(l) = a l² + b l + c` the time of a prompt of `l` tokens, the
//! next chunk `x` behind `L` tokens is to take what the base chunk takes alone: `f(L + x) - f(L) = f(base) - f(0)`, which is
//!
//! ```text
//! a x² + (2 a L + b) x = a base² + b base        c drops out
//! ```
//!
//! The model is that of dynamic chunking in `SGLang`'s pipeline parallelism. Coefficients are measured, and so per-rank: the leader's are agreed on, bit by bit,
//! and every rank computes the chunk from them. It does so without a root: whether a length is short enough is a comparison of two products of
//! integers, which is exact, so nothing rounds, on any machine.

use std::fmt;

/// Of the way from the base chunk to the chunk that takes as long, so much is gone: 3 of 4 parts.
const SMOOTH: (i128, i128) = (3, 4);

/// A chunk is at least this part of the base chunk.
const LEAST_PART: u64 = 4;

/// Chunks are aligned to pages, and to this many tokens at least.
pub const CHUNK_ALIGNMENT_MIN: u32 = 64;

/// Tokens of the context that are kept for the answer.
pub const CHUNK_CONTEXT_MARGIN: u64 = 100;

/// A positive number of 64 bits as IEEE 754 has it, by value: `mantissa * 2^exponent`. Two are equal only if all bits are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Coefficient {
    bits: u64,
}

/// Why a coefficient or a rule is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkError {
    /// The quadratic coefficient is not above 0, or one of them is negative, infinite or not a number.
    Coefficient {
        /// Which one.
        name: &'static str,
        /// Its bits.
        bits: u64,
    },
    /// A number of tokens is 0 or too large.
    Tokens {
        /// Which one.
        name: &'static str,
        /// Its value.
        value: u64,
    },
}

impl fmt::Display for ChunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Coefficient { name, bits } => {
                let limit = if name == "a" { "above 0" } else { "0 or above" };
                let value = f64::from_bits(bits);
                write!(
                    f,
                    "{name} is {value:e}, expected {limit} and finite\nhint: without such a model, chunks keep their size"
                )
            }
            Self::Tokens { name, value } => {
                write!(f, "{name} is {value}, limits 1 to {}\nhint: it is a number of tokens", u32::MAX)
            }
        }
    }
}

impl std::error::Error for ChunkError {}

impl Coefficient {
    const FRACTION_BITS: u32 = 52;
    const INFINITE: u64 = 0x7ff;

    /// The number that these bits stand for; nothing if it is negative, infinite or not a number.
    fn from_bits(bits: u64) -> Option<Self> {
        // The sign is the highest bit, and above all exponents.
        let exponent = bits >> Self::FRACTION_BITS;
        (exponent < Self::INFINITE).then_some(Self { bits })
    }

    /// Mantissa and exponent of two.
    fn parts(self) -> (u128, i64) {
        let fraction = u128::from(self.bits & ((1 << Self::FRACTION_BITS) - 1));
        let exponent = (self.bits >> Self::FRACTION_BITS).cast_signed();
        let (hidden, exponent) = if exponent == 0 { (0, 1) } else { (1_u128 << Self::FRACTION_BITS, exponent) };
        (fraction | hidden, exponent - 1023 - i64::from(Self::FRACTION_BITS))
    }

    /// Whether `self * x <= other * y`, exactly. Each product of mantissa and factor must fit 127 bits.
    fn times_is_at_most(self, x: u128, other: Self, y: u128) -> bool {
        let ((left, left_exponent), (right, right_exponent)) = (self.parts(), other.parts());
        let (left, right) = (left * x, right * y);
        if left == 0 || right == 0 {
            return left == 0;
        }
        // The higher leading bit is the larger number; where both are level, one fits beside the other.
        let level = |value: u128, exponent: i64| exponent + i64::from(value.ilog2());
        let (left_level, right_level) = (level(left, left_exponent), level(right, right_exponent));
        if left_level != right_level {
            return left_level < right_level;
        }
        let lower = left_exponent.min(right_exponent);
        left << (left_exponent - lower) <= right << (right_exponent - lower)
    }
}

/// The agreed coefficients: `a` of the square and `b` of the length. The constant has no part in a chunk's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkModel {
    a: Coefficient,
    b: Coefficient,
}

impl ChunkModel {
    /// The model whose coefficients have these bits, as IEEE 754 numbers of 64 bits.
    ///
    /// # Errors
    /// If `a` is not above 0, or `b` is negative, or one is infinite or not a number.
    pub fn from_bits(a: u64, b: u64) -> Result<Self, ChunkError> {
        let read = |name, bits| Coefficient::from_bits(bits).ok_or(ChunkError::Coefficient { name, bits });
        let model = Self { a: read("a", a)?, b: read("b", b)? };
        if a == 0 { Err(ChunkError::Coefficient { name: "a", bits: a }) } else { Ok(model) }
    }
}

/// What bounds a chunk, equal on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkRule {
    base: u32,
    alignment: u32,
    context: u32,
    most: u32,
}

impl ChunkRule {
    /// `base` tokens in the first chunk, pages of `page_size` tokens, at most `context` tokens in all and `most` in a chunk.
    ///
    /// # Errors
    /// If one of them is 0, or does not fit 32 bits.
    pub fn new(base: u64, page_size: u64, context: u64, most: u64) -> Result<Self, ChunkError> {
        let tokens = |name, value: u64| match u32::try_from(value) {
            Ok(tokens) if tokens > 0 => Ok(tokens),
            _ => Err(ChunkError::Tokens { name, value }),
        };
        let alignment = tokens("page_size", page_size)?.max(CHUNK_ALIGNMENT_MIN);
        let (base, context) = (tokens("base", base)?, tokens("context", context)?);
        Ok(Self { base, alignment, context, most: tokens("most", most)? })
    }

    /// Tokens of the next chunk behind `history` tokens; nothing where no aligned chunk is left in the context.
    #[must_use]
    pub fn next_chunk(&self, model: &ChunkModel, history: u64) -> Option<u64> {
        let alignment = u64::from(self.alignment);
        let room = u64::from(self.context).saturating_sub(history).saturating_sub(CHUNK_CONTEXT_MARGIN);
        let most = room.min(self.most.into()) / alignment;
        if most == 0 {
            return None;
        }
        // The room says that the history fits 32 bits.
        let base = u64::from(self.base);
        let least = (base / LEAST_PART / alignment).max(1);
        let (mut fits, mut exceeds) = (least, (base / alignment).max(least) + 1);
        while fits + 1 < exceeds {
            let middle = fits.midpoint(exceeds);
            if self.is_short_enough(model, history, middle * alignment) {
                fits = middle;
            } else {
                exceeds = middle;
            }
        }
        Some(fits.min(most) * alignment)
    }

    /// Whether `base + 3/4 (x - base) >= length`, where `x` is the chunk that takes as long as the base chunk.
    ///
    /// That is `3 x >= n` with `n = 4 length - base`. The time of a chunk grows with its length, so this is the same as that of `n/3` tokens being no more
    /// than the base chunk's: `a (n² + 6 L n - 9 base²) <= b (9 base - 3 n)`.
    fn is_short_enough(&self, model: &ChunkModel, history: u64, length: u64) -> bool {
        let (part, whole) = SMOOTH;
        let base = i128::from(self.base);
        let n = whole * i128::from(length) - (whole - part) * base;
        if n <= 0 {
            return true;
        }
        let quadratic = n * n + 2 * part * i128::from(history) * n - part * part * base * base;
        let linear = part * part * base - part * n;
        match (u128::try_from(quadratic), u128::try_from(linear)) {
            // Not above 0 on the left, and then not below it on the right.
            (Err(_) | Ok(0), _) => true,
            (Ok(_), Err(_)) => false,
            (Ok(quadratic), Ok(linear)) => model.a.times_is_at_most(quadratic, model.b, linear),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(a: f64, b: f64) -> ChunkModel {
        ChunkModel::from_bits(a.to_bits(), b.to_bits()).expect("it is one")
    }

    fn rule(base: u64, page_size: u64, context: u64, most: u64) -> ChunkRule {
        ChunkRule::new(base, page_size, context, most).expect("it is one")
    }

    #[test]
    fn an_exact_multiple_is_taken_whole() {
        // Floats with c = 5 come to just below 4096, and so to 4032.
        let rule = rule(4096, 64, 1 << 20, 1 << 20);
        assert_eq!(rule.next_chunk(&model(2e-6, 0.03), 0), Some(4096));
    }

    #[test]
    fn chunks_shrink_with_the_history_down_to_the_room_left() {
        let rule = rule(8192, 64, 1_048_576, 16_384);
        let histories = [0, 8192, 32_768, 131_072, 262_144, 524_288, 1_048_000];
        let chunks = histories.map(|history| rule.next_chunk(&model(1e-6, 0.02), history));
        assert_eq!(chunks, [8192, 6144, 3968, 2624, 2304, 2176, 448].map(Some));
    }

    #[test]
    fn no_chunk_is_left_at_the_end_of_the_context() {
        let rule = rule(8192, 64, 1_048_576, 16_384);
        assert_eq!(rule.next_chunk(&model(1e-6, 0.02), 1_048_576 - 100 - 64), Some(64));
        assert_eq!(rule.next_chunk(&model(1e-6, 0.02), 1_048_576 - 100 - 63), None);
        assert_eq!(rule.next_chunk(&model(1e-6, 0.02), u64::MAX), None);
    }

    #[test]
    fn pages_larger_than_the_least_alignment_align() {
        let narrow = rule(1000, 256, 100_000, 100_000);
        assert_eq!(narrow.next_chunk(&model(1e-6, 0.02), 0), Some(768));
        assert_eq!(rule(32, 1, 100_000, 100_000).next_chunk(&model(1e-6, 0.02), 0), Some(64), "one alignment at least");
        assert_eq!(rule(8192, 64, 100_000, 200).next_chunk(&model(1e-6, 0.02), 0), Some(192), "no more than most");
    }

    #[test]
    fn no_extreme_overflows() {
        let most = u64::from(u32::MAX);
        for a in [5e-324, 1e-300, 1.0, f64::MAX] {
            for b in [0.0, 5e-324, 1.0, f64::MAX] {
                for (base, history) in [(1, 0), (most, 0), (most, most - 200), (1, most - 200)] {
                    let chunk = rule(base, 1, most, most).next_chunk(&model(a, b), history);
                    assert!(
                        chunk.is_some_and(|chunk| chunk >= 64 && chunk % 64 == 0),
                        "{a} {b} {base} {history}: {chunk:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_is_no_model_is_refused() {
        let refused =
            |a: f64, b: f64| ChunkModel::from_bits(a.to_bits(), b.to_bits()).expect_err("it is none").to_string();
        assert!(refused(0.0, 1.0).starts_with("a is 0e0, expected above 0 and finite"));
        assert!(refused(-1e-6, 1.0).starts_with("a is -1e-6"));
        assert!(refused(f64::NAN, 1.0).starts_with("a is NaN"));
        assert!(refused(1.0, -1.0).starts_with("b is -1e0, expected 0 or above"));
        assert!(refused(1.0, f64::INFINITY).starts_with("b is inf"));
        let tokens = ChunkRule::new(0, 1, 1, 1).expect_err("no tokens").to_string();
        assert!(tokens.starts_with("base is 0, limits 1 to 4294967295"), "{tokens}");
        assert_eq!(ChunkRule::new(1, 1, 1 << 32, 1), Err(ChunkError::Tokens { name: "context", value: 1 << 32 }));
    }
}
