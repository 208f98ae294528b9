//! The radix tree itself: structure, storage, sizes and the tree digest. It knows nothing of time, order or decisions.
//!
//! All positions and lengths in here are counted in pages, or in units where a name says so.

mod check;
mod counts;
mod descent;
mod parts;
mod safety;
mod tiers;
mod walk;

pub(crate) use check::Holdings;
pub(crate) use counts::PageCounts;
pub(crate) use descent::Descent;

use crate::edges::EdgeTable;
use crate::error::Error;
use crate::hash;
use crate::ints::Part;
use crate::namespace::{Namespace, NamespaceId, NamespaceTable};
use crate::node::{Arena, Hold, NONE, Node, NodeId, ROOT};
use crate::residency::Residency;
use crate::runs::{Run, RunStore};
use parts::Parts;
use safety::Safety;

/// Nodes that one insert may add: a leaf, a split head, a namespace root.
const NODES_PER_INSERT: usize = 3;

/// The tree of all namespaces.
pub(crate) struct Tree {
    pub(crate) page: usize,
    /// Units are pairs of neighbours: a pair's second token is stored, the very first token names the root.
    pub(crate) bigram: bool,
    pub(crate) nodes: Arena,
    pub(crate) namespaces: NamespaceTable,
    runs: RunStore,
    edges: EdgeTable,
    /// Sequence number given out last.
    sequence: u64,
    /// Nodes other than roots.
    visible: u64,
    counts: PageCounts,
    /// What could go from the device without loss; only where that is asked for.
    safety: Option<Safety>,
    /// What is there beside keys and values; only where there are components.
    parts: Option<Parts>,
    digest: u64,
}

/// Below which root a path hangs.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) namespace: &'a Namespace,
    /// In bigram mode the first token of the path.
    pub(crate) first_token: Option<u32>,
}

/// Tag and starting point of the search for a child.
#[inline]
fn edge_tag(page_hash: u64) -> u32 {
    (page_hash >> 32) as u32
}

