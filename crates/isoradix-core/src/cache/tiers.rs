//! What the cache does between its tiers. It is told which nodes, and in which host pages; why, the tiered cache knows.

use super::{Busy, Chosen, Copies, PrefixCache, Resume, Segment, Space, TierSizes, in_memory};
use crate::error::Error;
use crate::events::Tier;
use crate::evidence::{Record, RecordKind};
use crate::holds::{HostLockReceipt, LockReceipt};
use crate::ints::{Ints, Part, SLOTS};
use crate::namespace::Namespace;
use crate::node::{Hold, NodeHandle, NodeId, ROOT};
use crate::residency::Residency;
use crate::tree::{Descent, Place};
use std::collections::BTreeSet;

impl PrefixCache {
    /// Units of a walk's path that are on the device.
    #[inline]
    pub(super) fn matched_on_device(&self, descent: Option<Descent>) -> usize {
        let Some(descent) = descent else { return 0 };
        let end = descent.partial.map_or(descent.node, |(child, _)| child);
        if self.tree.nodes[end].residency.on_device() {
            return descent.depth as usize * self.tree.page;
        }
        let on_device = self.tree.deepest_on_device(descent.node);
        self.tree.nodes[on_device].depth as usize * self.tree.page
    }

    /// Every node on the path that is on host alone takes its part of `slots`, which begin at unit `base`.
    pub(super) fn revive(&mut self, id: NodeId, slots: Ints<'_>, base: usize) {
        let path: Vec<NodeId> = self.tree.path_up(id).take_while(|at| self.tree.nodes[*at].is_host_only()).collect();
        for at in &path {
            let node = &self.tree.nodes[*at];
            let (begin, end) = ((node.depth - node.pages) as usize, node.depth as usize);
            let own = slots.slice(begin * self.tree.page - base, end * self.tree.page - base);
            self.tree.revive(*at, own);
        }
        // It has a child on the device now, and is no leaf there any more.
        let above = path.last().map_or(id, |top| self.tree.nodes[*top].parent);
        self.order.changed(&self.tree, above);
        self.tell_stored(&path, Tier::Device);
    }

    /// The nodes of a path, deepest first, have come to a tier.
    fn tell_stored(&mut self, path: &[NodeId], tier: Tier) {
        if let Some(events) = &mut self.events {
            path.iter().rev().for_each(|at| events.stored(&self.tree, *at, tier));
        }
    }

    /// A node has left a tier.
    fn tell_removed(&mut self, id: NodeId, tier: Tier) {
        if let Some(events) = &mut self.events {
            events.removed(id, tier);
        }
    }

    /// Takes a victim off the device that stays on host; gives its parent.
    pub(super) fn demote(&mut self, id: NodeId, units: u64, out: &mut Vec<i64>) -> NodeId {
        let node = &self.tree.nodes[id];
        self.record(Record::new(RecordKind::Demote, node.sequence, units, 0, node.content));
        self.tree.demote(id, out);
        self.tell_removed(id, Tier::Device);
        self.order.changed(&self.tree, id);
        self.tree.nodes[id].parent
    }

    /// Plants a mistake.
    #[cfg(feature = "planted-defects")]
    pub(crate) fn plant(&mut self, planted: crate::defects::Planted) {
        self.order.plant(planted);
        self.journal.planted = planted;
    }

    /// Keeps what is on host of a node and of all above it.
    pub(crate) fn host_lock(&mut self, node: NodeHandle) -> Result<HostLockReceipt, Error> {
        if !self.host_anchor(node)?.1 {
            let what = format!("node {} is not on host", self.sequence(node));
            return Err(Error::Invalid {
                what,
                hint: "lock what a match has found on host: host_node, if host_tokens is not 0",
            });
        }
        self.hold(node, Hold::Host, RecordKind::HostLock).map(HostLockReceipt::from_bits)
    }

    /// Gives back a host lock.
    pub(crate) fn unlock_host(&mut self, receipt: HostLockReceipt) -> Result<(), Error> {
        self.unhold(receipt.to_bits(), Hold::Host, RecordKind::HostUnlock)
    }

    /// The node of a host lock that is out.
    pub(crate) fn host_locked(&self, receipt: HostLockReceipt) -> Result<NodeHandle, Error> {
        self.holds.look(receipt.to_bits(), Hold::Host).map(|id| self.tree.nodes.handle(id))
    }

