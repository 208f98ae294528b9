//! KV events: which blocks are cached, for routers and other listeners.
//!
//! A block is a page. Its hash is SHA-256 over the previous block's 32 bytes and its tokens as little-endian words (pairs
//! of words in bigram mode); the first block of a namespace other than the default chains from a hash of the pair. What is
//! published is the first eight bytes, read big-endian as a signed number. Off by default; values, not callbacks: the
//! scheduler drains them after a step and publishes them as it likes.
//!
//! Each tier is told by itself: a block that comes to host is stored once more, there, and one that leaves the device and
//! stays on host is removed from the device alone. A block is never told to a tier before the one that it hangs below.
//!
//! What waits for a listener that does not drain is bounded. Beyond the bound all of it is dropped, and the next drain gives
//! `Cleared` and then every cached node anew, parents first: a listener that takes them in is right again.

use crate::error::Error;
use crate::limits::EVENT_ENTRIES_MAX;
use crate::namespace::Namespace;
use crate::node::{NodeId, ROOT};
use crate::page_hash::{PageHash, page_hash};
use crate::residency::Residency;
use crate::sha256::Sha256;
use crate::tree::Tree;

const NAMESPACE_TAG: &[u8] = b"isoradix-kv-event-namespace-1";

/// Where blocks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// On the device (L1).
    Device,
    /// On host (L2).
    Host,
}

impl Tier {
    pub(crate) const ALL: [Self; 2] = [Self::Device, Self::Host];

    fn has(self, residency: Residency) -> bool {
        match self {
            Self::Device => residency.on_device(),
            Self::Host => residency.on_host(),
        }
    }
}

/// Something a listener should know.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KvEvent {
    /// Blocks are in a tier from now on.
    Stored {
        /// The tier.
        tier: Tier,
        /// One hash for each block, in order.
        block_hashes: Vec<i64>,
        /// The block before the first one.
        parent: Option<i64>,
        /// The blocks' tokens; in bigram mode the first one of each pair.
        token_ids: Vec<u32>,
        /// Tokens of a block.
        block_size: u32,
        /// Where the blocks live.
        namespace: Namespace,
    },
    /// Blocks are not in a tier any more.
    Removed {
        /// The tier.
        tier: Tier,
        /// One hash for each block.
        block_hashes: Vec<i64>,
    },
    /// Nothing is cached any more, or so much has happened that the events were not kept. Then all that is cached is
    /// announced anew right behind.
    Cleared,
}

/// Block hashes of all nodes, and the events not drained yet.
#[derive(Debug)]
pub(crate) struct EventLog {
    hashes: Vec<Vec<PageHash>>,
    pending: Vec<KvEvent>,
    /// Hashes and tokens in `pending`, and one for each event.
    entries: usize,
    entries_max: usize,
    /// Events were dropped: a listener has to be told everything anew.
    overflown: bool,
}

impl EventLog {
    pub(crate) fn new() -> Self {
        Self::with_entries_max(EVENT_ENTRIES_MAX)
    }

    pub(crate) fn with_entries_max(entries_max: usize) -> Self {
        Self { hashes: vec![], pending: vec![], entries: 0, entries_max, overflown: false }
    }

    /// A leaf was added, in whatever tiers it is.
    pub(crate) fn attached(&mut self, tree: &Tree, id: NodeId) {
        let node = &tree.nodes[id];
        let tokens = tree.tokens(id);
        let first = tree.token_before(id);
        let mut previous =
            self.block_before(tree, id).or_else(|| namespace_seed(&tree.namespaces[node.namespace].name));
        let hashes: Vec<PageHash> = (0..node.pages as usize)
            .map(|page| {
                let range = page * tree.page..(page + 1) * tree.page;
                let before_page = if page == 0 { first } else { first.map(|_| tokens[range.start - 1]) };
                let hash = page_hash(previous.as_ref(), before_page, &tokens[range]);
                previous = Some(hash);
                hash
            })
            .collect();
        *self.slot(id) = hashes;
        for tier in tiers_of(tree, id) {
            self.stored(tree, id, tier);
        }
    }

    /// A node has come to a tier.
    pub(crate) fn stored(&mut self, tree: &Tree, id: NodeId, tier: Tier) {
        let pages = tree.nodes[id].pages as usize;
        if self.take_room(1 + pages + pages * tree.page) {
            let event = self.stored_event(tree, id, tier);
            self.pending.push(event);
        }
    }

    /// The last block of the parent.
    fn block_before(&self, tree: &Tree, id: NodeId) -> Option<PageHash> {
        let parent = tree.nodes[id].parent;
        if tree.nodes[parent].is_root() { None } else { self.of(parent).last().copied() }
    }

    /// That a node is in a tier, hashes and tokens together.
    fn stored_event(&self, tree: &Tree, id: NodeId, tier: Tier) -> KvEvent {
        let tokens = tree.tokens(id);
        KvEvent::Stored {
            tier,
            block_hashes: self.of(id).iter().map(published).collect(),
            parent: self.block_before(tree, id).as_ref().map(published),
            token_ids: tree.token_before(id).into_iter().chain(tokens.iter().copied()).take(tokens.len()).collect(),
            block_size: tree.page_size(),
            namespace: tree.namespaces[tree.nodes[id].namespace].name.clone(),
        }
    }

    /// A node was split: `head` took its first pages.
    pub(crate) fn split(&mut self, tree: &Tree, head: NodeId, tail: NodeId) {
        let rest = self.slot(tail).split_off(tree.nodes[head].pages as usize);
        let mut of_head = std::mem::replace(self.slot(tail), rest);
        of_head.shrink_to_fit();
        *self.slot(head) = of_head;
    }

