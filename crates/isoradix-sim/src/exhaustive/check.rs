//! What must hold on a rank after each event.

use super::rank::{Broken, Rank};
use isoradix_core::Ordinal;
use isoradix_core::host::{HostError, HostPool};
use isoradix_core::operation::Kind;

/// Whose a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    Nobody,
    Operation(Ordinal),
    Tree,
}

impl Rank {
    /// The machines' own invariants, and that no page is touched that is not the copy's to touch.
    pub(super) fn check(&self) -> Result<(), Broken> {
        self.table.check().map_err(|what| self.broken(what))?;
        self.host.check().map_err(|error| self.broken(error))?;
        self.device.check().map_err(|error| self.broken(error))?;
        self.check_owners()?;
        for (k, copy) in (0..).map(Ordinal).zip(&self.copies) {
            let pool = self.pool_ref(copy.kind);
            copy.touches.iter().try_for_each(|page| self.check_touch(k, *page, pool))?;
            copy.reads.iter().try_for_each(|page| self.check_read(k, *page))?;
        }
        Ok(())
    }

    /// A copy writes to its own operation's pages.
    fn check_touch(&self, k: Ordinal, page: u32, pool: &HostPool) -> Result<(), Broken> {
        match owner(pool, page) {
            Owner::Operation(other) if other == k => Ok(()),
            other => Err(self.broken(format_args!("the copy of operation {k} may touch page {page}: {other:?}"))),
        }
    }

    /// A copy reads what the tree holds for it.
    fn check_read(&self, k: Ordinal, page: u32) -> Result<(), Broken> {
        match owner(&self.host, page) {
            Owner::Tree => Ok(()),
            other => Err(self.broken(format_args!("the copy of operation {k} may read page {page}: {other:?}"))),
        }
    }

    /// Operations and tree share no page, as this rank's driver sees it.
    fn check_owners(&self) -> Result<(), Broken> {
        for (pool, device) in [(&self.host, false), (&self.device, true)] {
            let nodes = self.tree.iter().filter(|node| (node.kind == Kind::LoadBack) == device);
            let held = (0..self.copies.len() as u64).flat_map(|k| pool.pages(Ordinal(k)));
            let mut taken = 0_u64;
            for &page in nodes.flat_map(|node| &node.pages).chain(held) {
                if taken >> page & 1 == 1 {
                    return Err(self.broken(format_args!("page {page} has two owners")));
                }
                taken |= 1 << page;
            }
        }
        Ok(())
    }
}

/// Asks the pool by a release that it must refuse: that of a page which is no delivered one.
pub(super) fn owner(pool: &HostPool, page: u32) -> Owner {
    match pool.clone().release(&[page]) {
        Ok(()) => Owner::Tree,
        Err(HostError::NotSettled { operation, .. }) => Owner::Operation(operation),
        Err(_) => Owner::Nobody,
    }
}

impl Rank {
    /// What must hold once everything is quiet.
    pub(super) fn check_quiet(&self) -> Result<(), Broken> {
        self.host.leaks().and_then(|()| self.device.leaks()).map_err(|error| self.broken(error))?;
        for (pool, device) in [(&self.host, false), (&self.device, true)] {
            let nodes = self.tree.iter().filter(|node| (node.kind == Kind::LoadBack) == device);
            let kept: usize = nodes.map(|node| node.pages.len()).sum();
            let ledger = pool.ledger();
            if kept != ledger.occupied() as usize {
                let occupied = ledger.occupied();
                return Err(self.broken(format_args!("{occupied} pages are occupied, the tree has {kept}")));
            }
            if ledger.capacity() != ledger.start_capacity() {
                let (now, start) = (ledger.capacity(), ledger.start_capacity());
                return Err(self.broken(format_args!("all memory is back, and the capacity is {now} of {start}")));
            }
        }
        if self.tree.iter().any(|node| !node.locks.is_empty()) {
            return Err(self.broken("pages are locked, and no operation is open"));
        }
        Ok(())
    }
}
