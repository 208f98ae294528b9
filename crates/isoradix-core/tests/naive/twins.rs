//! A real cache and its model, driven as one and compared after every operation.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use isoradix_core::{
    Config, ErrorKind, Ints, KvEvent, LockReceipt, Namespace, NodeHandle, PinReceipt, PrefixCache, Resume, SlotPool,
    Tier,
};

use super::operation::{Key, Operation, namespace};
use super::order::Order;
use super::{Naive, Node, Receipt};

/// What a pair is made with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) page: usize,
    pub(crate) bigram: bool,
    pub(crate) order: usize,
    pub(crate) journal_records: u32,
    /// Few, so that inserts evict.
    pub(crate) pool_pages: u64,
}

/// Both, and the slots that the real one is fed with.
pub(crate) struct Twins {
    pub(super) cache: PrefixCache,
    pub(super) naive: Naive,
    pub(super) pool: SlotPool,
    /// Living nodes by sequence number, the root as 0.
    pub(super) handles: BTreeMap<u64, NodeHandle>,
    pub(super) dead_handles: Vec<NodeHandle>,
    pub(super) dead_receipts: Vec<u64>,
    /// Blocks that a listener of the KV events holds.
    listed: Vec<i64>,
    /// Counts on, for what is varied from call to call: widths of keys, orders of slots.
    turn: u8,
}

#[expect(clippy::cast_possible_truncation, reason = "small tests")]
impl Twins {
    pub(crate) fn new(shape: Shape) -> Self {
        let Shape { page, bigram, journal_records, pool_pages, .. } = shape;
        let order = Order::nth(shape.order, page);
        let config =
            Config { page_size: page as u32, eviction: order.eviction(), bigram, journal_records, kv_events: true };
        Self {
            cache: PrefixCache::new(config).unwrap(),
            naive: Naive::new(page, bigram, order),
            pool: SlotPool::new(pool_pages * page as u64, page as u32, 5).unwrap(),
            handles: BTreeMap::from([(0, NodeHandle::ROOT)]),
            dead_handles: vec![],
            dead_receipts: vec![],
            listed: vec![],
            turn: 0,
        }
    }

    /// Runs one operation on both; panics where they part.
    pub(crate) fn run(&mut self, operation: &Operation) {
        match operation {
            Operation::Match { key, space } => self.match_prefix(&key.spell(self.naive.page), &namespace(*space), 0),
            Operation::Insert { key, space, priority, spare_slots } => {
                self.insert(&key.spell(self.naive.page), &namespace(*space), *priority, 0, *spare_slots);
            }
            Operation::Resume { node, key, priority, storing } => self.resume(*node, key, *priority, *storing),
            Operation::Touch { node } => {
                let sequence = self.pick(*node);
                self.cache.touch(self.handles[&sequence]).unwrap();
                self.naive.touch(sequence);
            }
            Operation::Lock { node } => {
                let sequence = self.pick(*node);
                let receipt = self.cache.lock(self.handles[&sequence]).unwrap().to_bits();
                self.naive.locks.push((receipt, sequence));
            }
            Operation::Pin { node } => {
                let sequence = self.pick(*node);
                let receipt = self.cache.pin(self.handles[&sequence]).unwrap().to_bits();
                self.naive.pins.push((receipt, sequence));
            }
            Operation::Unlock { receipt } => {
                if let Some(receipt) = take(&mut self.naive.locks, *receipt) {
                    self.cache.unlock(LockReceipt::from_bits(receipt)).unwrap();
                    self.dead_receipts.push(receipt);
                }
            }
            Operation::Unpin { receipt } => {
                if let Some(receipt) = take(&mut self.naive.pins, *receipt) {
                    self.cache.unpin(PinReceipt::from_bits(receipt)).unwrap();
                    self.dead_receipts.push(receipt);
                }
            }
            Operation::Evict { pages, less } => {
                self.evict((usize::from(*pages) * self.naive.page).saturating_sub(usize::from(*less)));
            }
            Operation::RemoveNamespace { space } => self.remove_namespace(&namespace(*space)),
            Operation::Step { by } => {
                let later = (*by > 0).then(|| self.cache.clock().step + u64::from(*by));
                let step = self.cache.advance_step(later).unwrap();
                assert_eq!(step, self.cache.clock().step);
            }
            Operation::Reset => self.reset(),
            Operation::Fail { on } => {
                if let Some(switch) = self.naive.order.switch() {
                    switch.store(*on, Ordering::Relaxed);
                }
            }
            Operation::Misuse { kind, noise, key } => self.misuse(*kind, *noise, &key.spell(self.naive.page)),
        }
        self.compare();
    }

