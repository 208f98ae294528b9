//! What the verbs of a tiered cache give.

use crate::node::NodeHandle;
use crate::ordinal::Ordinal;

/// What [`TieredCache::match_prefix`](super::TieredCache::match_prefix) found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TieredMatch {
    /// Units of the longest prefix on the device.
    pub hit_tokens: u64,
    /// The node at that depth; [`NodeHandle::ROOT`] for a miss.
    pub node: NodeHandle,
    /// Units that follow on host alone; of a cache with components, also those on the device that are usable with these only.
    pub host_tokens: u64,
    /// The node at the end of these; `node` if there are none.
    pub host_node: NodeHandle,
}

/// Names a prefetch from its wish to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PrefetchTicket(pub(super) u64);

/// How far a prefetch is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefetchState {
    /// It is issued when the step is closed, if there is room then.
    Wished,
    /// It is under way.
    Issued(Ordinal),
    /// It has delivered what it will, or was not issued. Its operation may still drain.
    Over,
}
