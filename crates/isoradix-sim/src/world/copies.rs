//! Copies: one first-in-first-out queue a kind, page by page.
//!
//! A page is read when its turn begins and written when it ends, so that whatever is freed and handed out again between the two
//! is noticed.

use super::storage::{Orphans, names};
use super::{Device, HostMemory, Storage};
use crate::queue::Micros;
use crate::request::Tag;
use crate::rng::{self, Purpose, roll};
use crate::violation::{Wrong, ensure};
use isoradix_core::operation::Kind;
use isoradix_core::protocol::FIFOS;
use isoradix_core::{Ordinal, Transfer};
use std::collections::{BTreeSet, VecDeque};

/// One copy.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) transfer: Transfer,
    /// Pages that are copied.
    pub(crate) done: usize,
    /// What was read of the page whose turn it is.
    held: Option<Vec<Tag>>,
    /// It fails when it comes to this page.
    pub(crate) fails_at: Option<usize>,
    /// Of a thousand pages that it puts into storage, so many are lost without a word; and the seed that says which.
    pub(crate) loses: (u64, u64),
    /// Of a thousand pages that it would get out of storage, so many cannot be read.
    pub(crate) unreadable: u64,
    /// The pages in storage whose owner was dead when it began.
    pub(crate) orphans: Option<Orphans>,
    /// It was told to stop, and does so at that time.
    pub(crate) leaves: Option<Micros>,
    /// The names of its pages in storage.
    names: Vec<Tag>,
}

impl Job {
    pub(crate) fn new(transfer: Transfer, page: usize) -> Self {
        let names = transfer.stored.iter().flat_map(|run| names(run, page)).collect();
        Self {
            transfer,
            done: 0,
            held: None,
            fails_at: None,
            loses: (0, 0),
            unreadable: 0,
            orphans: None,
            leaves: None,
            names,
        }
    }

    pub(crate) fn pages(&self) -> usize {
        self.transfer.pages.len()
    }
}

/// How a copy's turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It goes on.
    Not,
    /// All of it is copied; of a prefetch, all that is still there.
    Well,
    /// It failed.
    Badly,
    /// It was cancelled, and touches nothing any more.
    Left,
}

/// The copies of one rank.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    fifos: [VecDeque<Job>; FIFOS],
    /// Operations whose copy is over on this rank, or will never be.
    over: BTreeSet<Ordinal>,
    page: usize,
}

impl Engine {
    pub(crate) fn new(page: u32) -> Self {
        Self { page: page as usize, ..Self::default() }
    }

    /// Whether it is the first in its queue, and so begins at once.
    pub(crate) fn push(&mut self, job: Job) -> bool {
        let fifo = &mut self.fifos[job.transfer.kind.fifo()];
        fifo.push_back(job);
        fifo.len() == 1
    }

    pub(crate) fn head(&mut self, kind: Kind) -> Option<&mut Job> {
        self.fifos[kind.fifo()].front_mut()
    }

    pub(crate) fn pop(&mut self, kind: Kind) {
        if let Some(job) = self.fifos[kind.fifo()].pop_front() {
            self.over.insert(job.transfer.operation);
        }
    }

    /// Whether a forward pass still has to wait.
    pub(crate) fn is_loading(&self) -> bool {
        !self.fifos[Kind::LoadBack.fifo()].is_empty()
    }

