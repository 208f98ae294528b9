//! The pool: the verbs, which keep the two sides together.

use super::error::{Declined, HostError};
use super::ledger::{Ledger, Stage};
use super::pages::Pages;
use crate::ordinal::Ordinal;
use crate::provenance::{Agreed, PerRank};
use std::collections::BTreeSet;
use std::fmt;

/// Where a pool's grants come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backing {
    /// Every page of the capacity has memory behind it from the start (device slots, usually): what is admitted is there
    /// on every rank, so it commits at once, without a vote.
    Fixed,
    /// A rank may come short, so every grant is the MIN over all ranks of what they have reserved.
    Voting,
}

/// A pool of host pages on one rank; see the module's notes for the life of a page.
#[derive(Clone, Hash)]
#[cfg_attr(test, derive(PartialEq, Eq))]
pub struct HostPool {
    backing: Backing,
    /// Whether there is memory behind its pages on this rank.
    memory: bool,
    ledger: Ledger,
    pages: Pages,
}

impl HostPool {
    /// A pool of pages `0..physical_pages`, all free, of which `capacity` may be occupied on every rank.
    ///
    /// # Errors
    /// If the pool is fixed and this rank has fewer pages than the capacity.
    pub fn new(physical_pages: PerRank<u32>, capacity: Agreed<u32>, backing: Backing) -> Result<Self, HostError> {
        let physical = physical_pages.into_ballot();
        if backing == Backing::Fixed && physical < capacity.get() {
            return Err(HostError::Unbacked { physical, capacity: capacity.get() });
        }
        Ok(Self { backing, memory: true, ledger: Ledger::new(capacity), pages: Pages::new(physical)? })
    }

    /// The books of a rank that has no host pool, beside ranks that have one: the same ledger, and page numbers with no memory
    /// behind them. Whatever is asked for is there, so such a rank has no say in what is granted.
    ///
    /// # Errors
    /// If there is no memory for the books themselves.
    pub fn without_memory(capacity: Agreed<u32>) -> Result<Self, HostError> {
        let pages = Pages::new(capacity.get())?;
        Ok(Self { backing: Backing::Voting, memory: false, ledger: Ledger::new(capacity), pages })
    }

    /// Whether this rank has memory behind the pages. Physical: no decision reads it.
    pub(crate) fn has_memory(&self) -> bool {
        self.memory
    }

    /// Where its grants come from.
    #[must_use]
    pub fn backing(&self) -> Backing {
        self.backing
    }

    /// The logical side, which decisions read.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Admits an operation that needs `pages`, or declines it; never evicts. Each ordinal asks once, in order.
    ///
    /// In a fixed pool an admitted operation is committed.
    ///
    /// # Errors
    /// If the ordinal had its turn already, or `pages` is 0.
    pub fn ask(&mut self, k: Ordinal, pages: u32) -> Result<Result<(), Declined>, HostError> {
        let answer = self.ledger.ask(k, pages)?;
        if answer.is_ok() && self.backing == Backing::Fixed {
            self.pages.reserve(k, pages);
            self.ledger.commit(k, pages);
        }
        Ok(answer)
    }

    /// Takes up to the pages that were asked for. What this rank got is what it votes.
    ///
    /// In a fixed pool nothing is left to be taken, and the answer is what was asked for.
    ///
    /// # Errors
    /// If the operation has not asked, has reserved already, or is being given up.
    pub fn reserve(&mut self, k: Ordinal) -> Result<PerRank<u32>, HostError> {
        if self.backing == Backing::Fixed {
            return Ok(PerRank::observe(self.ledger.entry(k, &[Stage::Committed], "reserve")?.open));
        }
        self.reserve_up_to(k, PerRank::observe(u32::MAX))
    }

    /// As [`reserve`](Self::reserve), but no more than `most`: what this rank has found in storage, say.
    ///
    /// # Errors
    /// As `reserve`; and a fixed pool knows no part of an ask.
    pub fn reserve_up_to(&mut self, k: Ordinal, most: PerRank<u32>) -> Result<PerRank<u32>, HostError> {
        if self.backing == Backing::Fixed {
            return Err(HostError::Fixed { verb: "reserve a part" });
        }
        let asked = self.ledger.entry(k, &[Stage::Asked], "reserve")?.open;
        if let Some(pages) = self.pages.reserved(k) {
            return Err(HostError::Reserved { operation: k, pages });
        }
        Ok(PerRank::observe(self.pages.reserve(k, asked.min(most.into_ballot()))))
    }

