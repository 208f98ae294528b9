//! Nodes and their arena.

use crate::clock::Stamp;
use crate::error::Error;
use crate::namespace::NamespaceId;
use crate::residency::Residency;

/// Index of a node in the arena. Indices are reused and therefore never enter a decision; sequence numbers do.
pub(crate) type NodeId = u32;

/// The root above all namespaces. It holds no tokens and is never evicted.
pub(crate) const ROOT: NodeId = 0;

/// Which count a hold raises, on a node and on all above it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// For a running request: in neither tier is it evicted.
    Lock,
    /// For prefixes worth keeping: likewise.
    Pin,
    /// For what reads host pages: they stay, whatever becomes of the device.
    Host,
}

/// No node.
pub(crate) const NONE: NodeId = u32::MAX;

/// Generations have 29 bits, so that a handle stays a non-negative `i64` and cannot be taken for a receipt.
const GENERATION_MASK: u32 = (1 << 29) - 1;

/// Names a node from outside. It dies with the node: an old handle is refused, also when the index lives again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeHandle(u64);

impl NodeHandle {
    /// The root above all namespaces: what a miss matches.
    pub const ROOT: Self = Self::new(ROOT, 1);

    const fn new(id: NodeId, generation: u32) -> Self {
        Self((generation as u64) << 32 | id as u64)
    }

    /// The handle with these bits.
    #[must_use]
    pub fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The handle's bits, below 2^61.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.0
    }

    #[expect(clippy::cast_possible_truncation, reason = "the low half")]
    fn id(self) -> NodeId {
        self.0 as u32
    }
}

/// A run of pages on the path from a root, and all that is known of it.
///
/// Two cache lines, aligned as a pair: what a walk, a lock and an eviction follow is in the first one.
#[derive(Debug, Clone)]
#[repr(C, align(128))]
pub(crate) struct Node {
    pub(crate) parent: NodeId,
    /// First granule of the run in the run store; of a root in bigram mode, the first token of the path.
    pub(crate) run: u32,
    /// Length of the run.
    pub(crate) pages: u32,
    /// Tag under which the parent finds this node.
    pub(crate) edge: u32,
    pub(crate) lock_ref: u32,
    pub(crate) pin_ref: u32,
    pub(crate) children: u32,
    /// Children form a ring in order of arrival; `NONE` if there are none.
    pub(crate) first_child: NodeId,
    pub(crate) next: NodeId,
    pub(crate) prev: NodeId,
    pub(crate) namespace: NamespaceId,
    /// Odd while the node lives.
    pub(crate) generation: u32,
    /// Pages from the root to the end of the run.
    pub(crate) depth: u32,
    /// Deepest depth ever inserted at or below this node.
    pub(crate) reach: u32,
    /// Taken out of the LRU order while held; see `order::lru`.
    pub(crate) parked: bool,
    pub(crate) residency: Residency,
    /// Children that are on the device.
    pub(crate) device_children: u32,

    /// Running number of creation: the last word of every total order.
    pub(crate) sequence: u64,
    /// Hash of the run's tokens; of a root, hash of namespace and first token.
    pub(crate) content: u64,
    pub(crate) access: Stamp,
    pub(crate) created: Stamp,
    /// Inserts that passed through it; stays at its largest value.
    pub(crate) hits: u32,
    /// Host locks on it and below.
    pub(crate) host_ref: u32,
    pub(crate) priority: i64,
}

const _: () = assert!(size_of::<Node>() == 128);

impl Node {
    /// Whether a lock or a pin is on this node or below.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.lock_ref | self.pin_ref != 0
    }

    /// Whether this is the root or the root of a namespace: no tokens, never evicted.
    #[inline]
    pub(crate) fn is_root(&self) -> bool {
        self.pages == 0
    }

    /// Whether eviction may take it from the device.
    #[inline]
    pub(crate) fn is_evictable_leaf(&self) -> bool {
        self.device_children == 0 && self.residency.on_device() && !self.is_held() && !self.is_root()
    }

    /// Whether it is on host alone.
    #[inline]
    pub(crate) fn is_host_only(&self) -> bool {
        !self.residency.on_device() && !self.is_root()
    }

    /// Whether eviction may take it from host, and with that from the tree.
    #[inline]
    pub(crate) fn is_evictable_host_leaf(&self) -> bool {
        self.is_host_only() && self.children == 0 && !self.is_held() && self.host_ref == 0
    }

    /// The count that such a hold raises.
    #[inline]
    pub(crate) fn holds(&mut self, hold: Hold) -> &mut u32 {
        match hold {
            Hold::Lock => &mut self.lock_ref,
            Hold::Pin => &mut self.pin_ref,
            Hold::Host => &mut self.host_ref,
        }
    }

    /// What children know their parent by, in digests.
    pub(crate) fn identity(&self) -> u64 {
        if self.is_root() { self.content } else { self.sequence }
    }

    /// A node of nothing. Its priority is below every other, so that an insert raises it whatever it brings.
    pub(crate) fn empty() -> Self {
        Self {
            parent: NONE,
            run: 0,
            pages: 0,
            edge: 0,
            lock_ref: 0,
            pin_ref: 0,
            depth: 0,
            reach: 0,
            namespace: 0,
            first_child: NONE,
            next: NONE,
            prev: NONE,
            children: 0,
            generation: 1,
            parked: false,
            residency: Residency::default(),
            device_children: 0,
            sequence: 0,
            content: 0,
            access: Stamp::default(),
            created: Stamp::default(),
            hits: 0,
            host_ref: 0,
            priority: i64::MIN,
        }
    }
}

