//! What an eviction could take without loss, and which nodes have something on host below them.
//!
//! A node is *safe* if it is on the device and on host, not held, and so is all that is on the device below it: a clean node
//! above a dirty one cannot go before that one does. Kept only where it is asked for, which is under write-back: nodes are two
//! cache lines, and this is not in them. A change costs as many nodes as become safe, or are not safe any more, by it.

use super::Tree;
use crate::node::{NodeId, ROOT};

/// What is known of a node, and what of it its parent counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Below {
    /// Children on host.
    host_children: u32,
    /// Children on the device that are not safe.
    children_at_risk: u32,
    on_host: bool,
    safe: bool,
    /// On the device and not safe.
    is_at_risk: bool,
}

/// One entry for each node.
#[derive(Debug, Default)]
pub(crate) struct Safety {
    nodes: Vec<Below>,
    safe_pages: u64,
}

impl Safety {
    fn at(&self, id: NodeId) -> Below {
        self.nodes.get(id as usize).copied().unwrap_or_default()
    }

    fn at_mut(&mut self, id: NodeId) -> &mut Below {
        let len = id as usize + 1;
        if self.nodes.len() < len {
            self.nodes.resize(len, Below::default());
        }
        &mut self.nodes[id as usize]
    }

    /// Replaces what is known of a node, and what its parent counts of it; says whether the parent may be another now.
    fn set(&mut self, id: NodeId, parent: NodeId, pages: u32, new: Below) -> bool {
        let old = std::mem::replace(self.at_mut(id), new);
        let step = |count: &mut u32, was: bool, is: bool| *count = *count + u32::from(is) - u32::from(was);
        let above = self.at_mut(parent);
        step(&mut above.host_children, old.on_host, new.on_host);
        step(&mut above.children_at_risk, old.is_at_risk, new.is_at_risk);
        self.safe_pages += if new.safe { u64::from(pages) } else { 0 };
        self.safe_pages -= if old.safe { u64::from(pages) } else { 0 };
        old.is_at_risk != new.is_at_risk
    }
}

impl Tree {
    /// From now on [`safe_pages`](Self::safe_pages) and [`has_host_children`](Self::has_host_children) are known. The tree is empty.
    pub(crate) fn follow_safety(&mut self) {
        self.safety = Some(Safety::default());
    }

    /// Pages that an eviction could take without loss, if that is followed.
    pub(crate) fn safe_pages(&self) -> u64 {
        self.safety.as_ref().map_or(0, |safety| safety.safe_pages)
    }

    /// Whether some child is on host, if that is followed.
    pub(crate) fn has_host_children(&self, id: NodeId) -> bool {
        self.safety.as_ref().is_some_and(|safety| safety.at(id).host_children > 0)
    }

    /// Pages that would be safe no more without the host copy of this node: its own and those of what is safe above it.
    pub(crate) fn safe_pages_up(&self, id: NodeId) -> u64 {
        let Some(safety) = &self.safety else { return 0 };
        self.path_up(id).take_while(|at| safety.at(*at).safe).map(|at| u64::from(self.nodes[at].pages)).sum()
    }

    /// A node's tiers or holds are others, or it is new.
    pub(super) fn refresh_safety(&mut self, id: NodeId) {
        let Some(safety) = &mut self.safety else { return };
        let mut at = id;
        while !self.nodes[at].is_root() {
            let (node, old) = (&self.nodes[at], safety.at(at));
            let (on_device, on_host) = (node.residency.on_device(), node.residency.on_host());
            let safe = on_device && on_host && !node.is_held() && old.children_at_risk == 0;
            let new = Below { on_host, safe, is_at_risk: on_device && !safe, ..old };
            if !safety.set(at, node.parent, node.pages, new) {
                break;
            }
            at = node.parent;
        }
    }

    /// All from `id` up are held now, or are not.
    pub(super) fn refresh_safety_up(&mut self, id: NodeId) {
        let mut at = id;
        while self.safety.is_some() && !self.nodes[at].is_root() {
            self.refresh_safety(at);
            at = self.nodes[at].parent;
        }
    }

    /// A leaf is about to leave the tree.
    pub(super) fn forget_safety(&mut self, id: NodeId) {
        let Some(safety) = &mut self.safety else { return };
        let (parent, pages) = (self.nodes[id].parent, self.nodes[id].pages);
        if safety.set(id, parent, pages, Below::default()) {
            self.refresh_safety(parent);
        }
    }

    /// A node was split: its head is what it is, and has it as the only child.
    pub(super) fn split_safety(&mut self, head: NodeId, tail: NodeId) {
        let Some(safety) = &mut self.safety else { return };
        let whole = safety.at(tail);
        let (host_children, children_at_risk) = (u32::from(whole.on_host), u32::from(whole.is_at_risk));
        *safety.at_mut(head) = Below { host_children, children_at_risk, ..whole };
    }

    /// Compares with what a walk over all nodes finds; names the first that is wrong.
    pub(super) fn check_safety(&self) -> Result<(), (String, NodeId)> {
        let Some(safety) = &self.safety else { return Ok(()) };
        let mut safe_pages = 0;
        let nodes: Vec<NodeId> = self.walk(ROOT).collect();
        let mut found = vec![Below::default(); safety.nodes.len()];
        // Children come after their parents in a walk.
        for id in nodes.iter().rev().copied() {
            let node = &self.nodes[id];
            let mut below = found.get(id as usize).copied().unwrap_or_default();
            let on_device = node.residency.on_device();
            below.on_host = node.residency.on_host();
            below.safe = on_device && below.on_host && !node.is_held() && below.children_at_risk == 0;
            below.is_at_risk = on_device && !below.safe;
            if below != safety.at(id) {
                return Err((format!("{:?} is kept of a node, found {below:?}", safety.at(id)), id));
            }
            safe_pages += if below.safe { u64::from(node.pages) } else { 0 };
            let above = &mut found[node.parent as usize];
            above.host_children += u32::from(below.on_host);
            above.children_at_risk += u32::from(below.is_at_risk);
        }
        if safe_pages == safety.safe_pages {
            return Ok(());
        }
        Err((format!("{} safe pages are counted, {safe_pages} found", safety.safe_pages), ROOT))
    }

    pub(super) fn clear_safety(&mut self) {
        if let Some(safety) = &mut self.safety {
            *safety = Safety::default();
        }
    }

    pub(super) fn safety_bytes(&self) -> usize {
        self.safety.as_ref().map_or(0, |safety| safety.nodes.capacity() * size_of::<Below>())
    }
}
