//! What the model takes and gives, beside plain numbers.

use std::fmt;

use crate::trailing::Trailing;
use isoradix_core::operation::{Kind, Subject};
use isoradix_core::protocol::{Backoff, BreakerRule};
use isoradix_core::{Ordinal, Writing};

/// How the model is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Tokens of a page.
    pub(crate) page: u32,
    /// When nodes are backed up.
    pub(crate) writing: Writing,
    /// Fewer tokens are not worth loading back.
    pub(crate) load_back_min: u64,
    /// Fewer tokens are not worth prefetching.
    pub(crate) prefetch_min: u64,
    /// Whether what comes to host is written on to external storage (L3).
    pub(crate) storage: bool,
    /// Operations that may be open above the window's base.
    pub(crate) window: u32,
    /// When storage is left alone.
    pub(crate) breaker: Option<BreakerRule>,
    /// How often what failed is tried.
    pub(crate) retry: Backoff,
    /// Host pages agreed at start.
    pub(crate) capacity: u32,
    /// What there is beside keys and values.
    pub(crate) trailing: Option<Trailing>,
}

/// What a match found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// Tokens on the device.
    pub(crate) hit_tokens: u64,
    /// The node at that depth.
    pub(crate) node: u64,
    /// Further tokens that are on host only.
    pub(crate) host_tokens: u64,
    /// The deepest node; the same one if there are none.
    pub(crate) host_node: u64,
}

/// What an insert did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inserted {
    /// Tokens that were on the device before.
    pub(crate) prefix_len: u64,
    /// Tokens that are on the device now and were not: revived or new.
    pub(crate) new_tokens: u64,
    /// The node at the end of the key.
    pub(crate) node: u64,
    /// Tokens of the key, cut to whole pages.
    pub(crate) length: u64,
}

/// What a device eviction did. Counts are in tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Evicted {
    /// Freed on the device.
    pub(crate) freed: u64,
    /// Of these, still on host.
    pub(crate) demoted: u64,
    /// Of these, lost although write-back was to save them.
    pub(crate) dropped_dirty: u64,
    /// Nodes, in order.
    pub(crate) victims: Vec<u64>,
}

/// What a host eviction did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostEvicted {
    /// Pages freed.
    pub(crate) pages: u32,
    /// Nodes, in order.
    pub(crate) victims: Vec<u64>,
}

/// What a reset did. Counts are in tokens on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reset {
    /// All that was there.
    pub(crate) dropped: u64,
    /// Of these, free at once; an open operation may still touch the others.
    pub(crate) free_now: u64,
}

/// Sizes in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// On the device.
    pub(crate) device_total: u64,
    /// On the device, locked or pinned.
    pub(crate) device_protected: u64,
    /// On the device, pinned.
    pub(crate) device_pinned: u64,
    /// On host.
    pub(crate) host_total: u64,
    /// On host and not on the device.
    pub(crate) host_only: u64,
    /// On both, neither locked nor pinned.
    pub(crate) clean: u64,
}

/// An operation that the end of a step has issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Issued {
    /// Its place in the order of all operations.
    pub(crate) ordinal: Ordinal,
    /// What it moves.
    pub(crate) kind: Kind,
    /// What it is about, in order. The id is the sequence number of the node at whose end the subject ends; of a prefetch, the ticket.
    pub(crate) subjects: Vec<Subject>,
}

/// Why a call was refused; it changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
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
