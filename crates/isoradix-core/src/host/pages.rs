//! The physical side: which page is whose on this rank. No decision reads it.
//!
//! Order: a new pool hands out its lowest pages first; after that the page that came back last goes first, and pages that
//! came back in one call go in the order in which that call had them, so runs of pages stay runs.
//!
//! Room for the books of all pages is reserved when the pool is made, so that it cannot run out later; it is touched as pages
//! are handed out, so a pool costs what it uses.

use super::error::HostError;
use super::ledger::{Entry, Ledger, Stage};
use crate::ordinal::Ordinal;
use std::collections::{BTreeMap, BTreeSet};

/// Owner word of a page that is free or aside. Any other is an ordinal, shifted left by one, and the bit [`SETTLED`]. Surplus is the
/// operation's like its other pages: only the ledger no longer counts it.
const FREE: u64 = u64::MAX;
/// Set in the owner word of a page that its operation has handed to the tree.
const SETTLED: u64 = 1;

/// The pages that an operation has reserved on this rank, in the order of its tokens.
#[derive(Debug, Clone, Hash)]
#[cfg_attr(test, derive(PartialEq, Eq))]
struct Held {
    /// The operation's own: those that it was granted, or has reserved if there is no grant yet; and behind them its surplus.
    own: Vec<u32>,
    /// How many of them are no surplus.
    open: usize,
    /// The tree's; those that it has released since are no longer marked as this operation's.
    kept: Vec<u32>,
    /// How many it has not released.
    live: usize,
}

/// Free list and owner of every page.
#[derive(Debug, Clone, Hash)]
#[cfg_attr(test, derive(PartialEq, Eq))]
pub(super) struct Pages {
    /// Pages there are.
    count: u32,
    /// Numbers of the free pages that have been handed out before; the last one goes first, and new pages after all of them.
    free: Vec<u32>,
    /// Pages with no memory behind them at the moment.
    aside: Vec<u32>,
    /// One word for each page that is not new: [`FREE`], or operation and [`SETTLED`]. Pages from its length on are new.
    owner: Vec<u64>,
    held: BTreeMap<Ordinal, Held>,
}

impl Pages {
    /// All of them free.
    pub(super) fn new(count: u32) -> Result<Self, HostError> {
        let (mut free, mut owner) = (Vec::new(), Vec::new());
        let bytes = u64::from(count) * (size_of::<u32>() + size_of::<u64>()) as u64;
        let reserved = free.try_reserve_exact(count as usize).and_then(|()| owner.try_reserve_exact(count as usize));
        reserved.map_err(|_| HostError::OutOfMemory { pages: count, bytes })?;
        Ok(Self { count, free, aside: Vec::new(), owner, held: BTreeMap::new() })
    }

    /// Pages with memory behind them, free or not.
    pub(super) fn backable(&self) -> u32 {
        self.count - narrow(self.aside.len())
    }

    /// Takes up to `most` free pages, in their order.
    fn take(&mut self, most: u32) -> Vec<u32> {
        let left = self.free.len().saturating_sub(most as usize);
        let mut taken: Vec<u32> = self.free.drain(left..).rev().collect();
        let new = narrow(self.owner.len());
        let end = self.count.min(new.saturating_add(most - narrow(taken.len())));
        taken.extend(new..end);
        self.owner.resize(end as usize, FREE);
        taken
    }

    /// Takes up to `most` pages for the operation; how many it got.
    pub(super) fn reserve(&mut self, k: Ordinal, most: u32) -> u32 {
        let own = self.take(most);
        for &page in &own {
            self.owner[page as usize] = k.0 << 1;
        }
        let open = own.len();
        self.held.insert(k, Held { own, open, kept: Vec::new(), live: 0 });
        narrow(open)
    }

    /// How many pages the operation has reserved here, `None` if it has not reserved.
    pub(super) fn reserved(&self, k: Ordinal) -> Option<u32> {
        Some(narrow(self.held.get(&k)?.open))
    }

    /// The operation's own pages but for its surplus, in the order of its tokens.
    pub(super) fn open(&self, k: Ordinal) -> &[u32] {
        self.held.get(&k).map_or(&[], |held| &held.own[..held.open])
    }