    /// Keeps the first `granted` of the reserved pages. Logically the others are free at once.
    ///
    /// Physically they are the operation's *surplus* until it settles or is aborted: this rank's copy may have run ahead into them,
    /// so nobody else gets them. Until then a rank may come short although the ledger has room; that is what votes are for.
    ///
    /// # Errors
    /// If the operation has no reservation, or a smaller one, on this rank; if it is committed already; if nothing is
    /// granted, which is an abort.
    pub fn commit(&mut self, k: Ordinal, granted: Agreed<u32>) -> Result<(), HostError> {
        self.ledger.entry(k, &[Stage::Asked], "commit")?;
        let (granted, reserved) = (granted.get(), self.pages.reserved(k));
        if granted == 0 {
            return Err(HostError::Zero { what: "pages granted" });
        }
        if reserved.is_none_or(|reserved| granted > reserved) {
            return Err(HostError::AboveReservation { operation: k, granted, reserved });
        }
        self.ledger.commit(k, granted);
        self.pages.grant(k, granted);
        if !self.memory {
            // Nothing is copied into these pages, and whatever the ledger has room for must be there to be reserved.
            self.pages.drop_surplus(k);
        }
        Ok(())
    }

    /// The operation's own pages on this rank, in the order of its tokens: what its copies read or write. Before the grant, all that
    /// are reserved; after it, those that were granted. Physical.
    #[must_use]
    pub fn pages(&self, k: Ordinal) -> &[u32] {
        self.pages.open(k)
    }

    /// What the grant has left over on this rank and is not free yet. Physical, and its length too.
    #[cfg(test)]
    pub(super) fn surplus(&self, k: Ordinal) -> &[u32] {
        self.pages.surplus(k)
    }

    /// Hands the first `keep` pages to the tree and returns the others, surplus included, which no copy touches.
    ///
    /// # Errors
    /// If the operation is not committed, or was granted less.
    pub fn settle(&mut self, k: Ordinal, keep: Agreed<u32>) -> Result<(), HostError> {
        let keep = self.part(k, keep, "settle")?;
        self.end_with(k, keep);
        Ok(())
    }

    /// The operation is given up while a copy may touch its pages: they stay occupied, and its surplus stays with it.
    ///
    /// # Errors
    /// If the operation holds no pages of its own, or drains already.
    pub fn drain(&mut self, k: Ordinal) -> Result<(), HostError> {
        let entry = self.ledger.entry(k, &[Stage::Asked, Stage::Committed], "drain")?;
        self.ledger.drain(k, entry, 0);
        Ok(())
    }

    /// The operation ends early: the tree gets the first `keep` pages, which are whole on every rank, and the others stay
    /// occupied, since a copy may touch them.
    ///
    /// # Errors
    /// If the operation is not committed, or was granted less.
    pub fn drain_rest(&mut self, k: Ordinal, keep: Agreed<u32>) -> Result<(), HostError> {
        let keep = self.part(k, keep, "drain")?;
        let entry = self.ledger.entry(k, &[Stage::Committed], "drain")?;
        self.ledger.drain(k, entry, keep);
        self.pages.settle(k, keep);
        Ok(())
    }

    /// The agreed watermark has passed a draining operation: no copy touches its pages any more, on any rank.
    ///
    /// # Errors
    /// If the operation does not drain.
    pub fn finished(&mut self, k: Ordinal) -> Result<(), HostError> {
        let entry = self.ledger.entry(k, &[Stage::Draining], "finish draining")?;
        self.ledger.finished(k, entry);
        Ok(())
    }

    /// Returns all of the operation's own pages, surplus included. If it has not drained, no copy has begun.
    ///
    /// # Errors
    /// If the operation holds none, or drains and has not finished.
    pub fn abort(&mut self, k: Ordinal) -> Result<(), HostError> {
        let entry = self.ledger.entry(k, &[Stage::Asked, Stage::Committed, Stage::Finished], "abort")?;
        self.pages.give_back(k);
        if self.ledger.abort(k, entry) {
            self.pages.forget(k);
        }
        Ok(())
    }

