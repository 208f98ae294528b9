//! What a tiered cache has done so far, in numbers, for reports. All of them are logical, so equal on all ranks at every step; no
//! decision reads them, and no digest holds them.

use crate::operation::{Event, Kind};
use crate::protocol::FIFOS;

/// What has become of the operations of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct OperationTotals {
    /// Operations that got an ordinal.
    pub issued: u64,
    /// Operations that have ended well.
    pub done: u64,
    /// Operations that storage failed, and whose work was taken up by another one.
    pub retried: u64,
    /// Times that a wish, or a part of a step's wishes, was turned down.
    pub declined: u64,
    /// Operations that have ended early, by the place of the event in [`Event::ENDINGS`].
    aborted: [u64; Event::ENDINGS.len()],
}

impl OperationTotals {
    /// Operations that have ended early by this event, from that moment on: some may still drain.
    #[must_use]
    pub fn aborted(&self, reason: Event) -> u64 {
        place(reason).map_or(0, |place| self.aborted[place])
    }

    pub(super) fn abort(&mut self, reason: Event) {
        if let Some(place) = place(reason) {
            self.aborted[place] += 1;
        }
    }
}

fn place(reason: Event) -> Option<usize> {
    Event::ENDINGS.iter().position(|ending| *ending == reason)
}

/// What a cache has done so far. Tokens are units: pairs, in bigram mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TierTotals {
    /// Tokens that evictions freed on the device. What removals and resets drop is no eviction.
    pub evicted_tokens: u64,
    /// Of these, what stayed on host.
    pub demoted_tokens: u64,
    /// Of these, what was to come to host some day, and was lost: under write-back only.
    pub dropped_dirty_tokens: u64,
    /// Tokens that evictions freed on host.
    pub host_evicted_tokens: u64,
    /// Tokens whose host copies were given up while they stayed on the device: under write-back only.
    pub reclaimed_tokens: u64,
    /// Tokens that backups brought to host. Of this and the next three, what a reset or a removal has made void is left out.
    pub backed_up_tokens: u64,
    /// Tokens that load-backs brought to the device, once their copies have ended on every rank.
    pub loaded_back_tokens: u64,
    /// Tokens that prefetches brought to host and the tree had a use for.
    pub prefetched_tokens: u64,
    /// Tokens that stores brought to external storage.
    pub stored_tokens: u64,
    /// Tokens that were to be stored and are given up: their stores failed as often as they may, or were aborted, they left host before,
    /// or storage was switched off, or detached while the breaker was open. What of them is stored later, with something below, counts there too.
    pub given_up_tokens: u64,
    /// Times that the breaker in front of external storage has opened.
    pub breaker_opened: u64,
    /// Times that it has closed again.
    pub breaker_closed: u64,
    /// Tokens whose device slots resets have kept back, in all.
    pub limbo_tokens: u64,
    /// Device slots that are kept back now.
    pub limbo_slots: u64,
    /// Host pages that are kept back now.
    pub limbo_pages: u64,
    pub(super) operations: [OperationTotals; FIFOS],
}

impl TierTotals {
    /// Of the operations of one kind.
    #[must_use]
    pub fn of(&self, kind: Kind) -> OperationTotals {
        self.operations[kind.fifo()]
    }

    pub(super) fn of_mut(&mut self, kind: Kind) -> &mut OperationTotals {
        &mut self.operations[kind.fifo()]
    }

    /// So many tokens have arrived where operations of this kind bring them.
    pub(super) fn arrived(&mut self, kind: Kind, tokens: u64) {
        *match kind {
            Kind::Backup => &mut self.backed_up_tokens,
            Kind::LoadBack => &mut self.loaded_back_tokens,
            Kind::Prefetch => &mut self.prefetched_tokens,
            Kind::Store => &mut self.stored_tokens,
        } += tokens;
    }
}
