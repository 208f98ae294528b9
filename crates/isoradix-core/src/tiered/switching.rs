//! Tiers switched off and on again while ranks run, by a frame: at one step on all of them.

use super::TieredCache;
use crate::evidence::RecordKind;
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
    pub(super) fn switch_tiers(&mut self, frame: &AppliedFrame) {
        for control in frame.controls() {
            if let AppliedControl::Tiers(top) = control {
                #[cfg(feature = "planted-defects")]
                if self.planted_keeps_tiers() {
                    continue;
                }
                self.switch_to(top.get());
            }
        }
    }

    /// What was wished for and is not begun is forgotten where its tier goes off: a later insert wishes for a backup anew.
    fn switch_to(&mut self, top: TopTier) {
        self.cache.note(RecordKind::Tiers, 0, top.number(), self.top.number(), 0);
        self.top = top;
        if !self.is_on(TopTier::Host) {
            self.wishes.backups.take();
        }
        if !self.is_on(TopTier::Storage) {
            self.wishes.stores.clear();
        }
    }
}
