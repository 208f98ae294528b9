//! Any policy that ranks evictable leaves by key: a heap, O(log n) for each change.

use std::collections::BTreeSet;

use super::key_heap::KeyHeap;
use super::policy::{NodeFacts, Policy, PolicyFailure, PolicyKey};
use crate::error::Error;
use crate::node::{NodeId, ROOT};
use crate::tree::Tree;

pub(crate) struct KeyedOrder {
    policy: Box<dyn Policy>,
    pub(super) heap: KeyHeap,
    /// Evictable leaves for which the policy failed; the next eviction asks again.
    unranked: BTreeSet<NodeId>,
}

impl KeyedOrder {
    pub(crate) fn new(policy: Box<dyn Policy>) -> Self {
        Self { policy, heap: KeyHeap::new(), unranked: BTreeSet::new() }
    }

    pub(crate) fn policy_name(&self) -> String {
        self.policy.name()
    }

    pub(crate) fn changed(&mut self, tree: &Tree, id: NodeId) {
        if !tree.nodes[id].is_evictable_leaf() {
            self.forget(id);
            return;
        }
        if let Ok(key) = self.key(tree, id) {
            self.rank(tree, id, key);
        } else {
            self.heap.remove(id);
            self.unranked.insert(id);
        }
    }

    fn key(&mut self, tree: &Tree, id: NodeId) -> Result<PolicyKey, PolicyFailure> {
        let node = &tree.nodes[id];
        let units = |pages: u32| u64::from(pages) * tree.page as u64;
        self.policy.key(&NodeFacts {
            last_access: node.access,
            created: node.created,
            hits: node.hits,
            priority: node.priority,
            length: units(node.pages),
            depth: units(node.depth),
            reach: units(node.reach),
            namespace: &tree.namespaces[node.namespace].name,
        })
    }

    fn rank(&mut self, tree: &Tree, id: NodeId, PolicyKey(first, second): PolicyKey) {
        self.unranked.remove(&id);
        if self.heap.contains(id) {
            self.heap.update(id, (first, second));
        } else {
            self.heap.insert(id, (first, second), tree.nodes[id].sequence);
        }
    }

    pub(crate) fn forget(&mut self, id: NodeId) {
        self.heap.remove(id);
        self.unranked.remove(&id);
    }

    /// Asks again for every unranked leaf. Keys gained before a failure stay: they are what the policy says.
    pub(crate) fn settle(&mut self, tree: &Tree) -> Result<(), Error> {
        while let Some(id) = self.unranked.first().copied() {
            let key = self.key(tree, id).map_err(|PolicyFailure(reason)| Error::Policy {
                policy: self.policy.name(),
                node: tree.nodes[id].sequence,
                reason,
            })?;
            self.rank(tree, id, key);
        }
        Ok(())
    }

    pub(crate) fn pop(&mut self) -> Option<NodeId> {
        self.heap.pop()
    }

    pub(crate) fn clear(&mut self) {
        self.heap.clear();
        self.unranked.clear();
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.heap.memory_bytes() + self.unranked.len() * size_of::<NodeId>()
    }

    pub(crate) fn check(&self, tree: &Tree) -> Result<(), Error> {
        self.heap.check().map_err(|what| Error::invariant(what, vec![]))?;
        let mut leaves = 0;
        for id in tree.walk(ROOT) {
            let (node, ranked) = (&tree.nodes[id], self.heap.contains(id) || self.unranked.contains(&id));
            if node.is_evictable_leaf() != ranked {
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