    // ---- the verbs

    fn match_prefix(&mut self, key: &[u32], space: &Namespace, resumed: u64) {
        let point = self.point(resumed);
        let real = self.with_key(key, |cache, key| {
            let probed = cache.probe(key, space).unwrap();
            let found = cache.match_prefix(key, space, point).unwrap();
            assert_eq!(probed, found.hit_tokens);
            found
        });
        let (hit, node) = self.naive.match_prefix(space, key);
        assert_eq!((real.hit_tokens, self.sequence(real.node)), (hit as u64, node));
    }

    fn insert(&mut self, key: &[u32], space: &Namespace, priority: i64, resumed: u64, spare: u8) {
        let point = self.point(resumed);
        let start = point.map_or(0, |point| point.length as usize);
        let wanted = self.naive.units(key).len() - start;
        if !self.make_room(wanted) || point.is_some_and(|point| !self.handles.values().any(|it| *it == point.node)) {
            return;
        }
        let mut slots = vec![];
        self.pool.alloc(wanted as u64, &mut slots).unwrap();
        self.scatter(&mut slots);
        let spare = usize::from(spare).min(key.len() - start - wanted);
        let given: Vec<i64> = slots.iter().copied().chain(std::iter::repeat_n(-9, spare)).collect();
        let real =
            self.with_key(key, |cache, key| cache.insert(key, Ints::I64(&given), space, priority, point).unwrap());
        let (cached, length, node) = self.naive.insert(space, key, &slots, priority, start);
        assert_eq!((real.prefix_len, real.new_tokens), (cached as u64, (length - cached) as u64));
        assert_eq!((real.length, self.sequence(real.node)), (length as u64, node));
        self.free(slots[..cached - start].to_vec());
    }

    fn resume(&mut self, node: u16, key: &Key, priority: i64, storing: bool) {
        let sequence = self.pick(node);
        let (mut longer, space) = self
            .naive
            .node(sequence)
            .map_or_else(|| (vec![], Namespace::default()), |node| (Naive::raw(&node.path), node.namespace.clone()));
        longer.extend(key.spell(self.naive.page));
        if storing {
            self.insert(&longer, &space, priority, sequence, key.tail);
        } else {
            self.match_prefix(&longer, &space, sequence);
        }
    }

    fn evict(&mut self, units: usize) {
        // A policy that fails leaves no order to compare with; then only the refusal is looked at.
        let failing = self.naive.order.switch().is_some_and(|switch| switch.load(Ordering::Relaxed));
        let units = if failing { 0 } else { units };
        let (before, mut freed) = (self.evidence(), vec![]);
        match self.cache.evict(units as u64, &mut freed) {
            Ok(count) => {
                assert_eq!(count, freed.len() as u64);
                assert_eq!(freed, self.naive.evict(units), "freed slots, in order");
                self.free(freed);
            }
            Err(error) => {
                assert!(failing && error.kind() == ErrorKind::Policy, "{error}");
                assert_eq!((self.evidence(), freed.len()), (before, 0));
            }
        }
    }

    fn remove_namespace(&mut self, space: &Namespace) {
        let mut freed = vec![];
        let Some(mut expected) = self.naive.remove_namespace(space) else {
            self.refused(ErrorKind::Held, |cache| cache.remove_namespace(space, &mut vec![]).err());
            return;
        };
        self.cache.remove_namespace(space, &mut freed).unwrap();
        self.free(freed.clone());
        freed.sort_unstable();
        expected.sort_unstable();
        assert_eq!(freed, expected);
    }

