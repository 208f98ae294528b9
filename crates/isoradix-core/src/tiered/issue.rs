//! Closing a step: the wishes of one kind become one operation, equal on all ranks; each prefetch is one by itself.

use super::TieredCache;
use super::config::{DeviceRoom, Writing};
use super::effects::{Effect, StoredRun, Transfer};
use super::error::StepError;
use super::jobs::{Fetch, Held, Job, Work};
use crate::cache::{Chosen, Segment};
use crate::components::Presence;
use crate::defects::Defect;
use crate::evidence::RecordKind;
use crate::hash;
use crate::holds::HostLockReceipt;
use crate::host::Stage;
use crate::node::NodeHandle;
use crate::operation::{Kind, Subject};
use crate::ordinal::Ordinal;
use crate::protocol::{Board, ProtocolError, SlotField, TopTier};
use crate::provenance::PerRank;
use std::collections::BTreeSet;

impl TieredCache {
    /// Issues what the step wished for, in this order: loads, prefetches, stores, backups. What host pages lack is given up or evicted first.
    ///
    /// Stores go before backups, which bring them about: so neither starves the other of its place in the window.
    ///
    pub(crate) fn close(&mut self, board: &mut Board, device: DeviceRoom) -> Result<(), StepError> {
        let device_free = device.free;
        let excess = self.host.ledger().excess();
        if excess > 0 {
            let given_up = self.give_up_copies(excess, device_free);
            self.evict_host(excess.saturating_sub(given_up));
        }
        // Only here, so that they are free at one point on all ranks: other effects may be taken when this rank's storage answers.
        let replaced = self.cache.take_replaced();
        if !replaced.is_empty() {
            self.effects.push(Effect::FreeSlots(replaced));
        }
        self.issue_loads(board)?;
        for fetch in std::mem::take(&mut self.wishes.fetches) {
            self.issue_fetch(board, fetch, device_free)?;
        }
        self.issue_opening(board)?;
        self.issue_stores(board)?;
        self.end_detach();
        self.wish_for_cleaning(device_free);
        self.issue_backups(board, device)?;
        let (occupied, capacity) = (self.host.ledger().occupied(), self.host.ledger().capacity());
        let counts = hash::mix(self.operations.issued(), self.operations.retired());
        self.cache.note(RecordKind::Ledger, 0, occupied.into(), capacity.into(), counts);
        if self.host.has_memory() {
            board.post_backable(self.host.backable());
        } else {
            board.abstain_backable();
        }
        Ok(())
    }

    /// An operation has its ordinal: it is on the board from here on.
    pub(super) fn begin(
        &mut self,
        board: &mut Board,
        k: Ordinal,
        kind: Kind,
        subjects: &[Subject],
    ) -> Result<(), StepError> {
        board.issue(k)?;
        board.enqueue(kind.fifo(), k)?;
        if !self.host.has_memory() {
            take_no_part(board, k)?;
        }
        self.totals.of_mut(kind).issued += 1;
        let pages: u64 = subjects.iter().map(|subject| u64::from(subject.pages)).sum();
        let content = subjects
            .iter()
            .fold(kind as u64, |content, subject| hash::mix(content, hash::mix(subject.id, subject.tokens)));
        self.cache.note(RecordKind::Issue, subjects[0].id, k.0, pages, content);
        Ok(())
    }

    pub(super) fn decline(&mut self, kind: Kind, pages: u32) {
        self.totals.of_mut(kind).declined += 1;
        self.cache.note(RecordKind::Decline, 0, pages.into(), 0, kind as u64);
    }

    fn subject(&self, Segment { end, pages }: Segment, taken: bool) -> Subject {
        let tokens = self.cache.units_of(pages);
        Subject { id: self.cache.sequence(end), pages: if taken { pages } else { 0 }, tokens }
    }

