//! The order of a keyed eviction policy: which node has the smallest key.
//!
//! An indexed 4-ary min-heap. Each entry carries its rank inline, so comparing reads no node, and the four
//! children of an entry lie in two or three cache lines. `positions` finds an id's entry, so a key can change
//! either way and any id can leave in O(log n). The two arrays grow on demand; nothing else is allocated.
//!
//! Order: by key, then by sequence number. Sequence numbers are given once, so the order is total and what
//! leaves next depends on the ranks alone, not on the order of the calls that made the heap.

/// Children of one entry.
const ARITY: usize = 4;

/// In `positions` for an id that is not in the heap.
const UNLISTED: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Entry {
    key: (u64, u64),
    sequence: u64,
    id: u32,
}

impl Entry {
    /// The rank in wide words, which compare with fewer branches: in a heap each of them is a coin toss.
    #[inline]
    fn rank(&self) -> (u128, u64) {
        let key = (u128::from(self.key.0) << 64) | u128::from(self.key.1);
        (key, self.sequence)
    }
}

/// An indexed min-heap of node ids; see the module's notes for its order.
pub(crate) struct KeyHeap {
    entries: Vec<Entry>,
    positions: Vec<u32>,
    /// How often an entry was put somewhere, for tests of what a change costs.
    #[cfg(test)]
    pub(super) moves: u64,
}

impl KeyHeap {
    /// An empty heap.
    pub(crate) fn new() -> Self {
        Self {
            entries: Vec::new(),
            positions: Vec::new(),
            #[cfg(test)]
            moves: 0,
        }
    }

    /// Adds an id that is not in the heap.
    pub(crate) fn insert(&mut self, id: u32, key: (u64, u64), sequence: u64) {
        debug_assert!(id != UNLISTED, "id {id} cannot be ranked");
        debug_assert!(!self.contains(id), "id {id} is ranked already");
        if id as usize >= self.positions.len() {
            self.grow(id);
        }
        let entry = Entry { key, sequence, id };
        self.entries.push(entry);
        self.sift_up(self.entries.len() - 1, entry);
    }

    /// Gives an id of the heap another key, smaller or larger.
    pub(crate) fn update(&mut self, id: u32, key: (u64, u64)) {
        debug_assert!(self.contains(id), "id {id} is not ranked");
        let Some(at) = self.position(id) else { return };
        let mut entry = self.entries[at];
        if key == entry.key {
            return;
        }
        entry.key = key;
        self.settle(at, entry);
    }

    /// Takes `id` out and says whether it was in the heap.
    pub(crate) fn remove(&mut self, id: u32) -> bool {
        let Some(at) = self.position(id) else {
            return false;
        };
        self.take(at);
        true
    }

    /// Whether `id` is in the heap.
    #[inline]
    pub(crate) fn contains(&self, id: u32) -> bool {
        self.position(id).is_some()
    }

    /// The first id and its key.
    pub(crate) fn peek(&self) -> Option<(u32, (u64, u64))> {
        self.entries.first().map(|entry| (entry.id, entry.key))
    }

