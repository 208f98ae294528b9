//! One hash table for all parent-to-child edges.
//!
//! Open addressing with linear probing; an entry packs a 32-bit tag and a node id into one word, so that a probe
//! touches one cache line and most misses touch no node. The table never decides anything: the caller confirms a
//! candidate by comparing tokens, and at most one child of a parent can match. Removal shifts entries back, so
//! that no tombstones build up.

use crate::node::NodeId;

const EMPTY: u64 = 0;

/// Maps (parent, first page) to a child. Node 0 is nobody's child, so that a zero word means empty.
#[derive(Debug)]
pub(crate) struct EdgeTable {
    entries: Vec<u64>,
    used: usize,
}

#[inline]
fn pack(tag: u32, id: NodeId) -> u64 {
    u64::from(tag) << 32 | u64::from(id)
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the two halves")]
fn unpack(entry: u64) -> (u32, NodeId) {
    ((entry >> 32) as u32, entry as u32)
}

impl EdgeTable {
    pub(crate) fn new() -> Self {
        Self { entries: vec![EMPTY; 64], used: 0 }
    }

    #[inline]
    fn mask(&self) -> usize {
        self.entries.len() - 1
    }

    /// The child under `tag` that `is_it` confirms.
    #[inline]
    pub(crate) fn find(&self, tag: u32, mut is_it: impl FnMut(NodeId) -> bool) -> Option<NodeId> {
        let mask = self.mask();
        let mut at = tag as usize & mask;
        loop {
            let entry = self.entries[at];
            if entry == EMPTY {
                return None;
            }
            let (other, id) = unpack(entry);
            if other == tag && is_it(id) {
                return Some(id);
            }
            at = (at + 1) & mask;
        }
    }

    pub(crate) fn insert(&mut self, tag: u32, id: NodeId) {
        if (self.used + 1) * 4 > self.entries.len() * 3 {
            self.grow();
        }
        self.used += 1;
        self.place(pack(tag, id));
    }

    /// Hands the entry of `old` to `new`: a split puts the new head into the place of the old node.
    pub(crate) fn replace(&mut self, tag: u32, old: NodeId, new: NodeId) {
        let at = self.position(tag, old);
        self.entries[at] = pack(tag, new);
    }

    pub(crate) fn remove(&mut self, tag: u32, id: NodeId) {
        let mask = self.mask();
        let mut hole = self.position(tag, id);
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let entry = self.entries[at];
            if entry == EMPTY {
                break;
            }
            let wanted = unpack(entry).0 as usize & mask;
            // The entry may move back unless the place it wants lies cyclically in (hole, at].
            if (at.wrapping_sub(wanted) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.entries[hole] = entry;
                hole = at;
            }
        }
        self.entries[hole] = EMPTY;
        self.used -= 1;
    }

    /// Loads the line in which `tag` is looked for, and does not wait for it: a prefetch without unsafe code.
    #[inline]
    pub(crate) fn warm(&self, tag: u32) {
        std::hint::black_box(self.entries[tag as usize & self.mask()]);
    }

    /// Number of edges.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<u64>()
    }

    fn position(&self, tag: u32, id: NodeId) -> usize {
        let (mask, wanted) = (self.mask(), pack(tag, id));
        let mut at = tag as usize & mask;
        while self.entries[at] != wanted {
            debug_assert_ne!(self.entries[at], EMPTY, "the edge is in the table");
            at = (at + 1) & mask;
        }
        at
    }

    fn place(&mut self, entry: u64) {
        let mask = self.mask();
        let mut at = unpack(entry).0 as usize & mask;
        while self.entries[at] != EMPTY {
            at = (at + 1) & mask;
        }
        self.entries[at] = entry;
    }

    fn grow(&mut self) {
        let doubled = vec![EMPTY; self.entries.len() * 2];
        for entry in std::mem::replace(&mut self.entries, doubled) {
            if entry != EMPTY {
                self.place(entry);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::mix;

    #[test]
    fn agrees_with_a_plain_list() {
        let (mut table, mut model) = (EdgeTable::new(), Vec::<(u32, NodeId)>::new());
        let mut state = 7;
        for round in 1..20_000_u32 {
            state = mix(state, u64::from(round));
            if state % 5 < 3 || model.is_empty() {
                let tag = (state >> 40) as u32 % 512; // crowded on purpose
                table.insert(tag, round);
                model.push((tag, round));
            } else {
                let (tag, id) = model.swap_remove((state >> 32) as usize % model.len());
                if state % 2 == 0 {
                    table.remove(tag, id);
                } else {
                    table.replace(tag, id, round);
                    model.push((tag, round));
                }
                assert_eq!(table.find(tag, |it| it == id), None);
            }
            assert_eq!(table.len(), model.len());
        }
        for (tag, id) in model {
            assert_eq!(table.find(tag, |it| it == id), Some(id));
        }
    }
}
