//! Trailing state: windows, recurrent states and side-cars, from storage up to what a match offers.
//!
//! A prefetch is all or nothing here. Each rank says where its storage has usable ends, the votes go down to the deepest one that
//! all ranks have (`protocol`, `trailing`), and only then the copy begins: which parts it brings depends on the end. So it does not
//! run ahead, and ends with nothing where it ends early.

use super::TieredCache;
use super::answers::TieredMatch;
use super::effects::Transfer;
use super::error::StepError;
use super::jobs::Work;
use crate::components::{Components, Presence};
use crate::error::Error;
use crate::host::Stage;
use crate::ints::Ints;
use crate::namespace::Namespace;
use crate::node::NodeHandle;
use crate::operation::{Kind, Share};
use crate::ordinal::Ordinal;
use crate::protocol::{Board, ProtocolError, TopTier};
use crate::provenance::PerRank;

impl TieredCache {
    /// The cache of a model that keeps more than keys and values. For an empty cache; equal on all ranks but for what is here.
    #[must_use]
    pub fn with_components(mut self, components: Components) -> Self {
        self.cache.follow_parts(&components);
        self.components = components;
        self
    }

    /// What the model keeps beside keys and values.
    #[must_use]
    pub fn components(&self) -> &Components {
        &self.components
    }

    /// The states at a node's end are kept on the device from now on, in the row of its last page: the node is an end for them, until it
    /// leaves the device. They come to host with the node, if it is not there yet.
    ///
    /// # Errors
    /// A stale handle; a node that is not on the device; no state among the components.
    pub fn keep_states(&mut self, node: NodeHandle) -> Result<(), Error> {
        self.cache.keep_states(node, self.components.states())
    }

    /// The length that [`match_prefix`](Self::match_prefix) would find over both tiers, changing nothing at all.
    ///
    /// # Errors
    /// Tokens out of range.
    pub fn probe(&self, key: Ints<'_>, namespace: &Namespace) -> Result<u64, Error> {
        if self.components.is_empty() {
            return self.cache.probe(key, namespace);
        }
        self.cache.probe_usable(key, namespace, &self.components)
    }

    /// Of what a match has found, the deepest ends that are usable for every component.
    pub(super) fn usable(&mut self, found: NodeHandle) -> Result<TieredMatch, Error> {
        let (on_device, device_units) = self.cache.on_device(found)?;
        let ends = self.cache.usable_ends(found, &self.components)?;
        let end = if self.is_on(TopTier::Host) { ends.deepest(u32::MAX) } else { 0 };
        let device_end = ends.deepest(self.cache.pages_of(device_units));
        let node = self.cache.clamp(on_device, device_end)?;
        let hit_tokens = self.cache.units_of(device_end);
        if end <= device_end {
            return Ok(TieredMatch { hit_tokens, node, host_tokens: 0, host_node: node });
        }
        let host_node = self.cache.clamp(found, end)?;
        Ok(TieredMatch { hit_tokens, node, host_tokens: self.cache.units_of(end) - hit_tokens, host_node })
    }

    /// External storage has answered a prefetch's question on this rank: the leading pages that it has, and the parts of each.
    ///
    /// The rank's usable ends are searched from here on, vote by vote, and it reserves pages up to the deepest.
    pub(crate) fn found_presence(&mut self, board: &mut Board, k: Ordinal, here: &Presence) -> Result<(), StepError> {
        if k.0 >= self.operations.issued() {
            return Err(ProtocolError::NotIssued { operation: k, issued: self.operations.issued() }.into());
        }
        if self.components.is_empty() {
            let page = PerRank::observe(self.cache.page_size());
            return self.found(
                board,
                k,
                here.pages().zip(page).map(|(pages, page)| u64::from(pages) * u64::from(page)),
            );
        }
        let Some(Work::Prefetch(fetch)) = self.jobs.get(&k).map(|job| &job.work) else { return Ok(()) };
        let asked = fetch.pages;
        let ends = self.components.ends_here(&fetch.above_parts, &fetch.there, here, asked);
        let deepest = PerRank::observe(ends.deepest(asked));
        board.search(k, ends, asked)?;
        // A second answer is as late as one after the end.
        if self.host.ledger().stage(k) != Some(Stage::Asked) || self.host.has_reserved(k) {
            return Ok(());
        }
        let reserved = self.host.reserve_up_to(k, deepest)?;
        board.post_pages(k, reserved)?;
        Ok(())
    }

    /// All ranks have agreed up to where a prefetch goes: its copy begins, if it is one that brings parts.
    pub(super) fn fetch_whole(&mut self, k: Ordinal, share: Share) {
        if self.components.is_empty() {
            return;
        }
        let pages = self.host.pages(k).iter().copied().take(share.pages as usize).collect();
        let Some(Work::Prefetch(fetch)) = self.jobs.get_mut(&k).map(|job| &mut job.work) else { return };
        fetch.parts = self.components.needed(share.pages);
        let (parts, stored) = (fetch.parts.clone(), vec![fetch.run()]);
        self.start(Transfer { operation: k, kind: Kind::Prefetch, slots: vec![], pages, stored, parts });
    }
}
