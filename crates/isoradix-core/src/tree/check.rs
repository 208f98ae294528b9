//! Every invariant of the tree, checked from scratch. Slow, for tests and for the doubtful.

use std::collections::BTreeMap;

use super::{PageCounts, Tree, edge_seed, edge_tag};
use crate::error::Error;
use crate::hash;
use crate::namespace::{DEFAULT, NamespaceId};
use crate::node::{Hold, Node, NodeId, ROOT};
use crate::residency::Residency;
use crate::runs::OwnedRun;

/// Locks, pins and host locks that are out, for each node that they were given on.
#[derive(Debug, Default)]
pub(crate) struct Holdings(BTreeMap<NodeId, [u32; 3]>);

impl Holdings {
    pub(crate) fn new(outstanding: impl Iterator<Item = (NodeId, Hold)>) -> Self {
        let mut all = BTreeMap::<NodeId, [u32; 3]>::new();
        for (id, hold) in outstanding {
            all.entry(id).or_default()[hold as usize] += 1;
        }
        Self(all)
    }

    fn on(&self, id: NodeId) -> [u32; 3] {
        self.0.get(&id).copied().unwrap_or_default()
    }
}

/// Sums over all nodes, to be compared with the running counts.
#[derive(Default, PartialEq, Eq, Debug)]
struct Sums {
    visible: u64,
    counts: PageCounts,
    digest: u64,
}

/// The same of one namespace.
#[derive(Default, PartialEq, Eq, Debug, Clone, Copy)]
struct NamespaceSums {
    pages: u64,
    held_pages: u64,
    roots: u32,
}

/// What a walk over all nodes gathers.
#[derive(Default)]
struct Found {
    roots: u64,
    sums: Sums,
    namespaces: BTreeMap<NamespaceId, NamespaceSums>,
    runs: Vec<OwnedRun>,
}

impl Found {
    fn add(&mut self, node: &Node, digest_term: u64) {
        let pages = u64::from(node.pages);
        let held_pages = if node.is_held() { pages } else { 0 };
        let Sums { visible, counts, digest } = &mut self.sums;
        *visible += 1;
        counts.add(PageCounts::of(node));
        *digest = digest.wrapping_add(digest_term);
        let namespace = self.namespaces.entry(node.namespace).or_default();
        namespace.pages += pages;
        namespace.held_pages += held_pages;
        self.runs.push(OwnedRun { start: node.run, pages: node.pages, residency: node.residency, node: node.sequence });
    }
}

fn ensure(holds: bool, what: impl FnOnce() -> String, node: &Node) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::invariant(what(), vec![node.sequence])) }
}

impl Tree {
    /// Checks structure, counts, holds, storage and digest; names the first node that is wrong.
    pub(crate) fn check(&self, holdings: &Holdings) -> Result<(), Error> {
        let mut found = Found::default();
        let mut stack = vec![ROOT];
        while let Some(id) = stack.pop() {
            // First, since what follows goes along these links.
            self.check_children(id)?;
            stack.extend(self.nodes.children(id));
            let node = &self.nodes[id];
            if id == ROOT {
                ensure(node.is_root(), || "the root has tokens".to_owned(), node)?;
            } else if node.is_root() {
                self.check_root(id)?;
                found.roots += 1;
                found.namespaces.entry(node.namespace).or_default().roots += 1;
            } else {
                self.check_node(id, holdings)?;
                found.add(node, self.digest_term(id));
            }
        }
        self.nodes.check().map_err(|what| Error::invariant(what, vec![]))?;
        let nodes = found.sums.visible + found.roots + 1;
        if (self.nodes.len() as u64, self.edges.len() as u64) != (nodes, nodes - 1) {
            let what =
                format!("{} nodes and {} edges, {nodes} nodes are reachable", self.nodes.len(), self.edges.len());
            return Err(Error::invariant(what, vec![]));
        }
        self.check_sums(&found.sums)?;
        self.check_namespaces(&found.namespaces)?;
        self.check_safety().map_err(|(what, id)| Error::invariant(what, vec![self.nodes[id].sequence]))?;
        self.runs.check(found.runs)
    }

