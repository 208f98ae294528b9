//! Least recently used, at the same cost for any size of the tree.
//!
//! One list holds all nodes, not only leaves, in order of their stamps. A touch stamps a path from its deepest node up,
//! so a parent is always younger than its children; and a held node's ancestors are held. Therefore the oldest node that
//! is not held is a leaf, and evicting is popping the front.
//!
//! Held nodes stay in the list until they come to its front; there they are *parked*: taken out, so that evictions pass over
//! a held node at most once for each hold and each stamp. It was the oldest then, and everything stamped since is younger, so
//! a parked node that is released is older than the whole list: it waits in a small heap by stamp, which is emptied first.
//! To release one is O(log released). Each parking is paid for by the hold, or the stamp while held, that went before it.
//!
//! All that is about nodes on the device. Leaves on host alone are ranked by their stamps in a heap.

use super::key_heap::KeyHeap;
use super::recency_list::RecencyList;
#[cfg(feature = "planted-defects")]
use crate::defects::{Defect, Planted};
use crate::error::Error;
use crate::node::{Node, NodeId, ROOT};
use crate::tree::Tree;

pub(crate) struct LruOrder {
    list: RecencyList,
    /// Parked once, released since, not stamped since.
    pub(super) released: KeyHeap,
    /// Evictable leaves on host alone, by stamp.
    host: KeyHeap,
    #[cfg(feature = "planted-defects")]
    pub(crate) planted: Planted,
    /// Nodes that `pop` looked at, for tests of what an eviction costs.
    #[cfg(test)]
    pub(super) visited: u64,
}

impl LruOrder {
    pub(crate) fn new() -> Self {
        Self {
            list: RecencyList::new(),
            released: KeyHeap::new(),
            host: KeyHeap::new(),
            #[cfg(feature = "planted-defects")]
            planted: Planted::default(),
            #[cfg(test)]
            visited: 0,
        }
    }

    #[inline]
    pub(crate) fn stamped(&mut self, node: &mut Node, id: NodeId) {
        if !node.residency.on_device() {
            return;
        }
        node.parked = false;
        if !self.released.is_empty() {
            self.released.remove(id);
        }
        self.list.move_to_back(id);
    }

    #[inline]
    pub(crate) fn unheld(&mut self, node: &mut Node, id: NodeId) {
        if node.parked {
            node.parked = false;
            self.released.insert(id, (node.access.seq, 0), node.sequence);
        }
    }

    /// Facts of a node changed: only leaves on host alone are ranked by facts.
    #[inline]
    pub(crate) fn changed(&mut self, tree: &Tree, id: NodeId) {
        let node = &tree.nodes[id];
        if node.is_evictable_host_leaf() {
            let key = self.host_key(tree, id);
            if self.host.contains(id) {
                self.host.update(id, key);
            } else {
                self.host.insert(id, key, node.sequence);
            }
        } else if !self.host.is_empty() {
            self.host.remove(id);
        }
    }

    #[cfg(not(feature = "planted-defects"))]
    #[expect(clippy::unused_self, reason = "what is planted is read with the feature")]
    fn host_key(&self, tree: &Tree, id: NodeId) -> (u64, u64) {
        (tree.nodes[id].access.seq, 0)
    }

    #[cfg(feature = "planted-defects")]
    fn host_key(&self, tree: &Tree, id: NodeId) -> (u64, u64) {
        let access = tree.nodes[id].access;
        if self.planted.is(Defect::TieByAddress) {
            let mut pages = Vec::new();
            tree.append_host_pages(id, &mut pages);
            return (access.step, pages.first().copied().unwrap_or_default().into());
        }
        if self.planted.is(Defect::WallClockOrder) {
            return (self.planted.wall_clock, 0);
        }
        (access.seq, 0)
    }

    /// The next victim among the nodes on host alone.
    pub(crate) fn pop_host(&mut self) -> Option<NodeId> {
        self.host.pop()
    }

    pub(crate) fn forget(&mut self, id: NodeId) {
        self.host.remove(id);
        self.released.remove(id);
        self.list.remove(id);
    }

    #[inline]
    pub(crate) fn pop(&mut self, tree: &mut Tree) -> Option<NodeId> {
        loop {
            let id = self.take_oldest()?;
            #[cfg(test)]
            {
                self.visited += 1;
            }
            let node = &mut tree.nodes[id];
            if !node.is_held() {
                debug_assert_eq!(node.device_children, 0, "the oldest node that is not held is a leaf");
                return Some(id);
            }
            node.parked = true;
        }
    }

    #[inline]
    fn take_oldest(&mut self) -> Option<NodeId> {
        if !self.released.is_empty() {
            return self.released.pop();
        }
        let front = self.list.front()?;
        self.list.remove(front);
        Some(front)
    }

    #[inline]
    pub(crate) fn upcoming(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.list.iter()
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.released.clear();
        self.host.clear();
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.list.memory_bytes() + self.released.memory_bytes() + self.host.memory_bytes()
    }

    pub(crate) fn check(&self, tree: &Tree) -> Result<(), Error> {
        self.list.check().map_err(|what| Error::invariant(what, vec![]))?;
        self.released.check().map_err(|what| Error::invariant(what, vec![]))?;
        self.host.check().map_err(|what| Error::invariant(what, vec![]))?;
        let mut last = self.youngest_released(tree);
        for id in self.list.iter() {
            let node = &tree.nodes[id];
            if node.access.seq <= last {
                return Err(Error::invariant("the LRU list is not in order of stamps", vec![node.sequence]));
            }
            last = node.access.seq;
        }
        for id in tree.walk(ROOT) {
            let node = &tree.nodes[id];
            let places = [self.list.contains(id), self.released.contains(id), node.parked];
            if places.into_iter().filter(|here| *here).count() != usize::from(node.residency.on_device()) {
                let what = format!(
                    "a node is in the LRU list, released or parked: {places:?}, exactly one is right for one on the device"
                );
                return Err(Error::invariant(what, vec![node.sequence]));
            }
            if self.host.contains(id) != node.is_evictable_host_leaf() {
                let what = "the heap of host leaves does not hold exactly those that may go";
                return Err(Error::invariant(what, vec![node.sequence]));
            }
            if node.parked && !node.is_held() {
                return Err(Error::invariant("a parked node is not held", vec![node.sequence]));
            }
        }
        Ok(())
    }

    fn youngest_released(&self, tree: &Tree) -> u64 {
        let released = tree.walk(ROOT).filter(|id| self.released.contains(*id));
        released.map(|id| tree.nodes[id].access.seq).max().unwrap_or(0)
    }
}
