//! Any policy that ranks evictable leaves by key: a heap for each tier, O(log n) for each change.

use std::collections::BTreeSet;

use super::key_heap::KeyHeap;
use super::policy::{NodeFacts, Policy, PolicyFailure, PolicyKey};
use crate::error::Error;
use crate::node::{Node, NodeId, ROOT};
use crate::tree::Tree;

/// The evictable leaves of one tier.
struct Leaves {
    heap: KeyHeap,
    /// Those for which the policy failed; the next eviction asks again.
    unranked: BTreeSet<NodeId>,
}

impl Leaves {
    fn new() -> Self {
        Self { heap: KeyHeap::new(), unranked: BTreeSet::new() }
    }

    fn contains(&self, id: NodeId) -> bool {
        self.heap.contains(id) || self.unranked.contains(&id)
    }

    fn rank(&mut self, id: NodeId, sequence: u64, PolicyKey(first, second): PolicyKey) {
        self.unranked.remove(&id);
        if self.heap.contains(id) {
            self.heap.update(id, (first, second));
        } else {
            self.heap.insert(id, (first, second), sequence);
        }
    }

    fn forget(&mut self, id: NodeId) {
        self.heap.remove(id);
        self.unranked.remove(&id);
    }

    fn clear(&mut self) {
        self.heap.clear();
        self.unranked.clear();
    }

    fn check(&self, tree: &Tree, belongs: fn(&Node) -> bool) -> Result<(), Error> {
        self.heap.check().map_err(|what| Error::invariant(what, vec![]))?;
        let mut leaves = 0;
        for id in tree.walk(ROOT) {
            let (node, ranked) = (&tree.nodes[id], self.contains(id));
            if belongs(node) != ranked {
                let what = format!("evictable leaf: {}, ranked: {ranked}", !ranked);
                return Err(Error::invariant(what, vec![node.sequence]));
            }
            leaves += usize::from(ranked);
        }
        if leaves != self.heap.len() + self.unranked.len() {
            return Err(Error::invariant(format!("{leaves} evictable leaves, {} ranked", self.heap.len()), vec![]));
        }
        Ok(())
    }
}

pub(crate) struct KeyedOrder {
    policy: Box<dyn Policy>,
    device: Leaves,
    host: Leaves,
}

impl KeyedOrder {
    pub(crate) fn new(policy: Box<dyn Policy>) -> Self {
        Self { policy, device: Leaves::new(), host: Leaves::new() }
    }

    pub(crate) fn policy_name(&self) -> String {
        self.policy.name()
    }

    pub(crate) fn changed(&mut self, tree: &Tree, id: NodeId) {
        let node = &tree.nodes[id];
        let (device, host) = (node.is_evictable_leaf(), node.is_evictable_host_leaf());
        if !device {
            self.device.forget(id);
        }
        if !host {
            self.host.forget(id);
        }
        if !device && !host {
            return;
        }
        let key = self.key(tree, id);
        let leaves = if device { &mut self.device } else { &mut self.host };
        if let Ok(key) = key {
            leaves.rank(id, node.sequence, key);
        } else {
            leaves.heap.remove(id);
            leaves.unranked.insert(id);
        }
    }

    fn key(&mut self, tree: &Tree, id: NodeId) -> Result<PolicyKey, PolicyFailure> {
        let node = &tree.nodes[id];
        let units = |pages: u32| u64::from(pages) * tree.page as u64;
        self.policy.key(&NodeFacts {
            last_access: node.access,
            created: node.created,
            hits: node.hits.into(),
            priority: node.priority,
            length: units(node.pages),
            depth: units(node.depth),
            reach: units(node.reach),
            namespace: &tree.namespaces[node.namespace].name,
        })
    }

    pub(crate) fn forget(&mut self, id: NodeId) {
        self.device.forget(id);
        self.host.forget(id);
    }

    /// Asks again for every unranked leaf. Keys gained before a failure stay: they are what the policy says.
    pub(crate) fn settle(&mut self, tree: &Tree) -> Result<(), Error> {
        while let Some(id) = self.device.unranked.first().or(self.host.unranked.first()).copied() {
            let key = self.key(tree, id).map_err(|PolicyFailure(reason)| Error::Policy {
                policy: self.policy.name(),
                node: tree.nodes[id].sequence,
                reason,
            })?;
            let of_device = self.device.unranked.contains(&id);
            let leaves = if of_device { &mut self.device } else { &mut self.host };
            leaves.rank(id, tree.nodes[id].sequence, key);
        }
        Ok(())
    }

    pub(crate) fn pop(&mut self) -> Option<NodeId> {
        self.device.heap.pop()
    }

    /// The next victim among the nodes on host alone.
    pub(crate) fn pop_host(&mut self) -> Option<NodeId> {
        self.host.heap.pop()
    }

    pub(crate) fn clear(&mut self) {
        self.device.clear();
        self.host.clear();
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let bytes = |leaves: &Leaves| leaves.heap.memory_bytes() + leaves.unranked.len() * size_of::<NodeId>();
        bytes(&self.device) + bytes(&self.host)
    }

    pub(crate) fn check(&self, tree: &Tree) -> Result<(), Error> {
        self.device.check(tree, Node::is_evictable_leaf)?;
        self.host.check(tree, Node::is_evictable_host_leaf)
    }

    /// Entries that the heap moved since the beginning.
    #[cfg(test)]
    pub(super) fn moves(&self) -> u64 {
        self.device.heap.moves
    }
}
