//! The state of the model, and what is read off it.

use isoradix_core::operation::Kind;
use isoradix_core::protocol::{Control, TopTier};
use isoradix_core::{Attachment, Namespace};

use super::answers::{Issued, Refused, Settings, Sizes};
use super::breaker::Breaking;
use super::node::Node;
use super::operation::{Limbo, Operation, Part, Receipt};

/// The contract, spelled out.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(super) settings: Settings,
    pub(super) nodes: Vec<Node>,
    pub(super) locks: Vec<Receipt>,
    pub(super) pins: Vec<Receipt>,
    pub(super) host_locks: Vec<Receipt>,
    /// The ends of paths that are to be backed up, in the order of their wishes.
    pub(super) wishes: Vec<u64>,
    /// Asked for in this step, to be issued at its end.
    pub(super) loads: Vec<Part>,
    pub(super) prefetches: Vec<Part>,
    /// Backed up and not yet given to a store.
    pub(super) stores: Vec<Part>,
    /// Issued and not ended.
    pub(super) operations: Vec<Operation>,
    pub(super) limbo: Vec<Limbo>,
    pub(super) issued: Vec<Issued>,
    /// The ordinal of the next operation.
    pub(super) next_ordinal: u64,
    /// Operations retired on all ranks.
    pub(super) base: u64,
    pub(super) capacity: u32,
    pub(super) sequence: u64,
    pub(super) now: u64,
    pub(super) receipt: u64,
    pub(super) ticket: u64,
    /// Host copies given up so far.
    pub(super) given_up: u64,
    /// The highest tier that is on.
    pub(super) top: TopTier,
    /// The moment of the frame applied last.
    pub(super) now_ms: Option<u64>,
    pub(super) breaker: Breaking,
    /// Failures of stores in a row.
    pub(super) store_failures: u32,
    /// No store is issued before.
    pub(super) store_due: Option<u64>,
    pub(super) attachment: Attachment,
    pub(super) was_detached: bool,
    /// While storage is being detached: what backups before this one bring to host is stored.
    pub(super) stored_before: u64,
    /// Times that storage was to be opened.
    pub(super) openings: u64,
}