    /// The deepest node on the device from `node` up, and its depth in units.
    pub(crate) fn on_device(&self, node: NodeHandle) -> Result<(NodeHandle, u64), Error> {
        let id = self.tree.deepest_on_device(self.tree.nodes.resolve(node)?);
        Ok((self.tree.nodes.handle(id), self.to_units(self.tree.nodes[id].depth)))
    }

    /// Units on host alone of the path that ends at a node.
    pub(crate) fn host_only_units(&self, node: NodeHandle) -> Result<u64, Error> {
        let id = self.tree.nodes.resolve(node)?;
        let on_device = self.tree.deepest_on_device(id);
        Ok(self.to_units(self.tree.nodes[id].depth - self.tree.nodes[on_device].depth))
    }

    /// The depth of a node in units, and whether something can hang below it on host.
    pub(crate) fn host_anchor(&self, node: NodeHandle) -> Result<(u64, bool), Error> {
        let node = &self.tree.nodes[self.tree.nodes.resolve(node)?];
        Ok((self.to_units(node.depth), node.is_root() || node.residency.on_host()))
    }

    /// A key as this cache keeps it: checked, and without the tokens that fill no page.
    pub(crate) fn whole_key(&self, key: Ints<'_>) -> Result<Vec<u32>, Error> {
        let units = self.units(key)?;
        units.check_from(0)?;
        let mut whole = Vec::new();
        Error::make_room(&mut whole, units.end + 1, "the tokens of a prefetch")?;
        let length = if units.end == 0 { 0 } else { units.offset() + units.end };
        whole.resize(length, 0);
        key.slice(0, length).write_to(&mut whole);
        Ok(whole)
    }

    /// Units of such a key.
    pub(crate) fn units_in(&self, whole_key: &[u32]) -> u64 {
        (whole_key.len() - usize::from(self.tree.bigram && !whole_key.is_empty())) as u64
    }

    /// Pages that so many units fill.
    pub(crate) fn pages_of(&self, units: u64) -> u32 {
        u32::try_from(units / self.tree.page as u64).unwrap_or(u32::MAX)
    }

    /// The nodes of a path that are on the device alone, and that nothing is to bring to host, top down.
    pub(crate) fn path_without_backup(&self, node: NodeHandle) -> Vec<NodeHandle> {
        let Ok(id) = self.tree.nodes.resolve(node) else { return Vec::new() };
        let path = self.tree.path_up(id).take_while(|at| self.tree.lacks_backup(*at));
        let mut path: Vec<NodeHandle> = path.map(|at| self.tree.nodes.handle(at)).collect();
        path.reverse();
        path
    }

    /// The node above.
    pub(crate) fn parent(&self, node: NodeHandle) -> NodeHandle {
        let id = self.tree.nodes.resolve(node).unwrap_or(ROOT);
        if id == ROOT { NodeHandle::ROOT } else { self.tree.nodes.handle(self.tree.nodes[id].parent) }
    }

    /// Refuses an anchor that is not on the path of a key; see [`Resume`] for what is compared.
    pub(crate) fn check_anchor(&self, key: &[u32], namespace: &Namespace, anchor: NodeHandle) -> Result<(), Error> {
        let (length, _) = self.host_anchor(anchor)?;
        let units = self.units(Ints::U32(key))?;
        self.resume_point(units, namespace, Resume { node: anchor, length }).map(|_| ())
    }

    /// Brings all that is on host alone of a path onto the device, with slots that have been counted; stamps and locks it.
    pub(crate) fn load_back(&mut self, node: NodeHandle, slots: Ints<'_>) -> Result<LockReceipt, Error> {
        let id = self.tree.nodes.resolve(node)?;
        slots.check(&SLOTS, 0)?;
        let lock = self.lock(node)?;
        let base = self.to_units(self.tree.nodes[self.tree.deepest_on_device(id)].depth);
        let below: Vec<NodeId> = self.tree.path_up(id).take_while(|at| self.tree.nodes[*at].is_host_only()).collect();
        self.revive(id, slots, in_memory(base));
        for at in below {
            self.tree.load_parts(at);
        }
        self.stamp_path(id);
        let sequence = self.tree.nodes[id].sequence;
        self.record(Record::new(RecordKind::LoadBack, sequence, slots.len() as u64, base, 0));
        Ok(lock)
    }

