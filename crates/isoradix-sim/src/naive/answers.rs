//! What the model takes and gives, beside plain numbers.

use std::fmt;

use isoradix_core::Ordinal;
use isoradix_core::operation::{Kind, Subject};

/// How the model is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Tokens of a page.
    pub page: u32,
    /// When nodes are backed up.
    pub writing: Writing,
    /// Fewer tokens are not worth loading back.
    pub load_back_min: u64,
    /// Fewer tokens are not worth prefetching.
    pub prefetch_min: u64,
    /// Whether what comes to host is written on to external storage (L3).
    pub storage: bool,
    /// Operations that may be open above the window's base.
    pub window: u32,
    /// Host pages agreed at start.
    pub capacity: u32,
}

/// When nodes are backed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writing {
    /// After an insert, once a node has so many hits.
    Through {
        /// Hits.
        hits: u32,
    },
    /// At the end of a step, when free and clean device tokens fall below a mark.
    Back {
        /// The mark, in tokens.
        low_water: u64,
    },
}

/// What a match found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Tokens on the device.
    pub hit_tokens: u64,
    /// The node at that depth.
    pub node: u64,
    /// Further tokens that are on host only.
    pub host_tokens: u64,
    /// The deepest node; the same one if there are none.
    pub host_node: u64,
}

/// What an insert did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inserted {
    /// Tokens that were on the device before.
    pub prefix_len: u64,
    /// Tokens that are on the device now and were not: revived or new.
    pub new_tokens: u64,
    /// The node at the end of the key.
    pub node: u64,
    /// Tokens of the key, cut to whole pages.
    pub length: u64,
}

/// What a device eviction did. Counts are in tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evicted {
    /// Freed on the device.
    pub freed: u64,
    /// Of these, still on host.
    pub demoted: u64,
    /// Of these, lost although write-back was to save them.
    pub dropped_dirty: u64,
    /// Nodes, in order.
    pub victims: Vec<u64>,
}

/// What a host eviction did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostEvicted {
    /// Pages freed.
    pub pages: u32,
    /// Nodes, in order.
    pub victims: Vec<u64>,
}

/// What a reset did. Counts are in tokens on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reset {
    /// All that was there.
    pub dropped: u64,
    /// Of these, free at once; an open operation may still touch the others.
    pub free_now: u64,
}

/// Sizes in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// On the device.
    pub device_total: u64,
    /// On the device, locked or pinned.
    pub device_protected: u64,
    /// On the device, pinned.
    pub device_pinned: u64,
    /// On host.
    pub host_total: u64,
    /// On host and not on the device.
    pub host_only: u64,
    /// On both, neither locked nor pinned.
    pub clean: u64,
}

/// An operation that the end of a step has issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issued {
    /// Its place in the order of all operations.
    pub ordinal: Ordinal,
    /// What it moves.
    pub kind: Kind,
    /// What it is about, in order. The id is the sequence number of the node at whose end the subject ends; of a prefetch, the ticket.
    pub subjects: Vec<Subject>,
}

/// Why a call was refused; it changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// No such node.
    Node,
    /// The receipt is not out.
    Receipt,
    /// The node is not on host.
    NotOnHost,
    /// The resume point is no device node on the key's path.
    Resume,
    /// The key does not begin with the anchor's path.
    Anchor,
    /// Some of it is locked, pinned or host-locked.
    Held,
    /// No operation of that number is open.
    Operation,
    /// The action's pages do not fit the operation.
    Pages,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Node => "no such node",
            Self::Receipt => "the receipt is not out",
            Self::NotOnHost => "the node is not on host",
            Self::Resume => "the resume point is no device node on the key's path",
            Self::Anchor => "the key does not begin with the anchor's path",
            Self::Held => "some of it is locked, pinned or host-locked",
            Self::Operation => "no operation of that number is open",
            Self::Pages => "the action's pages do not fit the operation",
        })
    }
}

impl std::error::Error for Refused {}
