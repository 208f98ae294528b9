//! What each word of a voted vector means.
//!
//! A ballot and the vector that it is reduced to have one shape: `20 + 4 W` words, each an i64, little-endian where it leaves the
//! process, for a window of `W` operations. Word `w` lies at bytes `8 w .. 8 w + 8`. A window of 64 makes 2,208 bytes.
//!
//! | word | bytes | field | |
//! |---|---|---|---|
//! | 0, 1 | 0..16 | `vote`, `!vote` | ordinal of the vote, from 0 |
//! | 2, 3 | 16..32 | `epoch`, `!epoch` | the group's incarnation |
//! | 4, 5 | 32..48 | `base`, `!base` | ordinal of the operation in slot 0: `retired` of the vote before |
//! | 6, 7 | 48..64 | `digest_step`, `!digest_step` | the step compared: `applied_step` of the vote before, or -1 |
//! | 8, 9 | 64..80 | `digest`, `!digest` | the digest with which this rank entered that step; no stake in both if it is not known (any more) |
//! | 10 | 80..88 | `issued` | operations issued here so far |
//! | 11 | 88..96 | `retired` | leading operations that are terminal in frames applied here |
//! | 12 | 96..104 | `applied_step` | last step whose frame is applied here, -1 before the first |
//! | 13 | 104..112 | `backable` | host pages that this rank could back in all |
//! | 14 | 112..120 | `running` | 0 while this rank is paused, else 1: paused is voted inverted, so that MIN shows one paused rank |
//! | 15 | 120..128 | `stopping` | 1 once the stop frame is applied here |
//! | 16..20 | 128..160 | `finished[4]` | one a FIFO: every operation of it below this ordinal has finished here, well or badly |
//! | 20 + 4i | 160 + 32i.. | `hit` | tokens found for operation `base + i`, or this rank's word in the search for an end: see `trailing` |
//! | 21 + 4i | 168 + 32i.. | `pages` | pages reserved for it |
//! | 22 + 4i | 176 + 32i.. | `progress` | what of it has arrived |
//! | 23 + 4i | 184 + 32i.. | `ready` | 1 succeeded, 0 failed |
//!
//! A word and its complement say whether all ranks voted alike: MIN of the complements is the complement of the maximum. In all
//! others -1 means "not issued, or not known here yet" and wins the MIN, and `i64::MAX` means "no stake" and loses it. Every
//! word but `digest`, `running` and `backable` only ever grows, from the first vote of an epoch to the last.

use crate::ordinal::Ordinal;

/// First-in-first-out queues of copies that a rank has: one a kind of operation.
pub const FIFOS: usize = 4;

/// Words before the first slot.
pub const BALLOT_HEADER_WORDS: usize = 20;

/// Words of one operation.
pub const SLOT_WORDS: usize = 4;

/// The widest window of operations.
pub const WINDOW_MAX: u32 = 4096;

/// Voted where this rank has nothing to say: any other rank's value is smaller.
pub const NO_STAKE: i64 = i64::MAX;

/// Voted where this rank does not know yet: no other rank's value is smaller.
pub const UNKNOWN: i64 = -1;

/// Words of a vector that stand before its slots, each by its place. The four numbers upon which all ranks must agree before they
/// vote, and the digest, are followed by their complements.
pub mod words {
    /// Ordinal of the vote, from 0.
    pub const VOTE: usize = 0;
    /// The group's incarnation.
    pub const EPOCH: usize = 2;
    /// Ordinal of the operation in slot 0.
    pub const BASE: usize = 4;
    /// The step whose digests are compared, or -1.
    pub const DIGEST_STEP: usize = 6;
    /// The digest with which the rank entered that step.
    pub const DIGEST: usize = 8;
    /// Operations issued so far.
    pub const ISSUED: usize = 10;
    /// Leading operations that are terminal in applied frames.
    pub const RETIRED: usize = 11;
    /// The last step whose frame is applied, -1 before the first.
    pub const APPLIED_STEP: usize = 12;
    /// Host pages that could be backed in all.
    pub const BACKABLE: usize = 13;
    /// 0 while the rank is paused, else 1.
    pub const RUNNING: usize = 14;
    /// 1 once the stop frame is applied.
    pub const STOPPING: usize = 15;
    /// The first of [`FIFOS`](super::FIFOS) words: every operation of that FIFO below this ordinal has finished.
    pub const FINISHED: usize = 16;
}