    /// Evicts leaves on host alone until `pages` pages are free or nothing is left that may go; appends the pages to `out`.
    ///
    /// A user-defined policy that fails on a leaf leaves it where it is.
    pub(crate) fn evict_from_host(&mut self, pages: u32, out: &mut Vec<u32>) -> u32 {
        let mut freed = 0;
        self.order.settle_host(&self.tree);
        while freed < pages {
            let Some(id) = self.order.pop_host() else { break };
            let node = &self.tree.nodes[id];
            let (sequence, content, gone) = (node.sequence, node.content, node.pages);
            self.tree.append_host_pages(id, out);
            freed += gone;
            let units = self.to_units(gone);
            self.record(Record::new(RecordKind::EvictHost, sequence, units, 0, content));
            let parent = self.detach(id, &mut Vec::new());
            self.path_changed(parent);
        }
        freed
    }

    /// The last `pages.len()` pages of the path that ends at a node are on host, in these pages, with these parts: none, or one a page.
    pub(crate) fn backed(&mut self, end: NodeHandle, pages: &[u32], parts: &[u8]) {
        let segment = Segment { end, pages: count(pages.len()) };
        let (mut end, mut above) = (pages.len(), ROOT);
        let nodes = self.nodes_of(segment);
        for at in &nodes {
            let begin = end - self.tree.nodes[*at].pages as usize;
            self.tree.set_host_pages(*at, &pages[begin..end]);
            self.tree.set_host_parts(*at, parts.get(begin..end).unwrap_or_default());
            (end, above) = (begin, self.tree.nodes[*at].parent);
            self.record_on_host(*at);
            self.order.changed(&self.tree, *at);
        }
        if self.order.ranks_copies() {
            self.order.changed(&self.tree, above);
        }
        self.tell_stored(&nodes, Tier::Host);
    }

    /// Gives up host copies of nodes that are on the device too, until `pages` pages are free or nothing is left that may go;
    /// appends the pages to `out`. Those go first that no eviction could take from the device anyway; after them others, while
    /// `surplus` units stay that an eviction could take without loss.
    pub(crate) fn give_up_copies(&mut self, pages: u32, surplus: u64, out: &mut Vec<u32>) -> u32 {
        let (mut freed, mut left) = (0, surplus);
        while freed < pages {
            let Some(id) = self.order.next_copy(Copies::Spare).or_else(|| self.next_safe_copy(&mut left)) else {
                break;
            };
            let node = &self.tree.nodes[id];
            let (sequence, content, gone, parent) = (node.sequence, node.content, node.pages, node.parent);
            self.tree.append_host_pages(id, out);
            freed += gone;
            self.record(Record::new(RecordKind::GiveUp, sequence, self.to_units(gone), 0, content));
            self.tree.give_up_host_pages(id);
            self.tell_removed(id, Tier::Host);
            self.order.changed(&self.tree, id);
            self.order.changed(&self.tree, parent);
        }
        freed
    }

    /// The next copy that costs safety, if `left` units of that suffice.
    fn next_safe_copy(&self, left: &mut u64) -> Option<NodeId> {
        let id = self.order.next_copy(Copies::Safe)?;
        *left = left.checked_sub(self.to_units(self.tree.safe_pages_up(id)))?;
        Some(id)
    }

    /// Units that nothing holds yet, of a node and of those above it which are not among `locked`: these are, from now on. None,
    /// and no change, if there are more than `most` of them.
    pub(crate) fn units_to_hold(&self, node: NodeHandle, locked: &mut BTreeSet<NodeId>, most: u64) -> Option<u64> {
        let id = self.tree.nodes.resolve(node).unwrap_or(ROOT);
        // What is above something held is held too.
        let free = |at: &NodeId| !self.tree.nodes[*at].is_held() && !locked.contains(at);
        let along: Vec<NodeId> = self.tree.path_up(id).take_while(free).collect();
        let units = self.to_units(along.iter().map(|at| u64::from(self.tree.nodes[*at].pages)).sum::<u64>());
        if units > most {
            return None;
        }
        locked.extend(along);
        Some(units)
    }

    /// Units that an eviction could take from the device without loss, if this cache takes clean leaves first.
    pub(crate) fn safe_units(&self) -> u64 {
        self.to_units(self.tree.safe_pages())
    }

