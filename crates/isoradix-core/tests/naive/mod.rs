//! A slow, obviously right model of the cache, and what is needed to drive both as one.
//!
//! There is no tree in here: a node is an entry of one flat list and holds its whole path, from the start of the key to its
//! own end. Parents, children, protected nodes and victims are found by looking at every node each time. Nothing is kept
//! twice, so nothing can drift.
#![allow(dead_code, reason = "each program that includes this uses its own part, and one may use all")]

mod misuse;
pub(crate) mod operation;
pub(crate) mod order;
#[path = "../common/random.rs"]
mod random;
pub(crate) mod twins;

use isoradix_core::Namespace;
use order::Order;

/// A token, or a pair of neighbours.
pub(crate) type Unit = (u32, Option<u32>);

/// A run of units, with everything that leads to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) sequence: u64,
    pub(crate) namespace: Namespace,
    pub(crate) path: Vec<Unit>,
    /// The node's own run is `path[start..]`.
    pub(crate) start: usize,
    /// One for each unit of that run.
    pub(crate) slots: Vec<i64>,
    /// Moments; only their order means something.
    pub(crate) created: u64,
    pub(crate) access: u64,
    pub(crate) hits: u64,
    pub(crate) priority: i64,
    /// The deepest depth ever inserted through this node.
    pub(crate) reach: usize,
}

impl Node {
    pub(crate) fn length(&self) -> usize {
        self.path.len() - self.start
    }

    pub(crate) fn leads_to(&self, namespace: &Namespace, path: &[Unit]) -> bool {
        self.namespace == *namespace && path.starts_with(&self.path)
    }
}

/// A receipt and the sequence number of the node that it holds; 0 is the root.
pub(crate) type Receipt = (u64, u64);

/// The contract, spelled out. Nodes are named by their sequence numbers, 0 is the root.
pub(crate) struct Naive {
    pub(crate) page: usize,
    pub(crate) bigram: bool,
    pub(crate) order: Order,
    pub(crate) nodes: Vec<Node>,
    pub(crate) locks: Vec<Receipt>,
    pub(crate) pins: Vec<Receipt>,
    sequence: u64,
    now: u64,
}

impl Naive {
    pub(crate) fn new(page: usize, bigram: bool, order: Order) -> Self {
        Self { page, bigram, order, nodes: vec![], locks: vec![], pins: vec![], sequence: 0, now: 0 }
    }

    /// The units of the key, cut to whole pages.
    pub(crate) fn units(&self, key: &[u32]) -> Vec<Unit> {
        let all: Vec<Unit> = if self.bigram {
            key.windows(2).map(|pair| (pair[0], Some(pair[1]))).collect()
        } else {
            key.iter().map(|token| (*token, None)).collect()
        };
        all[..all.len() / self.page * self.page].to_vec()
    }

    /// The raw tokens that spell these units.
    pub(crate) fn raw(units: &[Unit]) -> Vec<u32> {
        let last = units.last().and_then(|(_, second)| *second);
        units.iter().map(|(first, _)| *first).chain(last).collect()
    }

    fn common(&self, a: &[Unit], b: &[Unit]) -> usize {
        a.chunks_exact(self.page).zip(b.chunks_exact(self.page)).take_while(|(a, b)| a == b).count() * self.page
    }

    /// Units of the longest cached prefix.
    pub(crate) fn cached(&self, namespace: &Namespace, units: &[Unit]) -> usize {
        let inside = self.nodes.iter().filter(|node| node.namespace == *namespace);
        inside.map(|node| self.common(&node.path, units)).max().unwrap_or(0)
    }

    /// Gives the hit and the node at its end.
    pub(crate) fn match_prefix(&mut self, namespace: &Namespace, key: &[u32]) -> (usize, u64) {
        let units = self.units(key);
        let hit = self.cached(namespace, &units);
        self.split_at(namespace, &units[..hit]);
        self.stamp(namespace, &units[..hit]);
        (hit, self.node_at(namespace, &units[..hit]))
    }

    /// Gives the length that was cached, the key's length and the node at its end. `slots` begin at `resumed`.
    pub(crate) fn insert(
        &mut self,
        namespace: &Namespace,
        key: &[u32],
        slots: &[i64],
        priority: i64,
        resumed: usize,
    ) -> (usize, usize, u64) {
        let units = self.units(key);
        let cached = self.cached(namespace, &units);
        self.split_at(namespace, &units[..cached]);
        if cached < units.len() {
            let now = self.tick();
            let leaf = Node {
                sequence: self.next_sequence(),
                namespace: namespace.clone(),
                start: cached,
                slots: slots[cached - resumed..units.len() - resumed].to_vec(),
                created: now,
                access: now,
                hits: 0,
                priority,
                reach: units.len(),
                path: units.clone(),
            };
            self.nodes.push(leaf);
        }
        for node in self.nodes.iter_mut().filter(|node| node.leads_to(namespace, &units)) {
            node.reach = node.reach.max(units.len());
            node.priority = node.priority.max(priority);
            node.hits += u64::from(node.path.len() > resumed);
        }
        self.stamp(namespace, &units);
        (cached, units.len(), self.node_at(namespace, &units))
    }

