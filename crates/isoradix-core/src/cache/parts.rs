//! What is there of pages beside their keys and values, as far as the cache decides by it.

use super::{PrefixCache, Segment};
use crate::components::{Components, Ends};
use crate::error::Error;
use crate::evidence::{Record, RecordKind};
use crate::ints::Ints;
use crate::namespace::Namespace;
use crate::node::{NodeHandle, NodeId, ROOT};
use crate::tree::Descent;

impl PrefixCache {
    /// From here on the parts of pages are followed. For an empty cache.
    pub(crate) fn follow_parts(&mut self, components: &Components) {
        if !components.is_empty() {
            self.tree.follow_parts(components.computed());
            self.computed = components.without_states();
        }
    }

    fn follows_parts(&self) -> bool {
        !self.computed.is_empty()
    }

    /// Parts of a node's pages, on the device and on host; none where they are not followed.
    pub(crate) fn parts(&self, node: NodeHandle) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let id = self.tree.nodes.resolve(node)?;
        Ok((self.tree.device_parts(id).to_vec(), self.tree.host_parts(id).to_vec()))
    }

    /// The usable ends of the path that ends at a node, over both tiers.
    pub(crate) fn usable_ends(&self, node: NodeHandle, components: &Components) -> Result<Ends, Error> {
        let id = self.tree.nodes.resolve(node)?;
        Ok(components.ends(&[], &self.path_parts(id, u32::MAX)))
    }

    /// Whether the path that ends at a node is usable as a whole.
    pub(crate) fn is_usable_end(&self, node: NodeHandle, components: &Components) -> Result<bool, Error> {
        if components.is_empty() {
            return Ok(true);
        }
        let depth = self.tree.nodes[self.tree.nodes.resolve(node)?].depth;
        Ok(self.usable_ends(node, components)?.deepest(u32::MAX) == depth)
    }

    /// The length up to which a match would find `key` usable, changing nothing at all.
    pub(crate) fn probe_usable(
        &self,
        key: Ints<'_>,
        namespace: &Namespace,
        components: &Components,
    ) -> Result<u64, Error> {
        let units = self.units(key)?;
        let (descent, _) = self.find(units, namespace, None)?;
        units.check_from(self.matched(descent))?;
        let Some(Descent { node, partial, .. }) = descent else { return Ok(0) };
        let mut parts = self.path_parts(node, u32::MAX);
        if let Some((child, pages)) = partial {
            parts.extend_from_slice(&self.tree.usable_parts(child)[..pages as usize]);
        }
        Ok(self.to_units(components.ends(&[], &parts).deepest(u32::MAX)))
    }

    /// Parts of so many pages at least directly above a node's end, or of all that there are.
    pub(crate) fn parts_above(&self, node: NodeHandle, pages: u32) -> Vec<u8> {
        let id = self.tree.nodes.resolve(node).unwrap_or(ROOT);
        self.path_parts(id, pages)
    }

    fn path_parts(&self, id: NodeId, pages: u32) -> Vec<u8> {
        let depth = self.tree.nodes[id].depth;
        let from = depth.saturating_sub(pages);
        let path = self.tree.path_up(id).take_while(|at| self.tree.nodes[*at].depth > from);
        let path: Vec<NodeId> = path.collect();
        path.iter().rev().flat_map(|at| self.tree.usable_parts(*at)).copied().collect()
    }

    /// The node that ends after so many pages of the path that ends at `node`; one in which that lies is split there, and the path
    /// is stamped.
    pub(crate) fn clamp(&mut self, node: NodeHandle, pages: u32) -> Result<NodeHandle, Error> {
        let id = self.tree.nodes.resolve(node)?;
        let reaches = |at: &NodeId| self.tree.nodes[*at].depth >= pages;
        let Some(at) = self.tree.path_up(id).take_while(reaches).last().filter(|_| pages > 0) else {
            return Ok(NodeHandle::ROOT);
        };
        let (parent, depth) = (self.tree.nodes[at].parent, self.tree.nodes[at].depth);
        if depth == pages {
            return Ok(self.tree.nodes.handle(at));
        }
        self.tree.ensure_room(0)?;
        let partial = Some((at, pages - self.tree.nodes[parent].depth));
        let head = self.land(Descent { node: parent, depth: pages, partial });
        self.stamp_path(head);
        let record = Record::new(RecordKind::Match, self.tree.nodes[head].sequence, self.to_units(pages), 0, 0);
        self.record(record);
        Ok(self.tree.nodes.handle(head))
    }

    /// Up to where an insert leaves the tree's slots, and how far it goes, in pages; `end` is all of its key.
    ///
    /// What the caller has computed has all parts, what is on the device may lack some. From the first node on that lacks one, the tree
    /// takes the caller's slots. What is held stays, so what hangs below it may not be usable because of it, and the caller
    /// better keeps its own: then the insert ends at the deepest end that is. Holds go up to the root, so what is held is above.
    pub(super) fn parts_of_insert(&self, descent: Option<Descent>, resumed: u32, end: u32) -> (u32, u32) {
        let on_device = u32::try_from(self.matched_on_device(descent) / self.tree.page).unwrap_or(u32::MAX);
        let Some(Descent { node, depth, partial, .. }) = descent.filter(|_| self.follows_parts()) else {
            return (on_device, end);
        };
        let mut path: Vec<NodeId> = self.tree.path_up(node).collect();
        path.reverse();
        path.extend(partial.map(|(child, _)| child));
        let (mut parts, mut kept) = (Vec::new(), on_device);
        for at in path.into_iter().filter(|at| self.tree.nodes[*at].residency.on_device()) {
            let begin = count(parts.len());
            let own = self.tree.device_parts(at);
            let own = &own[..own.len().min((depth - begin) as usize)];
            let lacks = own.iter().any(|page| !page & self.computed.computed() != 0);
            if kept == on_device && lacks && begin >= resumed && !self.tree.nodes[at].is_held() {
                kept = begin;
            }
            parts.extend_from_slice(own);
        }
        parts.truncate(kept as usize);
        parts.resize(end as usize, self.computed.computed());
        let usable = self.computed.ends(&[], &parts).deepest(end);
        if usable == end { (kept, end) } else { (usable.max(resumed), usable.max(resumed)) }
    }

    /// The nodes on the device below so many pages of the path that ends at a node move to their part of `slots`, which begin at
    /// unit `base`.
    pub(super) fn adopt(&mut self, id: NodeId, kept: u32, slots: Ints<'_>, base: usize) {
        let below = |at: &NodeId| self.tree.nodes[*at].depth > kept;
        let path: Vec<NodeId> = self.tree.path_up(id).take_while(below).collect();
        for at in path.into_iter().rev().filter(|at| self.tree.nodes[*at].residency.on_device()).collect::<Vec<_>>() {
            let node = &self.tree.nodes[at];
            let (begin, end) = ((node.depth - node.pages) as usize, node.depth as usize);
            let own = slots.slice(begin * self.tree.page - base, end * self.tree.page - base);
            self.tree.adopt(at, own, &mut self.replaced);
        }
    }

    /// Slots that inserts have put others in the place of since this was asked last.
    pub(crate) fn take_replaced(&mut self) -> Vec<i64> {
        std::mem::take(&mut self.replaced)
    }

    /// Parts, as a match finds them, of the first pages of a checked key below its anchor: those that are in the tree. Nothing if what
    /// storage has of the rest could not hang below them, or there is no rest.
    pub(crate) fn parts_below(&self, key: &[u32], namespace: &Namespace, anchor: NodeHandle) -> Option<Vec<u8>> {
        let units = self.units(Ints::U32(key)).ok()?;
        let (descent, _) = self.find(units, namespace, None).ok()?;
        let above = self.tree.nodes[self.tree.nodes.resolve(anchor).ok()?].depth as usize;
        let Some(Descent { node, depth, partial, .. }) = descent else { return Some(Vec::new()) };
        let end = partial.map_or(node, |(child, _)| child);
        if !self.tree.nodes[end].residency.on_host() || depth as usize * self.tree.page == units.end {
            return None;
        }
        let mut path: Vec<NodeId> = self.tree.path_up(end).collect();
        path.reverse();
        let parts = path.into_iter().flat_map(|at| self.tree.usable_parts(at)).copied();
        Some(parts.take(depth as usize).skip(above).collect())
    }

    /// The states at a node's end are kept on the device.
    pub(crate) fn keep_states(&mut self, node: NodeHandle, states: u8) -> Result<(), Error> {
        let id = self.tree.nodes.resolve(node)?;
        if states == 0 || id == ROOT || !self.tree.nodes[id].residency.on_device() {
            let what = format!("states were to be kept at node {}", self.sequence(node));
            let hint = "keep them at a node on the device, of a cache that was made with a state among its components";
            return Err(Error::Invalid { what, hint });
        }
        let parts = self.tree.add_device_parts(id, states);
        self.record(Record::new(RecordKind::Touch, self.tree.nodes[id].sequence, u64::from(parts), 0, 0));
        Ok(())
    }

    /// Appends what a copy of a segment from the device takes along, page by page.
    pub(crate) fn segment_device_parts(&self, segment: Segment, out: &mut Vec<u8>) {
        if self.follows_parts() {
            self.nodes_of(segment).into_iter().rev().for_each(|at| out.extend_from_slice(self.tree.device_parts(at)));
        }
    }

    /// Appends what a copy of a segment from host takes along, page by page.
    pub(crate) fn segment_host_parts(&self, segment: Segment, out: &mut Vec<u8>) {
        if self.follows_parts() {
            self.nodes_of(segment).into_iter().rev().for_each(|at| out.extend_from_slice(self.tree.host_parts(at)));
        }
    }
}

fn count(pages: usize) -> u32 {
    u32::try_from(pages).unwrap_or(u32::MAX)
}