    fn record_on_host(&mut self, id: NodeId) {
        let node = &self.tree.nodes[id];
        let (sequence, content, units) = (node.sequence, node.content, self.to_units(node.pages));
        self.record(Record::new(RecordKind::Backed, sequence, units, 0, content));
    }

    /// A segment is to come to host, or is not any more. One that is gone is no matter.
    pub(crate) fn mark_pending(&mut self, segment: Segment, pending: bool) {
        for at in self.nodes_of(segment) {
            let residency = self.tree.nodes[at].residency;
            let marked =
                if pending { residency.with(Residency::PENDING) } else { residency.without(Residency::PENDING) };
            self.tree.set_residency(at, marked);
        }
    }

    /// A segment is in external storage. One that is gone is no matter.
    pub(crate) fn mark_stored(&mut self, segment: Segment) {
        for at in self.nodes_of(segment) {
            let node = &self.tree.nodes[at];
            let (sequence, units, residency) = (node.sequence, self.to_units(node.pages), node.residency);
            self.tree.set_residency(at, residency.with(Residency::STORED));
            self.record(Record::new(RecordKind::Stored, sequence, units, 0, 0));
        }
    }

    /// Appends to `chosen` what of a path is to be backed up, parents first: nodes on the device alone with enough hits, below
    /// what is on host or chosen. False if something above is still pending, so that the wish has to wait.
    pub(crate) fn choose_backups(&self, node: NodeHandle, hits: u32, chosen: &mut Chosen) -> bool {
        let Ok(id) = self.tree.nodes.resolve(node) else { return true };
        // What is chosen or waits has its ancestors with it, so the walk may end there.
        let handle = |at: NodeId| self.tree.nodes.handle(at);
        let lacks = |at: &NodeId| self.tree.lacks_backup(*at) && !chosen.has(handle(*at)) && !chosen.waits(handle(*at));
        let path: Vec<NodeId> = self.tree.path_up(id).take_while(lacks).collect();
        let above = path.last().map_or(id, |top| self.tree.nodes[*top].parent);
        if chosen.waits(handle(above)) || (!path.is_empty() && self.tree.nodes[above].residency.has(Residency::PENDING))
        {
            for at in path {
                chosen.wait(self.tree.nodes.handle(at));
            }
            return false;
        }
        for at in path.into_iter().rev() {
            let node = &self.tree.nodes[at];
            if node.hits < hits {
                break;
            }
            chosen.add(Segment { end: self.tree.nodes.handle(at), pages: node.pages });
        }
        true
    }

    /// The leaves on the device alone that would go next, enough for `units` together with what is above them. A leaf is passed
    /// over that comes to more than `most` units with that; the first that is not worth it ends the search: `worth` is asked with
    /// the units found before, and its own.
    pub(crate) fn next_without_backup(
        &mut self,
        units: u64,
        most: u64,
        worth: impl Fn(u64, u64) -> bool,
    ) -> Vec<NodeHandle> {
        let (mut leaves, mut counted, mut found) = (Vec::new(), BTreeSet::new(), 0);
        let tree = &self.tree;
        self.order.look_at_dirty(tree, |id| {
            let along = tree.path_up(id).take_while(|at| tree.lacks_backup(*at) && !counted.contains(at));
            let along: Vec<NodeId> = along.collect();
            let pages: u64 = along.iter().map(|at| u64::from(tree.nodes[*at].pages)).sum();
            let length = pages * tree.page as u64;
            if length <= most {
                if !worth(found, length) {
                    return false;
                }
                leaves.push(tree.nodes.handle(id));
                counted.extend(along);
                found += length;
            }
            found < units
        });
        leaves
    }

    /// Whether all of a segment is there, and on host.
    pub(crate) fn is_wholly_on_host(&self, segment: Segment) -> bool {
        let nodes = self.nodes_of(segment);
        !nodes.is_empty() && nodes.iter().all(|id| self.tree.nodes[*id].residency.on_host())
    }

    /// What of a path external storage does not have, and `chosen` neither, which has it from here on: its last pages, since all is
    /// stored with what is above it. Nothing if there are none.
    pub(crate) fn unstored(&self, end: NodeHandle, chosen: &mut BTreeSet<NodeId>) -> Option<Segment> {
        let id = self.tree.nodes.resolve(end).ok()?;
        let lacks = |at: &NodeId| !self.tree.nodes[*at].residency.has(Residency::STORED) && !chosen.contains(at);
        let along: Vec<NodeId> = self.tree.path_up(id).take_while(lacks).collect();
        let pages = along.iter().map(|at| self.tree.nodes[*at].pages).sum();
        chosen.extend(along);
        (pages > 0).then_some(Segment { end, pages })
    }