pub(super) use words::{
    APPLIED_STEP, BACKABLE, BASE, DIGEST, DIGEST_STEP, EPOCH, FINISHED, ISSUED, RETIRED, RUNNING, STOPPING, VOTE,
};

/// Words that hold a number on which all ranks must agree before they vote; each is followed by its complement.
pub(super) const PAIRS: [usize; 4] = [VOTE, EPOCH, BASE, DIGEST_STEP];

/// Words before the slots that only ever grow.
pub(super) const COUNTERS: [usize; 8] =
    [ISSUED, RETIRED, APPLIED_STEP, STOPPING, FINISHED, FINISHED + 1, FINISHED + 2, FINISHED + 3];

/// One number of an operation's slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SlotField {
    /// Tokens found in the tier below.
    Hit = 0,
    /// Pages reserved.
    Pages = 1,
    /// What has arrived.
    Progress = 2,
    /// 1 succeeded, 0 failed.
    Ready = 3,
}

impl SlotField {
    /// All fields, in the order of their words.
    pub const ALL: [Self; SLOT_WORDS] = [Self::Hit, Self::Pages, Self::Progress, Self::Ready];

    /// The field's name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Pages => "pages",
            Self::Progress => "progress",
            Self::Ready => "ready",
        }
    }
}

/// Words of a vector for a window of `width` operations.
#[must_use]
pub fn ballot_words(width: u32) -> usize {
    BALLOT_HEADER_WORDS + SLOT_WORDS * width as usize
}

/// The word of a count: saturates one below [`NO_STAKE`].
#[inline]
pub(super) fn counter(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(NO_STAKE).min(NO_STAKE - 1)
}

/// Sets a word and its complement.
#[inline]
pub(super) fn set_pair(words: &mut [i64], at: usize, value: i64) {
    words[at] = value;
    words[at + 1] = !value;
}

/// Whether a ballot has no digest of the step that it was to compare.
pub(super) fn lacks_digest(ballot: &[i64]) -> bool {
    ballot[DIGEST_STEP] != UNKNOWN && ballot[DIGEST..DIGEST + 2] == [NO_STAKE; 2]
}

/// The name of a word, and the operation of whose slot it is part.
pub(super) fn name(words: &[i64], at: usize) -> (&'static str, Option<Ordinal>) {
    const HEADER: [&str; BALLOT_HEADER_WORDS] = [
        "vote",
        "!vote",
        "epoch",
        "!epoch",
        "base",
        "!base",
        "digest_step",
        "!digest_step",
        "digest",
        "!digest",
        "issued",
        "retired",
        "applied_step",
        "backable",
        "running",
        "stopping",
        "finished[0]",
        "finished[1]",
        "finished[2]",
        "finished[3]",
    ];
    if let Some(name) = HEADER.get(at) {
        return (name, None);
    }
    let (slot, field) = ((at - BALLOT_HEADER_WORDS) / SLOT_WORDS, (at - BALLOT_HEADER_WORDS) % SLOT_WORDS);
    let ordinal = words[BASE].cast_unsigned().wrapping_add(slot as u64);
    (SlotField::ALL[field].as_str(), Some(Ordinal(ordinal)))
}

/// A word in which two vectors differ: of which the left is above the right, mostly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) field: &'static str,
    pub(super) operation: Option<Ordinal>,
    pub(super) left: i64,
    pub(super) right: i64,
}