    /// Issues what was wished to be loaded back; nothing, if nothing was.
    pub(crate) fn issue_loads(&mut self, board: &mut Board) -> Result<(), StepError> {
        let loads = std::mem::take(&mut self.wishes.loads);
        if loads.is_empty() {
            return Ok(());
        }
        let subjects: Vec<Subject> = loads.iter().map(|held| self.subject(held.segment, true)).collect();
        let k = self.operations.issue_batch(Kind::LoadBack, &subjects).expect("room was kept when it was wished for");
        self.begin(board, k, Kind::LoadBack, &subjects)?;
        let (mut slots, mut pages) = (Vec::new(), Vec::new());
        let mut parts = Vec::new();
        for Held { segment, parts: of_segment, .. } in &loads {
            self.cache.segment_slots(*segment, &mut slots);
            self.cache.segment_host_pages(*segment, &mut pages);
            parts.extend_from_slice(of_segment);
        }
        self.start(Transfer { operation: k, kind: Kind::LoadBack, slots, pages, stored: vec![], parts });
        self.jobs.insert(k, Job::new(Work::LoadBack(loads)));
        Ok(())
    }

    fn issue_fetch(&mut self, board: &mut Board, fetch: Fetch, device_free: u64) -> Result<(), StepError> {
        let tokens = self.cache.units_of(fetch.pages);
        let fits = self.fits_in_flight(fetch.pages) && u64::from(fetch.pages) <= self.obtainable_pages(device_free);
        // The breaker is asked last: whom it lets through as a trial is issued.
        if !fits || !self.make_room(fetch.pages, 0, device_free) || !self.breaker_admits() {
            self.decline(Kind::Prefetch, fetch.pages);
            self.cache.unlock_host(fetch.lock)?;
            return Ok(());
        }
        let subject = Subject { id: fetch.ticket.0, pages: fetch.pages, tokens };
        let pages_min = self.prefetch_pages_min();
        let issued = if self.components.is_empty() {
            self.operations.issue_prefetch(fetch.pages, tokens, pages_min, subject.id)
        } else {
            self.operations.issue_whole_prefetch(fetch.pages, tokens, pages_min, subject.id)
        };
        let k = issued.expect("room was kept when it was wished for");
        self.begin(board, k, Kind::Prefetch, &[subject])?;
        if !self.components.is_empty() && self.host.has_memory() {
            board.expect_search(k);
        }
        self.host.ask(k, fetch.pages)?.expect("there is room");
        if self.host.has_memory() {
            self.effects.push(Effect::Query { operation: k, run: fetch.run() });
        } else {
            // Nobody asks this rank, so it takes all that the others may be granted.
            drop(self.host.reserve(k)?);
        }
        let slow_at = self.slow_deadline();
        self.jobs.insert(k, Job::of_storage(Work::Prefetch(fetch), slow_at));
        Ok(())
    }

    /// Whether so many pages more leave open prefetches half of the host pool at most: storage must not drive out what host has.
    fn fits_in_flight(&self, pages: u32) -> bool {
        let ledger = self.host.ledger();
        let fetches = self.jobs.iter().filter(|(_, job)| matches!(job.work, Work::Prefetch(_)));
        let in_flight: u64 = fetches.map(|(k, _)| u64::from(ledger.open_pages(*k))).sum();
        in_flight + u64::from(pages) <= u64::from(ledger.capacity() / 2)
    }

    pub(super) fn prefetch_pages_min(&self) -> u32 {
        let pages = self.tiers.prefetch_min.div_ceil(self.cache.page_size().into());
        u32::try_from(pages).unwrap_or(u32::MAX).max(1)
    }

    /// Host pages that are free, or could be at most: some of what is on host may be locked.
    fn obtainable_pages(&self, device_free: u64) -> u64 {
        let page = u64::from(self.cache.page_size());
        let sizes = self.sizes();
        let copies = if self.may_give_up_copies() {
            let spare = sizes.host_total - sizes.host_only - self.cache.safe_units();
            ((spare + self.surplus(device_free)) / page).saturating_sub(self.pages_read())
        } else {
            0
        };
        u64::from(self.host.ledger().available()) + sizes.host_only / page + copies
    }

