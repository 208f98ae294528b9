//! The prefix cache: the tree, its order, its clock and its evidence, behind the verbs that a scheduler uses.
//!
//! Every verb checks its input first and is all-or-nothing: an error means that nothing changed, digests included.

mod answers;
mod config;
mod look;
mod parts;
mod segment;
#[cfg(test)]
mod tests;
mod tiers;
mod units;

use std::fmt;

pub use answers::{Evicted, Insert, Match, NodeInfo, Resume, Sizes, TierSizes};
pub use config::Config;
pub(crate) use segment::{Busy, Chosen, Segment, Space};

use crate::clock::{LogicalClock, Stamp};
use crate::components::Components;
use crate::error::Error;
use crate::events::EventLog;
use crate::evidence::{Journal, Record, RecordKind};
use crate::hash;
use crate::holds::{HoldTable, LockReceipt, PinReceipt};
use crate::ints::{Ints, Part, SLOTS, common_prefix, with_lanes};
use crate::limits::PAGE_SIZE_MAX;
use crate::namespace::Namespace;
use crate::node::{Hold, NodeHandle, NodeId, ROOT};
use crate::order::{Copies, Eviction, Order};
use crate::residency::Residency;
use crate::runs::Run;
use crate::tree::{Descent, Place, Tree};
use units::Units;

/// Units of a resume point's node that are compared with the key, if its page is not larger and the node not shorter.
const RESUME_WINDOW: usize = 64;

/// Victims whose edges are fetched together: their misses overlap, instead of each being waited for.
const WARM_AHEAD: usize = 32;

/// A deterministic prefix cache: equal calls give equal answers and equal digests, on every rank.
pub struct PrefixCache {
    tree: Tree,
    order: Order,
    clock: LogicalClock,
    holds: HoldTable,
    journal: Journal,
    events: Option<EventLog>,
    /// What computing a page gives beside its keys and values.
    computed: Components,
    /// Slots that inserts have put others in the place of, until they are taken.
    replaced: Vec<i64>,
}

impl fmt::Debug for PrefixCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrefixCache")
            .field("page_size", &self.tree.page)
            .field("policy", &self.order.name())
            .field("bigram", &self.tree.bigram)
            .field("sizes", &self.sizes())
            .field("nodes", &self.tree.visible())
            .finish_non_exhaustive()
    }
}

impl PrefixCache {
    /// An empty cache.
    ///
    /// # Errors
    /// A page size outside 1 to [`PAGE_SIZE_MAX`].
    pub fn new(config: Config) -> Result<Self, Error> {
        Self::with_order(config, Order::new)
    }

    /// A cache that evicts from the device what is on host too before all else.
    pub(crate) fn clean_first(config: Config) -> Result<Self, Error> {
        let mut cache = Self::with_order(config, Order::clean_first)?;
        cache.tree.follow_safety();
        Ok(cache)
    }

    fn with_order(config: Config, order: fn(Eviction) -> Order) -> Result<Self, Error> {
        let Config { page_size, eviction, bigram, journal_records, kv_events } = config;
        if !(1..=PAGE_SIZE_MAX).contains(&page_size) {
            return Err(Error::OutOfRange {
                what: "page size",
                value: i128::from(page_size),
                min: 1,
                max: i128::from(PAGE_SIZE_MAX),
                index: None,
                hint: "use the page size of the KV pool",
            });
        }
        let mut cache = Self {
            tree: Tree::new(page_size, bigram),
            order: order(eviction),
            clock: LogicalClock::default(),
            holds: HoldTable::default(),
            journal: Journal::new(journal_records),
            events: kv_events.then(EventLog::new),
            computed: Components::default(),
            replaced: Vec::new(),
        };
        let policy = hash::bytes(0, cache.order.name().as_bytes());
        cache.record(Record::new(RecordKind::Start, 0, u64::from(page_size), u64::from(bigram), policy));
        Ok(cache)
    }

