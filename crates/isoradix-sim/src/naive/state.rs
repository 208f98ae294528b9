//! The dump that is compared, and what must hold in it.

use isoradix_core::Namespace;

use super::model::Model;
use super::node::Node;

/// A node. Ordered by namespace and path.
#[expect(clippy::struct_excessive_bools, reason = "a dump: each is a fact of its own")]
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeState {
    /// Where it lives.
    pub(crate) namespace: Namespace,
    /// All tokens from the start of the key to its end.
    pub(crate) path: Vec<u32>,
    /// Tokens of the node itself.
    pub(crate) length: u64,
    /// Running number of its creation.
    pub(crate) sequence: u64,
    /// Whether it is on the device.
    pub(crate) on_device: bool,
    /// Whether it is on host.
    pub(crate) on_host: bool,
    /// Whether external storage has it.
    pub(crate) stored: bool,
    /// Whether a backup of it is open.
    pub(crate) pending: bool,
    /// Locks on it and below.
    pub(crate) lock_ref: usize,
    /// Pins on it and below.
    pub(crate) pin_ref: usize,
    /// Host locks on it and below.
    pub(crate) host_ref: usize,
    /// Inserts that passed through it.
    pub(crate) hits: u64,
    /// Largest priority inserted through it; the least there is if it came from storage and none has yet.
    pub(crate) priority: i64,
    /// What is beside its pages on the device; nothing if it is not there, or is not followed.
    pub(crate) device_parts: Vec<u8>,
    /// On host.
    pub(crate) host_parts: Vec<u8>,
    /// Its place in the order of last accesses; the oldest node has 0.
    pub(crate) age: usize,
}

/// All that is equal on all ranks after a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    /// The nodes, by namespace and path.
    pub(crate) nodes: Vec<NodeState>,
    /// Host pages occupied.
    pub(crate) occupied: u32,
    /// Host pages that may be occupied.
    pub(crate) capacity: u32,
}

impl Model {
    /// Everything, in one canonical order.
    #[must_use]
    pub(crate) fn state(&self) -> State {
        let mut nodes: Vec<NodeState> = self.nodes.iter().map(|node| self.node_state(node)).collect();
        nodes.sort_unstable();
        State { nodes, occupied: self.occupied(), capacity: self.capacity }
    }

    fn node_state(&self, node: &Node) -> NodeState {
        NodeState {
            namespace: node.namespace.clone(),
            path: node.path.clone(),
            length: node.length(),
            sequence: node.sequence,
            on_device: node.on_device,
            on_host: node.on_host,
            stored: node.stored,
            pending: self.is_pending(node),
            lock_ref: self.lock_ref(node),
            pin_ref: self.pin_ref(node),
            host_ref: self.host_ref(node),
            hits: node.hits,
            priority: node.priority,
            device_parts: self.own_parts(node, node.on_device, &node.device_parts),
            host_parts: self.own_parts(node, node.on_host, &node.host_parts),
            age: self.nodes.iter().filter(|other| other.access < node.access).count(),
        }
    }

    /// Checks what must hold between calls.
    ///
    /// # Errors
    /// The first rule that does not hold, with the node.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.nodes.iter().try_for_each(|node| match self.broken_rule(node) {
            Some(rule) => Err(format!("{rule}: {node:?}")),
            None => Ok(()),
        })?;
        let open = self.next_ordinal.saturating_sub(self.base);
        if open > u64::from(self.settings.window) {
            return Err(format!("{open} operations in a window of {}", self.settings.window));
        }
        Ok(())
    }

    fn broken_rule(&self, node: &Node) -> Option<&'static str> {
        let parent = self.parent(node);
        let page = self.settings.page as usize;
        let rules = [
            (node.on_device || node.on_host, "a node is on some tier"),
            (node.start > 0 || parent.is_none(), "only a node at the top has no parent"),
            (node.start == 0 || parent.is_some(), "a node below the top has a parent"),
            (node.start.is_multiple_of(page) && node.path.len().is_multiple_of(page), "nodes are whole pages"),
            (node.start < node.path.len(), "no node is empty"),
            (
                parent.is_none_or(|parent| parent.on_device || !node.on_device),
                "a device node's parent is on the device",
            ),
            (parent.is_none_or(|parent| parent.on_host || !node.on_host), "a host node's parent is on host"),
            (parent.is_none_or(|parent| parent.access > node.access), "a parent is younger than its children"),
            (!self.is_pending(node) || self.lock_ref(node) > 0, "a pending node is locked"),
            (!self.is_pending(node) || node.on_device, "a pending node is on the device"),
            (self.host_ref(node) == 0 || node.on_host, "a host-locked node is on host"),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map(|(_, rule)| rule)
    }
}