    /// Whether host copies of what is on the device may go. Under write-through they stay: what is there once is not written again.
    pub(super) fn may_give_up_copies(&self) -> bool {
        matches!(self.tiers.writing, Writing::Back { .. })
    }

    /// Units that an eviction could take without loss, and that are more than the low water asks for.
    fn surplus(&self, device_free: u64) -> u64 {
        let Writing::Back { low_water } = self.tiers.writing else { return 0 };
        let safe = self.cache.safe_units();
        device_free.saturating_add(safe).saturating_sub(low_water).min(safe)
    }

    /// Host pages that load-backs are reading: copies of what is on the device, to be given up once they are over.
    fn pages_read(&self) -> u64 {
        if self.may_give_up_copies() { self.jobs.values().map(Job::pages_read).sum() } else { 0 }
    }

    /// Gives up host copies until so many pages are freed, if that can be; gives how many were.
    fn give_up_copies(&mut self, pages: u32, device_free: u64) -> u32 {
        if !self.may_give_up_copies() {
            return 0;
        }
        let mut freed = Vec::new();
        let count = self.cache.give_up_copies(pages, self.surplus(device_free), &mut freed);
        self.host.release(&freed).expect("the tree's pages are settled");
        self.totals.reclaimed_tokens += self.cache.units_of(count);
        count
    }

    /// Makes so many host pages available, if that can be, and says whether they are. What is on the device too goes first, and
    /// `coming` pages that are missing then are waited for, without evicting anything.
    fn make_room(&mut self, pages: u32, coming: u64, device_free: u64) -> bool {
        if let Err(declined) = self.host.ledger().room(pages) {
            let missing = u32::try_from(declined.short_by()).unwrap_or(u32::MAX);
            let missing = missing.saturating_sub(self.give_up_copies(missing, device_free));
            let coming = u32::try_from(coming).unwrap_or(u32::MAX);
            self.evict_host(missing.saturating_sub(coming));
        }
        self.host.ledger().room(pages).is_ok()
    }

    /// Under write-back, wishes for what would be dropped next, as long as too little could go without loss.
    fn wish_for_cleaning(&mut self, device_free: u64) {
        let Writing::Back { low_water } = self.tiers.writing else { return };
        if !self.is_on(TopTier::Host) {
            return;
        }
        let coming: u64 = self.jobs.iter().map(|(k, job)| if job.is_backup() { self.tokens_of(*k) } else { 0 }).sum();
        let safe = device_free.saturating_add(self.cache.safe_units() + coming);
        // No more than host could take.
        let most = self.obtainable_pages(device_free) * u64::from(self.cache.page_size());
        let missing = low_water.saturating_sub(safe).min(most);
        if missing > 0 {
            // For more than half of the low water nothing is evicted from host.
            let lossless = most - self.sizes().host_only;
            let worth = |found, length| found + length <= lossless || safe + found < low_water / 2;
            let next = self.cache.next_without_backup(missing, most, worth);
            self.wishes.backups.add(next);
        }
    }

    fn tokens_of(&self, k: Ordinal) -> u64 {
        self.operations.operation(k).map_or(0, crate::operation::Operation::tokens)
    }

