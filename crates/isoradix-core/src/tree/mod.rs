//! The radix tree itself: structure, storage, sizes and the tree digest. It knows nothing of time, order or decisions.
//!
//! All positions and lengths in here are counted in pages, or in units where a name says so.

mod check;
mod descent;
mod walk;

pub(crate) use check::Holdings;
pub(crate) use descent::Descent;

use crate::edges::EdgeTable;
use crate::error::Error;
use crate::hash;
use crate::ints::Part;
use crate::namespace::{Namespace, NamespaceId, NamespaceTable};
use crate::node::{Arena, NONE, Node, NodeId, ROOT};
use crate::runs::{Run, RunStore};

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
    pages: u64,
    held_pages: u64,
    pinned_pages: u64,
    digest: u64,
}

/// Which count a hold raises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    Lock,
    Pin,
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
            pages: 0,
            held_pages: 0,
            pinned_pages: 0,
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

    /// Adds a leaf with a stored run below `parent`, or below the namespace's root, which is made if need be.
    pub(crate) fn attach(&mut self, parent: Option<NodeId>, place: Place<'_>, run: Run) -> NodeId {
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
            ..Node::empty()
        };
        let id = self.nodes.add(node);
        self.nodes.link(id);
        self.edges.insert(edge, id);
        self.visible += 1;
        self.pages += u64::from(pages);
        self.namespaces[namespace].pages += u64::from(pages);
        self.digest = self.digest.wrapping_add(self.digest_term(id));
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
        head
    }

    /// Removes a leaf, appends its slots to `out`, and gives the parent, which may have become a leaf itself.
    ///
    /// Roots that are empty go too; their parent is then nothing that eviction could take.
    pub(crate) fn detach(&mut self, id: NodeId, out: &mut Vec<i64>) -> NodeId {
        self.digest = self.digest.wrapping_sub(self.digest_term(id));
        let node = &self.nodes[id];
        debug_assert!(node.children == 0 && !node.is_held() && !node.is_root());
        let (parent, namespace, pages) = (node.parent, node.namespace, node.pages);
        self.runs.append_slots(node.run, pages, out);
        self.runs.release(node.run, pages);
        self.visible -= 1;
        self.pages -= u64::from(pages);
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
        let (mut at, mut newly_held, mut newly_pinned) = (id, 0, 0);
        while !self.nodes[at].is_root() {
            let node = &mut self.nodes[at];
            newly_held += if node.is_held() { 0 } else { u64::from(node.pages) };
            match hold {
                Hold::Lock => node.lock_ref += 1,
                Hold::Pin => {
                    newly_pinned += if node.pin_ref == 0 { u64::from(node.pages) } else { 0 };
                    node.pin_ref += 1;
                }
            }
            at = node.parent;
        }
        self.held_pages += newly_held;
        self.pinned_pages += newly_pinned;
        self.namespaces[self.nodes[id].namespace].held_pages += newly_held;
    }

    /// Gives back one hold on every node from `id` up; calls `freed` for each that is held no more.
    pub(crate) fn unhold(&mut self, id: NodeId, hold: Hold, mut freed: impl FnMut(&mut Node, NodeId)) {
        let (mut at, mut no_more_held, mut no_more_pinned) = (id, 0, 0);
        while !self.nodes[at].is_root() {
            let node = &mut self.nodes[at];
            match hold {
                Hold::Lock => node.lock_ref -= 1,
                Hold::Pin => {
                    node.pin_ref -= 1;
                    no_more_pinned += if node.pin_ref == 0 { u64::from(node.pages) } else { 0 };
                }
            }
            if !node.is_held() {
                no_more_held += u64::from(node.pages);
                freed(node, at);
            }
            at = node.parent;
        }
        self.held_pages -= no_more_held;
        self.pinned_pages -= no_more_pinned;
        self.namespaces[self.nodes[id].namespace].held_pages -= no_more_held;
    }

    /// Drops everything. Handles die, sequence numbers go on.
    pub(crate) fn clear(&mut self) {
        let all: Vec<NodeId> = self.walk(ROOT).collect();
        let roots: Vec<NodeId> = self.nodes.children(ROOT).collect();
        for id in all.into_iter().chain(roots) {
            self.nodes.release(id);
        }
        let root = &mut self.nodes[ROOT];
        (root.first_child, root.children) = (NONE, 0);
        self.namespaces = NamespaceTable::new();
        self.runs = RunStore::new(self.page_size());
        self.edges = EdgeTable::new();
        (self.visible, self.pages, self.held_pages, self.pinned_pages, self.digest) = (0, 0, 0, 0, 0);
    }

    /// What a node adds to the tree digest: its place, its parent and its tokens.
    fn digest_term(&self, id: NodeId) -> u64 {
        let node = &self.nodes[id];
        hash::mix(
            hash::mix(node.sequence, self.nodes[node.parent].identity()),
            hash::mix(node.content, u64::from(node.pages)),
        )
    }

    /// Sum of all nodes' terms: equal trees have equal digests, however they were built.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn visible(&self) -> u64 {
        self.visible
    }

    pub(crate) fn pages(&self) -> u64 {
        self.pages
    }

    pub(crate) fn held_pages(&self) -> u64 {
        self.held_pages
    }

    pub(crate) fn pinned_pages(&self) -> u64 {
        self.pinned_pages
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
        structure + self.runs.memory_bytes()
    }
}
