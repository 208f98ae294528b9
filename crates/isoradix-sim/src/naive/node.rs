//! A node, and a stretch of a path.

use isoradix_core::Namespace;

/// A run of tokens, with everything that leads to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) sequence: u64,
    pub(super) namespace: Namespace,
    pub(super) path: Vec<u32>,
    /// The node's own run is `path[start..]`.
    pub(super) start: usize,
    /// A moment; only the order of moments means something.
    pub(super) access: u64,
    pub(super) hits: u64,
    pub(super) priority: i64,
    pub(super) on_device: bool,
    pub(super) on_host: bool,
    pub(super) stored: bool,
    /// What is beside each page of the path on the device; of other nodes' pages it says nothing, nor if the node is not there.
    pub(super) device_parts: Vec<u8>,
    /// On host.
    pub(super) host_parts: Vec<u8>,
}

impl Node {
    pub(super) fn length(&self) -> u64 {
        (self.path.len() - self.start) as u64
    }

    /// Whether the node is on the path.
    pub(super) fn leads_to(&self, namespace: &Namespace, path: &[u32]) -> bool {
        self.namespace == *namespace && path.starts_with(&self.path)
    }

    pub(super) fn is_host_only(&self) -> bool {
        self.on_host && !self.on_device
    }

    /// Whether it is on the device and would be lost there.
    pub(super) fn is_dirty(&self) -> bool {
        self.on_device && !self.on_host
    }

    /// The whole node.
    pub(super) fn span(&self) -> Span {
        Span { namespace: self.namespace.clone(), path: self.path.clone(), tokens: self.path.len() - self.start }
    }
}

/// The last `tokens` of a path. Splits do not matter to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) namespace: Namespace,
    pub(super) path: Vec<u32>,
    pub(super) tokens: usize,
}

impl Span {
    /// The path before the span.
    pub(super) fn above(&self) -> &[u32] {
        &self.path[..self.path.len() - self.tokens]
    }

    /// Whether the node is a part of the span. A span begins and ends with a node, and nodes are only ever split.
    pub(super) fn covers(&self, node: &Node) -> bool {
        node.leads_to(&self.namespace, &self.path) && node.path.len() > self.above().len()
    }
}
