//! Bringing up what is below: from host to the device, from storage to host.

use super::TieredCache;
use super::answers::{PrefetchState, PrefetchTicket};
use super::jobs::{Fetch, Held, Work};
use crate::cache::Segment;
use crate::error::Error;
use crate::evidence::RecordKind;
use crate::hash;
use crate::holds::HostLockReceipt;
use crate::ints::Ints;
use crate::namespace::Namespace;
use crate::node::NodeHandle;
use crate::operation::{Kind, Operation, State};
use crate::ordinal::Ordinal;
use crate::protocol::{Deadline, Retry, TopTier, prefetch_patience_ms};

impl TieredCache {
    /// Keeps what is on host of a node, and of all above it: what a match promised is there until the receipt is given back,
    /// to [`unlock_host`](Self::unlock_host), or to [`load_back`](Self::load_back).
    ///
    /// # Errors
    /// A stale handle; a node that is not on host.
    pub fn host_lock(&mut self, node: NodeHandle) -> Result<HostLockReceipt, Error> {
        self.cache.host_lock(node)
    }

    /// Gives back a host lock.
    ///
    /// # Errors
    /// A receipt that is not outstanding.
    pub fn unlock_host(&mut self, receipt: HostLockReceipt) -> Result<(), Error> {
        self.cache.unlock_host(receipt)
    }

    /// Device slots that [`load_back`](Self::load_back) takes; 0 if it would decline: fewer tokens than are worth it, the
    /// window is full, or host is switched off. Of a cache with components also if the locked end is not usable any more, because parts
    /// that it rested on have left the device: the receipt holds those on host alone.
    ///
    /// # Errors
    /// A receipt that is not outstanding.
    pub fn load_back_need(&self, receipt: HostLockReceipt) -> Result<u64, Error> {
        let end = self.cache.host_locked(receipt)?;
        let tokens = self.cache.host_only_units(end)?;
        let joins = !self.wishes.loads.is_empty();
        let fits = self.is_on(TopTier::Host) && (joins || self.has_room());
        let worth = tokens >= self.tiers.load_back_min.max(1) && fits;
        Ok(if worth && self.cache.is_usable_end(end, &self.components)? { tokens } else { 0 })
    }

    /// Brings all that is on host alone, up to the locked node, onto the device: all of it or nothing.
    ///
    /// The nodes are on the device at once, and locked until the copy is done; compute that needs them waits for this rank's own
    /// copy, which begins when the step is closed. Gives the tokens that are loaded; the receipt is used up then. For 0 the load
    /// is declined, and nothing has changed.
    ///
    /// # Errors
    /// A receipt that is not outstanding; slots out of range, or not as many as [`load_back_need`](Self::load_back_need) says.
    pub fn load_back(&mut self, receipt: HostLockReceipt, slots: Ints<'_>) -> Result<u64, Error> {
        let need = self.load_back_need(receipt)?;
        if need == 0 {
            self.totals.of_mut(Kind::LoadBack).declined += 1;
            return Ok(0);
        }
        if slots.len() as u64 != need {
            let hint = "allocate exactly what load_back_need says";
            return Err(Error::Length { what: "slots", got: slots.len() as u64, min: need, max: need, hint });
        }
        let end = self.cache.host_locked(receipt)?;
        let lock = self.cache.load_back(end, slots)?;
        let host = if self.may_give_up_copies() { Some(self.cache.host_lock(end)?) } else { None };
        self.cache.unlock_host(receipt)?;
        let segment = Segment { end, pages: self.cache.pages_of(need) };
        let mut parts = Vec::new();
        self.cache.segment_host_parts(segment, &mut parts);
        self.wishes.loads.push(Held { segment, lock, host, parts });
        Ok(need)
    }

