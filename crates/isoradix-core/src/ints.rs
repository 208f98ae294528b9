//! Integer sequences as callers hold them: keys and slots, borrowed in their own width.
//!
//! A key is compared with the stored `u32` run in the width in which it came, so that a lookup copies nothing.
//! The loops work on fixed blocks without early exit inside a block, which the compiler turns into vector code.

use crate::error::Error;
use crate::limits::{PAGE_SIZE_MAX, SLOT_LIMIT, TOKEN_LIMIT};

/// Tokens compared per block: long enough to vectorise, short enough to find a mismatch early.
const BLOCK: usize = 32;

/// A borrowed sequence of integers, in the width in which the caller holds it.
#[derive(Debug, Clone, Copy)]
pub enum Ints<'a> {
    /// 32-bit signed.
    I32(&'a [i32]),
    /// 32-bit unsigned.
    U32(&'a [u32]),
    /// 64-bit signed.
    I64(&'a [i64]),
}

/// A part of a sequence that a caller gave, and where in it that part begins, for messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) values: Ints<'a>,
    pub(crate) offset: usize,
}

/// An integer that a caller may use for a token or a slot.
pub(crate) trait Lane: Copy {
    /// The low 32 bits.
    fn low(self) -> u32;
    /// The value, sign-extended; a token that fits is below 2^32.
    fn wide(self) -> u64;
}

impl Lane for i32 {
    #[inline]
    fn low(self) -> u32 {
        self.cast_unsigned()
    }
    #[inline]
    fn wide(self) -> u64 {
        i64::from(self).cast_unsigned()
    }
}

impl Lane for u32 {
    #[inline]
    fn low(self) -> u32 {
        self
    }
    #[inline]
    fn wide(self) -> u64 {
        u64::from(self)
    }
}

impl Lane for i64 {
    #[inline]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the low half is what is asked for")]
    fn low(self) -> u32 {
        self as u32
    }
    #[inline]
    fn wide(self) -> u64 {
        self.cast_unsigned()
    }
}

/// Runs `$body` with `$slice` bound to the typed slice inside `$ints`.
macro_rules! with_lanes {
    ($ints:expr, $slice:ident => $body:expr) => {
        match $ints {
            $crate::ints::Ints::I32($slice) => $body,
            $crate::ints::Ints::U32($slice) => $body,
            $crate::ints::Ints::I64($slice) => $body,
        }
    };
}
pub(crate) use with_lanes;

impl<'a> Ints<'a> {
    /// Number of integers.
    #[must_use]
    pub fn len(&self) -> usize {
        with_lanes!(self, s => s.len())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The part from `from` to `to`.
    #[inline]
    pub(crate) fn slice(self, from: usize, to: usize) -> Ints<'a> {
        match self {
            Self::I32(s) => Self::I32(&s[from..to]),
            Self::U32(s) => Self::U32(&s[from..to]),
            Self::I64(s) => Self::I64(&s[from..to]),
        }
    }

    /// The value at `index`, sign-extended.
    #[inline]
    pub(crate) fn wide(self, index: usize) -> u64 {
        with_lanes!(self, s => s[index].wide())
    }

    /// Writes the low halves over `out`, which is as long.
    ///
    /// Gives the OR of all values, sign-extended: bits above the low half show that one did not fit.
    #[inline]
    pub(crate) fn write_to(self, out: &mut [u32]) -> u64 {
        debug_assert_eq!(self.len(), out.len());
        with_lanes!(self, s => write_low(s, out))
    }

    /// Refuses values outside `range`; `offset` is where this part begins in the caller's sequence.
    #[inline]
    pub(crate) fn check(self, range: &IdRange, offset: usize) -> Result<(), Error> {
        let seen = with_lanes!(self, s => s.iter().fold(0, |all, v| all | v.wide()));
        if range.admits(seen) { Ok(()) } else { Err(self.first_outside(range, offset)) }
    }

    /// The refusal that names the first value outside `range`.
    #[cold]
    pub(crate) fn first_outside(self, range: &IdRange, offset: usize) -> Error {
        let outside = (0..self.len()).find(|index| !range.admits(self.wide(*index)));
        let index = outside.expect("a value outside was seen");
        let value = i128::from(self.wide(index).cast_signed());
        let (what, max) = (range.what, i128::from(range.limit) - 1);
        Error::OutOfRange { what, value, min: 0, max, index: Some(offset + index), hint: range.hint }
    }
}

/// What ids may be: below `limit`, a power of two, so that the OR of many can be judged at once.
pub(crate) struct IdRange {
    what: &'static str,
    limit: u64,
    hint: &'static str,
}

/// Token ids.
pub(crate) const TOKENS: IdRange =
    IdRange { what: "token", limit: TOKEN_LIMIT, hint: "token ids are non-negative and below 2^32" };

/// Slot ids. One bit is left for the run store.
pub(crate) const SLOTS: IdRange =
    IdRange { what: "slot", limit: SLOT_LIMIT, hint: "slot ids are non-negative and below 2^31" };

impl IdRange {
    /// Whether all values whose union of bits is `seen` are in range.
    #[inline]
    pub(crate) fn admits(&self, seen: u64) -> bool {
        seen < self.limit
    }
}

/// See [`Ints::write_to`].
#[inline]
pub(crate) fn write_low<L: Lane>(values: &[L], out: &mut [u32]) -> u64 {
    let mut seen = 0;
    for (to, from) in out.iter_mut().zip(values) {
        *to = from.low();
        seen |= from.wide();
    }
    seen
}

/// The first value, if all others count up from it; and the OR of all values, sign-extended.
#[inline]
pub(crate) fn consecutive_from<L: Lane>(values: &[L]) -> (Option<u32>, u64) {
    let first = values[0].low();
    let (mut differ, mut seen) = (0, 0);
    for (v, step) in values.iter().zip(0..PAGE_SIZE_MAX) {
        differ |= first.wrapping_add(step) ^ v.low();
        seen |= v.wide();
    }
    ((differ == 0).then_some(first), seen)
}

/// How many leading values of a key equal those of a stored run.
#[inline]
pub(crate) fn common_prefix<L: Lane>(key: &[L], run: &[u32]) -> usize {
    let n = key.len().min(run.len());
    let (key, run) = (&key[..n], &run[..n]);
    let mut at = 0;
    for (k, r) in key.chunks_exact(BLOCK).zip(run.chunks_exact(BLOCK)) {
        let mut differ = 0;
        for i in 0..BLOCK {
            differ |= k[i].wide() ^ u64::from(r[i]);
        }
        if differ != 0 {
            break;
        }
        at += BLOCK;
    }
    while at < n && key[at].wide() == u64::from(run[at]) {
        at += 1;
    }
    at
}
