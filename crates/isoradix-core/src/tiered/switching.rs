//! Tiers switched off and on again while ranks run, by a frame: at one step on all of them.

use super::TieredCache;
use crate::error::Error;
use crate::evidence::RecordKind;
use crate::operation::Kind;
use crate::protocol::{AppliedControl, AppliedFrame, TopTier};

impl TieredCache {
    /// The highest tier that is on.
    #[must_use]
    pub fn top_tier(&self) -> TopTier {
        self.top
    }

    /// Whether copies to and from this tier may begin, and what is there is offered.
    pub(super) fn is_on(&self, tier: TopTier) -> bool {
        tier <= self.top
    }

    /// Throws the switches that a frame brings, after what it does to operations: those end as they would have.
    pub(super) fn switch_tiers(&mut self, frame: &AppliedFrame) -> Result<(), Error> {
        for control in frame.controls() {
            if let AppliedControl::Tiers(top) = control {
                #[cfg(feature = "planted-defects")]
                if self.planted_keeps_tiers() {
                    continue;
                }
                self.switch_to(top.get())?;
            }
        }
        Ok(())
    }

    /// What was wished for and is not begun is forgotten where its tier goes off: a later insert wishes for a backup anew, and what is
    /// stored later takes what is above it along.
    fn switch_to(&mut self, top: TopTier) -> Result<(), Error> {
        self.cache.note(RecordKind::Tiers, 0, top.number(), self.top.number(), 0);
        self.top = top;
        if !self.is_on(TopTier::Host) {
            self.wishes.backups.take();
        }
        if !self.is_on(TopTier::Storage) {
            self.forget_stores();
            self.forget_wished_fetches()?;
        }
        Ok(())
    }

    /// Prefetches that were to be tried again in this step are not.
    pub(super) fn forget_wished_fetches(&mut self) -> Result<(), Error> {
        for fetch in std::mem::take(&mut self.wishes.fetches) {
            self.decline(Kind::Prefetch, fetch.pages);
            self.cache.unlock_host(fetch.lock)?;
        }
        Ok(())
    }
}