    // ---- walking and growing

    /// The longest cached prefix of `key`, in whole pages.
    ///
    /// Splits the node in which the match ends, and stamps every node that the walk came to, deepest first; both halves of a
    /// split node are among them. With `resume` the comparison starts there; what lies above is stamped, but not checked again.
    ///
    /// The caller promises that the resume node is a prefix of the key. Compared are its namespace, its length and its own
    /// last units, 64 or a page if that is more: enough to find nearly every mix-up, at a cost that does not grow. A key
    /// that differs further up is answered as if it did not.
    ///
    /// # Errors
    /// Tokens out of range; a resume point that is stale or does not fit the key.
    pub fn match_prefix(
        &mut self,
        key: Ints<'_>,
        namespace: &Namespace,
        resume: Option<Resume>,
    ) -> Result<Match, Error> {
        let units = self.units(key)?;
        let (descent, resumed) = self.find(units, namespace, resume)?;
        units.check_from(self.matched(descent))?;
        self.tree.ensure_room(0)?;
        let (node, pages) = match descent {
            Some(descent) => (self.land(descent), descent.depth),
            None => (ROOT, 0),
        };
        self.stamp_path(node);
        let hit_tokens = self.to_units(pages);
        let record = Record::new(
            RecordKind::Match,
            self.tree.nodes[node].sequence,
            hit_tokens,
            units.end as u64,
            namespace_word(namespace),
        );
        self.record(record.resumed_at(self.to_units(resumed)));
        Ok(Match { hit_tokens, node: self.tree.nodes.handle(node) })
    }

    /// The length that [`match_prefix`](Self::match_prefix) would find, changing nothing at all.
    ///
    /// # Errors
    /// Tokens out of range.
    pub fn probe(&self, key: Ints<'_>, namespace: &Namespace) -> Result<u64, Error> {
        let units = self.units(key)?;
        let (descent, _) = self.find(units, namespace, None)?;
        let matched = self.matched(descent);
        units.check_from(matched)?;
        Ok(matched as u64)
    }

    /// Caches `key`, whole pages only, with one slot for each unit.
    ///
    /// With `resume`, `slots` begins at the resume point, of which the caller promises what
    /// [`match_prefix`](Self::match_prefix) says. Every node below the resume point gains a hit, and every node on
    /// the path a priority of at least `priority`.
    ///
    /// # Errors
    /// Tokens or slots out of range; too few or too many slots; a resume point that is stale or does not fit the key.
    pub fn insert(
        &mut self,
        key: Ints<'_>,
        slots: Ints<'_>,
        namespace: &Namespace,
        priority: i64,
        resume: Option<Resume>,
    ) -> Result<Insert, Error> {
        let mut units = self.units(key)?;
        let (mut descent, resumed) = self.find(units, namespace, resume)?;
        let base = resumed as usize * self.tree.page;
        check_slot_count(slots.len(), units.end - base, key.len() - base)?;
        units.check_from(units.end)?;
        let on_device = self.matched_on_device(descent);
        if on_device < self.matched(descent) {
            check_resumed_on_device(base, on_device)?;
        }
        let whole = u32::try_from(units.end / self.tree.page).unwrap_or(u32::MAX);
        let (kept_pages, end) = self.parts_of_insert(descent, resumed, whole);
        if end < whole {
            units.end = end as usize * self.tree.page;
            (descent, _) = self.find(units, namespace, resume)?;
        }
        let on_device = on_device.min(units.end);
        let (kept, covered, end) = (kept_pages as usize * self.tree.page, self.matched(descent), units.end);
        if kept < covered {
            slots.slice(kept - base, covered - base).check(&SLOTS, kept - base)?;
        }
        self.tree.ensure_room(units.pages(self.tree.page))?;
        let run = if covered < end {
            let new_slots = slots.slice(covered - base, end - base);
            let tokens = Part { values: units.all.slice(covered, end), offset: units.offset() + covered };
            Some(self.tree.store(tokens, Part { values: new_slots, offset: covered - base })?)
        } else {
            None
        };
        let mut node = descent.map_or(ROOT, |descent| self.land(descent));
        if kept < on_device {
            self.adopt(node, kept_pages, slots, base);
        }
        if on_device < covered {
            self.revive(node, slots, base);
        }
        if let Some(run) = run {
            node = self.grow(descent.map(|_| node), Place { namespace, first_token: units.first_token }, run);
        }
        self.raise_path(node, priority, resumed);
        // What is new, and where it hangs: below another parent the same tokens are another decision.
        let place = if node == ROOT { 0 } else { self.tree.nodes[self.tree.nodes[node].parent].identity() };
        let new_tokens = hash::mix(run.map_or(0, |run| run.content), place);
        let content = hash::mix(hash::mix(namespace_word(namespace), priority.cast_unsigned()), new_tokens);
        let sequence = self.tree.nodes[node].sequence;
        let record = Record::new(RecordKind::Insert, sequence, kept as u64, end as u64, content);
        self.record(record.resumed_at(base as u64));
        Ok(Insert {
            prefix_len: kept as u64,
            new_tokens: (end - kept) as u64,
            node: self.tree.nodes.handle(node),
            length: end as u64,
        })
    }

