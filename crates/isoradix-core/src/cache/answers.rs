//! What the verbs take and give beside plain numbers.

use crate::clock::Stamp;
use crate::namespace::Namespace;
use crate::node::NodeHandle;

/// Where a walk may begin instead of at the root: a node, and its depth in units as the caller knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resume {
    /// The node that an earlier match or insert of a prefix of the key ended at.
    pub node: NodeHandle,
    /// The length of that prefix, in units.
    pub length: u64,
}

/// What [`PrefixCache::match_prefix`](super::PrefixCache::match_prefix) found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Match {
    /// Units of the longest cached prefix; a multiple of the page size.
    pub hit_tokens: u64,
    /// The node at that depth; [`NodeHandle::ROOT`] for a miss.
    pub node: NodeHandle,
}

/// What [`PrefixCache::insert`](super::PrefixCache::insert) did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Insert {
    /// Units that were on the device before; the caller still owns the slots it gave for them.
    pub prefix_len: u64,
    /// Units that are on the device now and were not before.
    pub new_tokens: u64,
    /// The node at the end of the key.
    pub node: NodeHandle,
    /// Units of the key, cut to whole pages.
    pub length: u64,
}

/// What an eviction from the device did, in units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Evicted {
    /// Slots freed.
    pub freed: u64,
    /// Of these, what stays on host.
    pub demoted: u64,
    /// Of these, what was not on host although it was to come there some day, and is lost: under write-back only.
    pub dropped_dirty: u64,
}

/// Sizes in units, of what is on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Sizes {
    /// All that is cached on the device.
    pub total: u64,
    /// What a lock or a pin holds.
    pub protected: u64,
    /// What a pin holds.
    pub pinned: u64,
    /// What eviction could free.
    pub evictable: u64,
}

/// Sizes in units, by tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TierSizes {
    /// Of what is on the device.
    pub device: Sizes,
    /// All that is on host.
    pub host_total: u64,
    /// Of this, what is on host alone.
    pub host_only: u64,
    /// What is in both tiers and not held: an eviction from the device loses nothing of it.
    pub clean: u64,
}

/// A node as seen from outside. Lengths are in units.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct NodeInfo<'a> {
    /// The node.
    pub handle: NodeHandle,
    /// Its parent; [`NodeHandle::ROOT`] at the top.
    pub parent: NodeHandle,
    /// Running number of its creation.
    pub sequence: u64,
    /// Units from the start of the key to the node's end.
    pub depth: u64,
    /// Units of the node itself.
    pub length: u64,
    /// Children.
    pub children: u32,
    /// Inserts that passed through it.
    pub hits: u64,
    /// Largest priority inserted through it; 0 for the root, which has none.
    pub priority: i64,
    /// Locks on it and below.
    pub lock_ref: u32,
    /// Pins on it and below.
    pub pin_ref: u32,
    /// Host locks on it and below.
    pub host_ref: u32,
    /// Whether the device has it.
    pub on_device: bool,
    /// Whether host memory has it.
    pub on_host: bool,
    /// When its tokens were inserted.
    pub created: Stamp,
    /// When it was last touched.
    pub last_access: Stamp,
    /// Where it lives.
    pub namespace: &'a Namespace,
}
