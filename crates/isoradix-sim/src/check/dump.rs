//! The logical state of one rank as numbers, to be compared with another's at the same step.

use isoradix_core::operation::Share;
use isoradix_core::{NodeHandle, TierTotals, TieredCache};
use std::fmt::Write;

/// Words of a node.
const NODE: usize = 14;

/// What is beside the pages of a node, in one word.
fn parts(cache: &TieredCache, node: NodeHandle) -> u64 {
    let (device, host) = cache.parts(node).unwrap_or_default();
    device.iter().chain(&host).fold(0, |word, parts| crate::rng::mix(word, u64::from(*parts) + 1))
}

/// Words of an operation.
const OPERATION: usize = 8;

const NODE_FIELDS: [&str; NODE] = [
    "sequence",
    "parent",
    "depth",
    "length",
    "on device",
    "on host",
    "locks",
    "pins",
    "host locks",
    "hits",
    "priority",
    "accessed in step",
    "accessed at",
    "parts",
];

const OPERATION_FIELDS: [&str; OPERATION] =
    ["ordinal", "kind", "state", "asked pages", "committed pages", "committed tokens", "delivered tokens", "progress"];

const SIZE_FIELDS: [&str; 12] = [
    "nodes in the tree",
    "operations in the window",
    "device total",
    "device protected",
    "device pinned",
    "host total",
    "host only",
    "clean",
    "host pages occupied",
    "host capacity",
    "operations retired",
    "free device tokens",
];

/// All that must be equal: sizes, then nodes in the order of a walk, then operations in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Dump {
    words: Vec<u64>,
    nodes: usize,
    /// What was done so far. A rank may have come to an equal state on another way.
    totals: TierTotals,
}

impl Dump {
    pub(crate) fn of(cache: &TieredCache, device_free: u64) -> Self {
        let nodes = cache.cache().walk(NodeHandle::ROOT).unwrap_or_default();
        let nodes: Vec<NodeHandle> = nodes.into_iter().filter(|node| *node != NodeHandle::ROOT).collect();
        let words = Vec::with_capacity((nodes.len() + 4) * NODE);
        let mut dump = Self { words, nodes: nodes.len(), totals: cache.totals() };
        dump.push_sizes(cache, device_free);
        for node in nodes {
            dump.push_node(cache, node);
        }
        dump.push_operations(cache);
        dump
    }

    fn push_sizes(&mut self, cache: &TieredCache, device_free: u64) {
        let (sizes, ledger, operations) = (cache.sizes(), cache.host().ledger(), cache.operations());
        self.words.extend([
            self.nodes as u64,
            operations.iter().count() as u64,
            sizes.device.total,
            sizes.device.protected,
            sizes.device.pinned,
            sizes.host_total,
            sizes.host_only,
            sizes.clean,
            ledger.occupied().into(),
            ledger.capacity().into(),
            operations.retired(),
            device_free,
        ]);
    }

    fn push_node(&mut self, cache: &TieredCache, node: NodeHandle) {
        let Ok(info) = cache.cache().info(node) else { return };
        let parent = cache.cache().info(info.parent).map_or(0, |parent| parent.sequence);
        self.words.extend([
            info.sequence,
            parent,
            info.depth,
            info.length,
            info.on_device.into(),
            info.on_host.into(),
            info.lock_ref.into(),
            info.pin_ref.into(),
            info.host_ref.into(),
            info.hits,
            info.priority.cast_unsigned(),
            info.last_access.step,
            info.last_access.seq,
            parts(cache, node),
        ]);
    }

    fn push_operations(&mut self, cache: &TieredCache) {
        for operation in cache.operations().iter() {
            let share = |share: Option<Share>| share.unwrap_or_default();
            let (committed, delivered) = (share(operation.committed()), share(operation.delivered()));
            self.words.extend([
                operation.ordinal().0,
                operation.kind() as u64,
                operation.state() as u64,
                operation.pages().into(),
                committed.pages.into(),
                committed.tokens,
                delivered.tokens,
                operation.progress(),
            ]);
        }
    }

    /// The first place in which two dumps differ, in words.
    pub(crate) fn difference(&self, other: &Self) -> Option<String> {
        let place = self.words.iter().zip(&other.words).position(|(own, other)| own != other);
        let place = place.or((self.words.len() != other.words.len()).then_some(0));
        let Some(place) = place else {
            let (own, theirs) = (&self.totals, &other.totals);
            return (own != theirs).then(|| format!("its totals are {own:?}, expected {theirs:?}"));
        };
        let (own, theirs) = (self.words[place], other.words[place]);
        let mut text = self.name(place);
        let _ = write!(text, " is {own}, expected {theirs}");
        Some(text)
    }

    fn name(&self, place: usize) -> String {
        let Some(place) = place.checked_sub(SIZE_FIELDS.len()) else { return SIZE_FIELDS[place].to_owned() };
        let Some(place) = place.checked_sub(self.nodes * NODE) else {
            let sequence = self.words[SIZE_FIELDS.len() + place / NODE * NODE];
            return format!("node {sequence}: {}", NODE_FIELDS[place % NODE]);
        };
        let from = SIZE_FIELDS.len() + self.nodes * NODE + place / OPERATION * OPERATION;
        format!("operation {}: {}", self.words[from], OPERATION_FIELDS[place % OPERATION])
    }
}
