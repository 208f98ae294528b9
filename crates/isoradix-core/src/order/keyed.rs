//! Any policy that ranks evictable leaves by key: heaps, O(log n) for each change.
//!
//! Leaves on the device are in two heaps where what is on host too shall go first, else in one; leaves on host alone in another.

use std::collections::BTreeSet;

use super::copies::{Copies, CopyOrder};
use super::key_heap::KeyHeap;
use super::policy::{NodeFacts, Policy, PolicyFailure, PolicyKey};
#[cfg(feature = "planted-defects")]
use crate::defects::{Defect, Planted};
use crate::error::Error;
use crate::node::{Node, NodeId, ROOT};
use crate::tree::Tree;

/// Which leaves an evictable one is among.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Clean,
    Device,
    Host,
}

impl Place {
    const ALL: [Self; 3] = [Self::Clean, Self::Device, Self::Host];
}

/// Evictable leaves that are ranked among each other.
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

    /// The policy has failed on a leaf.
    fn fail(&mut self, id: NodeId) {
        self.heap.remove(id);
        self.unranked.insert(id);
    }

    fn forget(&mut self, id: NodeId) {
        self.heap.remove(id);
        self.unranked.remove(&id);
    }

    fn clear(&mut self) {
        self.heap.clear();
        self.unranked.clear();
    }

    fn check(&self, tree: &Tree, belongs: impl Fn(&Node) -> bool) -> Result<(), Error> {
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
    /// Whether leaves that are on host too go before all others, and host copies are given up for room.
    clean_first: bool,
    /// Leaves on the device that go first.
    clean: Leaves,
    /// All other leaves on the device.
    device: Leaves,
    /// Leaves on host alone.
    host: Leaves,
    /// Nodes whose host copies may be given up.
    copies: CopyOrder,
    #[cfg(feature = "planted-defects")]
    pub(crate) planted: Planted,
}

impl KeyedOrder {
    pub(crate) fn new(policy: Box<dyn Policy>) -> Self {
        let (clean, device, host) = (Leaves::new(), Leaves::new(), Leaves::new());
        Self {
            policy,
            clean_first: false,
            clean,
            device,
            host,
            copies: CopyOrder::new(),
            #[cfg(feature = "planted-defects")]
            planted: Planted::default(),
        }
    }

    /// An order in which leaves that are on host too go before all others.
    pub(crate) fn clean_first(policy: Box<dyn Policy>) -> Self {
        Self { clean_first: true, ..Self::new(policy) }
    }

    pub(crate) fn policy_name(&self) -> String {
        self.policy.name()
    }

    pub(crate) fn changed(&mut self, tree: &Tree, id: NodeId) {
        if self.clean_first {
            self.copies.changed(tree, id, self.ignores_locks());
        }
        let place = self.place(&tree.nodes[id]);
        for other in Place::ALL.into_iter().filter(|other| Some(*other) != place) {
            self.leaves(other).forget(id);
        }
        let Some(place) = place else { return };
        let (key, sequence) = (self.key(tree, id), tree.nodes[id].sequence);
        match key {
            Ok(key) => self.leaves(place).rank(id, sequence, key),
            Err(_) => self.leaves(place).fail(id),
        }
    }

    /// Where a node belongs, if it is an evictable leaf.
    fn place(&self, node: &Node) -> Option<Place> {
        if node.is_evictable_leaf() {
            let clean = self.clean_first && node.residency.on_host();
            return Some(if clean { Place::Clean } else { Place::Device });
        }
        node.is_evictable_host_leaf().then_some(Place::Host)
    }

    fn leaves(&mut self, place: Place) -> &mut Leaves {
        match place {
            Place::Clean => &mut self.clean,
            Place::Device => &mut self.device,
            Place::Host => &mut self.host,
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

    pub(crate) fn ranks_copies(&self) -> bool {
        self.clean_first
    }

    pub(crate) fn next_copy(&self, of: Copies) -> Option<NodeId> {
        self.copies.next(of)
    }

    #[cfg(not(feature = "planted-defects"))]
    #[expect(clippy::unused_self, reason = "what is planted is read with the feature")]
    fn ignores_locks(&self) -> bool {
        false
    }

    #[cfg(feature = "planted-defects")]
    fn ignores_locks(&self) -> bool {
        self.planted.is(Defect::CopyGivenUpUnderLock)
    }

    pub(crate) fn forget(&mut self, id: NodeId) {
        self.copies.forget(id);
        for place in Place::ALL {
            self.leaves(place).forget(id);
        }
    }

    /// Asks again for every unranked leaf. Keys gained before a failure stay: they are what the policy says.
    pub(crate) fn settle(&mut self, tree: &Tree) -> Result<(), Error> {
        for place in Place::ALL {
            while let Some(id) = self.leaves(place).unranked.first().copied() {
                let key = self.key(tree, id).map_err(|PolicyFailure(reason)| Error::Policy {
                    policy: self.policy.name(),
                    node: tree.nodes[id].sequence,
                    reason,
                })?;
                self.leaves(place).rank(id, tree.nodes[id].sequence, key);
            }
        }
        Ok(())
    }

    /// Asks again for the unranked leaves on host alone; those for which the policy fails stay so.
    pub(crate) fn settle_host(&mut self, tree: &Tree) {
        for id in std::mem::take(&mut self.host.unranked) {
            match self.key(tree, id) {
                Ok(key) => self.host.rank(id, tree.nodes[id].sequence, key),
                Err(_) => self.host.fail(id),
            }
        }
    }

    pub(crate) fn pop(&mut self) -> Option<NodeId> {
        self.clean.heap.pop().or_else(|| self.device.heap.pop())
    }

    /// The next victim among the nodes on host alone.
    pub(crate) fn pop_host(&mut self) -> Option<NodeId> {
        self.host.heap.pop()
    }

    /// Shows the leaves that are on the device alone in the order in which they would go, as long as `more` says so.
    pub(crate) fn look_at_dirty(&mut self, tree: &Tree, mut more: impl FnMut(NodeId) -> bool) {
        let mut seen = Vec::new();
        while let Some((id, key)) = self.device.heap.peek() {
            self.device.heap.remove(id);
            seen.push((id, key));
            if !more(id) {
                break;
            }
        }
        for (id, key) in seen {
            self.device.heap.insert(id, key, tree.nodes[id].sequence);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.copies.clear();
        for place in Place::ALL {
            self.leaves(place).clear();
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let bytes = |leaves: &Leaves| leaves.heap.memory_bytes() + leaves.unranked.len() * size_of::<NodeId>();
        bytes(&self.clean) + bytes(&self.device) + bytes(&self.host) + self.copies.memory_bytes()
    }

    pub(crate) fn check(&self, tree: &Tree) -> Result<(), Error> {
        let is_in = |place| move |node: &Node| self.place(node) == Some(place);
        self.clean.check(tree, is_in(Place::Clean))?;
        self.device.check(tree, is_in(Place::Device))?;
        self.host.check(tree, is_in(Place::Host))?;
        if self.clean_first { self.copies.check(tree, self.ignores_locks()) } else { Ok(()) }
    }

    /// Entries that the heap moved since the beginning.
    #[cfg(test)]
    pub(super) fn moves(&self) -> u64 {
        self.device.heap.moves
    }
}
