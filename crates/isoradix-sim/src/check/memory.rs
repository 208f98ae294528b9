//! Whether memory holds what the cache says it holds.

use crate::request::{self, Tag};
use crate::violation::{Wrong, ensure};
use crate::world::World;
use isoradix_core::operation::Kind;
use isoradix_core::{Error, NodeHandle, TieredCache};
use std::collections::{BTreeMap, BTreeSet};

/// Every node's slots and pages hold the KV of its tokens, but for what a load-back of this rank is still bringing; and none has
/// two owners.
pub(crate) fn check(cache: &TieredCache, world: &World) -> Result<(), Wrong> {
    let mut check = Check {
        cache,
        world,
        coming: coming(world),
        ends: BTreeMap::new(),
        slots: BTreeSet::new(),
        pages: BTreeSet::new(),
    };
    for node in cache.cache().walk(NodeHandle::ROOT).map_err(refused)? {
        if node != NodeHandle::ROOT {
            check.node(node)?;
        }
    }
    Ok(())
}

/// Slots into which a load-back copies.
fn coming(world: &World) -> BTreeSet<i64> {
    let loads = world.engine.jobs().filter(|job| job.transfer.kind == Kind::LoadBack);
    loads.flat_map(|job| &job.transfer.slots).copied().collect()
}

struct Check<'a> {
    cache: &'a TieredCache,
    world: &'a World,
    coming: BTreeSet<i64>,
    /// The tag at the end of each node seen.
    ends: BTreeMap<NodeHandle, Tag>,
    slots: BTreeSet<i64>,
    pages: BTreeSet<u32>,
}

impl Check<'_> {
    fn node(&mut self, node: NodeHandle) -> Result<(), Wrong> {
        let info = self.cache.cache().info(node).map_err(refused)?;
        let mut tokens = Vec::new();
        self.cache.cache().node_tokens(node, &mut tokens).map_err(refused)?;
        let mut tag = match self.ends.get(&info.parent) {
            Some(tag) => *tag,
            None => request::first_tag(info.namespace),
        };
        let mut tags = Vec::with_capacity(tokens.len());
        for token in tokens {
            tag = request::next_tag(tag, u32::try_from(token).unwrap_or(u32::MAX));
            tags.push(tag);
        }
        self.ends.insert(node, tag);
        if info.on_device {
            self.device(node, info.sequence, &tags)?;
        }
        if info.on_host {
            self.host(node, info.sequence, &tags)?;
        }
        Ok(())
    }

    fn device(&mut self, node: NodeHandle, name: u64, tags: &[Tag]) -> Result<(), Wrong> {
        let mut slots = Vec::new();
        self.cache.cache().node_slots(node, &mut slots).map_err(refused)?;
        ensure(slots.len() == tags.len(), "memory", || {
            format!("node {name} of {} tokens has {} slots", tags.len(), slots.len())
        })?;
        for (slot, tag) in slots.into_iter().zip(tags) {
            ensure(self.slots.insert(slot), "memory", || format!("slot {slot} of node {name} is another node's, too"))?;
            if !self.coming.contains(&slot) {
                self.world.device.expect(slot, *tag, || format!("node {name} is on the device"))?;
            }
        }
        Ok(())
    }

    fn host(&mut self, node: NodeHandle, name: u64, tags: &[Tag]) -> Result<(), Wrong> {
        let mut pages = Vec::new();
        self.cache.host_pages(node, &mut pages).map_err(refused)?;
        let found: Vec<Tag> = pages.iter().flat_map(|page| self.world.host.look(*page)).copied().collect();
        ensure(found == tags, "memory", || {
            format!("node {name} is on host, in pages {pages:?}, which do not hold the KV of its {} tokens", tags.len())
        })?;
        let twice = pages.iter().find(|page| !self.pages.insert(**page));
        ensure(twice.is_none(), "memory", || format!("host page {twice:?} of node {name} is another node's, too"))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form that map_err takes")]
fn refused(error: Error) -> Wrong {
    Wrong::new("memory", error.to_string())
}