    /// External storage is another one, and has nothing.
    pub(crate) fn forget_stored(&mut self) {
        let stored: Vec<NodeId> =
            self.tree.walk(ROOT).filter(|at| self.tree.nodes[*at].residency.has(Residency::STORED)).collect();
        for at in stored {
            self.tree.set_residency(at, self.tree.nodes[at].residency.without(Residency::STORED));
        }
    }

    /// Whether all of a segment is in external storage.
    pub(crate) fn is_wholly_stored(&self, segment: Segment) -> bool {
        let nodes = self.nodes_of(segment);
        !nodes.is_empty() && nodes.iter().all(|id| self.tree.nodes[*id].residency.has(Residency::STORED))
    }

    /// Where the path of a node lives, and all its tokens from the start; in bigram mode one more than it has units.
    pub(crate) fn path_key(&self, node: NodeHandle) -> (Namespace, Vec<u32>) {
        let id = self.tree.nodes.resolve(node).unwrap_or(ROOT);
        let path: Vec<NodeId> = self.tree.path_up(id).collect();
        let mut key = Vec::new();
        key.extend(path.last().and_then(|top| self.tree.token_before(*top)));
        path.iter().rev().for_each(|at| key.extend_from_slice(self.tree.tokens(*at)));
        (self.tree.namespaces[self.tree.nodes[id].namespace].name.clone(), key)
    }

    /// Caches on host what of `key` lies below `anchor` and is not in the tree, in its part of `pages`, one for each page
    /// below the anchor, and of `parts` if there are any. Gives the pages that are used: from the first to the second, counted from the anchor.
    pub(crate) fn insert_on_host(
        &mut self,
        key: &[u32],
        namespace: &Namespace,
        anchor: NodeHandle,
        pages: &[u32],
        parts: &[u8],
    ) -> (u32, u32) {
        let Ok(anchor) = self.tree.nodes.resolve(anchor) else { return (0, 0) };
        let Ok(units) = self.units(Ints::U32(key)) else { return (0, 0) };
        let above = self.tree.nodes[anchor].depth as usize;
        let end = (above + pages.len()) * self.tree.page;
        let whole = units.all.slice(0, end);
        let start = if anchor == ROOT {
            let id = self.tree.namespaces.find(namespace);
            id.and_then(|id| self.tree.find_root(id, units.first_token))
        } else {
            Some(anchor)
        };
        let descent = start.map(|start| self.tree.descend(start, whole)).filter(|descent| descent.depth > 0);
        let covered = descent.map_or(0, |descent| descent.depth as usize);
        let from = covered * self.tree.page;
        let ends_at = descent.map(|descent| descent.partial.map_or(descent.node, |(child, _)| child));
        let on_host = ends_at.is_none_or(|id| self.tree.nodes[id].residency.on_host());
        if from == end || !on_host || self.tree.ensure_room(pages.len()).is_err() {
            return (0, 0);
        }
        let tokens = Part { values: whole.slice(from, end), offset: from };
        let Ok(run) = self.tree.store_without_slots(tokens) else { return (0, 0) };
        let parent = descent.map(|descent| self.land(descent));
        let place = Place { namespace, first_token: units.first_token };
        // Storage may lack what is above, as far as is known: then this is stored with it, once something below is.
        let is_stored = parent.is_none_or(|parent| self.tree.nodes[parent].residency.has(Residency::STORED));
        let stored = if is_stored { Residency::STORED } else { Residency::default() };
        let node = self.tree.attach(parent, place, run, stored);
        self.tree.set_host_pages(node, &pages[covered - above..]);
        self.tree.set_host_parts(node, parts.get(covered - above..).unwrap_or_default());
        self.attached(node);
        self.raise_path(node, i64::MIN, u32::MAX);
        self.record_on_host(node);
        (count(covered - above), count(pages.len()))
    }