    /// Takes the first id out.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        let id = self.entries.first()?.id;
        self.take(0);
        Some(id)
    }

    /// Whether no id is ranked.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many ids are in the heap.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Takes every id out; the arrays keep their room.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.positions.clear();
    }

    /// Bytes of the heap memory this structure holds.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.positions.capacity() * size_of::<u32>()
    }

    /// No entry ranks before its parent, and `positions` names each entry and nothing else.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (at, entry) in self.entries.iter().enumerate() {
            let parent = self.entries[at.saturating_sub(1) / ARITY];
            if entry.rank() < parent.rank() {
                return Err(format!("heap: id {} ranks before its parent {}", entry.id, parent.id));
            }
            if self.position(entry.id) != Some(at) {
                return Err(format!("heap: id {} is at {at}, not at {:?}", entry.id, self.position(entry.id)));
            }
        }
        let placed = self.positions.iter().filter(|&&position| position != UNLISTED).count();
        if placed == self.entries.len() {
            return Ok(());
        }
        Err(format!("heap: {placed} ids have a position, {} have an entry", self.entries.len()))
    }

    #[inline]
    fn position(&self, id: u32) -> Option<usize> {
        let position = *self.positions.get(id as usize)?;
        (position != UNLISTED).then_some(position as usize)
    }

    /// Takes the entry at `at` out and lets the last one fill its place.
    fn take(&mut self, at: usize) {
        self.positions[self.entries[at].id as usize] = UNLISTED;
        let Some(last) = self.entries.pop() else {
            return;
        };
        if at < self.entries.len() {
            self.settle(at, last);
        }
    }

    /// Puts `entry` at `at` or wherever its rank belongs from there; what was at `at` is overwritten.
    fn settle(&mut self, at: usize, entry: Entry) {
        if at > 0 && entry.rank() < self.entries[(at - 1) / ARITY].rank() {
            self.sift_up(at, entry);
        } else {
            self.sift_down(at, entry);
        }
    }

    fn sift_up(&mut self, mut at: usize, entry: Entry) {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.entries[parent].rank() <= entry.rank() {
                break;
            }
            self.place(at, self.entries[parent]);
            at = parent;
        }
        self.place(at, entry);
    }

    fn sift_down(&mut self, mut at: usize, entry: Entry) {
        while let Some(child) = self.first_child(at) {
            if entry.rank() <= self.entries[child].rank() {
                break;
            }
            self.place(at, self.entries[child]);
            at = child;
        }
        self.place(at, entry);
    }

    /// The child of `at` that ranks before its siblings.
    #[inline]
    fn first_child(&self, at: usize) -> Option<usize> {
        let begin = at * ARITY + 1;
        let end = (begin + ARITY).min(self.entries.len());
        (begin..end).min_by_key(|&child| self.entries[child].rank())
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "ids are u32 and unique, so entries are fewer than 2^32")]
    fn place(&mut self, at: usize, entry: Entry) {
        self.entries[at] = entry;
        self.positions[entry.id as usize] = at as u32;
        #[cfg(test)]
        {
            self.moves += 1;
        }
    }

    #[cold]
    fn grow(&mut self, id: u32) {
        let len = (id as usize + 1).max(self.positions.len() * 2);
        self.positions.resize(len, UNLISTED);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::testing::SplitMix64;

    fn key(random: &mut SplitMix64, limit: u32) -> (u64, u64) {
        (random.below(limit).into(), random.below(limit).into())
    }

    type Rank = ((u64, u64), u64);

    /// The same order kept by sorted sets.
    #[derive(Default)]
    struct Model {
        ranks: BTreeMap<u32, Rank>,
        order: BTreeSet<(Rank, u32)>,
    }

    impl Model {
        fn insert(&mut self, id: u32, rank: Rank) {
            self.ranks.insert(id, rank);
            self.order.insert((rank, id));
        }

        fn remove(&mut self, id: u32) -> Option<Rank> {
            let rank = self.ranks.remove(&id)?;
            self.order.remove(&(rank, id));
            Some(rank)
        }

        fn first(&self) -> Option<(u32, (u64, u64))> {
            self.order.first().map(|&((key, _), id)| (id, key))
        }
    }

    fn step(heap: &mut KeyHeap, model: &mut Model, random: &mut SplitMix64, ids: u32, sequence: u64) {
        let (id, key) = (random.below(ids), key(random, 6));
        let listed = model.ranks.contains_key(&id);
        assert_eq!(heap.contains(id), listed);
        match random.below(8) {
            0 => assert_eq!(heap.remove(id), model.remove(id).is_some()),
            1 => {
                let first = model.first().map(|(first, _)| first);
                assert_eq!(heap.pop(), first);
                first.map(|first| model.remove(first));
            }
            _ if listed => {
                let (_, sequence) = model.remove(id).unwrap();
                heap.update(id, key);
                model.insert(id, (key, sequence));
            }
            _ => {
                heap.insert(id, key, sequence);
                model.insert(id, (key, sequence));
            }
        }
    }

    #[test]
    fn behaves_as_a_sorted_set() {
        for (seed, ids) in [(1, 3), (2, 10), (3, 60), (4, 700)] {
            let (mut heap, mut model, mut random) = (KeyHeap::new(), Model::default(), SplitMix64(seed));
            for sequence in 0..4_000 {
                step(&mut heap, &mut model, &mut random, ids, sequence);
                heap.check().unwrap();
                assert_eq!((heap.peek(), heap.len()), (model.first(), model.ranks.len()));
            }
            let drained: Vec<u32> = std::iter::from_fn(|| heap.pop()).collect();
            assert_eq!(drained, model.order.iter().map(|&(_, id)| id).collect::<Vec<_>>());
        }
    }

    #[test]
    fn equal_keys_leave_in_sequence_order() {
        let mut heap = KeyHeap::new();
        for (id, sequence) in [(4, 9), (1, 3), (3, 5), (2, 7)] {
            heap.insert(id, (1, 1), sequence);
        }
        heap.update(2, (1, 0));
        assert_eq!(heap.peek(), Some((2, (1, 0))));
        assert_eq!(std::iter::from_fn(|| heap.pop()).collect::<Vec<_>>(), [2, 1, 3, 4]);
        heap.insert(1, (0, 0), 11);
        heap.clear();
        assert_eq!((heap.peek(), heap.contains(1), heap.remove(1)), (None, false, false));
    }

    #[test]
    fn check_reports_a_broken_order_and_a_lost_position() {
        let mut heap = KeyHeap::new();
        (1..=6).for_each(|id| heap.insert(id, (id.into(), 0), id.into()));
        heap.entries[5].key = (0, 0);
        assert_eq!(heap.check().unwrap_err(), "heap: id 6 ranks before its parent 2");
        heap.entries[5].key = (6, 0);
        heap.positions[6] = UNLISTED;
        assert_eq!(heap.check().unwrap_err(), "heap: id 6 is at 5, not at None");
    }
}