    /// All jobs, the running and the waiting ones.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.fifos.iter().flatten()
    }

    /// Stops a copy. Whether it is off its pages already, as it has not begun or never will; nothing if it was over before.
    pub(crate) fn cancel(&mut self, operation: Ordinal, leaves: Micros) -> Option<bool> {
        if self.over.contains(&operation) {
            return None;
        }
        for fifo in &mut self.fifos {
            let Some(place) = fifo.iter().position(|job| job.transfer.operation == operation) else { continue };
            if place == 0 {
                fifo[0].leaves = Some(leaves);
                return Some(false);
            }
            fifo.remove(place);
        }
        self.over.insert(operation);
        Some(true)
    }

    /// An operation is over here without any copy.
    pub(crate) fn fail(&mut self, operation: Ordinal) {
        self.over.insert(operation);
    }

    /// The turn of a page is over, and that of the next begins.
    pub(crate) fn turn(
        &mut self,
        kind: Kind,
        now: Micros,
        (device, host, storage): (&mut Device, &mut HostMemory, &mut Storage),
    ) -> Result<Ended, Wrong> {
        let page = self.page;
        let Some(job) = self.fifos[kind.fifo()].front_mut() else { return Ok(Ended::Not) };
        if let Some(tags) = job.held.take() {
            job.write(tags, page, device, host, storage)?;
            job.done += 1;
        }
        if job.leaves.is_some_and(|leaves| leaves <= now) {
            return Ok(Ended::Left);
        }
        if job.done == job.pages() {
            return Ok(if job.leaves.is_some() { Ended::Left } else { Ended::Well });
        }
        if job.fails_at == Some(job.done) {
            return Ok(if job.leaves.is_some() { Ended::Left } else { Ended::Badly });
        }
        job.held = job.read(page, device, host, storage)?;
        match job.held {
            Some(_) => Ok(Ended::Not),
            None if job.leaves.is_some() => Ok(Ended::Left),
            None if job.is_gone(storage) => Ok(Ended::Well),
            None => Ok(Ended::Badly),
        }
    }
}

impl Job {
    /// What is in the page whose turn it is; nothing if storage has lost it.
    fn read(
        &self,
        page: usize,
        device: &Device,
        host: &HostMemory,
        storage: &Storage,
    ) -> Result<Option<Vec<Tag>>, Wrong> {
        let Transfer { operation, kind, slots, pages, .. } = &self.transfer;
        match kind {
            Kind::Backup => {
                let slots = slots.get(self.done * page..(self.done + 1) * page).unwrap_or_default();
                ensure(slots.len() == page, "memory", || {
                    format!("backup {operation} has {} pages and too few slots", pages.len())
                })?;
                slots.iter().map(|slot| device.read(*slot)).collect::<Result<_, _>>().map(Some)
            }
            Kind::LoadBack | Kind::Store => host.read(pages[self.done], *operation).map(Some),
            Kind::Prefetch => {
                Ok(self.name().filter(|name| self.is_readable(*name)).and_then(|name| storage.get(name)).cloned())
            }
        }
    }

    fn write(
        &self,
        tags: Vec<Tag>,
        page: usize,
        device: &mut Device,
        host: &mut HostMemory,
        storage: &mut Storage,
    ) -> Result<(), Wrong> {
        let Transfer { operation, kind, slots, pages, .. } = &self.transfer;
        match kind {
            Kind::Backup | Kind::Prefetch => host.write(pages[self.done], *operation, &tags),
            Kind::LoadBack => {
                let slots = slots.get(self.done * page..).unwrap_or_default();
                slots.iter().zip(tags).try_for_each(|(slot, tag)| device.write(*slot, tag))
            }
            Kind::Store => {
                let Some(name) = self.name() else {
                    return Err(Wrong::new("memory", format!("store {operation} has fewer tokens than pages")));
                };
                let (permille, seed) = self.loses;
                if rng::below(roll(seed, Purpose::Put, [name, 0, 0]), 1000) >= permille {
                    storage.put(name, tags);
                }
                Ok(())
            }
        }
    }

    /// Whether the page whose turn it is was lost since it was asked for: a miss, where one that cannot be read is a failure.
    fn is_gone(&self, storage: &Storage) -> bool {
        self.name().is_some_and(|name| storage.get(name).is_none())
    }

    /// There is not the same as readable.
    fn is_readable(&self, name: Tag) -> bool {
        let (_, seed) = self.loses;
        !self.orphans.is_some_and(|orphans| orphans.has(name))
            && rng::below(roll(seed, Purpose::Read, [name, self.transfer.operation.0, 0]), 1000) >= self.unreadable
    }

    fn name(&self) -> Option<Tag> {
        self.names.get(self.done).copied()
    }
}