    /// Takes settled pages back from the tree, all or none; with no pages, nothing happens.
    ///
    /// # Errors
    /// If a page is free already, is still an operation's, or is none of this pool.
    pub fn release(&mut self, pages: &[u32]) -> Result<(), HostError> {
        for (k, count) in self.pages.release(pages)? {
            if self.ledger.release(k, count) {
                self.pages.forget(k);
            }
        }
        Ok(())
    }

    /// Pages that this rank could back in all, occupied or free. Voted.
    pub fn backable(&self) -> PerRank<u32> {
        PerRank::observe(self.pages.backable())
    }

    /// At every vote: the capacity is at most the MIN of `backable`, so that the pool evicts instead of asking for what is not
    /// there.
    pub fn lower(&mut self, backable: Agreed<u32>) {
        self.ledger.lower(backable);
    }

    /// The ranks can back this much: the capacity rises to it, up to the one agreed at start. It never falls by it.
    pub fn raise(&mut self, backable: Agreed<u32>) {
        self.ledger.raise(backable);
    }

    /// This rank loses memory: up to that many free pages cannot be handed out. Gives how many.
    ///
    /// # Errors
    /// A fixed pool keeps its pages.
    pub fn withdraw(&mut self, pages: PerRank<u32>) -> Result<PerRank<u32>, HostError> {
        if self.backing == Backing::Fixed {
            return Err(HostError::Fixed { verb: "lose pages" });
        }
        if !self.memory {
            return Ok(PerRank::observe(0));
        }
        Ok(PerRank::observe(self.pages.withdraw(pages.into_ballot())))
    }

    /// This rank has memory again for up to that many pages that it had lost. Gives how many.
    pub fn restore(&mut self, pages: PerRank<u32>) -> PerRank<u32> {
        PerRank::observe(self.pages.restore(pages.into_ballot()))
    }

    /// At shutdown, every operation has ended.
    ///
    /// # Errors
    /// Lists those that have not.
    pub fn leaks(&self) -> Result<(), HostError> {
        let open: Vec<_> = self.ledger.open_operations().collect();
        if open.is_empty() { Ok(()) } else { Err(HostError::Leaked { open }) }
    }

    /// Checks every invariant, in time linear in the pages.
    ///
    /// # Errors
    /// The first one that does not hold: a page has not exactly one owner, the sides disagree about an operation, or the
    /// occupancy is not the sum over all operations.
    pub fn check(&self) -> Result<(), HostError> {
        let occupied: u64 = self.ledger.entries().map(|(_, entry)| u64::from(entry.open) + u64::from(entry.kept)).sum();
        if occupied != u64::from(self.ledger.occupied()) {
            let what = format!("{} pages are occupied, the operations' sum is {occupied}", self.ledger.occupied());
            return Err(HostError::Invariant { what });
        }
        self.pages.check(&self.ledger).map_err(|what| HostError::Invariant { what })
    }

    /// The operation ends, and the tree keeps its first pages.
    fn end_with(&mut self, k: Ordinal, keep: u32) {
        self.ledger.settle(k, keep);
        self.pages.settle(k, keep);
        self.pages.give_back(k);
    }

    /// Whether this rank has reserved for the operation. Physical.
    pub(crate) fn has_reserved(&self, k: Ordinal) -> bool {
        self.pages.reserved(k).is_some()
    }

    /// All pages that are the tree's on this rank, for checks. Physical.
    pub(crate) fn settled_pages(&self) -> BTreeSet<u32> {
        self.pages.settled()
    }

    /// The part of a committed operation's pages that is kept.
    fn part(&self, k: Ordinal, keep: Agreed<u32>, verb: &'static str) -> Result<u32, HostError> {
        let (granted, keep) = (self.ledger.entry(k, &[Stage::Committed], verb)?.open, keep.get());
        if keep > granted {
            return Err(HostError::AboveGrant { operation: k, keep, granted });
        }
        Ok(keep)
    }
}

/// Shows the logical side alone.
impl fmt::Debug for HostPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostPool").field("backing", &self.backing).field("ledger", &self.ledger).finish_non_exhaustive()
    }
}
