//! Every way in which a call can be refused.
//!
//! A refused call changes nothing. Each message gives the value, the limit and, on a line of its own, a hint.

use std::fmt;

/// What kind of refusal an [`Error`] is; bindings map each kind to one exception class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A value is out of its range, or lengths do not fit together.
    InvalidInput,
    /// A node handle outlived its node.
    StaleHandle,
    /// A receipt was given back before, or was never given out.
    Receipt,
    /// Tokens to be removed are locked or pinned.
    Held,
    /// The slot pool cannot serve the request.
    OutOfSlots,
    /// A slot was given back twice.
    DoubleFree,
    /// A user-defined policy failed.
    Policy,
    /// A broken invariant.
    Invariant,
}

/// Why a call was refused. The state is as it was before the call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A numeric argument is outside its range.
    OutOfRange {
        /// The argument's name.
        what: &'static str,
        /// The value that was given.
        value: i128,
        /// The smallest accepted value.
        min: i128,
        /// The largest accepted value.
        max: i128,
        /// Where in a sequence the value stands, if it stands in one.
        index: Option<usize>,
        /// What to do about it.
        hint: &'static str,
    },
    /// Two lengths do not fit together.
    Length {
        /// The argument's name.
        what: &'static str,
        /// Its length.
        got: u64,
        /// The smallest accepted length.
        min: u64,
        /// The largest accepted length.
        max: u64,
        /// What to do about it.
        hint: &'static str,
    },
    /// An argument is well typed but means nothing; the text says why.
    Invalid {
        /// What is wrong, with the value.
        what: String,
        /// What to do about it.
        hint: &'static str,
    },
    /// The handle names no living node.
    StaleHandle {
        /// The handle's bits.
        handle: u64,
    },
    /// The resume point is not where the caller believes.
    ResumeMismatch {
        /// What does not fit.
        what: String,
    },
    /// The receipt is not outstanding.
    Receipt {
        /// The receipt's bits.
        receipt: u64,
        /// `"lock"` or `"pin"`.
        kind: &'static str,
    },
    /// Some of the tokens to be removed are held.
    Held {
        /// What was to be removed.
        what: String,
        /// Tokens of it that are locked or pinned.
        held_tokens: u64,
    },
    /// The slot pool has too few free slots.
    OutOfSlots {
        /// Slots asked for.
        requested: u64,
        /// Slots free.
        available: u64,
    },
    /// The slot is free already.
    DoubleFree {
        /// The slot.
        slot: u64,
        /// Whether it appears twice in this very call.
        within_call: bool,
    },
    /// A user-defined policy failed on a node.
    Policy {
        /// The policy's name.
        policy: String,
        /// Sequence number of the node it was asked about.
        node: u64,
        /// What it said.
        reason: String,
    },
    /// An invariant does not hold.
    Invariant {
        /// The broken invariant, with figures.
        what: String,
        /// Sequence numbers of the nodes concerned.
        nodes: Vec<u64>,
    },
    /// The machine has no memory for it.
    OutOfMemory {
        /// What it was for.
        what: &'static str,
        /// How much was asked for.
        bytes: u64,
    },
    /// A fixed limit of the implementation is reached.
    Capacity {
        /// What ran out.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
}

impl Error {
    /// The kind of refusal.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::OutOfRange { .. }
            | Self::Length { .. }
            | Self::Invalid { .. }
            | Self::ResumeMismatch { .. }
            | Self::Capacity { .. } => ErrorKind::InvalidInput,
            Self::StaleHandle { .. } => ErrorKind::StaleHandle,
            Self::Receipt { .. } => ErrorKind::Receipt,
            Self::Held { .. } => ErrorKind::Held,
            Self::OutOfSlots { .. } | Self::OutOfMemory { .. } => ErrorKind::OutOfSlots,
            Self::DoubleFree { .. } => ErrorKind::DoubleFree,
            Self::Policy { .. } => ErrorKind::Policy,
            Self::Invariant { .. } => ErrorKind::Invariant,
        }
    }

    /// Makes room for `count` more items, or refuses: running out of memory must not end the process.
    pub(crate) fn make_room<T>(items: &mut Vec<T>, count: usize, what: &'static str) -> Result<(), Self> {
        let bytes = (count as u64).saturating_mul(size_of::<T>() as u64);
        items.try_reserve(count).map_err(|_| Self::OutOfMemory { what, bytes })
    }

    /// A broken invariant that concerns the given nodes.
    pub(crate) fn invariant(what: impl Into<String>, nodes: Vec<u64>) -> Self {
        Self::Invariant { what: what.into(), nodes }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { what, value, min, max, index, hint } => {
                write!(f, "{what} {value}")?;
                if let Some(index) = index {
                    write!(f, " at index {index}")?;
                }
                write!(f, " is out of range: {min} to {max}\nhint: {hint}")
            }
            Self::Length { what, got, min, max, hint } if min == max => {
                write!(f, "{what} has length {got}, expected {min}\nhint: {hint}")
            }
            Self::Length { what, got, min, max, hint } => {
                write!(f, "{what} has length {got}, expected {min} to {max}\nhint: {hint}")
            }
            Self::Invalid { what, hint } => write!(f, "{what}\nhint: {hint}"),
            Self::StaleHandle { handle } => write!(
                f,
                "node handle {handle:#x} names no living node\n\
                 hint: the node was evicted or the cache was reset; lock a node to keep it, or match again"
            ),
            Self::ResumeMismatch { what } => write!(
                f,
                "resume point does not fit: {what}\n\
                 hint: pass the result of an earlier match or insert of a prefix of this very key"
            ),
            Self::Receipt { receipt, kind } => write!(
                f,
                "{kind} receipt {receipt:#x} is not outstanding\n\
                 hint: each receipt is given back once, to the call that matches it, and dies with a reset"
            ),
            Self::Held { what, held_tokens } => write!(
                f,
                "{what} has {held_tokens} tokens that are locked or pinned; none may be\n\
                 hint: give back every receipt on it first"
            ),
            Self::OutOfSlots { requested, available } => write!(
                f,
                "{requested} slots requested, {available} available\n\
                 hint: evict from the cache and free the slots it returns"
            ),
            Self::DoubleFree { slot, within_call: true } => write!(
                f,
                "slot {slot} is freed twice in one call\n\
                 hint: each slot has one owner; look for overlapping ranges"
            ),
            Self::DoubleFree { slot, within_call: false } => write!(
                f,
                "slot {slot} is free already\n\
                 hint: each slot has one owner; after an insert, free only the duplicates below prefix_len"
            ),
            Self::Policy { policy, node, reason } => write!(
                f,
                "policy {policy} failed on node {node}: {reason}\n\
                 hint: a key function returns an int or a pair of ints (64-bit signed) for every node, and never raises"
            ),
            Self::Invariant { what, nodes } => {
                write!(f, "invariant broken: {what}")?;
                if !nodes.is_empty() {
                    write!(f, "; nodes {nodes:?}")?;
                }
                write!(
                    f,
                    "\nhint: look for a slot that was freed or inserted twice, or held uncounted; else this is a defect of the cache"
                )
            }
            Self::OutOfMemory { what, bytes } => write!(
                f,
                "no memory for {what}: {bytes} bytes\n\
                 hint: use a smaller pool or smaller calls, or raise the limit of the process"
            ),
            Self::Capacity { what, limit } => {
                write!(f, "{what} would exceed the limit of {limit}\nhint: evict first, or use several caches")
            }
        }
    }
}

impl std::error::Error for Error {}
