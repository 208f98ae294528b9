//! The prefix cache: the tree, its order, its clock and its evidence, behind the verbs that a scheduler uses.
//!
//! Every verb checks its input first and is all-or-nothing: an error means that nothing changed, digests included.

use crate::clock::{LogicalClock, Stamp};
use crate::error::Error;
use crate::events::EventLog;
use crate::evidence::{Journal, Record, RecordKind};
use crate::hash;
use crate::holds::{HoldTable, LockReceipt, PinReceipt};
use crate::ints::{Ints, TOKENS, common_prefix, with_lanes};
use crate::namespace::Namespace;
use crate::node::{NodeHandle, NodeId, ROOT};
use crate::order::{Eviction, Order};
use crate::runs::Run;
use crate::tree::{Descent, Hold, Tree};

/// Largest page, in tokens.
pub const PAGE_SIZE_MAX: u32 = 1024;

/// What a cache is made with. Agreed by all ranks at start.
pub struct Config {
    /// Tokens of a page, 1 to [`PAGE_SIZE_MAX`].
    pub page_size: u32,
    /// How victims are chosen.
    pub eviction: Eviction,
    /// Whether a unit is a pair of neighbouring tokens (EAGLE) instead of one token.
    pub bigram: bool,
    /// Decisions that the journal keeps.
    pub journal_records: u32,
    /// Whether KV events are collected.
    pub kv_events: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { page_size: 1, eviction: Eviction::Lru, bigram: false, journal_records: 4096, kv_events: false }
    }
}

/// Where a walk may begin instead of at the root: a node, and its depth in units as the caller knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resume {
    /// The node that an earlier match or insert of a prefix of the key ended at.
    pub node: NodeHandle,
    /// The length of that prefix, in units.
    pub length: u64,
}

/// What [`PrefixCache::match_prefix`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match {
    /// Units of the longest cached prefix; a multiple of the page size.
    pub hit_tokens: u64,
    /// The node at that depth; [`NodeHandle::ROOT`] for a miss.
    pub node: NodeHandle,
}

/// What [`PrefixCache::insert`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Insert {
    /// Units that were cached before; the caller still owns the slots it gave for them.
    pub prefix_len: u64,
    /// Units that are cached now and were not before.
    pub new_tokens: u64,
    /// The node at the end of the key.
    pub node: NodeHandle,
    /// Units of the key, cut to whole pages.
    pub length: u64,
}

/// Sizes in units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sizes {
    /// All that is cached.
    pub total: u64,
    /// What a lock or a pin holds.
    pub protected: u64,
    /// What a pin holds.
    pub pinned: u64,
    /// What eviction could free.
    pub evictable: u64,
}

/// A node as seen from outside. Lengths are in units.
#[derive(Debug, Clone, Copy)]
pub struct NodeInfo<'a> {
    /// The node.
    pub handle: NodeHandle,
    /// Its parent; [`NodeHandle::ROOT`] at the top.
    pub parent: NodeHandle,
    /// Running number of its creation.
    pub sequence: u64,
    /// Units from the start of the key to the node's end.
    pub depth: u64,
    /// Units of the node itself.
    pub length: u64,
    /// Children.
    pub children: u32,
    /// Inserts that passed through it.
    pub hits: u64,
    /// Largest priority inserted through it.
    pub priority: i64,
    /// Locks on it and below.
    pub lock_ref: u32,
    /// Pins on it and below.
    pub pin_ref: u32,
    /// When its tokens were inserted.
    pub created: Stamp,
    /// When it was last touched.
    pub last_access: Stamp,
    /// Where it lives.
    pub namespace: &'a Namespace,
}

/// A key taken apart: in bigram mode the first token, and the second one of each pair; else just the tokens.
#[derive(Clone, Copy)]
struct Units<'a> {
    first_token: Option<u32>,
    all: Ints<'a>,
    /// Units in whole pages.
    end: usize,
}