/// Seed under which a parent's children are hashed.
#[inline]
fn edge_seed(parent: NodeId) -> u64 {
    u64::from(parent).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Tree {
    pub(crate) fn new(page_size: u32, bigram: bool) -> Self {
        Self {
            page: page_size as usize,
            bigram,
            nodes: Arena::new(),
            namespaces: NamespaceTable::new(),
            runs: RunStore::new(page_size),
            edges: EdgeTable::new(),
            sequence: 0,
            visible: 0,
            counts: PageCounts::default(),
            safety: None,
            parts: None,
            digest: 0,
        }
    }

    pub(crate) fn page_size(&self) -> u32 {
        u32::try_from(self.page).expect("at most 1024")
    }

    /// The root of a namespace, or of a first token in it, if something is cached there.
    #[inline]
    pub(crate) fn find_root(&self, namespace: NamespaceId, first_token: Option<u32>) -> Option<NodeId> {
        let content = self.root_content(namespace, first_token);
        self.edges.find(edge_tag(content), |id| {
            let node = &self.nodes[id];
            node.parent == ROOT && node.namespace == namespace && self.first_token(id) == first_token
        })
    }

    /// In bigram mode the first token of the paths below a root of a namespace.
    fn first_token(&self, root: NodeId) -> Option<u32> {
        self.bigram.then_some(self.nodes[root].run)
    }

    fn root_content(&self, namespace: NamespaceId, first_token: Option<u32>) -> u64 {
        hash::mix(self.namespaces[namespace].hash, first_token.map_or(0, |token| u64::from(token) + 1))
    }

    fn find_or_add_root(&mut self, Place { namespace, first_token }: Place<'_>) -> NodeId {
        let namespace = self.namespaces.find_or_add(namespace);
        if let Some(root) = self.find_root(namespace, first_token) {
            return root;
        }
        let content = self.root_content(namespace, first_token);
        let edge = edge_tag(content);
        let run = first_token.unwrap_or(0);
        let root = self.nodes.add(Node { parent: ROOT, run, edge, namespace, content, ..Node::empty() });
        self.nodes.link(root);
        self.edges.insert(edge, root);
        self.namespaces[namespace].roots += 1;
        root
    }

    /// Refuses when a split and a new leaf of so many pages might not fit.
    pub(crate) fn ensure_room(&self, pages: usize) -> Result<(), Error> {
        if self.nodes.room() < NODES_PER_INSERT {
            return Err(Error::Capacity { what: "nodes", limit: u64::from(NONE) });
        }
        self.runs.ensure_room(pages)
    }

    /// Stores tokens and slots for a leaf that is to be attached; see [`RunStore::store`].
    pub(crate) fn store(&mut self, tokens: Part<'_>, slots: Part<'_>) -> Result<Run, Error> {
        self.runs.store(tokens, slots)
    }

    /// As [`store`](Self::store), for a leaf that is not on the device.
    pub(crate) fn store_without_slots(&mut self, tokens: Part<'_>) -> Result<Run, Error> {
        self.runs.store_without_slots(tokens)
    }

    /// Adds a leaf with a stored run below `parent`, or below the namespace's root, which is made if need be.
    pub(crate) fn attach(
        &mut self,
        parent: Option<NodeId>,
        place: Place<'_>,
        run: Run,
        residency: Residency,
    ) -> NodeId {
        let parent = parent.unwrap_or_else(|| self.find_or_add_root(place));
        let Run { start, pages, content } = run;
        let stored = self.runs.tokens(start, pages);
        let edge = edge_tag(hash::page(edge_seed(parent), self.page, |i| stored[i]));
        let depth = self.nodes[parent].depth + pages;
        let namespace = self.nodes[parent].namespace;
        self.sequence += 1;
        let node = Node {
            parent,
            run: start,
            pages,
            edge,
            depth,
            reach: depth,
            namespace,
            sequence: self.sequence,
            content,
            residency,
            ..Node::empty()
        };
        self.counts.add_new(&node);
        let id = self.nodes.add(node);
        self.nodes.link(id);
        self.nodes[parent].device_children += u32::from(residency.on_device());
        self.edges.insert(edge, id);
        self.visible += 1;
        self.namespaces[namespace].pages += u64::from(pages);
        self.digest = self.digest.wrapping_add(self.digest_term(id));
        self.refresh_safety(id);
        self.begin_parts(id);
        id
    }

    /// Splits a node after `head_pages` pages. The new node is the head; the old one keeps its handle, end and children.
    pub(crate) fn split(&mut self, id: NodeId, head_pages: u32) -> NodeId {
        debug_assert!(0 < head_pages && head_pages < self.nodes[id].pages);
        self.digest = self.digest.wrapping_sub(self.digest_term(id));
        self.sequence += 1;
        let old = self.nodes[id].clone();
        let head = self.nodes.add(Node {
            pages: head_pages,
            depth: old.depth - old.pages + head_pages,
            sequence: self.sequence,
            content: hash::run(self.runs.tokens(old.run, head_pages)),
            device_children: u32::from(old.residency.on_device()),
            ..old.clone()
        });
        self.nodes.interpose(head, id);
        self.edges.replace(old.edge, id, head);
        let (run, pages) = (old.run + head_pages, old.pages - head_pages);
        let tail = self.runs.tokens(run, pages);
        let edge = edge_tag(hash::page(edge_seed(head), self.page, |i| tail[i]));
        let node = &mut self.nodes[id];
        (node.run, node.pages, node.edge, node.content) = (run, pages, edge, hash::run(tail));
        self.edges.insert(edge, id);
        self.visible += 1;
        self.digest = self.digest.wrapping_add(self.digest_term(head)).wrapping_add(self.digest_term(id));
        self.split_safety(head, id);
        head
    }

    /// Removes a leaf, appends the slots that it has to `out`, and gives the parent, which may have become a leaf itself.
    ///
    /// Roots that are empty go too; their parent is then nothing that eviction could take.
    pub(crate) fn detach(&mut self, id: NodeId, out: &mut Vec<i64>) -> NodeId {
        self.forget_safety(id);
        self.digest = self.digest.wrapping_sub(self.digest_term(id));
        let node = &self.nodes[id];
        debug_assert!(node.children == 0 && !node.is_held() && !node.is_root());
        let (parent, namespace, pages, residency) = (node.parent, node.namespace, node.pages, node.residency);
        if residency.on_device() {
            self.runs.append_slots(node.run, pages, out);
            self.runs.release_slots(node.run, pages);
        }
        if residency.on_host() {
            self.runs.release_host_pages(node.run, pages);
        }
        self.runs.release(node.run, pages);
        self.visible -= 1;
        self.counts.subtract_old(node);
        self.nodes[parent].device_children -= u32::from(residency.on_device());
        self.namespaces[namespace].pages -= u64::from(pages);
        self.forget(id);
        if self.nodes[parent].is_root() && self.nodes[parent].children == 0 {
            self.forget(parent);
            self.namespaces[namespace].roots -= 1;
            if self.namespaces[namespace].roots == 0 {
                self.namespaces.release(namespace);
            }
            return ROOT;
        }
        parent
    }

    /// Fetches what detaching these nodes will wait for: the lines of the edge table, which lie all over it.
    #[inline]
    pub(crate) fn warm(&self, ids: impl Iterator<Item = NodeId>) {
        for id in ids {
            self.edges.warm(self.nodes[id].edge);
        }
    }

    fn forget(&mut self, id: NodeId) {
        self.edges.remove(self.nodes[id].edge, id);
        self.nodes.unlink(id);
        self.nodes.release(id);
    }

    /// Holds every node from `id` up.
    pub(crate) fn hold(&mut self, id: NodeId, hold: Hold) {
        let (mut at, mut newly_held) = (id, 0);
        while !self.nodes[at].is_root() {
            let node = &mut self.nodes[at];
            let (free, unpinned) = (!node.is_held(), node.pin_ref == 0);
            *node.holds(hold) += 1;
            if free && node.is_held() {
                newly_held += u64::from(node.pages);
                self.counts.held(node);
            }
            if unpinned && node.pin_ref > 0 {
                self.counts.pinned(node);
            }
            at = node.parent;
        }
        self.namespaces[self.nodes[id].namespace].held_pages += newly_held;
        self.refresh_safety_up(id);
    }

    /// Gives back one hold on every node from `id` up; calls `freed` for each that is held no more.
    pub(crate) fn unhold(&mut self, id: NodeId, hold: Hold, mut freed: impl FnMut(&mut Node, NodeId)) {
        let (mut at, mut no_more_held) = (id, 0);
        while !self.nodes[at].is_root() {
            let node = &mut self.nodes[at];
            let (held, pinned) = (node.is_held(), node.pin_ref > 0);
            *node.holds(hold) -= 1;
            if held && !node.is_held() {
                no_more_held += u64::from(node.pages);
                self.counts.unheld(node);
                freed(node, at);
            }
            if pinned && node.pin_ref == 0 {
                self.counts.unpinned(node);
            }
            at = node.parent;
        }
        self.namespaces[self.nodes[id].namespace].held_pages -= no_more_held;
        self.refresh_safety_up(id);
    }

    /// Drops everything. Handles die, sequence numbers go on.
    pub(crate) fn clear(&mut self) {
        let all: Vec<NodeId> = self.walk(ROOT).collect();
        let roots: Vec<NodeId> = self.nodes.children(ROOT).collect();
        for id in all.into_iter().chain(roots) {
            self.nodes.release(id);
        }
        let root = &mut self.nodes[ROOT];
        (root.first_child, root.children, root.device_children) = (NONE, 0, 0);
        self.namespaces = NamespaceTable::new();
        self.runs = RunStore::new(self.page_size());
        self.edges = EdgeTable::new();
        (self.visible, self.counts, self.digest) = (0, PageCounts::default(), 0);
        self.clear_safety();
    }

    /// What a node adds to the tree digest: its place, its parent, its tokens and its tiers.
    fn digest_term(&self, id: NodeId) -> u64 {
        let node = &self.nodes[id];
        hash::mix(
            hash::mix(node.sequence, self.nodes[node.parent].identity()),
            hash::mix(node.content, u64::from(node.pages) | node.residency.word() << 32),
        )
    }

    /// Sum of all nodes' terms: equal trees have equal digests, however they were built.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn visible(&self) -> u64 {
        self.visible
    }

    /// Pages by tier and by what is held.
    #[inline]
    pub(crate) fn counts(&self) -> PageCounts {
        self.counts
    }

    /// The stored tokens of a node; in bigram mode the second one of each pair.
    #[inline]
    pub(crate) fn tokens(&self, id: NodeId) -> &[u32] {
        let node = &self.nodes[id];
        self.runs.tokens(node.run, node.pages)
    }

    /// In bigram mode the token before a node's run: the first one of its first pair.
    pub(crate) fn token_before(&self, id: NodeId) -> Option<u32> {
        let parent = self.nodes[id].parent;
        if self.nodes[parent].is_root() {
            return self.first_token(parent);
        }
        if self.bigram { self.tokens(parent).last().copied() } else { None }
    }

    /// Appends the slots of one node.
    pub(crate) fn append_slots(&self, id: NodeId, out: &mut Vec<i64>) {
        let node = &self.nodes[id];
        self.runs.append_slots(node.run, node.pages, out);
    }

    /// Bytes that the tree's arrays have reserved.
    pub(crate) fn memory_bytes(&self) -> usize {
        let structure = self.nodes.memory_bytes() + self.edges.memory_bytes() + self.namespaces.memory_bytes();
        let parts = self.parts.as_ref().map_or(0, Parts::memory_bytes);
        structure + self.runs.memory_bytes() + self.safety_bytes() + parts
    }
}