impl Gap {
    fn new(named_by: &[i64], at: usize, left: i64, right: i64) -> Self {
        let (field, operation) = name(named_by, at);
        Self { field, operation, left, right }
    }
}

/// Where `left` is first above `right`. Almost always nowhere, so the way there has no branch a word.
#[inline]
fn first_larger(left: &[i64], right: &[i64]) -> Option<usize> {
    let pairs = || left.iter().zip(right);
    let some = pairs().fold(0, |some, (left, right)| some | u64::from(left > right));
    if some != 0 { pairs().position(|(left, right)| left > right) } else { None }
}

/// The first word of `left` that is above the same word of `right`, which has the same base. Slots are looked at first: they
/// name an operation.
pub(super) fn first_above(left: &[i64], right: &[i64]) -> Option<Gap> {
    let slots = first_larger(&left[BALLOT_HEADER_WORDS..], &right[BALLOT_HEADER_WORDS..]);
    let slots = slots.map(|at| BALLOT_HEADER_WORDS + at);
    let header = || first_larger(&left[..BALLOT_HEADER_WORDS], &right[..BALLOT_HEADER_WORDS]);
    let at = slots.or_else(header)?;
    Some(Gap::new(right, at, left[at], right[at]))
}

/// The first word in which two vectors of one base differ.
pub(super) fn first_unequal(left: &[i64], right: &[i64]) -> Option<Gap> {
    if left == right {
        return None;
    }
    let at = left.iter().zip(right).position(|(left, right)| left != right)?;
    Some(Gap::new(right, at, left[at], right[at]))
}

/// The first word that went back from `left` to `right`: among counters, and among slots of the same operation.
pub(super) fn first_backward(left: &[i64], right: &[i64]) -> Option<Gap> {
    if let Some(&at) = COUNTERS.iter().find(|&&at| left[at] > right[at]) {
        return Some(Gap::new(right, at, left[at], right[at]));
    }
    let slid = right[BASE].wrapping_sub(left[BASE]);
    let skip = usize::try_from(slid).unwrap_or(usize::MAX).saturating_mul(SLOT_WORDS);
    let old = left[BALLOT_HEADER_WORDS..].get(skip..).unwrap_or_default();
    let new = &right[BALLOT_HEADER_WORDS..];
    let at = first_larger(old, new)?;
    Some(Gap::new(right, BALLOT_HEADER_WORDS + at, old[at], new[at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_named_by_field_and_operation() {
        let mut words = vec![0; ballot_words(2)];
        words[BASE] = 40;
        assert_eq!(name(&words, RETIRED), ("retired", None));
        assert_eq!(name(&words, FINISHED + 3), ("finished[3]", None));
        assert_eq!(name(&words, 20), ("hit", Some(Ordinal(40))));
        assert_eq!(name(&words, 27), ("ready", Some(Ordinal(41))));
    }

    #[test]
    fn a_window_of_64_takes_2208_bytes() {
        assert_eq!(8 * ballot_words(64), 2208);
    }

    #[test]
    fn counts_never_look_like_no_stake() {
        assert_eq!(counter(u64::MAX), NO_STAKE - 1);
        assert_eq!(counter(7), 7);
    }

    #[test]
    fn a_slot_is_compared_with_the_same_operations_slot() {
        let (mut before, mut now) = (vec![0; ballot_words(3)], vec![0; ballot_words(3)]);
        (before[BASE], now[BASE]) = (10, 11);
        let slot = |at: usize| BALLOT_HEADER_WORDS + SLOT_WORDS * at;
        before[slot(0)] = 99; // operation 10, which left the window
        (before[slot(1)], now[slot(0)]) = (5, 5);
        assert_eq!(first_backward(&before, &now), None);
        now[slot(0)] = 4;
        let gap = Gap { field: "hit", operation: Some(Ordinal(11)), left: 5, right: 4 };
        assert_eq!(first_backward(&before, &now), Some(gap));
        now[BASE] = 14; // nothing in common
        assert_eq!(first_backward(&before, &now), None);
    }
}
