//! Which host copy is given up first: of nodes that are on the device too, where host has no room.
//!
//! Copies go from the bottom up, so that host stays closed upwards, and the most recently used first: they are the furthest from
//! being evicted from the device. Stamps are given once, so the order is total. Each change is O(log n).

use super::key_heap::KeyHeap;
use crate::error::Error;
use crate::node::{NodeId, ROOT};
use crate::tree::Tree;

/// What giving up a node's host copy costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copies {
    /// Nothing now: the node is held, or above something dirty, so that no eviction could take it before that.
    Spare,
    /// An eviction could take the node from the device without loss, and could not any more.
    Safe,
}

/// Nodes on both tiers with nothing on host below them, not locked on host.
pub(crate) struct CopyOrder {
    spare: KeyHeap,
    safe: KeyHeap,
}

impl CopyOrder {
    pub(crate) fn new() -> Self {
        Self { spare: KeyHeap::new(), safe: KeyHeap::new() }
    }

    /// What a node is among, if its host copy may be given up.
    fn place(tree: &Tree, id: NodeId, ignores_locks: bool) -> Option<Copies> {
        let node = &tree.nodes[id];
        let both = node.residency.on_device() && node.residency.on_host();
        if !both || tree.has_host_children(id) || (node.host_ref > 0 && !ignores_locks) {
            return None;
        }
        Some(if node.is_evictable_leaf() { Copies::Safe } else { Copies::Spare })
    }

    /// Facts of a node changed: its tiers, its stamp, its holds, or what is below it.
    pub(crate) fn changed(&mut self, tree: &Tree, id: NodeId, ignores_locks: bool) {
        let place = Self::place(tree, id, ignores_locks);
        for (heap, of) in [(&mut self.spare, Copies::Spare), (&mut self.safe, Copies::Safe)] {
            let (node, ranked) = (&tree.nodes[id], heap.contains(id));
            // The youngest first.
            let key = (u64::MAX - node.access.seq, 0);
            match (place == Some(of), ranked) {
                (true, true) => heap.update(id, key),
                (true, false) => heap.insert(id, key, node.sequence),
                (false, true) => drop(heap.remove(id)),
                (false, false) => {}
            }
        }
    }

    pub(crate) fn next(&self, of: Copies) -> Option<NodeId> {
        match of {
            Copies::Spare => self.spare.peek(),
            Copies::Safe => self.safe.peek(),
        }
        .map(|(id, _)| id)
    }

    pub(crate) fn forget(&mut self, id: NodeId) {
        self.spare.remove(id);
        self.safe.remove(id);
    }

    pub(crate) fn clear(&mut self) {
        self.spare.clear();
        self.safe.clear();
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.spare.memory_bytes() + self.safe.memory_bytes()
    }

    pub(crate) fn check(&self, tree: &Tree, ignores_locks: bool) -> Result<(), Error> {
        self.spare.check().map_err(|what| Error::invariant(what, vec![]))?;
        self.safe.check().map_err(|what| Error::invariant(what, vec![]))?;
        let mut ranked = 0;
        for id in tree.walk(ROOT) {
            let place = Self::place(tree, id, ignores_locks);
            let places = [self.spare.contains(id), self.safe.contains(id)];
            if places != [place == Some(Copies::Spare), place == Some(Copies::Safe)] {
                let what = format!("a host copy is {place:?}, ranked as spare and as safe: {places:?}");
                return Err(Error::invariant(what, vec![tree.nodes[id].sequence]));
            }
            ranked += usize::from(place.is_some());
        }
        if ranked == self.spare.len() + self.safe.len() {
            return Ok(());
        }
        Err(Error::invariant("a host copy is ranked of a node that is gone", vec![]))
    }
}