    fn check_sums(&self, found: &Sums) -> Result<(), Error> {
        let counted = Sums { visible: self.visible, counts: self.counts, digest: self.digest };
        if counted == *found {
            return Ok(());
        }
        Err(Error::invariant(format!("counted {counted:?}, found {found:?}"), vec![]))
    }

    /// Each namespace counts what was found in it, and only the default one may be empty.
    fn check_namespaces(&self, found: &BTreeMap<NamespaceId, NamespaceSums>) -> Result<(), Error> {
        let mut known = 0;
        for (id, entry) in self.namespaces.all() {
            let counted = NamespaceSums { pages: entry.pages, held_pages: entry.held_pages, roots: entry.roots };
            let found = found.get(&id).copied().unwrap_or_default();
            if counted != found {
                let what = format!("{:?} counts {counted:?}, found {found:?}", entry.name);
                return Err(Error::invariant(what, vec![]));
            }
            if id != DEFAULT && found.roots == 0 {
                return Err(Error::invariant(format!("{:?} is empty", entry.name), vec![]));
            }
            known += usize::from(found.roots > 0);
        }
        if known == found.len() {
            return Ok(());
        }
        Err(Error::invariant(format!("nodes are in {} namespaces, {known} are known", found.len()), vec![]))
    }

    /// The children form one ring in both directions, and name their parent.
    fn check_children(&self, id: NodeId) -> Result<(), Error> {
        let node = &self.nodes[id];
        // A broken ring may never come back to its beginning.
        let children = self.nodes.children(id).take(node.children as usize + 1).count();
        ensure(
            children == node.children as usize,
            || format!("{children} children or more, {} counted", node.children),
            node,
        )?;
        let on_device = self.nodes.children(id).filter(|child| self.nodes[*child].residency.on_device()).count();
        ensure(
            on_device == node.device_children as usize,
            || format!("{on_device} children are on the device, {} counted", node.device_children),
            node,
        )?;
        for child in self.nodes.children(id) {
            let below = &self.nodes[child];
            ensure(below.generation % 2 == 1, || "a node in the tree is dead".to_owned(), below)?;
            ensure(below.parent == id, || "a child has another parent".to_owned(), below)?;
            ensure(
                id == ROOT || below.namespace == node.namespace,
                || "a child has another namespace".to_owned(),
                below,
            )?;
            ensure(
                self.nodes[below.next].prev == child,
                || "the next sibling does not know this one as the one before".to_owned(),
                below,
            )?;
        }
        Ok(())
    }

    /// A node is somewhere, and in a tier only if its parent is.
    fn check_tiers(&self, id: NodeId) -> Result<(), Error> {
        let node = &self.nodes[id];
        let parent = &self.nodes[node.parent];
        let (residency, above) = (node.residency, parent.residency);
        ensure(
            residency.on_device() || residency.on_host(),
            || "a node is neither on the device nor on host".to_owned(),
            node,
        )?;
        let closed = |here: bool, above: bool| !here || above || parent.is_root();
        ensure(
            closed(residency.on_device(), above.on_device()),
            || "a node is on the device, its parent is not".to_owned(),
            node,
        )?;
        ensure(
            closed(residency.on_host(), above.on_host()),
            || "a node is on host, its parent is not".to_owned(),
            node,
        )?;
        let stored = |tiers: Residency| tiers.has(Residency::STORED);
        ensure(closed(stored(residency), stored(above)), || "a node is in storage, its parent is not".to_owned(), node)
    }

    fn check_edge(&self, id: NodeId) -> Result<(), Error> {
        let node = &self.nodes[id];
        let found = self.edges.find(node.edge, |it| it == id);
        ensure(found == Some(id), || "a node is not in the edge table".to_owned(), node)
    }

    fn check_root(&self, id: NodeId) -> Result<(), Error> {
        self.check_edge(id)?;
        let node = &self.nodes[id];
        ensure(node.parent == ROOT, || "a node has no tokens".to_owned(), node)?;
        ensure(node.children > 0, || "a namespace root is empty".to_owned(), node)?;
        ensure(
            node.content == self.root_content(node.namespace, self.first_token(id))
                && node.edge == edge_tag(node.content),
            || "the hash of a namespace root is not that of its name".to_owned(),
            node,
        )
    }