    /// The pages that a grant has left over: they count for nothing, and this rank's copy may still touch them.
    pub(super) fn surplus(&self, k: Ordinal) -> &[u32] {
        self.held.get(&k).map_or(&[], |held| &held.own[held.open..])
    }

    /// The operation is granted its first pages; the others are surplus from now on, and stay where they are.
    pub(super) fn grant(&mut self, k: Ordinal, granted: u32) {
        if let Some(held) = self.held.get_mut(&k) {
            held.open = granted as usize;
        }
    }

    /// No copy of this rank touches what the grant has left over: it is free at once.
    pub(super) fn drop_surplus(&mut self, k: Ordinal) {
        let Some(held) = self.held.get_mut(&k) else { return };
        for page in held.own.drain(held.open..).rev() {
            self.owner[page as usize] = FREE;
            self.free.push(page);
        }
    }

    /// No copy touches the operation's own pages any more: all of them are free, the surplus among them.
    pub(super) fn give_back(&mut self, k: Ordinal) {
        let Some(held) = self.held.get_mut(&k) else { return };
        held.open = 0;
        for page in held.own.drain(..).rev() {
            self.owner[page as usize] = FREE;
            self.free.push(page);
        }
        if held.kept.is_empty() {
            self.held.remove(&k);
        }
    }

    /// The first of the operation's pages become the tree's.
    pub(super) fn settle(&mut self, k: Ordinal, keep: u32) {
        let Some(held) = self.held.get_mut(&k) else { return };
        let rest = held.own.split_off(keep as usize);
        held.kept = std::mem::replace(&mut held.own, rest);
        held.live = held.kept.len();
        held.open -= keep as usize;
        for &page in &held.kept {
            self.owner[page as usize] |= SETTLED;
        }
    }

    /// Frees settled pages, all or none; how many of which operation, in runs.
    pub(super) fn release(&mut self, pages: &[u32]) -> Result<Vec<(Ordinal, u32)>, HostError> {
        let mut runs: Vec<(Ordinal, u32)> = Vec::new();
        for (i, &page) in pages.iter().enumerate() {
            match (self.release_page(page), runs.last_mut()) {
                (Ok(k), Some((last, count))) if k == *last => *count += 1,
                (Ok(k), _) => runs.push((k, 1)),
                (Err(error), _) => {
                    self.take_back(&pages[..i], &runs);
                    return Err(self.with_origin(error));
                }
            }
        }
        self.free.extend(pages.iter().rev());
        for (k, count) in &runs {
            self.released(*k, *count);
        }
        Ok(runs)
    }

    /// The tree has released some of an operation's pages. Once most are gone, their numbers are forgotten.
    fn released(&mut self, k: Ordinal, count: u32) {
        let Some(held) = self.held.get_mut(&k) else { return };
        held.live -= count as usize;
        if held.kept.len() > 2 * held.live + 16 {
            let owner = &self.owner;
            held.kept.retain(|page| owner[*page as usize] == k.0 << 1 | SETTLED);
            held.kept.shrink_to_fit();
        }
    }

    /// The pages of the operation that are the tree's now, in the order of its tokens.
    pub(super) fn kept(&self, k: Ordinal) -> Vec<u32> {
        let kept = self.held.get(&k).map_or(&[][..], |held| &held.kept);
        kept.iter().copied().filter(|&page| self.owner[page as usize] == k.0 << 1 | SETTLED).collect()
    }

    /// All pages that are the tree's.
    pub(super) fn settled(&self) -> BTreeSet<u32> {
        let settled = |owner: &u64| *owner != FREE && *owner & SETTLED != 0;
        (0..).zip(&self.owner).filter(|(_, owner)| settled(owner)).map(|(page, _)| page).collect()
    }

    /// The operation has ended and holds no page.
    pub(super) fn forget(&mut self, k: Ordinal) {
        self.held.remove(&k);
    }

    /// Puts up to `count` free pages aside; how many.
    pub(super) fn withdraw(&mut self, count: u32) -> u32 {
        let taken = self.take(count);
        self.aside.extend_from_slice(&taken);
        narrow(taken.len())
    }

    /// Makes up to `count` pages free again; how many.
    pub(super) fn restore(&mut self, count: u32) -> u32 {
        let left = self.aside.len().saturating_sub(count as usize);
        let before = self.free.len();
        self.free.extend(self.aside.drain(left..).rev());
        narrow(self.free.len() - before)
    }