    /// Stamps a node and all above it, as a match would.
    ///
    /// # Errors
    /// A stale handle.
    pub fn touch(&mut self, node: NodeHandle) -> Result<(), Error> {
        let id = self.tree.nodes.resolve(node)?;
        self.stamp_path(id);
        self.record_node(RecordKind::Touch, id);
        Ok(())
    }

    // ---- holding

    /// Keeps a node and all above it from eviction, for a running request.
    ///
    /// # Errors
    /// A stale handle.
    pub fn lock(&mut self, node: NodeHandle) -> Result<LockReceipt, Error> {
        self.hold(node, Hold::Lock, RecordKind::Lock).map(LockReceipt::from_bits)
    }

    /// Gives back a lock.
    ///
    /// # Errors
    /// A receipt that is not outstanding.
    pub fn unlock(&mut self, receipt: LockReceipt) -> Result<(), Error> {
        self.unhold(receipt.to_bits(), Hold::Lock, RecordKind::Unlock)
    }

    /// Keeps a node and all above it from eviction until told otherwise, for prefixes worth keeping.
    ///
    /// # Errors
    /// A stale handle.
    pub fn pin(&mut self, node: NodeHandle) -> Result<PinReceipt, Error> {
        self.hold(node, Hold::Pin, RecordKind::Pin).map(PinReceipt::from_bits)
    }

    /// Gives back a pin.
    ///
    /// # Errors
    /// A receipt that is not outstanding.
    pub fn unpin(&mut self, receipt: PinReceipt) -> Result<(), Error> {
        self.unhold(receipt.to_bits(), Hold::Pin, RecordKind::Unpin)
    }

    // ---- shrinking

    /// Drops whole leaves until at least `num_tokens` units are freed or nothing is left that may go.
    ///
    /// Appends the freed slots to `out`, victim by victim, and gives their number.
    ///
    /// # Errors
    /// A user-defined policy that fails on a leaf.
    pub fn evict(&mut self, num_tokens: u64, out: &mut Vec<i64>) -> Result<u64, Error> {
        self.evict_from_device(num_tokens, out).map(|evicted| evicted.freed)
    }