    fn issue_backups(&mut self, board: &mut Board, device: DeviceRoom) -> Result<(), StepError> {
        if self.wishes.backups.is_empty() || !self.has_room() {
            return Ok(());
        }
        #[cfg(feature = "planted-defects")]
        if self.planted_merge() {
            return Ok(());
        }
        let device_free = device.free;
        let chosen = self.choose_backups();
        let wished = self.keeping_promises(chosen, device);
        // What cannot fit is left out first, so that nothing is evicted for it.
        let fitting = self.fitting(&wished, self.obtainable_pages(device_free));
        let above = self.keep_above(&fitting)?;
        self.make_room(total(&fitting), self.pages_read(), device_free);
        let chosen = self.fitting(&fitting, self.host.ledger().available().into());
        if chosen.len() < wished.len() {
            self.decline(Kind::Backup, total(&wished) - total(&chosen));
        }
        let (mut hosts, mut next) = (Vec::with_capacity(chosen.len()), chosen.iter().peekable());
        for (segment, host) in fitting.iter().zip(above) {
            if next.next_if_eq(&segment).is_some() {
                hosts.push(host);
            } else if let Some(receipt) = host {
                self.cache.unlock_host(receipt)?;
            }
        }
        if chosen.is_empty() {
            return Ok(());
        }
        let subjects: Vec<Subject> = chosen.iter().map(|segment| self.subject(*segment, true)).collect();
        let k = self.operations.issue_batch(Kind::Backup, &subjects).expect("there is room in the window");
        self.begin(board, k, Kind::Backup, &subjects)?;
        self.host.ask(k, subjects.iter().map(|subject| subject.pages).sum())?.expect("there are pages");
        let reserved = self.host.reserve(k)?;
        #[cfg(feature = "planted-defects")]
        self.planted_reserve(k, &subjects);
        board.post_pages(k, reserved)?;
        self.start_backup(k, &chosen);
        let mut subjects = Vec::with_capacity(chosen.len());
        for (segment, host) in chosen.into_iter().zip(hosts) {
            let mut parts = Vec::new();
            self.cache.segment_device_parts(segment, &mut parts);
            subjects.push(Held { segment, lock: self.cache.lock(segment.end)?, host, parts });
            self.cache.mark_pending(segment, true);
        }
        self.jobs.insert(k, Job::new(Work::Backup(subjects)));
        Ok(())
    }

    /// Of these nodes, parents first, those after whose locks what was promised can still be allotted. The others wait, and all
    /// that is below them.
    fn keeping_promises(&mut self, mut chosen: Vec<Segment>, device: DeviceRoom) -> Vec<Segment> {
        let evictable = self.sizes().device.evictable;
        let mut spare = device.free.saturating_add(evictable).saturating_sub(device.promised);
        if spare >= evictable {
            return chosen;
        }
        let mut locked = BTreeSet::new();
        chosen.retain(|segment| {
            let units = self.cache.units_to_hold(segment.end, &mut locked, spare);
            spare -= units.unwrap_or(0);
            if units.is_none() {
                self.wishes.backups.add([segment.end]);
            }
            units.is_some()
        });
        chosen
    }

    /// Where host copies are given up, those stay that the segments are to hang below.
    fn keep_above(&mut self, segments: &[Segment]) -> Result<Vec<Option<HostLockReceipt>>, StepError> {
        let keeps = self.may_give_up_copies();
        let mut above = Vec::with_capacity(segments.len());
        for segment in segments {
            let parent = self.cache.parent(segment.end);
            let on_host = keeps && parent != NodeHandle::ROOT && self.is_on_host(parent)?;
            above.push(if on_host { Some(self.cache.host_lock(parent)?) } else { None });
        }
        Ok(above)
    }

    /// Of these nodes, parents first, those that fit into so many pages. What does not fit is left out, with all below it.
    fn fitting(&self, chosen: &[Segment], pages: u64) -> Vec<Segment> {
        let (mut left, mut left_out) = (pages, BTreeSet::new());
        let mut fits = |segment: &&Segment| {
            let fits = u64::from(segment.pages) <= left && !left_out.contains(&self.cache.parent(segment.end));
            if fits {
                left -= u64::from(segment.pages);
            } else {
                left_out.insert(segment.end);
            }
            fits
        };
        chosen.iter().filter(|segment| fits(segment)).copied().collect()
    }