    /// A leaf is about to go, from whatever tiers it is in.
    pub(crate) fn detached(&mut self, tree: &Tree, id: NodeId) {
        for tier in tiers_of(tree, id) {
            self.removed(id, tier);
        }
        self.slot(id).clear();
    }

    /// A node has left a tier.
    pub(crate) fn removed(&mut self, id: NodeId, tier: Tier) {
        if !self.take_room(1 + self.of(id).len()) {
            return;
        }
        let hashes = self.hashes[id as usize].iter().map(published);
        match self.pending.last_mut() {
            Some(KvEvent::Removed { tier: last, block_hashes }) if *last == tier => block_hashes.extend(hashes),
            _ => self.pending.push(KvEvent::Removed { tier, block_hashes: hashes.collect() }),
        }
    }

    /// Everything is gone, and with it what a listener missed if events were dropped.
    pub(crate) fn cleared(&mut self) {
        self.hashes.clear();
        if !self.take_room(1) {
            (self.entries, self.overflown) = (1, false);
        }
        self.pending.push(KvEvent::Cleared);
    }

    /// Takes the events that are pending; if some were dropped, those that tell everything anew.
    pub(crate) fn take(&mut self, tree: &Tree) -> Vec<KvEvent> {
        self.entries = 0;
        if !std::mem::take(&mut self.overflown) {
            return std::mem::take(&mut self.pending);
        }
        let cached = tree.walk(ROOT).flat_map(|id| tiers_of(tree, id).map(move |tier| (id, tier)));
        let events = cached.map(|(id, tier)| self.stored_event(tree, id, tier));
        std::iter::once(KvEvent::Cleared).chain(events).collect()
    }

    /// Whether there is room for so many entries more, which are then counted; without it all that is pending is dropped.
    fn take_room(&mut self, entries: usize) -> bool {
        if !self.overflown && self.entries + entries <= self.entries_max {
            self.entries += entries;
            return true;
        }
        (self.pending, self.entries, self.overflown) = (vec![], 0, true);
        false
    }

    fn of(&self, id: NodeId) -> &[PageHash] {
        self.hashes.get(id as usize).map_or(&[], Vec::as_slice)
    }

    fn slot(&mut self, id: NodeId) -> &mut Vec<PageHash> {
        if self.hashes.len() <= id as usize {
            self.hashes.resize_with(id as usize + 1, Vec::new);
        }
        &mut self.hashes[id as usize]
    }

    /// About the bytes that it takes: one hash for each cached page, and the pending entries at eight bytes each.
    pub(crate) fn memory_bytes(&self, tree: &Tree) -> usize {
        let blocks =
            usize::try_from(tree.counts().device + tree.counts().host_only).expect("cached tokens are in memory");
        self.hashes.capacity() * size_of::<Vec<PageHash>>()
            + blocks * size_of::<PageHash>()
            + self.pending.capacity() * size_of::<KvEvent>()
            + self.entries * size_of::<i64>()
    }

    /// Each node has one hash for each page, and nothing else has any.
    pub(crate) fn check(&self, tree: &Tree) -> Result<(), Error> {
        let mut blocks = 0;
        for id in tree.walk(ROOT) {
            let (node, hashes) = (&tree.nodes[id], self.of(id).len());
            if hashes != node.pages as usize {
                let what = format!("{hashes} block hashes for {} pages", node.pages);
                return Err(Error::invariant(what, vec![node.sequence]));
            }
            blocks += hashes;
        }
        let kept: usize = self.hashes.iter().map(Vec::len).sum();
        if kept != blocks {
            return Err(Error::invariant(format!("{kept} block hashes are kept, {blocks} are of nodes"), vec![]));
        }
        let pending: usize = self.pending.iter().map(entries_of).sum();
        if pending > self.entries || self.entries > self.entries_max.max(1) {
            let what = format!("{pending} entries pend, {} counted, limit {}", self.entries, self.entries_max);
            return Err(Error::invariant(what, vec![]));
        }
        Ok(())
    }
}

/// The tiers that a node is in.
fn tiers_of(tree: &Tree, id: NodeId) -> impl Iterator<Item = Tier> + use<> {
    let residency = tree.nodes[id].residency;
    Tier::ALL.into_iter().filter(move |tier| tier.has(residency))
}

/// Hashes and tokens of an event, and one for itself.
fn entries_of(event: &KvEvent) -> usize {
    match event {
        KvEvent::Stored { block_hashes, token_ids, .. } => 1 + block_hashes.len() + token_ids.len(),
        KvEvent::Removed { block_hashes, .. } => 1 + block_hashes.len(),
        KvEvent::Cleared => 1,
    }
}

fn namespace_seed(namespace: &Namespace) -> Option<PageHash> {
    if *namespace == Namespace::default() {
        return None;
    }
    let mut sha = Sha256::new();
    sha.update(NAMESPACE_TAG);
    for part in [namespace.extra_key(), namespace.salt()] {
        match part {
            None => sha.update(&[0]),
            Some(text) => {
                sha.update(&[1]);
                sha.update(&(text.len() as u64).to_le_bytes());
                sha.update(text.as_bytes());
            }
        }
    }
    Some(sha.finish())
}

fn published(hash: &PageHash) -> i64 {
    i64::from_be_bytes(hash[..8].try_into().expect("eight bytes"))
}
