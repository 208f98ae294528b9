//! Least recently used, at the same cost for any size of the tree.
//!
//! One list holds all nodes, not only leaves, in order of their stamps. A touch stamps a path from its deepest node up,
//! so a parent is always younger than its children; and a held node's ancestors are held. Therefore the oldest node that
//! is not held is a leaf, and evicting is popping the front.
//!
//! Held nodes stay in the list until they come to its front; there they are *parked*: taken out, so that no later eviction
//! passes over them again. A parked node that is released may be older than the front, so it waits in a small heap by stamp,
//! and the next victim is the older of the two fronts. Each parking is paid for by the hold that caused it.

use super::heap::KeyHeap;
use super::lru::LruList;
use crate::error::Error;
use crate::node::{Node, NodeId, ROOT};
use crate::tree::Tree;

pub(crate) struct LruOrder {
    list: LruList,
    /// Parked once, released since, not stamped since.
    released: KeyHeap,
}

impl LruOrder {
    pub(crate) fn new() -> Self {
        Self { list: LruList::new(), released: KeyHeap::new() }
    }

    #[inline]
    pub(crate) fn stamped(&mut self, node: &mut Node, id: NodeId) {
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

    pub(crate) fn forget(&mut self, id: NodeId) {
        self.released.remove(id);
        self.list.remove(id);
    }

    #[inline]
    pub(crate) fn pop(&mut self, tree: &mut Tree) -> Option<NodeId> {
        loop {
            let id = self.take_oldest(tree)?;
            let node = &mut tree.nodes[id];
            if !node.is_held() {
                debug_assert_eq!(node.children, 0, "the oldest node that is not held is a leaf");
                return Some(id);
            }
            node.parked = true;
        }
    }

    #[inline]
    fn take_oldest(&mut self, tree: &Tree) -> Option<NodeId> {
        let front = self.list.front();
        let Some((id, (seq, _))) = self.released.peek() else {
            self.list.remove(front?);
            return front;
        };
        if front.is_some_and(|other| tree.nodes[other].access.seq < seq) {
            self.list.remove(front?);
            return front;
        }
        self.released.pop();
        Some(id)
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.released.clear();
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.list.memory_bytes() + self.released.memory_bytes()
    }

    pub(crate) fn check(&self, tree: &Tree) -> Result<(), Error> {
        self.list.check().map_err(|what| Error::invariant(what, vec![]))?;
        self.released.check().map_err(|what| Error::invariant(what, vec![]))?;
        let mut last = 0;
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
            if places.into_iter().filter(|here| *here).count() != 1 {
                let what = format!("a node is in the LRU list, released or parked: {places:?}, exactly one is right");
                return Err(Error::invariant(what, vec![node.sequence]));
            }
            if node.parked && !node.is_held() {
                return Err(Error::invariant("a parked node is not held", vec![node.sequence]));
            }
        }
        Ok(())
    }
}