    /// Wishes for what external storage has of `key` below `anchor`, a node of its path that is on host, or the root.
    ///
    /// It is issued when the step is closed. Tokens that come in are on host alone from the frame on that ends it. Declined,
    /// with no ticket, if it is too short, the window is full, the anchor is not on host, or storage is switched off, or left alone
    /// by the breaker. Of a cache with components also if all of `key` is in the tree, or what it would bring hangs below what is on the
    /// device alone: nothing would come in.
    ///
    /// # Errors
    /// Tokens out of range; an anchor that is stale or not on the key's path.
    pub fn prefetch(
        &mut self,
        key: Ints<'_>,
        namespace: &Namespace,
        anchor: NodeHandle,
    ) -> Result<Option<PrefetchTicket>, Error> {
        let (above, on_host) = self.cache.host_anchor(anchor)?;
        let key = self.cache.whole_key(key)?;
        self.cache.check_anchor(&key, namespace, anchor)?;
        let tokens = self.cache.units_in(&key).saturating_sub(above);
        #[cfg(feature = "planted-defects")]
        let on_host = on_host && !self.planted_absent(&key, above);
        let worth = tokens >= self.tiers.prefetch_min.max(1)
            && self.is_on(TopTier::Storage)
            && self.asks_storage()
            && self.breaker_lets();
        let there =
            if self.components.is_empty() { Some(Vec::new()) } else { self.cache.parts_below(&key, namespace, anchor) };
        let Some(there) = there.filter(|_| on_host && worth && self.has_room()) else {
            self.totals.of_mut(Kind::Prefetch).declined += 1;
            return Ok(None);
        };
        let pages = self.cache.pages_of(tokens);
        let lock = self.cache.host_lock(anchor)?;
        let ticket = PrefetchTicket(self.tickets);
        self.tickets += 1;
        let content = key.iter().fold(0, |hash, token| hash::mix(hash, u64::from(*token) + 1));
        self.cache.note(RecordKind::Prefetch, 0, tokens, above, content);
        let namespace = namespace.clone();
        self.wishes.fetches.push(Fetch {
            ticket,
            namespace,
            key,
            anchor,
            above,
            pages,
            lock,
            deadline: None,
            retry: Retry::default(),
            above_parts: self.cache.parts_above(anchor, self.components.pages_back()),
            there,
            parts: Vec::new(),
        });
        Ok(Some(ticket))
    }

    /// How far a prefetch is.
    #[must_use]
    pub fn prefetch_state(&self, ticket: PrefetchTicket) -> PrefetchState {
        if self.wishes.fetches.iter().any(|fetch| fetch.ticket == ticket) {
            return PrefetchState::Wished;
        }
        let counts = |k: Ordinal| self.operations.operation(k).is_some_and(|operation| operation.state().is_counting());
        #[cfg(feature = "planted-defects")]
        if self.planted_late(ticket) {
            return PrefetchState::Over;
        }
        let of_ticket = self.jobs.iter().find(|(k, job)| {
            let Work::Prefetch(fetch) = &job.work else { return false };
            fetch.ticket == ticket && (counts(**k) || job.again)
        });
        of_ticket.map_or(PrefetchState::Over, |(k, _)| PrefetchState::Issued(*k))
    }

    /// How far a prefetch is, for a request that waits for it: patience begins with the first such call, by the clock of the frame
    /// applied last. Only the leader's counts, and all ranks hear of its end by the frame; so calls may differ between ranks.
    pub fn poll_prefetch(&mut self, ticket: PrefetchTicket) -> PrefetchState {
        if let Some((patience, now)) = self.tiers.patience.zip(self.now) {
            let issued = self.jobs.values_mut().filter_map(|job| match &mut job.work {
                Work::Prefetch(fetch) => Some(fetch),
                _ => None,
            });
            let waited_for = self.wishes.fetches.iter_mut().chain(issued).find(|fetch| fetch.ticket == ticket);
            if let Some(fetch) = waited_for {
                let tokens = self.cache.units_of(fetch.pages);
                let wait = prefetch_patience_ms(patience.base_ms, patience.per_ki_token_ms, patience.most_ms, tokens);
                fetch.deadline.get_or_insert(Deadline::after(now, wait));
            }
        }
        self.prefetch_state(ticket)
    }

    /// The ordinal of a prefetch that is under way.
    #[must_use]
    pub fn prefetch_ordinal(&self, ticket: PrefetchTicket) -> Option<Ordinal> {
        match self.prefetch_state(ticket) {
            PrefetchState::Issued(k) => Some(k),
            PrefetchState::Wished | PrefetchState::Over => None,
        }
    }

    /// Prefetches that a request has waited for long enough, by the clock of the frame applied last: the leader ends them with the next.
    pub(crate) fn overdue(&self) -> Vec<Ordinal> {
        let Some(now) = self.now else { return Vec::new() };
        let late = self.jobs.iter().filter(|(k, job)| {
            let Work::Prefetch(Fetch { deadline: Some(deadline), .. }) = &job.work else { return false };
            let state = self.operations.operation(**k).map_or(State::Done, Operation::state);
            deadline.has_passed(now) && (state.is_counting() || job.again)
        });
        late.map(|(k, _)| *k).collect()
    }

    /// Whether one more operation has a place in the window, beside those that are planned.
    pub(super) fn has_room(&self) -> bool {
        let open = self.operations.issued() - self.operations.base();
        #[cfg(feature = "planted-defects")]
        let open = self.planted_open(open);
        open + self.wishes.planned() < u64::from(self.tiers.window)
    }
}
