//! The logical side: capacity, and what each operation occupies. Equal on all ranks after every step.

use super::error::{Declined, HostError, OpenOperation};
use crate::ordinal::Ordinal;
use crate::provenance::Agreed;
use std::collections::BTreeMap;
use std::fmt;

/// How far an operation's pages are, logically. Whether this rank has reserved for it yet is no part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Pages are asked for; each rank reserves what it can.
    Asked,
    /// The grant is agreed, and the operation owns its pages.
    Committed,
    /// The pages are the tree's.
    Settled,
    /// The operation was given up while a copy may still touch its pages.
    Draining,
    /// No copy can touch them any more, on any rank.
    Finished,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Asked => "asked",
            Self::Committed => "committed",
            Self::Settled => "settled",
            Self::Draining => "draining",
            Self::Finished => "finished",
        })
    }
}

/// What one operation occupies, in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) stage: Stage,
    /// Pages of the operation itself: as asked until the grant, then as granted.
    pub(super) open: u32,
    /// Settled pages, less those released.
    pub(super) kept: u32,
}

/// Capacity and occupancy of a host pool, in pages: all that a decision may read of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ledger {
    start_capacity: u32,
    capacity: u32,
    occupied: u32,
    /// The smallest ordinal that may ask.
    next: u64,
    entries: BTreeMap<Ordinal, Entry>,
}

impl Ledger {
    pub(super) fn new(capacity: Agreed<u32>) -> Self {
        let capacity = capacity.get();
        Self { start_capacity: capacity, capacity, occupied: 0, next: 0, entries: BTreeMap::new() }
    }

    /// Pages that may be occupied now.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The capacity agreed at start, above which it never rises.
    #[must_use]
    pub fn start_capacity(&self) -> u32 {
        self.start_capacity
    }

    /// Pages asked for, granted or kept.
    #[must_use]
    pub fn occupied(&self) -> u32 {
        self.occupied
    }

    /// Pages that can be asked for now.
    #[must_use]
    pub fn available(&self) -> u32 {
        self.capacity.saturating_sub(self.occupied)
    }

    /// Pages that are occupied above the capacity, since it was lowered: to be evicted.
    #[must_use]
    pub fn excess(&self) -> u32 {
        self.occupied.saturating_sub(self.capacity)
    }

    /// How far the operation is, `None` if it occupies nothing.
    #[must_use]
    pub fn stage(&self, k: Ordinal) -> Option<Stage> {
        Some(self.entries.get(&k)?.stage)
    }

    /// Pages that the operation occupies, with those that the tree has kept of it.
    #[must_use]
    pub fn pages(&self, k: Ordinal) -> u32 {
        self.entries.get(&k).map_or(0, |entry| entry.open + entry.kept)
    }

    /// Pages that the operation occupies itself: what the tree has kept of it is not counted.
    #[must_use]
    pub fn open_pages(&self, k: Ordinal) -> u32 {
        self.entries.get(&k).map_or(0, |entry| entry.open)
    }

    /// The operations that have not ended, in order.
    pub fn open_operations(&self) -> impl Iterator<Item = OpenOperation> + '_ {
        let open = self.entries.iter().filter(|(_, entry)| entry.stage != Stage::Settled);
        open.map(|(&operation, entry)| OpenOperation { operation, stage: entry.stage, pages: entry.open })
    }

    /// Whether `pages` may be asked for now.
    ///
    /// # Errors
    /// The answer that every rank gives, with the pages to evict first.
    pub fn room(&self, pages: u32) -> Result<(), Declined> {
        if pages <= self.available() {
            return Ok(());
        }
        Err(Declined { asked: pages, occupied: self.occupied, capacity: self.capacity })
    }

    /// Admits or declines an operation in its turn; a declined one has had its turn as well.
    pub(super) fn ask(&mut self, k: Ordinal, pages: u32) -> Result<Result<(), Declined>, HostError> {
        if !(self.next..=Ordinal::LAST.0).contains(&k.0) {
            return Err(HostError::OutOfOrder { operation: k, least: self.next });
        }
        if pages == 0 {
            return Err(HostError::Zero { what: "pages asked for" });
        }
        self.next = k.0 + 1;
        if let Err(declined) = self.room(pages) {
            return Ok(Err(declined));
        }
        self.set(k, Entry { stage: Stage::Asked, open: pages, kept: 0 });
        Ok(Ok(()))
    }

    /// The operation's entry, if it is in one of these stages.
    pub(super) fn entry(&self, k: Ordinal, stages: &[Stage], verb: &'static str) -> Result<Entry, HostError> {
        let entry = *self.entries.get(&k).ok_or(HostError::Unknown { operation: k, verb })?;
        if stages.contains(&entry.stage) {
            return Ok(entry);
        }
        Err(HostError::Stage { operation: k, stage: entry.stage, verb })
    }

    /// The grant becomes what the operation occupies.
    pub(super) fn commit(&mut self, k: Ordinal, granted: u32) {
        self.set(k, Entry { stage: Stage::Committed, open: granted, kept: 0 });
    }

    /// The tree keeps the first pages, and the others are the operation's until they have drained.
    pub(super) fn drain(&mut self, k: Ordinal, entry: Entry, keep: u32) {
        self.set(k, Entry { stage: Stage::Draining, open: entry.open - keep, kept: keep });
    }

    /// No copy touches the pages any more.
    pub(super) fn finished(&mut self, k: Ordinal, entry: Entry) {
        self.set(k, Entry { stage: Stage::Finished, ..entry });
    }

    /// The tree keeps the first pages, and the others come back.
    pub(super) fn settle(&mut self, k: Ordinal, keep: u32) {
        self.set(k, Entry { stage: Stage::Settled, open: 0, kept: keep });
    }

    /// The operation's own pages come back; whether it holds none now.
    pub(super) fn abort(&mut self, k: Ordinal, entry: Entry) -> bool {
        self.set(k, Entry { stage: Stage::Settled, open: 0, kept: entry.kept });
        !self.entries.contains_key(&k)
    }

    /// The tree gives pages back; whether the operation holds none now.
    pub(super) fn release(&mut self, k: Ordinal, pages: u32) -> bool {
        let Some(&entry) = self.entries.get(&k) else { return true };
        self.set(k, Entry { kept: entry.kept - pages, ..entry });
        !self.entries.contains_key(&k)
    }

    /// The capacity is at most what all ranks can back.
    pub(super) fn lower(&mut self, agreed: Agreed<u32>) {
        self.capacity = self.capacity.min(agreed.get());
    }

    /// The capacity is at least what all ranks can back, up to the one agreed at start.
    pub(super) fn raise(&mut self, agreed: Agreed<u32>) {
        self.capacity = self.capacity.max(agreed.get().min(self.start_capacity));
    }

    /// The one place where an entry changes. A settled one that keeps nothing has ended.
    fn set(&mut self, k: Ordinal, entry: Entry) {
        let Entry { stage, open, kept } = entry;
        let before =
            if stage == Stage::Settled && kept == 0 { self.entries.remove(&k) } else { self.entries.insert(k, entry) };
        self.occupied -= before.map_or(0, |entry| entry.open + entry.kept);
        self.occupied += open + kept;
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (Ordinal, Entry)> + '_ {
        self.entries.iter().map(|(&k, &entry)| (k, entry))
    }
}