    /// Marks one page free and gives the operation that it was settled by.
    fn release_page(&mut self, page: u32) -> Result<Ordinal, HostError> {
        let physical = self.count;
        if page >= physical {
            return Err(HostError::NoSuchPage { page, physical });
        }
        let new = HostError::DoubleRelease { page, within_call: false };
        let owner = self.owner.get_mut(page as usize).ok_or(new)?;
        let operation = Ordinal(*owner >> 1);
        if *owner == FREE {
            return Err(HostError::DoubleRelease { page, within_call: false });
        }
        if *owner & SETTLED == 0 {
            return Err(HostError::NotSettled { page, operation });
        }
        *owner = FREE;
        Ok(operation)
    }

    /// Undoes what a refused call released until then.
    #[cold]
    fn take_back(&mut self, pages: &[u32], runs: &[(Ordinal, u32)]) {
        let owners = runs.iter().flat_map(|&(k, count)| (0..count).map(move |_| k.0 << 1 | SETTLED));
        for (&page, owner) in pages.iter().zip(owners) {
            self.owner[page as usize] = owner;
        }
    }

    /// Says whether a page was released by the refused call itself: then, with all taken back, it is not free.
    #[cold]
    fn with_origin(&self, error: HostError) -> HostError {
        match error {
            HostError::DoubleRelease { page, .. } => {
                let free = self.owner.get(page as usize).is_none_or(|owner| *owner == FREE);
                HostError::DoubleRelease { page, within_call: !free }
            }
            other => other,
        }
    }

    /// Every page has exactly one owner, and the ledger agrees with what is held.
    pub(super) fn check(&self, ledger: &Ledger) -> Result<(), String> {
        let mut claims = Claims { owner: &self.owner, claimed: vec![false; self.owner.len()] };
        for &page in self.free.iter().chain(&self.aside) {
            claims.claim(page, FREE)?;
        }
        for (&k, held) in &self.held {
            held.own.iter().try_for_each(|&page| claims.claim(page, k.0 << 1))?;
            self.kept(k).into_iter().try_for_each(|page| claims.claim(page, k.0 << 1 | SETTLED))?;
            if ledger.stage(k).is_none() {
                return Err(format!("operation {k} holds pages and has ended"));
            }
        }
        if let Some(page) = claims.claimed.iter().position(|claimed| !claimed) {
            return Err(format!("page {page} is in no list, its owner word is {:#x}", self.owner[page]));
        }
        ledger.entries().try_for_each(|(k, entry)| self.check_entry(k, entry))
    }

    fn check_entry(&self, k: Ordinal, entry: Entry) -> Result<(), String> {
        let (open, surplus, kept) = (self.open(k).len(), self.surplus(k).len(), self.kept(k).len());
        let exact = matches!(entry.stage, Stage::Committed | Stage::Settled);
        let open_fits = if exact { open == entry.open as usize } else { open <= entry.open as usize };
        // There is none before the grant, and none once no copy can touch it.
        let surplus_fits = surplus == 0 || !matches!(entry.stage, Stage::Asked | Stage::Settled);
        if open_fits && surplus_fits && kept == entry.kept as usize {
            return Ok(());
        }
        let Entry { stage, open: most, kept: due } = entry;
        Err(format!(
            "operation {k} is {stage} with {open} of {most} open pages, {surplus} of surplus and {kept} of {due} kept ones"
        ))
    }
}

/// Which pages some list has named until now.
struct Claims<'a> {
    owner: &'a [u64],
    claimed: Vec<bool>,
}

impl Claims<'_> {
    fn claim(&mut self, page: u32, owner: u64) -> Result<(), String> {
        let (Some(claimed), Some(&word)) = (self.claimed.get_mut(page as usize), self.owner.get(page as usize)) else {
            return Err(format!("page {page} is listed, the pool has {}", self.owner.len()));
        };
        if std::mem::replace(claimed, true) || word != owner {
            return Err(format!("page {page} is listed for owner word {owner:#x}, its own is {word:#x}"));
        }
        Ok(())
    }
}

/// A number of pages, all of which came from a `u32`.
#[expect(clippy::cast_possible_truncation, reason = "no list is longer than the count that the pool was made with")]
fn narrow(count: usize) -> u32 {
    count as u32
}