    pub(crate) fn touch(&mut self, sequence: u64) {
        if let Some(node) = self.node(sequence).cloned() {
            self.stamp(&node.namespace, &node.path);
        }
    }

    /// Cuts the node that `prefix` ends inside of. The new node is the head; the tail counts as used.
    fn split_at(&mut self, namespace: &Namespace, prefix: &[Unit]) {
        let cut = prefix.len();
        let inside = self.nodes.iter().position(|node| {
            node.namespace == *namespace && node.start < cut && cut < node.path.len() && node.path.starts_with(prefix)
        });
        let Some(index) = inside else { return };
        let (now, sequence) = (self.tick(), self.next_sequence());
        let tail = &mut self.nodes[index];
        let rest = tail.slots.split_off(cut - tail.start);
        let head = Node { sequence, path: prefix.to_vec(), ..tail.clone() };
        (tail.slots, tail.start, tail.access) = (rest, cut, now);
        self.nodes.push(head);
    }

    /// Deepest first, so that a parent is younger than its child.
    fn stamp(&mut self, namespace: &Namespace, path: &[Unit]) {
        self.nodes.sort_by_key(|node| std::cmp::Reverse(node.path.len()));
        for node in self.nodes.iter_mut().filter(|node| node.leads_to(namespace, path)) {
            self.now += 1;
            node.access = self.now;
        }
    }

    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn holders(&self, node: &Node, receipts: &[Receipt]) -> usize {
        let held = receipts.iter().filter_map(|(_, sequence)| self.node(*sequence));
        held.filter(|holder| node.leads_to(&holder.namespace, &holder.path)).count()
    }

    pub(crate) fn lock_ref(&self, node: &Node) -> usize {
        self.holders(node, &self.locks)
    }

    pub(crate) fn pin_ref(&self, node: &Node) -> usize {
        self.holders(node, &self.pins)
    }

    pub(crate) fn is_held(&self, node: &Node) -> bool {
        self.lock_ref(node) + self.pin_ref(node) > 0
    }

    pub(crate) fn children(&self, node: &Node) -> usize {
        let below = self.nodes.iter().filter(|other| other.start == node.path.len());
        below.filter(|other| node.leads_to(&other.namespace, &other.path)).count()
    }

    /// The freed slots, victim by victim.
    pub(crate) fn evict(&mut self, units: usize) -> Vec<i64> {
        let mut freed = vec![];
        while freed.len() < units {
            let may_go = (0..self.nodes.len()).filter(|index| {
                let node = &self.nodes[*index];
                self.children(node) == 0 && !self.is_held(node)
            });
            let victim = may_go.min_by_key(|index| (self.order.key(&self.nodes[*index]), self.nodes[*index].sequence));
            let Some(victim) = victim else { break };
            freed.extend(self.nodes.remove(victim).slots);
        }
        freed
    }

    /// The freed slots, in no promised order; `None` if any of it is held.
    pub(crate) fn remove_namespace(&mut self, namespace: &Namespace) -> Option<Vec<i64>> {
        let inside = |node: &&Node| node.namespace == *namespace;
        if self.nodes.iter().filter(inside).any(|node| self.is_held(node)) {
            return None;
        }
        let freed = self.nodes.iter().filter(inside).flat_map(|node| node.slots.clone()).collect();
        self.nodes.retain(|node| node.namespace != *namespace);
        Some(freed)
    }

    /// Drops everything; gives the units dropped.
    pub(crate) fn reset(&mut self) -> usize {
        let dropped = self.size(|_| true);
        (self.nodes, self.locks, self.pins) = (vec![], vec![], vec![]);
        dropped
    }

    pub(crate) fn node(&self, sequence: u64) -> Option<&Node> {
        self.nodes.iter().find(|node| node.sequence == sequence)
    }

    /// The node that ends there, or the root.
    pub(crate) fn node_at(&self, namespace: &Namespace, path: &[Unit]) -> u64 {
        let ends_here = |node: &&Node| node.namespace == *namespace && node.path == path;
        self.nodes.iter().find(ends_here).map_or(0, |node| node.sequence)
    }

    pub(crate) fn parent(&self, node: &Node) -> u64 {
        self.node_at(&node.namespace, &node.path[..node.start])
    }

    pub(crate) fn size(&self, wanted: impl Fn(&Node) -> bool) -> usize {
        self.nodes.iter().filter(|node| wanted(node)).map(Node::length).sum()
    }
}
