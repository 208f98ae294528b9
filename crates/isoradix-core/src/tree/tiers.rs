//! What a tree does with a node's tiers.

use super::{PageCounts, Tree};
use crate::ints::Ints;
use crate::node::{Node, NodeId, ROOT};
use crate::residency::Residency;

impl Tree {
    /// The one place where a living node's residency changes: sizes, digest and the parent's count go with it.
    pub(crate) fn set_residency(&mut self, id: NodeId, residency: Residency) {
        let before = &self.nodes[id];
        let (parent, was) = (before.parent, before.residency);
        self.counts.subtract(PageCounts::of(before));
        self.digest = self.digest.wrapping_sub(self.digest_term(id));
        self.nodes[id].residency = residency;
        self.digest = self.digest.wrapping_add(self.digest_term(id));
        self.counts.add(PageCounts::of(&self.nodes[id]));
        match (was.on_device(), residency.on_device()) {
            (true, false) => self.nodes[parent].device_children -= 1,
            (false, true) => self.nodes[parent].device_children += 1,
            _ => {}
        }
        self.refresh_safety(id);
    }

    /// Takes a node that is on host too off the device; appends its slots to `out`.
    pub(crate) fn demote(&mut self, id: NodeId, out: &mut Vec<i64>) {
        let node = &self.nodes[id];
        debug_assert!(node.residency.on_host() && node.device_children == 0 && !node.is_held());
        self.runs.append_slots(node.run, node.pages, out);
        self.runs.release_slots(node.run, node.pages);
        self.set_residency(id, node.residency.without(Residency::DEVICE));
        self.drop_device_parts(id);
    }

    /// Brings a node onto the device, with these slots, which have been checked. Its parts are as if it was computed.
    pub(crate) fn revive(&mut self, id: NodeId, slots: Ints<'_>) {
        let node = &self.nodes[id];
        debug_assert!(node.is_host_only() && slots.len() == node.pages as usize * self.page);
        self.runs.write_slots(node.run, slots);
        self.set_residency(id, node.residency.with(Residency::DEVICE));
        self.compute_parts(id);
    }

    /// A node on the device that nothing holds moves to other slots, which have been checked, and was computed there; appends the
    /// slots that it had to `out`.
    pub(crate) fn adopt(&mut self, id: NodeId, slots: Ints<'_>, out: &mut Vec<i64>) {
        let node = &self.nodes[id];
        debug_assert!(node.residency.on_device() && !node.is_held() && slots.len() == node.pages as usize * self.page);
        let (run, pages) = (node.run, node.pages);
        self.runs.append_slots(run, pages, out);
        self.runs.release_slots(run, pages);
        self.runs.write_slots(run, slots);
        self.compute_parts(id);
    }

    /// A node is on host, in these pages.
    pub(crate) fn set_host_pages(&mut self, id: NodeId, pages: &[u32]) {
        let node = &self.nodes[id];
        debug_assert!(!node.residency.on_host() && pages.len() == node.pages as usize);
        self.runs.write_host_pages(node.run, pages);
        self.set_residency(id, node.residency.with(Residency::HOST));
    }

    /// Takes a node that is on the device too off host.
    pub(crate) fn give_up_host_pages(&mut self, id: NodeId) {
        let Node { run, pages, residency, .. } = self.nodes[id];
        debug_assert!(residency.on_device() && residency.on_host());
        self.runs.release_host_pages(run, pages);
        self.set_residency(id, residency.without(Residency::HOST));
        self.set_host_parts(id, &[]);
    }

    /// The deepest node on host, from `id` up; the root if there is none.
    #[inline]
    pub(crate) fn deepest_on_host(&self, id: NodeId) -> NodeId {
        self.path_up(id).find(|at| self.nodes[*at].residency.on_host()).unwrap_or(ROOT)
    }

    /// Appends the host pages of a node; none if it is not on host.
    pub(crate) fn append_host_pages(&self, id: NodeId, out: &mut Vec<u32>) {
        let node = &self.nodes[id];
        if node.residency.on_host() {
            self.runs.append_host_pages(node.run, node.pages, out);
        }
    }

    /// The deepest node on the device, from `id` up; the root if there is none.
    #[inline]
    pub(crate) fn deepest_on_device(&self, id: NodeId) -> NodeId {
        let mut at = id;
        loop {
            let node = &self.nodes[at];
            if node.residency.on_device() {
                return at;
            }
            if node.is_root() {
                return ROOT;
            }
            at = node.parent;
        }
    }

    /// Whether a node is on the device alone, and nothing is under way to bring it to host.
    #[inline]
    pub(crate) fn lacks_backup(&self, id: NodeId) -> bool {
        let Node { residency, .. } = self.nodes[id];
        residency.on_device() && !residency.on_host() && !residency.has(Residency::PENDING)
    }

    /// The nodes that make up the last `pages` pages of the path that ends at `id`, deepest first: what was one node may
    /// have been split since, and the pieces lie one above the other.
    pub(crate) fn segment(&self, id: NodeId, pages: u32) -> impl Iterator<Item = NodeId> + '_ {
        let mut left = pages;
        self.path_up(id).take_while(move |at| {
            let some = left > 0;
            left = left.saturating_sub(self.nodes[*at].pages);
            some
        })
    }
}
