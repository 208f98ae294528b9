//! Looking at a tiered cache without changing it.

use super::TieredCache;
use super::config::Tiers;
use super::jobs::Work;
use super::totals::TierTotals;
use crate::cache::{PrefixCache, TierSizes};
use crate::error::Error;
use crate::host::HostPool;
use crate::node::NodeHandle;
use crate::operation::OperationTable;
use crate::ordinal::Ordinal;
use crate::provenance::Agreed;
use std::collections::BTreeSet;

impl TieredCache {
    /// Sizes in units, by tier.
    #[must_use]
    pub fn sizes(&self) -> TierSizes {
        self.cache.tier_sizes()
    }

    /// What it has done so far.
    #[must_use]
    pub fn totals(&self) -> TierTotals {
        let (limbo_slots, limbo_pages) = (self.limbo.slots(), self.limbo.pages().count() as u64);
        TierTotals { limbo_slots, limbo_pages, ..self.totals }
    }

    /// What it was made with.
    #[must_use]
    pub fn tiers(&self) -> Tiers {
        self.tiers
    }

    /// The tree: nodes, journal, digests.
    #[must_use]
    pub fn cache(&self) -> &PrefixCache {
        &self.cache
    }

    /// The pool of host pages.
    #[must_use]
    pub fn host(&self) -> &HostPool {
        &self.host
    }

    /// This rank loses memory, or has it again; see [`HostPool::withdraw`] and [`HostPool::restore`].
    pub(crate) fn host_mut(&mut self) -> &mut HostPool {
        &mut self.host
    }

    /// The leader's clock in the frame applied last, in milliseconds.
    #[must_use]
    pub fn now_ms(&self) -> Option<u64> {
        self.now.map(Agreed::get)
    }

    /// The operations that are not retired on all ranks.
    #[must_use]
    pub fn operations(&self) -> &OperationTable {
        &self.operations
    }

    /// Whether the device has a node.
    ///
    /// # Errors
    /// A stale handle.
    pub fn is_on_device(&self, node: NodeHandle) -> Result<bool, Error> {
        self.cache.info(node).map(|info| info.on_device)
    }

    /// Whether host memory has a node.
    ///
    /// # Errors
    /// A stale handle.
    pub fn is_on_host(&self, node: NodeHandle) -> Result<bool, Error> {
        self.cache.info(node).map(|info| info.on_host)
    }

    /// Appends the host pages of one node; none if it is not on host. Physical.
    ///
    /// # Errors
    /// A stale handle.
    pub fn host_pages(&self, node: NodeHandle, out: &mut Vec<u32>) -> Result<(), Error> {
        self.cache.host_pages(node, out)
    }

    /// What is there beside the keys and values of a node's pages, on the device and on host: a bit a component, by its place. None where
    /// there are no components.
    ///
    /// # Errors
    /// A stale handle.
    pub fn parts(&self, node: NodeHandle) -> Result<(Vec<u8>, Vec<u8>), Error> {
        self.cache.parts(node)
    }

    /// Of an open prefetch, the parts of its first pages which were in the tree when it was wished for: they stay as they are, and it is to
    /// bring more. None of them where there are no components.
    #[must_use]
    pub fn parts_before(&self, k: Ordinal) -> &[u8] {
        let Some(Work::Prefetch(fetch)) = self.jobs.get(&k).map(|job| &job.work) else { return &[] };
        &fetch.there
    }

    /// Checks every invariant from scratch: the tree's, the pool's, the operations', and that a host page that the pool has
    /// settled is the tree's or in limbo, and no other is.
    ///
    /// # Errors
    /// The first broken one.
    pub fn check(&self) -> Result<(), Error> {
        self.cache.check()?;
        self.host.check().map_err(|error| Error::invariant(error.to_string(), vec![]))?;
        self.operations.check().map_err(|what| Error::invariant(what, vec![]))?;
        let mut pages = self.cache.all_host_pages();
        pages.extend(self.limbo.pages());
        let owned: BTreeSet<u32> = pages.iter().copied().collect();
        let settled = self.host.settled_pages();
        if owned.len() == pages.len() && owned == settled {
            return Ok(());
        }
        let what = format!("the tree and limbo have {} host pages, {} are settled", pages.len(), settled.len());
        Err(Error::invariant(what, vec![]))
    }
}