    /// The nodes that the wishes come to, parents first. A wish below something that is still pending waits for it.
    fn choose_backups(&mut self) -> Vec<Segment> {
        let threshold = match self.tiers.writing {
            Writing::Through { hits } => hits,
            Writing::Back { .. } => 0,
        };
        let mut chosen = Chosen::default();
        for wish in self.wishes.backups.take() {
            if !self.cache.choose_backups(wish, threshold, &mut chosen) {
                self.wishes.backups.add([wish]);
            }
        }
        chosen.segments
    }

    /// The copy begins with what this rank could reserve: the leading nodes that fit, each whole.
    fn start_backup(&mut self, k: Ordinal, chosen: &[Segment]) {
        let own = self.host.pages(k);
        let (mut slots, mut parts, mut end) = (Vec::new(), Vec::new(), 0);
        for segment in chosen {
            if end + segment.pages as usize > own.len() {
                break;
            }
            end += segment.pages as usize;
            self.cache.segment_slots(*segment, &mut slots);
            self.cache.segment_device_parts(*segment, &mut parts);
        }
        if end > 0 {
            let pages = own[..end].to_vec();
            self.start(Transfer { operation: k, kind: Kind::Backup, slots, pages, stored: vec![], parts });
        }
    }

    fn issue_stores(&mut self, board: &mut Board) -> Result<(), StepError> {
        // One at a time: storage that is slow would fill the window with them, and nothing waits for a store.
        let stores = self.jobs.values().any(Job::is_store);
        let due = self.wishes.store_due.zip(self.now).is_none_or(|(due, now)| due.has_passed(now));
        if self.wishes.stores.is_empty() || stores || !due || !self.has_room() || !self.breaker_lets() {
            self.forget_void_stores();
            return Ok(());
        }
        let wished = self.take_stores();
        let wished = self.with_all_above(&wished);
        if wished.is_empty() || !self.breaker_admits() {
            self.wishes.stores = wished;
            return Ok(());
        }
        let subjects: Vec<Subject> = wished.iter().map(|segment| self.subject(*segment, false)).collect();
        let k = self.operations.issue_batch(Kind::Store, &subjects).expect("there is room in the window");
        self.begin(board, k, Kind::Store, &subjects)?;
        let (mut pages, mut parts, mut stored, mut held) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for segment in wished {
            self.cache.segment_host_pages(segment, &mut pages);
            self.cache.segment_host_parts(segment, &mut parts);
            stored.push(self.stored_run(segment));
            held.push((segment, self.cache.host_lock(segment.end)?));
        }
        self.start(Transfer { operation: k, kind: Kind::Store, slots: vec![], pages, stored, parts });
        let slow_at = self.slow_deadline();
        self.jobs.insert(k, Job::of_storage(Work::Store(held), slow_at));
        Ok(())
    }

    /// While storage is left alone, wishes for stores are kept, and no more of them than there are nodes on host.
    fn forget_void_stores(&mut self) {
        if self.wishes.stores.len() < self.wishes.stores_most.max(1024) {
            return;
        }
        let stores = self.take_stores();
        self.wishes.stores_most = 2 * stores.len();
        self.wishes.stores = stores;
    }

    /// What is to be stored, each node once. What has left host meanwhile is given up.
    fn take_stores(&mut self) -> Vec<Segment> {
        let mut seen = BTreeSet::new();
        let mut wished = std::mem::take(&mut self.wishes.stores);
        wished.retain(|segment| seen.insert(segment.end));
        let (there, gone): (Vec<_>, Vec<_>) =
            wished.into_iter().partition(|segment| self.cache.is_wholly_on_host(*segment));
        self.give_up_stores(&gone);
        there
    }

    /// All that is to be stored is given up.
    pub(super) fn forget_stores(&mut self) {
        let there = self.take_stores();
        self.give_up_stores(&there);
    }

