//! The verbs of a step, equal on all ranks, and its end.

use super::copy::{Copy, Run};
use super::rank::{Broken, PAGE, Rank};
use super::scope::{Defect, Scope, Verb};
use isoradix_core::operation::{Declined, Kind, Subject};
use isoradix_core::protocol::{SlotField, words};
use isoradix_core::{Ordinal, PerRank};

impl Rank {
    /// Does what the script has for the open step, and finishes it.
    pub(super) fn close(&mut self, scope: &Scope) -> Result<(), Broken> {
        let step = self.open_step.take().ok_or_else(|| self.broken("no step is open"))?;
        for verb in scope.verbs(step) {
            self.perform(verb, scope)?;
        }
        self.board.finish_step(step, self.table.retired()).map_err(|error| self.broken(error))
    }

    fn perform(&mut self, verb: Verb, scope: &Scope) -> Result<(), Broken> {
        match verb {
            Verb::Backup(nodes) => self.issue_paged(Kind::Backup, nodes, 1),
            Verb::Prefetch { pages, least } => self.issue_paged(Kind::Prefetch, &[pages], least),
            Verb::LoadBack(pages) => self.issue_paged(Kind::LoadBack, &[pages], 1),
            Verb::Store => self.issue_store(scope),
            Verb::Evict => self.evict(),
        }
    }

    /// Issues an operation that takes pages, if the window and the ledger admit it.
    fn issue_paged(&mut self, kind: Kind, parts: &[u32], least: u32) -> Result<(), Broken> {
        let pages: u32 = parts.iter().sum();
        if self.pool_ref(kind).ledger().available() < pages || !self.admits() {
            return Ok(());
        }
        let subject = |(id, pages): (u64, &u32)| Subject { id, pages: *pages, tokens: u64::from(*pages) * PAGE };
        let subjects: Vec<Subject> = (0..).zip(parts).map(subject).collect();
        let issued = match kind {
            Kind::Prefetch => self.table.issue_prefetch(pages, u64::from(pages) * PAGE, least, 0),
            _ => self.table.issue_batch(kind, &subjects),
        };
        let Some(k) = self.issued(issued)? else { return Ok(()) };
        let asked = self.pool(kind).ask(k, pages).map_err(|error| self.broken(error))?;
        asked.map_err(|declined| self.broken(format_args!("operation {k} was admitted, then declined: {declined}")))?;
        let ledger = self.pool_ref(kind).ledger();
        if ledger.occupied() > ledger.capacity() {
            let (occupied, capacity) = (ledger.occupied(), ledger.capacity());
            return Err(self.broken(format_args!("{occupied} pages are occupied by asking, of {capacity}")));
        }
        let source = if kind == Kind::LoadBack { self.lock_source(k) } else { Vec::new() };
        self.copies.push(Copy::new(kind, pages, true, source));
        Ok(())
    }

    fn issue_store(&mut self, scope: &Scope) -> Result<(), Broken> {
        let Some(pages) = self.source().map(|node| u64::try_from(node.pages.len()).unwrap_or(0)) else {
            return Ok(());
        };
        if !self.admits() {
            return Ok(());
        }
        let issued = self.table.issue(Kind::Store, 0, pages * PAGE, 0);
        let Some(k) = self.issued(issued)? else { return Ok(()) };
        let source = self.lock_source(k);
        let writes = self.id == 0 || !scope.sole_writer;
        self.copies.push(Copy::new(Kind::Store, u32::try_from(pages).unwrap_or(0), writes, source));
        if writes {
            return Ok(());
        }
        for field in SlotField::ALL {
            self.board.abstain(k, field).map_err(|error| self.broken(error))?;
        }
        self.copy(k).run = Run::Off;
        self.post_finished(k)
    }

    /// Mistaken ranks look at more than the table does.
    fn admits(&self) -> bool {
        match self.defect {
            Some(Defect::WindowSlidesByVote) => {
                let retired = self.seen.as_ref().map_or(0, |(_, vector)| vector.words[words::RETIRED].cast_unsigned());
                self.table.issued() < retired + u64::from(self.table.window() - 1)
            }
            Some(Defect::IssueWaitsForOwnCopy) => self.copies.iter().all(|copy| copy.run == Run::Off),
            _ => true,
        }
    }

    /// The new operation's ordinal, known to the board; `None` if the window is full.
    fn issued(&mut self, issued: Result<Ordinal, Declined>) -> Result<Option<Ordinal>, Broken> {
        match issued {
            Ok(k) => {
                let fifo = self.table.operation(k).map_or(0, |operation| operation.kind().fifo());
                let issued = self.board.issue(k).and_then(|()| self.board.enqueue(fifo, k));
                issued.map(|()| Some(k)).map_err(|error| self.broken(error))
            }
            Err(Declined::WindowFull { .. }) => Ok(None),
            Err(declined) => Err(self.broken(declined)),
        }
    }

    /// The oldest host pages that were delivered.
    fn source(&self) -> Option<&super::rank::Node> {
        self.tree.iter().find(|node| node.kind != Kind::LoadBack)
    }

    /// Locks them for an operation that reads them.
    fn lock_source(&mut self, reader: Ordinal) -> Vec<u32> {
        let Some(node) = self.tree.iter_mut().find(|node| node.kind != Kind::LoadBack) else { return Vec::new() };
        node.locks.push(reader);
        node.pages.clone()
    }

    fn evict(&mut self) -> Result<(), Broken> {
        let heedless = self.has(Defect::EvictsLocked);
        let (victims, kept) = self.tree.drain(..).partition(|node| heedless || node.locks.is_empty());
        self.tree = kept;
        let victims: Vec<super::rank::Node> = victims;
        for node in victims {
            self.pool(node.kind).release(&node.pages).map_err(|error| self.broken(error))?;
        }
        Ok(())
    }

    /// This rank loses the memory of a free page, or has it again.
    pub(super) fn change_memory(&mut self, lose: bool) {
        let one = PerRank::observe(1);
        if lose {
            let _ = self.host.withdraw(one);
            (self.losses, self.lost) = (self.losses - 1, self.lost + 1);
        } else {
            let _ = self.host.restore(one);
            self.lost -= 1;
        }
        let backable = self.host.backable();
        self.board.post_backable(backable);
    }
}
