//! Every invariant of the tree, checked from scratch. Slow, for tests and for the doubtful.

use std::collections::BTreeMap;

use super::{Hold, Tree, edge_seed, edge_tag};
use crate::error::Error;
use crate::hash;
use crate::node::{Node, NodeId, ROOT};

/// Locks and pins that are out, for each node that they were given on.
#[derive(Debug, Default)]
pub(crate) struct Holdings(BTreeMap<NodeId, (u32, u32)>);

impl Holdings {
    pub(crate) fn new(outstanding: impl Iterator<Item = (NodeId, Hold)>) -> Self {
        let mut all = BTreeMap::<NodeId, (u32, u32)>::new();
        for (id, hold) in outstanding {
            let (locks, pins) = all.entry(id).or_default();
            match hold {
                Hold::Lock => *locks += 1,
                Hold::Pin => *pins += 1,
            }
        }
        Self(all)
    }

    fn on(&self, id: NodeId) -> (u32, u32) {
        self.0.get(&id).copied().unwrap_or_default()
    }
}

/// Sums over all nodes, to be compared with the running counts.
#[derive(Default, PartialEq, Eq, Debug)]
struct Sums {
    visible: u64,
    pages: u64,
    held_pages: u64,
    pinned_pages: u64,
    digest: u64,
}

fn ensure(holds: bool, what: impl FnOnce() -> String, node: &Node) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::invariant(what(), vec![node.sequence])) }
}

impl Tree {
    /// Checks structure, counts, holds, stamps, storage and digest; names the first node that is wrong.
    pub(crate) fn check(&self, holdings: &Holdings) -> Result<(), Error> {
        let mut sums = Sums::default();
        let mut runs = Vec::new();
        let mut roots = 0;
        for root in self.nodes.children(ROOT) {
            roots += 1;
            self.check_links(root)?;
            let node = &self.nodes[root];
            ensure(node.is_root() && node.children > 0, || "a namespace root is empty".to_owned(), node)?;
        }
        for id in self.walk(ROOT) {
            self.check_node(id, holdings)?;
            let node = &self.nodes[id];
            runs.push((node.run, node.pages, node.sequence));
            sums.visible += 1;
            sums.pages += u64::from(node.pages);
            sums.held_pages += if node.is_held() { u64::from(node.pages) } else { 0 };
            sums.pinned_pages += if node.pin_ref > 0 { u64::from(node.pages) } else { 0 };
            sums.digest = sums.digest.wrapping_add(self.digest_term(id));
        }
        let nodes = sums.visible + roots + 1;
        if (self.nodes.len() as u64, self.edges.len() as u64) != (nodes, nodes - 1) {
            let what =
                format!("{} nodes and {} edges, {nodes} nodes are reachable", self.nodes.len(), self.edges.len());
            return Err(Error::invariant(what, vec![]));
        }
        self.check_sums(&sums)?;
        self.check_runs(runs)
    }

    fn check_sums(&self, found: &Sums) -> Result<(), Error> {
        let counted = Sums {
            visible: self.visible,
            pages: self.pages,
            held_pages: self.held_pages,
            pinned_pages: self.pinned_pages,
            digest: self.digest,
        };
        if counted != *found {
            return Err(Error::invariant(format!("counted {counted:?}, found {found:?}"), vec![]));
        }
        if let Some(entry) = self.namespaces.left_behind() {
            return Err(Error::invariant(format!("namespace {:?} is empty", entry.name), vec![]));
        }
        let (mut pages, mut held) = (0, 0);
        for entry in self.namespaces.in_use() {
            pages += entry.pages;
            held += entry.held_pages;
        }
        if (pages, held) != (found.pages, found.held_pages) {
            let what = format!("namespaces have {pages} pages, {held} held; the tree has {found:?}");
            return Err(Error::invariant(what, vec![]));
        }
        Ok(())
    }

    fn check_runs(&self, mut runs: Vec<(u32, u32, u64)>) -> Result<(), Error> {
        self.runs.check().map_err(|what| Error::invariant(what, vec![]))?;
        runs.sort_unstable();
        for pair in runs.windows(2) {
            let ((start, pages, one), (next, _, other)) = (pair[0], pair[1]);
            if start + pages > next {
                return Err(Error::invariant(format!("runs overlap at granule {next}"), vec![one, other]));
            }
        }
        let total: u64 = runs.iter().map(|(_, pages, _)| u64::from(*pages)).sum();
        if total != u64::from(self.runs.used_pages()) {
            let what = format!("runs have {total} pages, storage counts {}", self.runs.used_pages());
            return Err(Error::invariant(what, vec![]));
        }
        Ok(())
    }

    fn check_links(&self, id: NodeId) -> Result<(), Error> {
        let node = &self.nodes[id];
        let found = self.edges.find(node.edge, |it| it == id);
        ensure(found == Some(id), || "a node is not in the edge table".to_owned(), node)?;
        let children = self.nodes.children(id).count();
        ensure(children == node.children as usize, || format!("{children} children, {} counted", node.children), node)?;
        for child in self.nodes.children(id) {
            let below = &self.nodes[child];
            ensure(below.parent == id, || "a child has another parent".to_owned(), below)?;
            ensure(below.namespace == node.namespace, || "a child has another namespace".to_owned(), below)?;
        }
        Ok(())
    }

    fn check_node(&self, id: NodeId, holdings: &Holdings) -> Result<(), Error> {
        self.check_links(id)?;
        let (node, tokens) = (&self.nodes[id], self.tokens(id));
        let parent = &self.nodes[node.parent];
        ensure(
            node.depth == parent.depth + node.pages,
            || "depth is not the parent's plus own pages".to_owned(),
            node,
        )?;
        ensure(node.reach >= node.depth, || format!("reach {} above depth {}", node.reach, node.depth), node)?;
        ensure(
            node.edge == edge_tag(hash::page(edge_seed(node.parent), self.page, |i| tokens[i])),
            || "the edge tag is not the hash of the first page".to_owned(),
            node,
        )?;
        ensure(node.content == hash::run(tokens), || "the content hash is not that of the tokens".to_owned(), node)?;
        if !parent.is_root() {
            ensure(parent.access > node.access, || "the parent is not younger than its child".to_owned(), node)?;
            ensure(parent.reach >= node.reach, || "reach is deeper than the parent's".to_owned(), node)?;
        }
        let own = holdings.on(id);
        let (locks, pins) = self
            .nodes
            .children(id)
            .map(|child| &self.nodes[child])
            .fold(own, |(locks, pins), child| (locks + child.lock_ref, pins + child.pin_ref));
        ensure(
            (node.lock_ref, node.pin_ref) == (locks, pins),
            || format!("{} locks and {} pins, receipts make {locks} and {pins}", node.lock_ref, node.pin_ref),
            node,
        )
    }
}