    fn reset(&mut self) {
        let receipts = self.naive.locks.iter().chain(&self.naive.pins).map(|(receipt, _)| *receipt);
        self.dead_receipts.extend(receipts);
        assert_eq!(self.cache.reset(), self.naive.reset() as u64);
        self.pool.reset();
    }

    /// Every other page gets its slots in another order, since a page's slots need not be consecutive.
    fn scatter(&mut self, slots: &mut [i64]) {
        for page in slots.chunks_exact_mut(self.naive.page) {
            self.turn = self.turn.wrapping_add(1);
            match self.turn % 4 {
                0 => page.reverse(),
                1 if self.naive.page > 2 => page.swap(1, 2),
                _ => {}
            }
        }
    }

    /// The pool wants the slots of each page in order.
    fn free(&mut self, mut slots: Vec<i64>) {
        slots.chunks_exact_mut(self.naive.page).for_each(<[i64]>::sort_unstable);
        self.pool.free(Ints::I64(&slots)).unwrap();
    }

    fn make_room(&mut self, units: usize) -> bool {
        let available = self.pool.available() as usize;
        if available < units {
            self.evict(units - available);
        }
        self.refresh_handles();
        self.pool.available() as usize >= units
    }

    // ---- comparing

    fn compare(&mut self) {
        self.refresh_handles();
        self.cache.check_against(&self.pool, 0).unwrap();
        assert_eq!(self.handles.len(), self.naive.nodes.len() + 1);
        for node in &self.naive.nodes {
            self.compare_node(node);
        }
        self.compare_ages();
        self.compare_sizes();
        self.listen();
    }

    fn refresh_handles(&mut self) {
        let mut living = BTreeMap::from([(0, NodeHandle::ROOT)]);
        let mut newest = BTreeMap::new();
        for handle in self.cache.walk(NodeHandle::ROOT).unwrap() {
            let info = self.cache.info(handle).unwrap();
            assert!(living.values().any(|seen| *seen == info.parent), "depth-first, parents first");
            let older_sibling = newest.insert(info.parent, info.created);
            let at_top = info.parent == NodeHandle::ROOT;
            assert!(at_top || older_sibling.is_none_or(|older| older < info.created), "children in order of arrival");
            living.insert(info.sequence, handle);
        }
        for (sequence, handle) in &self.handles {
            match living.get(sequence) {
                Some(now) => assert_eq!(now, handle, "a handle stays valid while its node lives"),
                None => self.dead_handles.push(*handle),
            }
        }
        self.handles = living;
    }

    fn compare_node(&self, node: &Node) {
        let (cache, naive) = (&self.cache, &self.naive);
        let handle = self.handles[&node.sequence];
        let info = cache.info(handle).unwrap();
        assert_eq!((info.handle, info.parent), (handle, self.handles[&naive.parent(node)]));
        assert_eq!((info.depth, info.length), (node.path.len() as u64, node.length() as u64));
        assert_eq!(info.children as usize, naive.children(node));
        assert_eq!((info.hits, info.priority), (node.hits, node.priority));
        assert_eq!((info.lock_ref as usize, info.pin_ref as usize), (naive.lock_ref(node), naive.pin_ref(node)));
        assert_eq!(*info.namespace, node.namespace);
        let (mut tokens, mut slots) = (vec![], vec![]);
        cache.node_tokens(handle, &mut tokens).unwrap();
        let expected: Vec<i64> = Naive::raw(&node.path[node.start..]).into_iter().map(i64::from).collect();
        assert_eq!(tokens, expected);
        cache.node_slots(handle, &mut slots).unwrap();
        assert_eq!(slots, node.slots);
        cache.path_slots(handle, &mut slots).unwrap();
        assert_eq!((slots.len(), slots.ends_with(&node.slots)), (node.path.len() + node.length(), true));
    }

