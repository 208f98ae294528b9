//! What a policy sees of a node, and what it answers.

use crate::clock::Stamp;
use crate::namespace::Namespace;

/// The Logical facts of one node: all that an eviction decision may depend on.
///
/// Everything in here is computed by deterministic code from the shared request stream, so it is equal on all ranks.
/// Lengths are in units (tokens, or pairs in bigram mode).
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct NodeFacts<'a> {
    /// When it was last matched, inserted through or touched.
    pub last_access: Stamp,
    /// When its tokens were inserted; both halves of a split keep it.
    pub created: Stamp,
    /// How many inserts passed through it, the first one included.
    pub hits: u64,
    /// The largest priority inserted through it.
    pub priority: i64,
    /// Units of the node itself.
    pub length: u64,
    /// Units from the start of the key to the node's end.
    pub depth: u64,
    /// Deepest depth ever inserted at or below it.
    pub reach: u64,
    /// Where it lives.
    pub namespace: &'a Namespace,
}

/// Rank of a node: the smallest goes first, compared part by part; the node's sequence number breaks ties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PolicyKey(pub u64, pub u64);

impl PolicyKey {
    /// The key that orders as this pair of signed numbers does.
    #[must_use]
    pub fn from_signed(first: i64, second: i64) -> Self {
        let shift = |value: i64| value.cast_unsigned() ^ (1 << 63);
        Self(shift(first), shift(second))
    }
}

/// Why a user-defined policy gave no key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFailure(pub String);

/// An eviction policy: a key for each node.
///
/// The key must be a function of the facts alone. It is asked for again whenever the facts of an evictable leaf change.
/// A node for which it fails stays unranked; the next eviction asks again, and is refused if it fails again.
pub trait Policy: Send {
    /// The policy's name, with its arguments; part of the agreed configuration.
    fn name(&self) -> String;

    /// The node's rank.
    ///
    /// # Errors
    /// A user-defined policy may fail; the message is handed to the caller of the next eviction.
    fn key(&mut self, facts: &NodeFacts<'_>) -> Result<PolicyKey, PolicyFailure>;
}