    /// Drops all of a namespace, as [`remove_namespace`](Self::remove_namespace), and appends its host pages to `pages`.
    pub(crate) fn remove_namespace_from_tiers(
        &mut self,
        namespace: &Namespace,
        out: &mut Vec<i64>,
        pages: &mut Vec<u32>,
    ) -> Result<u64, Error> {
        let nodes: Vec<NodeId> = self.tree.namespaces.find(namespace).map_or_else(Vec::new, |id| {
            let roots = self.tree.nodes.children(ROOT).filter(|root| self.tree.nodes[*root].namespace == id);
            roots.flat_map(|root| self.tree.walk(root)).collect()
        });
        let locked = nodes.iter().filter(|id| self.tree.nodes[**id].host_ref > 0);
        let held_pages: u64 = locked.map(|id| u64::from(self.tree.nodes[*id].pages)).sum();
        if held_pages > 0 {
            return Err(Error::Held { what: format!("namespace {namespace}"), held_tokens: self.to_units(held_pages) });
        }
        let before = pages.len();
        for id in &nodes {
            self.tree.append_host_pages(*id, pages);
        }
        self.remove_namespace(namespace, out).inspect_err(|_| pages.truncate(before))
    }

    /// A decision that was taken above the tree.
    pub(crate) fn note(&mut self, kind: RecordKind, node: u64, a: u64, b: u64, content: u64) {
        self.record(Record::new(kind, node, a, b, content));
    }

    /// The nodes of a segment, deepest first; none if its end is gone.
    pub(super) fn nodes_of(&self, Segment { end, pages }: Segment) -> Vec<NodeId> {
        self.tree.nodes.resolve(end).map_or_else(|_| Vec::new(), |id| self.tree.segment(id, pages).collect())
    }

    /// Appends the slots of a segment.
    pub(crate) fn segment_slots(&self, segment: Segment, out: &mut Vec<i64>) {
        self.nodes_of(segment).into_iter().rev().for_each(|at| self.tree.append_slots(at, out));
    }

    /// Appends the host pages of a segment.
    pub(crate) fn segment_host_pages(&self, segment: Segment, out: &mut Vec<u32>) {
        self.nodes_of(segment).into_iter().rev().for_each(|at| self.tree.append_host_pages(at, out));
    }

    /// Appends the host pages of one node.
    pub(crate) fn host_pages(&self, node: NodeHandle, out: &mut Vec<u32>) -> Result<(), Error> {
        self.tree.append_host_pages(self.tree.nodes.resolve(node)?, out);
        Ok(())
    }

    /// The host pages of all nodes.
    pub(crate) fn all_host_pages(&self) -> Vec<u32> {
        let mut pages = Vec::new();
        self.tree.walk(ROOT).for_each(|id| self.tree.append_host_pages(id, &mut pages));
        pages
    }

    /// Sizes by tier.
    pub(crate) fn tier_sizes(&self) -> TierSizes {
        let counts = self.tree.counts();
        TierSizes {
            device: self.sizes(),
            host_total: self.to_units(counts.host),
            host_only: self.to_units(counts.host_only),
            clean: self.to_units(counts.clean),
        }
    }

    /// Units of so many pages.
    pub(crate) fn units_of(&self, pages: u32) -> u64 {
        self.to_units(pages)
    }

    /// The running number of a node's creation; 0 if it is gone.
    pub(crate) fn sequence(&self, node: NodeHandle) -> u64 {
        self.tree.nodes.resolve(node).map_or(0, |id| self.tree.nodes[id].sequence)
    }

    /// Drops everything. Gives what is free now, and what is busy.
    pub(crate) fn reset_tiers(&mut self, busy: &Busy) -> (Space, Space) {
        let busy_ids = |segments: &[Segment]| -> BTreeSet<NodeId> {
            segments.iter().flat_map(|segment| self.nodes_of(*segment)).collect()
        };
        let (device, host) = (busy_ids(&busy.device), busy_ids(&busy.host));
        let (mut free, mut kept) = (Space::default(), Space::default());
        for id in self.tree.walk(ROOT) {
            if self.tree.nodes[id].residency.on_device() {
                let slots = if device.contains(&id) { &mut kept.slots } else { &mut free.slots };
                self.tree.append_slots(id, slots);
            }
            let pages = if host.contains(&id) { &mut kept.pages } else { &mut free.pages };
            self.tree.append_host_pages(id, pages);
        }
        self.reset();
        (free, kept)
    }
}

/// A number of pages as stored.
fn count(pages: usize) -> u32 {
    u32::try_from(pages).expect("a run has fewer than 2^32 pages")
}