/// All nodes, in one array with a free list.
#[derive(Debug)]
pub(crate) struct Arena {
    nodes: Vec<Node>,
    free: Vec<NodeId>,
    /// Dead nodes whose index is not used again.
    retired: usize,
}

impl Arena {
    /// An arena that holds the root.
    pub(crate) fn new() -> Self {
        Self { nodes: vec![Node::empty()], free: Vec::new(), retired: 0 }
    }

    /// How many more nodes fit.
    pub(crate) fn room(&self) -> usize {
        NONE as usize - self.nodes.len() + self.free.len()
    }

    /// Takes in a node. The caller has made sure that there is room.
    pub(crate) fn add(&mut self, mut node: Node) -> NodeId {
        if let Some(id) = self.free.pop() {
            node.generation = self[id].generation + 1;
            self[id] = node;
            return id;
        }
        let id = NodeId::try_from(self.nodes.len()).expect("room was checked");
        node.generation = 1;
        self.nodes.push(node);
        id
    }

    /// Ends a node's life; its handles are stale from now on.
    pub(crate) fn release(&mut self, id: NodeId) {
        let node = &mut self[id];
        debug_assert!(node.generation % 2 == 1);
        node.generation += 1;
        // An index whose generations are used up is not used again, lest an old handle comes to life.
        if node.generation < GENERATION_MASK {
            self.free.push(id);
        } else {
            self.retired += 1;
        }
    }

    /// The node that a handle names.
    #[inline]
    pub(crate) fn resolve(&self, handle: NodeHandle) -> Result<NodeId, Error> {
        let id = handle.id();
        match self.nodes.get(id as usize) {
            Some(node) if handle == NodeHandle::new(id, node.generation) && node.generation % 2 == 1 => Ok(id),
            _ => Err(Error::StaleHandle { handle: handle.0 }),
        }
    }

    /// The handle of a living node. Roots of namespaces have none of their own: they answer to `ROOT`.
    #[inline]
    pub(crate) fn handle(&self, id: NodeId) -> NodeHandle {
        let node = &self[id];
        if node.is_root() { NodeHandle::ROOT } else { NodeHandle::new(id, node.generation) }
    }

    /// Living nodes, roots included.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len() - self.free.len() - self.retired
    }

    /// Every node on the free list is dead and there once, and no other is dead.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut free = vec![false; self.nodes.len()];
        for id in &self.free {
            match free.get_mut(*id as usize) {
                Some(seen) if !*seen => *seen = true,
                Some(_) => return Err(format!("node index {id} is free twice")),
                None => return Err(format!("node index {id} is free, but there are {}", self.nodes.len())),
            }
        }
        let dead = self.nodes.iter().map(|node| node.generation % 2 == 0);
        match dead.zip(free).position(|(dead, free)| dead != free) {
            Some(id) => Err(format!("node index {id} has generation {}: dead is not free", self.nodes[id].generation)),
            None => Ok(()),
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>() + self.free.capacity() * size_of::<NodeId>()
    }

    /// Puts `child` last into its parent's ring of children.
    pub(crate) fn link(&mut self, child: NodeId) {
        let parent = self[child].parent;
        let first = self[parent].first_child;
        self[parent].children += 1;
        if first == NONE {
            self[parent].first_child = child;
            self[child].next = child;
            self[child].prev = child;
        } else {
            let last = self[first].prev;
            self[child].next = first;
            self[child].prev = last;
            self[last].next = child;
            self[first].prev = child;
        }
    }

    /// Takes `child` out of its parent's ring.
    pub(crate) fn unlink(&mut self, child: NodeId) {
        let Node { parent, next, prev, .. } = self[child];
        self[parent].children -= 1;
        if next == child {
            self[parent].first_child = NONE;
            return;
        }
        self[prev].next = next;
        self[next].prev = prev;
        if self[parent].first_child == child {
            self[parent].first_child = next;
        }
    }

    /// Puts `head` into the place of `child` in its parent's ring, and `child` under `head` as its only child.
    pub(crate) fn interpose(&mut self, head: NodeId, child: NodeId) {
        let Node { parent, next, prev, .. } = self[child];
        if next == child {
            self[head].next = head;
            self[head].prev = head;
        } else {
            self[head].next = next;
            self[head].prev = prev;
            self[prev].next = head;
            self[next].prev = head;
        }
        if self[parent].first_child == child {
            self[parent].first_child = head;
        }
        self[head].parent = parent;
        self[head].first_child = child;
        self[head].children = 1;
        self[child].parent = head;
        self[child].next = child;
        self[child].prev = child;
    }

    /// The children of a node in order of arrival.
    pub(crate) fn children(&self, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let first = self[id].first_child;
        let mut at = first;
        std::iter::from_fn(move || {
            let here = at;
            if here == NONE {
                return None;
            }
            let next = self[here].next;
            at = if next == first { NONE } else { next };
            Some(here)
        })
    }
}

impl std::ops::Index<NodeId> for Arena {
    type Output = Node;
    #[inline]
    fn index(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }
}

impl std::ops::IndexMut<NodeId> for Arena {
    #[inline]
    fn index_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id as usize]
    }
}