impl Model {
    /// An empty cache.
    #[must_use]
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            nodes: vec![],
            locks: vec![],
            pins: vec![],
            host_locks: vec![],
            wishes: vec![],
            loads: vec![],
            prefetches: vec![],
            stores: vec![],
            operations: vec![],
            limbo: vec![],
            issued: vec![],
            next_ordinal: 0,
            base: 0,
            capacity: settings.capacity,
            sequence: 0,
            now: 0,
            receipt: 0,
            ticket: 0,
            given_up: 0,
            top: TopTier::Storage,
            now_ms: None,
            breaker: Breaking::Closed(0),
            store_failures: 0,
            store_due: None,
            attachment: if settings.storage { Attachment::Attached } else { Attachment::Absent },
            was_detached: false,
            stored_before: 0,
            openings: 0,
        }
    }

    // ---- the window and the ledger

    /// Operations below `base` are retired on all ranks, as the last applied frame says.
    pub(crate) fn slide(&mut self, base: u64) {
        self.base = base;
    }

    /// The capacity is at most what all ranks can back.
    pub(crate) fn lower(&mut self, backable: u32) {
        self.capacity = self.capacity.min(backable);
    }

    /// The capacity is at least what all ranks can back, up to the one at start.
    pub(crate) fn raise(&mut self, backable: u32) {
        self.capacity = self.capacity.max(backable.min(self.settings.capacity));
    }

    /// What a frame decides about tiers, after what it does to operations. What goes off forgets what it was to begin.
    pub(super) fn switch(&mut self, controls: &[Control]) {
        for control in controls {
            let Control::Tiers(top) = control else { continue };
            self.top = *top;
            if self.host_is_off() {
                self.wishes.clear();
            }
            if self.storage_is_off() {
                self.stores.clear();
                self.prefetches.clear();
            }
        }
    }

    pub(super) fn host_is_off(&self) -> bool {
        self.top == TopTier::Device
    }

    pub(super) fn storage_is_off(&self) -> bool {
        self.top != TopTier::Storage
    }

    /// Host pages that are occupied: by operations, by the tree, by what a reset left behind.
    #[must_use]
    pub(crate) fn occupied(&self) -> u32 {
        let operations: u32 = self.operations.iter().map(|operation| operation.held).sum();
        let limbo: u32 = self.limbo.iter().map(|limbo| limbo.host_pages).sum();
        operations + self.pages(self.tokens(|node| node.on_host)) + limbo
    }

    pub(super) fn available(&self) -> u32 {
        self.capacity.saturating_sub(self.occupied())
    }

    /// Whether one more operation has a place in the window, beside those that this step issues for certain.
    pub(super) fn has_room(&self) -> bool {
        let planned = usize::from(!self.loads.is_empty()) + self.prefetches.len();
        self.next_ordinal - self.base + (planned as u64) < u64::from(self.settings.window)
    }

    // ---- nodes

    pub(super) fn find(&self, sequence: u64) -> Option<&Node> {
        self.nodes.iter().find(|node| node.sequence == sequence)
    }

    /// The namespace and path of a node; those of the root are empty.
    pub(super) fn place(&self, sequence: u64) -> Result<(Namespace, Vec<u32>), Refused> {
        if sequence == 0 {
            return Ok((Namespace::default(), vec![]));
        }
        let node = self.find(sequence).ok_or(Refused::Node)?;
        Ok((node.namespace.clone(), node.path.clone()))
    }

    /// The node that ends there.
    pub(super) fn node_at(&self, namespace: &Namespace, path: &[u32]) -> Option<&Node> {
        self.nodes.iter().find(|node| node.namespace == *namespace && node.path == path)
    }

    /// The node that holds the last token of a path, whether it ends there or not.
    pub(super) fn node_with_end_of(&self, namespace: &Namespace, path: &[u32]) -> Option<&Node> {
        let inside = |node: &&Node| node.start < path.len() && path.len() <= node.path.len();
        let mut ends_here = self.nodes.iter().filter(inside);
        ends_here.find(|node| node.namespace == *namespace && node.path.starts_with(path))
    }

    pub(super) fn parent(&self, node: &Node) -> Option<&Node> {
        self.node_at(&node.namespace, &node.path[..node.start])
    }

    pub(super) fn children<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = &'a Node> {
        let below = self.nodes.iter().filter(|other| other.start == node.path.len());
        below.filter(|other| node.leads_to(&other.namespace, &other.path))
    }

    /// The nodes on a path, from the top down.
    pub(super) fn path(&self, namespace: &Namespace, path: &[u32]) -> Vec<&Node> {
        let mut found: Vec<&Node> = self.nodes.iter().filter(|node| node.leads_to(namespace, path)).collect();
        found.sort_by_key(|node| node.path.len());
        found
    }

    pub(super) fn tokens(&self, wanted: impl Fn(&Node) -> bool) -> u64 {
        self.nodes.iter().filter(|node| wanted(node)).map(Node::length).sum()
    }

    pub(super) fn pages(&self, tokens: u64) -> u32 {
        u32::try_from(tokens / u64::from(self.settings.page)).expect("fewer pages than a u32 counts")
    }

    // ---- holds

    /// Locks on the node and below: receipts, backups and load-backs.
    pub(super) fn lock_ref(&self, node: &Node) -> usize {
        let loads = self.loads.iter().filter(|part| part.holds(Kind::LoadBack, node)).count();
        let device = self.operations.iter().filter(|operation| operation.touches_device());
        holders(&self.locks, node) + loads + device.map(|operation| operation.holds(node)).sum::<usize>()
    }

    pub(super) fn pin_ref(&self, node: &Node) -> usize {
        holders(&self.pins, node)
    }

    /// Host locks on the node and below: receipts, prefetches at their anchors, stores; where host copies are given up, also
    /// load-backs, which read them, and backups, which are to hang below them.
    pub(super) fn host_ref(&self, node: &Node) -> usize {
        let prefetches = self.prefetches.iter().filter(|part| part.holds(Kind::Prefetch, node)).count();
        let host = self.operations.iter().filter(|operation| !operation.touches_device());
        let open: usize = host.map(|operation| operation.holds(node)).sum();
        holders(&self.host_locks, node) + prefetches + open + self.copies_kept(node)
    }

    fn copies_kept(&self, node: &Node) -> usize {
        if !self.may_give_up_copies() {
            return 0;
        }
        let loads = self.loads.iter().filter(|part| part.holds(Kind::LoadBack, node)).count();
        let device = self.operations.iter().filter(|operation| operation.touches_device());
        loads + device.map(|operation| operation.keeps_copies(node)).sum::<usize>()
    }

    /// Locked or pinned.
    pub(super) fn is_held(&self, node: &Node) -> bool {
        self.lock_ref(node) + self.pin_ref(node) > 0
    }

    /// Whether a backup of the node is open.
    pub(super) fn is_pending(&self, node: &Node) -> bool {
        self.operations.iter().any(|operation| operation.kind == Kind::Backup && operation.covers(node))
    }

    // ---- counters

    pub(super) fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    pub(super) fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Sizes in tokens.
    #[must_use]
    pub(crate) fn sizes(&self) -> Sizes {
        Sizes {
            device_total: self.tokens(|node| node.on_device),
            device_protected: self.tokens(|node| node.on_device && self.is_held(node)),
            device_pinned: self.tokens(|node| node.on_device && self.pin_ref(node) > 0),
            host_total: self.tokens(|node| node.on_host),
            host_only: self.tokens(Node::is_host_only),
            clean: self.tokens(|node| node.on_device && node.on_host && !self.is_held(node)),
        }
    }

    /// Tokens that an eviction could take from the device without loss: on host too, not held, nor is anything below that
    /// would have to go first and is dirty.
    pub(super) fn safe(&self) -> u64 {
        let dirty = |node: &Node| {
            self.nodes.iter().any(|below| below.is_dirty() && node.leads_to(&below.namespace, &below.path))
        };
        self.tokens(|node| node.on_device && node.on_host && !self.is_held(node) && !dirty(node))
    }
}

fn holders(receipts: &[Receipt], node: &Node) -> usize {
    receipts.iter().filter(|receipt| node.leads_to(&receipt.namespace, &receipt.path)).count()
}