    fn check_node(&self, id: NodeId, holdings: &Holdings) -> Result<(), Error> {
        self.check_edge(id)?;
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
            ensure(parent.reach >= node.reach, || "reach is deeper than the parent's".to_owned(), node)?;
        }
        self.check_tiers(id)?;
        let own = holdings.on(id);
        let due = self.nodes.children(id).map(|child| &self.nodes[child]).fold(own, |[locks, pins, hosts], child| {
            [locks + child.lock_ref, pins + child.pin_ref, hosts + child.host_ref]
        });
        ensure(
            [node.lock_ref, node.pin_ref, node.host_ref] == due,
            || {
                let Node { lock_ref, pin_ref, host_ref, .. } = node;
                format!("{lock_ref} locks, {pin_ref} pins and {host_ref} host locks, receipts make {due:?}")
            },
            node,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ints::{Ints, Part};
    use crate::namespace::Namespace;
    use crate::residency::Residency;
    use crate::tree::Place;

    /// Four leaves below one namespace root, in pages of two tokens that spill.
    fn four_leaves() -> (Tree, Vec<NodeId>) {
        let mut tree = Tree::new(2, false);
        let namespace = Namespace::new(Some("lora"), None);
        let leaves = (0..4)
            .map(|leaf| {
                let tokens = Part { values: Ints::U32(&[leaf, leaf]), offset: 0 };
                let slots = Part { values: Ints::U32(&[2 * leaf + 1, 2 * leaf]), offset: 0 };
                let run = tree.store(tokens, slots).expect("room");
                tree.attach(None, Place { namespace: &namespace, first_token: None }, run, Residency::DEVICE)
            })
            .collect();
        (tree, leaves)
    }

    fn broken(spoil: impl FnOnce(&mut Tree, &[NodeId])) -> (String, Vec<u64>) {
        let (mut tree, leaves) = four_leaves();
        tree.check(&Holdings::default()).expect("a sound tree");
        spoil(&mut tree, &leaves);
        match tree.check(&Holdings::default()).expect_err("a broken tree") {
            Error::Invariant { what, nodes } => (what, nodes),
            other => panic!("{other}"),
        }
    }

    fn says(found: &(String, Vec<u64>), what: &str, nodes: &[u64]) {
        assert!(found.0.contains(what), "{found:?}");
        assert_eq!(found.1, nodes, "{found:?}");
    }

    #[test]
    fn a_ring_is_checked_both_ways() {
        let found = broken(|tree, leaves| tree.nodes[leaves[1]].prev = leaves[3]);
        says(&found, "the next sibling does not know", &[1]);
        let found = broken(|tree, leaves| tree.nodes[leaves[3]].next = leaves[1]);
        says(&found, "5 children or more, 4 counted", &[0]);
    }

    #[test]
    fn each_namespace_is_counted_by_itself() {
        let namespace = |tree: &Tree, leaves: &[NodeId]| tree.nodes[leaves[0]].namespace;
        let found = broken(|tree, leaves| {
            let id = namespace(tree, leaves);
            tree.namespaces[id].pages -= 1;
            tree.namespaces[DEFAULT].pages += 1;
        });
        says(&found, "pages: 1, held_pages: 0, roots: 0 }, found NamespaceSums { pages: 0", &[]);
        let found = broken(|tree, leaves| {
            let id = namespace(tree, leaves);
            tree.namespaces[id].held_pages += 1;
        });
        says(&found, "held_pages: 1, roots: 1 }, found NamespaceSums { pages: 4, held_pages: 0", &[]);
        let found = broken(|tree, leaves| {
            let id = namespace(tree, leaves);
            tree.namespaces[id].roots += 1;
        });
        says(&found, "roots: 2 }", &[]);
    }

    #[test]
    fn the_living_and_the_free_are_apart() {
        let found = broken(|tree, leaves| tree.nodes[leaves[2]].generation += 1);
        says(&found, "dead", &[3]);
        let found = broken(|tree, leaves| {
            tree.detach(leaves[3], &mut vec![]);
            tree.nodes[leaves[3]].generation += 1;
        });
        says(&found, "dead is not free", &[]);
    }
}