    /// As [`evict`](Self::evict); what is on host too stays there.
    pub(crate) fn evict_from_device(&mut self, num_tokens: u64, out: &mut Vec<i64>) -> Result<Evicted, Error> {
        self.order.settle(&self.tree)?;
        let before = out.len();
        let expected = num_tokens.min(self.sizes().evictable);
        Error::make_room(out, in_memory(expected) + self.tree.page, "freed slots")?;
        let (mut evicted, mut warm) = (Evicted::default(), 0);
        while evicted.freed < num_tokens {
            if warm == 0 {
                // A victim frees a page at least, so no more of them than this can still be needed.
                warm = in_memory((num_tokens - evicted.freed) / self.tree.page as u64).clamp(1, WARM_AHEAD);
                self.tree.warm(self.order.upcoming().take(warm));
            }
            warm -= 1;
            let Some(id) = self.order.pop(&mut self.tree) else { break };
            let node = &self.tree.nodes[id];
            let units = self.to_units(node.pages);
            evicted.freed += units;
            let parent = if node.residency.on_host() {
                evicted.demoted += units;
                self.demote(id, units, out)
            } else {
                self.record(Record::new(RecordKind::Evict, node.sequence, units, 0, node.content));
                self.detach(id, out)
            };
            self.order.changed(&self.tree, parent);
        }
        debug_assert_eq!(evicted.freed, (out.len() - before) as u64);
        self.record(Record::new(RecordKind::Evicted, 0, num_tokens, evicted.freed, 0));
        Ok(evicted)
    }

    /// Drops all of a namespace; appends its slots to `out` and gives their number.
    ///
    /// # Errors
    /// Any of it is locked or pinned.
    pub fn remove_namespace(&mut self, namespace: &Namespace, out: &mut Vec<i64>) -> Result<u64, Error> {
        let mut victims = Vec::new();
        if let Some(id) = self.tree.namespaces.find(namespace) {
            let held = self.tree.namespaces[id].held_pages;
            if held > 0 {
                let what = format!("namespace {namespace}");
                return Err(Error::Held { what, held_tokens: held * self.tree.page as u64 });
            }
            let roots = self.tree.nodes.children(ROOT).filter(|root| self.tree.nodes[*root].namespace == id);
            victims.extend(roots.flat_map(|root| self.tree.walk(root)));
        }
        let before = out.len();
        for id in victims.into_iter().rev() {
            self.order.forget(id);
            self.detach(id, out);
        }
        let dropped = (out.len() - before) as u64;
        self.record(Record::new(RecordKind::RemoveNamespace, 0, dropped, 0, namespace_word(namespace)));
        Ok(dropped)
    }

    /// Drops everything, held or not, and ends every receipt; gives the number of units dropped.
    ///
    /// Clock, sequence numbers and digests go on: they are never reset.
    pub fn reset(&mut self) -> u64 {
        let dropped = self.sizes().total;
        self.order.clear();
        self.tree.clear();
        self.holds.clear();
        if let Some(events) = &mut self.events {
            events.cleared();
        }
        self.record(Record::new(RecordKind::Reset, 0, dropped, 0, 0));
        dropped
    }

    // ---- clock

    /// Enters the next batch step, or the given later one.
    ///
    /// # Errors
    /// A step that is not later than the present one.
    pub fn advance_step(&mut self, step: Option<u64>) -> Result<u64, Error> {
        let now = self.clock.now().step;
        let next = now.checked_add(1).ok_or(Error::Capacity { what: "step", limit: u64::MAX })?;
        let step = step.unwrap_or(next);
        if step <= now {
            return Err(Error::OutOfRange {
                what: "step",
                value: i128::from(step),
                min: i128::from(next),
                max: i128::from(u64::MAX),
                index: None,
                hint: "steps only go forward; without a step the next one is entered",
            });
        }
        self.clock.enter(step);
        self.record(Record::new(RecordKind::Step, 0, 0, 0, 0));
        Ok(step)
    }

    /// The present step, and the event number given out last.
    #[must_use]
    pub fn clock(&self) -> Stamp {
        self.clock.now()
    }

    // ---- inside