impl Units<'_> {
    /// Where the units begin in the key.
    fn offset(&self) -> usize {
        usize::from(self.first_token.is_some())
    }

    fn pages(&self, page: usize) -> usize {
        self.end / page
    }

    /// In bigram mode the first token of the pair at unit `at`.
    fn token_before(&self, at: usize) -> Option<u64> {
        if at == 0 { self.first_token.map(u64::from) } else { Some(self.all.wide(at - 1)) }
    }

    /// Refuses tokens out of range from unit `from` on. What was compared equal to stored tokens is known to be in range.
    #[inline]
    fn check_from(&self, from: usize) -> Result<(), Error> {
        self.all.slice(from, self.all.len()).check(&TOKENS, self.offset() + from)
    }
}

/// A deterministic prefix cache: equal calls give equal answers and equal digests, on every rank.
pub struct PrefixCache {
    tree: Tree,
    order: Order,
    clock: LogicalClock,
    holds: HoldTable,
    journal: Journal,
    events: Option<EventLog>,
}

impl PrefixCache {
    /// An empty cache.
    ///
    /// # Errors
    /// A page size outside 1 to [`PAGE_SIZE_MAX`].
    pub fn new(config: Config) -> Result<Self, Error> {
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
            order: Order::new(eviction),
            clock: LogicalClock::default(),
            holds: HoldTable::default(),
            journal: Journal::new(journal_records),
            events: kv_events.then(EventLog::default),
        };
        let policy = hash::bytes(0, cache.order.name().as_bytes());
        cache.record(Record::new(RecordKind::Start, 0, u64::from(page_size), u64::from(bigram), policy));
        Ok(cache)
    }

    // ---- walking and growing

    /// The longest cached prefix of `key`, in whole pages.
    ///
    /// Splits the node in which the match ends, and stamps every node that the walk came to, deepest first; both halves of a
    /// split node are among them. With `resume` the comparison starts there; what lies above is stamped, but neither compared nor checked again.
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
    /// With `resume`, `slots` begins at the resume point. Every node below the resume point gains a hit, and every node on
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
        let units = self.units(key)?;
        let (descent, resumed) = self.find(units, namespace, resume)?;
        let (base, covered, end) = (resumed as usize * self.tree.page, self.matched(descent), units.end);
        check_slot_count(slots.len(), end - base, key.len() - base)?;
        units.check_from(end)?;
        self.tree.ensure_room(units.pages(self.tree.page))?;
        let run = if covered < end {
            let new_slots = slots.slice(covered - base, end - base);
            let tokens = (units.all.slice(covered, end), units.offset() + covered);
            Some(self.tree.store(tokens, (new_slots, covered - base))?)
        } else {
            None
        };
        let mut node = descent.map_or(ROOT, |descent| self.land(descent));
        if let Some(run) = run {
            node = self.grow(descent.map(|_| node), (namespace, units.first_token), run);
        }
        self.raise_path(node, priority, resumed);
        let content = run.map_or(0, |run| run.content);
        let content = hash::mix(hash::mix(namespace_word(namespace), priority.cast_unsigned()), content);
        let sequence = self.tree.nodes[node].sequence;
        let record = Record::new(RecordKind::Insert, sequence, covered as u64, end as u64, content);
        self.record(record.resumed_at(base as u64));
        Ok(Insert {
            prefix_len: covered as u64,
            new_tokens: (end - covered) as u64,
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
        self.order.settle(&self.tree)?;
        let before = out.len();
        let expected = num_tokens.min(self.sizes().evictable);
        out.reserve(usize::try_from(expected).unwrap_or(0) + self.tree.page);
        let mut freed = 0;
        while freed < num_tokens {
            let Some(id) = self.order.pop(&mut self.tree) else { break };
            let node = &self.tree.nodes[id];
            let units = self.to_units(node.pages);
            self.record(Record::new(RecordKind::Evict, node.sequence, units, 0, node.content));
            freed += units;
            let parent = self.detach(id, out);
            self.order.changed(&self.tree, parent);
        }
        debug_assert_eq!(freed, (out.len() - before) as u64);
        self.record(Record::new(RecordKind::Evicted, 0, num_tokens, freed, 0));
        Ok(freed)
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
                let (extra_key, salt) = (namespace.extra_key(), namespace.salt());
                let what = format!("namespace ({extra_key:?}, {salt:?})");
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
        let step = step.unwrap_or(now.saturating_add(1));
        if step <= now {
            return Err(Error::OutOfRange {
                what: "step",
                value: i128::from(step),
                min: i128::from(now) + 1,
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
        let whole = |units: usize| units / self.tree.page * self.tree.page;
        if !self.tree.bigram || key.is_empty() {
            return Ok(Units { first_token: None, all: key, end: whole(key.len()) });
        }
        key.slice(0, 1).check(&TOKENS, 0)?;
        #[allow(clippy::cast_possible_truncation)] // checked just above
        let first_token = Some(key.wide(0) as u32);
        let all = key.slice(1, key.len());
        Ok(Units { first_token, all, end: whole(all.len()) })
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
    fn grow(&mut self, parent: Option<NodeId>, place: (&Namespace, Option<u32>), run: Run) -> NodeId {
        let node = self.tree.attach(parent, place, run);
        self.tree.nodes[node].created = self.clock.tick();
        self.order.changed(&self.tree, self.tree.nodes[node].parent);
        if let Some(events) = &mut self.events {
            events.stored(&self.tree, node);
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
        // Comparing the last page finds nearly every mix-up, at a cost that does not grow.
        let begin = (node.depth as usize - 1) * self.tree.page;
        let last_page = units.all.slice(begin, begin + self.tree.page);
        let tokens = self.tree.tokens(id);
        let (above, stored) = tokens.split_at(tokens.len() - self.tree.page);
        let before = above.last().copied().or_else(|| self.tree.token_before(id));
        let same_before = !self.tree.bigram || units.token_before(begin) == before.map(u64::from);
        if !same_before || with_lanes!(last_page, lanes => common_prefix(lanes, stored)) < self.tree.page {
            return mismatch(format!("the page before unit {depth} differs from the node's"));
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
        self.order.changed(&self.tree, id);
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
            // A new node takes the priority as it is; nodes that were there keep a larger one.
            node.priority = if node.hits == 0 { priority } else { node.priority.max(priority) };
            node.reach = node.reach.max(reach);
            node.hits += u64::from(node.depth > resumed);
            self.order.stamped(node, at);
            at = node.parent;
        }
        self.order.changed(&self.tree, id);
    }

    fn hold(&mut self, node: NodeHandle, hold: Hold, kind: RecordKind) -> Result<u64, Error> {
        let id = self.tree.nodes.resolve(node)?;
        let receipt = self.holds.give(id, hold)?;
        self.tree.hold(id, hold);
        self.order.changed(&self.tree, id);
        self.record_node(kind, id);
        Ok(receipt)
    }

    fn unhold(&mut self, receipt: u64, hold: Hold, kind: RecordKind) -> Result<(), Error> {
        let id = self.holds.take(receipt, hold)?;
        let order = &mut self.order;
        self.tree.unhold(id, hold, |node, at| order.unheld(node, at));
        self.order.changed(&self.tree, id);
        self.record_node(kind, id);
        Ok(())
    }

    #[inline]
    fn detach(&mut self, id: NodeId, out: &mut Vec<i64>) -> NodeId {
        if let Some(events) = &mut self.events {
            events.removed(id);
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
    fn to_units(&self, pages: impl TryInto<u64>) -> u64 {
        pages.try_into().unwrap_or(u64::MAX) * self.tree.page as u64
    }
}

fn namespace_word(namespace: &Namespace) -> u64 {
    if *namespace == Namespace::default() { 0 } else { namespace.hash() }
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

mod look;