    /// Stamps agree in their order; how often the clock ticked is left open.
    fn compare_ages(&self) {
        let infos: Vec<_> = self.handles.values().skip(1).map(|handle| self.cache.info(*handle).unwrap()).collect();
        let mut real: Vec<_> = infos.iter().map(|info| (info.last_access, info.sequence)).collect();
        let mut model: Vec<_> = self.naive.nodes.iter().map(|node| (node.access, node.sequence)).collect();
        real.sort_unstable();
        model.sort_unstable();
        assert!(real.iter().map(|it| it.1).eq(model.iter().map(|it| it.1)), "order of last accesses");
        let mut real: Vec<_> = infos.iter().map(|info| (info.created, info.sequence)).collect();
        let mut model: Vec<_> = self.naive.nodes.iter().map(|node| (node.created, node.sequence)).collect();
        real.sort_unstable();
        model.sort_unstable();
        assert!(real.iter().map(|it| it.1).eq(model.iter().map(|it| it.1)), "order of creations");
    }

    fn compare_sizes(&self) {
        let (sizes, naive) = (self.cache.sizes(), &self.naive);
        assert_eq!(sizes.total as usize, naive.size(|_| true));
        assert_eq!(sizes.protected as usize, naive.size(|node| naive.is_held(node)));
        assert_eq!(sizes.pinned as usize, naive.size(|node| naive.pin_ref(node) > 0));
        assert_eq!(sizes.evictable, sizes.total - sizes.protected);
        assert_eq!(self.cache.num_nodes() as usize, naive.nodes.len());
        let mut names: Vec<Namespace> = naive.nodes.iter().map(|node| node.namespace.clone()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(self.cache.namespaces(), names);
        for space in (0..4).map(namespace) {
            let expected = naive.size(|node| node.namespace == space);
            assert_eq!(self.cache.namespace_size(&space) as usize, expected);
        }
    }

    /// Follows the KV events: a listener holds as many blocks as are cached, and none twice.
    fn listen(&mut self) {
        for event in self.cache.take_events() {
            match event {
                KvEvent::Stored { tier: Tier::Device, block_hashes, parent, .. } => {
                    assert!(parent.is_none_or(|parent| self.listed.contains(&parent)));
                    self.listed.extend(block_hashes);
                }
                KvEvent::Removed { tier: Tier::Device, block_hashes } => {
                    for hash in block_hashes {
                        let at = self.listed.iter().position(|listed| *listed == hash);
                        self.listed.swap_remove(at.expect("what is removed was stored"));
                    }
                }
                KvEvent::Cleared => self.listed.clear(),
                other => panic!("there is one tier: {other:?}"),
            }
        }
        assert_eq!(self.listed.len(), self.cache.sizes().total as usize / self.naive.page);
    }

    // ---- helpers

    /// Sequence number of some living node, the root included.
    pub(super) fn pick(&self, index: u16) -> u64 {
        *self.handles.keys().nth(usize::from(index) % self.handles.len()).unwrap()
    }

    fn point(&self, sequence: u64) -> Option<Resume> {
        let node = self.naive.node(sequence)?;
        Some(Resume { node: self.handles[&sequence], length: node.path.len() as u64 })
    }

    fn sequence(&self, node: NodeHandle) -> u64 {
        self.cache.info(node).unwrap().sequence
    }

    /// Hands the key over in one of the three widths, those that can hold it.
    fn with_key<R>(&mut self, key: &[u32], call: impl FnOnce(&mut PrefixCache, Ints<'_>) -> R) -> R {
        self.turn = self.turn.wrapping_add(1);
        let narrow: Result<Vec<i32>, _> = key.iter().map(|token| i32::try_from(*token)).collect();
        match (self.turn % 3, narrow) {
            (0, Ok(key)) => call(&mut self.cache, Ints::I32(&key)),
            (1, _) => call(&mut self.cache, Ints::U32(key)),
            _ => {
                let key: Vec<i64> = key.iter().map(|token| i64::from(*token)).collect();
                call(&mut self.cache, Ints::I64(&key))
            }
        }
    }
}

fn take(receipts: &mut Vec<Receipt>, index: u16) -> Option<u64> {
    if receipts.is_empty() {
        return None;
    }
    let at = usize::from(index) % receipts.len();
    Some(receipts.remove(at).0)
}