    /// What is stored for these wishes, parents first: of their paths, whatever storage lacks. It may have been given up, or have come to
    /// host before there was storage; a page without those before it is never found.
    fn with_all_above(&self, wished: &[Segment]) -> Vec<Segment> {
        if self.planted.is(Defect::StoredWithoutParent) {
            return wished.to_vec();
        }
        let mut chosen = BTreeSet::new();
        wished.iter().filter_map(|segment| self.cache.unstored(segment.end, &mut chosen)).collect()
    }

    fn stored_run(&self, segment: Segment) -> StoredRun {
        let (namespace, key) = self.cache.path_key(segment.end);
        let from = self.cache.units_in(&key) - self.cache.units_of(segment.pages);
        StoredRun { namespace, key, from }
    }

    /// External storage has answered a prefetch's question on this rank: so many units, a leading part.
    ///
    /// The rank votes them, reserves as many pages and begins the copy at once.
    pub(crate) fn found(&mut self, board: &mut Board, k: Ordinal, units: PerRank<u64>) -> Result<(), StepError> {
        if k.0 >= self.operations.issued() {
            return Err(ProtocolError::NotIssued { operation: k, issued: self.operations.issued() }.into());
        }
        let asked = match self.jobs.get(&k).map(|job| &job.work) {
            Some(Work::Prefetch(fetch)) => fetch.pages,
            _ => return Ok(()),
        };
        let sizes = PerRank::observe((self.cache.page_size(), asked));
        let pages = units
            .zip(sizes)
            .map(|(units, (page, asked))| u32::try_from(units / u64::from(page)).unwrap_or(u32::MAX).min(asked));
        #[cfg(feature = "planted-defects")]
        let pages = self.planted_found(k, pages);
        if !self.components.is_empty() {
            return self.found_presence(board, k, &Presence::bare(pages));
        }
        let (pages, to_reserve) = pages.fork();
        let page = PerRank::observe(self.cache.page_size());
        board.post_hit(k, pages.zip(page).map(|(pages, page)| u64::from(pages) * u64::from(page)))?;
        // A second answer is as late as one after the end.
        if self.host.ledger().stage(k) != Some(Stage::Asked) || self.host.has_reserved(k) {
            return Ok(());
        }
        let reserved = self.host.reserve_up_to(k, to_reserve)?;
        board.post_pages(k, reserved)?;
        self.start_fetch(board, k)
    }

    /// Fewer pages than are worth it are a miss for all ranks, whatever the others have: nothing is copied then, and nothing can fail
    /// any more. That is said at once, so that another rank's failure is known even where this one has a miss.
    fn start_fetch(&mut self, board: &mut Board, k: Ordinal) -> Result<(), StepError> {
        let pages = self.host.pages(k).to_vec();
        let Some(Work::Prefetch(fetch)) = self.jobs.get(&k).map(|job| &job.work) else { return Ok(()) };
        if pages.len() < self.prefetch_pages_min().min(fetch.pages) as usize {
            board.post_ready(k, PerRank::observe(true))?;
            return Ok(());
        }
        let stored = vec![fetch.run()];
        self.start(Transfer { operation: k, kind: Kind::Prefetch, slots: vec![], pages, stored, parts: vec![] });
        Ok(())
    }

    /// A rank without host memory has nothing to copy, for no kind of operation.
    pub(super) fn start(&mut self, transfer: Transfer) {
        if self.host.has_memory() {
            #[cfg(feature = "planted-defects")]
            self.own.copying.insert(transfer.operation, transfer.kind);
            self.effects.push(Effect::Start(transfer));
        }
    }
}

/// This rank has no say in an operation, and is off its pages from the start: the others decide what becomes of it.
fn take_no_part(board: &mut Board, k: Ordinal) -> Result<(), ProtocolError> {
    for field in SlotField::ALL {
        board.abstain(k, field)?;
    }
    board.finish(k)
}

/// Pages of all of these, which are nodes of one tree.
fn total(segments: &[Segment]) -> u32 {
    segments.iter().fold(0, |sum: u32, segment| sum.saturating_add(segment.pages))
}
