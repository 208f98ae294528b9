//! Applying a frame: its agreed numbers move the operations, and their actions change tree and host pool.

use super::TieredCache;
use super::effects::Effect;
use super::error::StepError;
use super::jobs::{Fetch, Held, Job, Work};
use crate::defects::Defect;
use crate::error::Error;
use crate::evidence::RecordKind;
use crate::operation::{Action, Share, State};
use crate::ordinal::Ordinal;
use crate::protocol::{AppliedFrame, Board, Told};

impl TieredCache {
    /// Enters the frame's step and carries out what it asks for.
    ///
    /// # Errors
    /// If the ranks have parted, or a load-back failed: fatal, and the rank must not go on.
    pub(crate) fn apply(&mut self, frame: &AppliedFrame, board: &mut Board) -> Result<(), StepError> {
        self.now = Some(frame.now_ms());
        self.cache.advance_step(Some(frame.step()))?;
        let actions = self.operations.apply_frame(frame)?;
        self.give_up_retries(frame);
        for action in actions {
            self.act(action, frame, board)?;
        }
        self.judge_slow();
        self.switch_tiers(frame)?;
        self.change_storage(frame)?;
        if let Some(Told::Value(backable)) = frame.vote().map(|vote| vote.backable()) {
            if !self.planted.is(Defect::ShortGrantKeepsCapacity) {
                self.host.lower(backable);
            }
            self.host.raise(backable);
        }
        while let Some(kept) = self.limbo.freed(self.operations.retired()) {
            self.host.release(&kept.space.pages)?;
            self.effects.push(Effect::FreeSlots(kept.space.slots));
        }
        Ok(())
    }

    fn act(&mut self, action: Action, frame: &AppliedFrame, board: &mut Board) -> Result<(), StepError> {
        match action {
            Action::Commit { operation: k, share } => {
                self.cache.note(RecordKind::Commit, 0, k.0, share.pages.into(), share.tokens);
                let pages = share.pages;
                #[cfg(feature = "planted-defects")]
                let pages = self.planted_commit(k, pages);
                self.host.commit(k, frame.decided(pages))?;
                self.fetch_whole(k, share);
            }
            Action::Deliver { operation: k, share } => {
                self.cache.note(RecordKind::Deliver, 0, k.0, share.pages.into(), share.tokens);
                #[cfg(feature = "planted-defects")]
                self.planted_poll(k);
                self.deliver(k, share);
            }
            Action::Settle { operation: k, keep } => {
                self.cache.note(RecordKind::Settle, 0, k.0, keep.into(), 0);
                if self.takes_host_pages(k) {
                    let pages = self.host.pages(k)[..keep as usize].to_vec();
                    self.host.settle(k, frame.decided(keep))?;
                    self.release_unused(k, &pages)?;
                }
            }
            Action::Cancel { operation: k, keep } => {
                self.cache.note(RecordKind::Cancel, 0, k.0, keep.into(), 0);
                self.count_end(k);
                self.judge_end(k);
                self.plan_retry(k);
                self.cancel(k, keep, frame)?;
            }
            Action::Return { operation: k, from } => {
                self.cache.note(RecordKind::Return, 0, k.0, from.into(), 0);
                if self.takes_host_pages(k) && !self.planted.is(Defect::AbortFreesUnderCopy) {
                    self.host.finished(k)?;
                    self.host.abort(k)?;
                }
            }
            Action::Unlock { operation: k } => {
                self.cache.note(RecordKind::Over, 0, k.0, 0, 0);
                self.count_over(k);
                self.judge_over(k);
                if let Some(job) = self.jobs.remove(&k) {
                    self.over(k, job)?;
                }
                board.terminal(k)?;
            }
        }
        Ok(())
    }

    /// The operation is over: it is tried again, or what was held for it is given back.
    fn over(&mut self, k: Ordinal, job: Job) -> Result<(), StepError> {
        let Some(operation) = self.operations.operation(k) else { return self.unlock_all(job) };
        let (done, again) = (operation.state() == State::Done, job.again && !job.void && !job.unwanted);
        match job {
            Job { work: Work::Open, unwanted, .. } => {
                self.opened(done && !unwanted);
                Ok(())
            }
            Job { work: Work::Prefetch(fetch), .. } if again => self.fetch_again(fetch),
            Job { work: Work::Store(subjects), void: false, .. } => self.store_over(subjects, done, again),
            job => self.unlock_all(job),
        }
    }