    fn units<'a>(&self, key: Ints<'a>) -> Result<Units<'a>, Error> {
        Units::of(key, self.tree.page, self.tree.bigram)
    }

    /// Walks down without changing anything; the second value is the depth of the resume point, in pages.
    #[inline]
    fn find(
        &self,
        units: Units<'_>,
        namespace: &Namespace,
        resume: Option<Resume>,
    ) -> Result<(Option<Descent>, u32), Error> {
        let start = match resume {
            Some(resume) => self.resume_point(units, namespace, resume)?,
            None => None,
        };
        let resumed = start.map_or(0, |id| self.tree.nodes[id].depth);
        let root = || {
            let id = self.tree.namespaces.find(namespace)?;
            if units.end == 0 { None } else { self.tree.find_root(id, units.first_token) }
        };
        let whole = units.all.slice(0, units.end);
        let descent = start.or_else(root).map(|start| self.tree.descend(start, whole));
        Ok((descent.filter(|descent| descent.depth > 0), resumed))
    }

    /// Units that a walk matched.
    #[inline]
    fn matched(&self, descent: Option<Descent>) -> usize {
        descent.map_or(0, |descent| descent.depth as usize * self.tree.page)
    }

    /// Attaches a stored run as a new leaf.
    fn grow(&mut self, parent: Option<NodeId>, place: Place<'_>, run: Run) -> NodeId {
        let node = self.tree.attach(parent, place, run, Residency::DEVICE);
        self.attached(node)
    }

    /// A leaf was attached.
    fn attached(&mut self, node: NodeId) -> NodeId {
        self.tree.nodes[node].created = self.clock.tick();
        self.order.changed(&self.tree, self.tree.nodes[node].parent);
        if let Some(events) = &mut self.events {
            events.attached(&self.tree, node);
        }
        node
    }

    fn resume_point(&self, units: Units<'_>, namespace: &Namespace, resume: Resume) -> Result<Option<NodeId>, Error> {
        let id = self.tree.nodes.resolve(resume.node)?;
        let node = &self.tree.nodes[id];
        let mismatch = |what: String| Err(Error::ResumeMismatch { what });
        let depth = self.to_units(node.depth);
        if depth != resume.length {
            return mismatch(format!("length {} given, the node ends at {depth}", resume.length));
        }
        if id == ROOT {
            return Ok(None);
        }
        if depth > units.end as u64 {
            return mismatch(format!("length {depth}, the key has {} in whole pages", units.end));
        }
        if self.tree.namespaces[node.namespace].name != *namespace {
            return mismatch("the node is in another namespace".to_owned());
        }
        // A window at the end finds nearly every mix-up, at a cost that does not grow.
        let tokens = self.tree.tokens(id);
        let window = tokens.len().min(self.tree.page.max(RESUME_WINDOW));
        let (above, stored) = tokens.split_at(tokens.len() - window);
        let end = node.depth as usize * self.tree.page;
        let begin = end - window;
        let before = above.last().copied().or_else(|| self.tree.token_before(id));
        let same_before = !self.tree.bigram || units.token_before(begin) == before.map(u64::from);
        if !same_before || with_lanes!(units.all.slice(begin, end), given => common_prefix(given, stored)) < window {
            return mismatch(format!("the {window} units before unit {depth} differ from the node's"));
        }
        Ok(Some(id))
    }

    /// The node at the end of a walk; splits the one that matched in part.
    ///
    /// The part that did not match is stamped too: the walk has been there. It is stamped first, so it stays the older.
    #[inline]
    fn land(&mut self, descent: Descent) -> NodeId {
        let Some((child, pages)) = descent.partial else { return descent.node };
        let head = self.tree.split(child, pages);
        let tail = &mut self.tree.nodes[child];
        tail.access = self.clock.tick();
        self.order.stamped(tail, child);
        if let Some(events) = &mut self.events {
            events.split(&self.tree, head, child);
        }
        self.order.changed(&self.tree, child);
        head
    }

    /// Stamps a path from its deepest node up, so that parents are younger than children.
    #[inline]
    fn stamp_path(&mut self, id: NodeId) {
        let mut at = id;
        loop {
            let node = &mut self.tree.nodes[at];
            if node.is_root() {
                break;
            }
            node.access = self.clock.tick();
            self.order.stamped(node, at);
            at = node.parent;
        }
        self.path_changed(id);
    }

    /// Stamps a path as an insert does: priority and reach rise, and nodes below `resumed` gain a hit.
    #[inline]
    fn raise_path(&mut self, id: NodeId, priority: i64, resumed: u32) {
        let (mut at, reach) = (id, self.tree.nodes[id].depth);
        loop {
            let node = &mut self.tree.nodes[at];
            if node.is_root() {
                break;
            }
            node.access = self.clock.tick();
            node.priority = node.priority.max(priority);
            node.reach = node.reach.max(reach);
            node.hits = node.hits.saturating_add(u32::from(node.depth > resumed));
            self.order.stamped(node, at);
            at = node.parent;
        }
        self.path_changed(id);
    }

    /// Facts changed on the path that ends at a node: it, and the deepest one on the device, may be leaves of their tiers.
    #[inline]
    fn path_changed(&mut self, id: NodeId) {
        self.order.changed(&self.tree, id);
        if self.order.ranks_device_leaves() && self.tree.nodes[id].is_host_only() {
            let on_device = self.tree.deepest_on_device(id);
            self.order.changed(&self.tree, on_device);
        }
        if self.order.ranks_copies() {
            // No other node of the path has a host copy with none below.
            let on_host = self.tree.deepest_on_host(id);
            self.order.changed(&self.tree, on_host);
        }
    }

    fn hold(&mut self, node: NodeHandle, hold: Hold, kind: RecordKind) -> Result<u64, Error> {
        let id = self.tree.nodes.resolve(node)?;
        let receipt = self.holds.give(id, hold)?;
        self.tree.hold(id, hold);
        self.path_changed(id);
        self.record_node(kind, id);
        Ok(receipt)
    }

    fn unhold(&mut self, receipt: u64, hold: Hold, kind: RecordKind) -> Result<(), Error> {
        let id = self.holds.take(receipt, hold)?;
        let order = &mut self.order;
        self.tree.unhold(id, hold, |node, at| order.unheld(node, at));
        self.path_changed(id);
        self.record_node(kind, id);
        Ok(())
    }

    #[inline]
    fn detach(&mut self, id: NodeId, out: &mut Vec<i64>) -> NodeId {
        if let Some(events) = &mut self.events {
            events.detached(&self.tree, id);
        }
        self.tree.detach(id, out)
    }

    #[inline]
    fn record(&mut self, record: Record) {
        let now = self.clock.tick();
        self.journal.append(record, now);
    }

    #[inline]
    fn record_node(&mut self, kind: RecordKind, id: NodeId) {
        self.record(Record::new(kind, self.tree.nodes[id].sequence, 0, 0, 0));
    }

    #[inline]
    fn to_units(&self, pages: impl Into<u64>) -> u64 {
        pages.into() * self.tree.page as u64
    }
}

/// A number of cached units as a length.
fn in_memory(units: u64) -> usize {
    usize::try_from(units).expect("cached tokens are in memory")
}

fn namespace_word(namespace: &Namespace) -> u64 {
    if *namespace == Namespace::default() { 0 } else { namespace.hash() }
}

/// A node that is on host alone takes slots; a resume point below it has none for it.
fn check_resumed_on_device(base: usize, on_device: usize) -> Result<(), Error> {
    if base <= on_device {
        return Ok(());
    }
    let what = format!("units {on_device} to {base} are on host only, and no slots are given for them");
    Err(Error::ResumeMismatch { what })
}

fn check_slot_count(got: usize, min: usize, max: usize) -> Result<(), Error> {
    if (min..=max).contains(&got) {
        return Ok(());
    }
    Err(Error::Length {
        what: "slots",
        got: got as u64,
        min: min as u64,
        max: max as u64,
        hint: "give one slot for each unit of the key, counted from the resume point",
    })
}