    fn takes_host_pages(&self, k: Ordinal) -> bool {
        self.jobs.get(&k).is_some_and(|job| matches!(job.work, Work::Backup(_) | Work::Prefetch(_)))
    }

    /// What an operation brought counts from now on.
    fn deliver(&mut self, k: Ordinal, share: Share) {
        let stores = self.stores_backup(k);
        let Some(job) = self.jobs.get_mut(&k) else { return };
        if job.void || job.unwanted {
            job.used = Some((0, 0));
            return;
        }
        let mut tokens = share.tokens;
        match &job.work {
            Work::Backup(subjects) => {
                let mut pages = self.host.pages(k);
                for Held { segment, parts, .. } in subjects.iter().take(share.subjects as usize) {
                    let (own, rest) = pages.split_at(segment.pages as usize);
                    self.cache.backed(segment.end, own, parts);
                    pages = rest;
                    // What was on host before, and was given up there, may be stored.
                    if stores && !self.cache.is_wholly_stored(*segment) {
                        self.wishes.stores.push(*segment);
                    }
                }
            }
            Work::Prefetch(fetch) => {
                let pages = &self.host.pages(k)[..share.pages as usize];
                let Fetch { key, namespace, anchor, parts, .. } = fetch;
                let (from, to) = self.cache.insert_on_host(key, namespace, *anchor, pages, parts);
                tokens = self.cache.units_of(to - from);
                job.used = Some((from, to));
            }
            Work::Store(subjects) => {
                for (segment, _) in subjects.iter().take(share.subjects as usize) {
                    self.cache.mark_stored(*segment);
                }
            }
            Work::LoadBack(_) => {}
            Work::Open => tokens = 0,
        }
        self.totals.arrived(job.work.kind(), tokens);
    }

    /// An operation has ended early: for the totals.
    fn count_end(&mut self, k: Ordinal) {
        if let Some(operation) = self.operations.operation(k)
            && let Some(reason) = operation.ended_by()
        {
            self.totals.of_mut(operation.kind()).abort(reason);
        }
    }

    /// An operation is over: for the totals.
    fn count_over(&mut self, k: Ordinal) {
        if let Some(operation) = self.operations.operation(k)
            && operation.state() == State::Done
        {
            self.totals.of_mut(operation.kind()).done += 1;
        }
    }

    /// Of the pages that were delivered, those go back for which the tree has no use.
    fn release_unused(&mut self, k: Ordinal, delivered: &[u32]) -> Result<(), StepError> {
        let Some((from, to)) = self.jobs.get(&k).and_then(|job| job.used) else { return Ok(()) };
        self.host.release(&delivered[..from as usize])?;
        self.host.release(&delivered[to.max(from) as usize..])?;
        Ok(())
    }

    fn cancel(&mut self, k: Ordinal, keep: u32, frame: &AppliedFrame) -> Result<(), StepError> {
        if self.takes_host_pages(k) {
            if keep == 0 {
                self.host.drain(k)?;
            } else {
                let pages = self.host.pages(k)[..keep as usize].to_vec();
                self.host.drain_rest(k, frame.decided(keep))?;
                self.release_unused(k, &pages)?;
            }
            if self.planted.is(Defect::AbortFreesUnderCopy) {
                self.host.finished(k)?;
                self.host.abort(k)?;
            }
        }
        if self.host.has_memory() {
            self.effects.push(Effect::Cancel { operation: k });
        }
        Ok(())
    }

    /// What was held for a segment is not held any more.
    pub(super) fn give_back(&mut self, held: &Held) -> Result<(), Error> {
        self.cache.unlock(held.lock)?;
        held.host.map_or(Ok(()), |receipt| self.cache.unlock_host(receipt))
    }

    /// The operation is over: whatever was held for it is given back.
    fn unlock_all(&mut self, job: Job) -> Result<(), StepError> {
        if job.void {
            return Ok(());
        }
        match job.work {
            Work::Backup(subjects) => {
                for held in subjects {
                    self.cache.mark_pending(held.segment, false);
                    self.give_back(&held)?;
                }
            }
            Work::LoadBack(subjects) => subjects.iter().try_for_each(|held| self.give_back(held))?,
            Work::Open => {}
            Work::Prefetch(fetch) => {
                self.cache.unlock_host(fetch.lock)?;
            }
            Work::Store(subjects) => {
                for (_, lock) in subjects {
                    self.cache.unlock_host(lock)?;
                }
            }
        }
        Ok(())
    }
}
