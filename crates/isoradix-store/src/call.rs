//! A call under way: what has become of its pages so far, and whether anybody still waits for it.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::status::Status;

/// The statuses of a batch, which one thread writes and another may read at any time.
///
/// Who gives a call up reads the statuses after that: a page that is done by then will not be touched any more.
#[derive(Debug)]
pub struct Call {
    statuses: Vec<AtomicU8>,
    cancelled: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Call {
    /// A call with so many pages, all pending.
    #[must_use]
    pub fn new(pages: usize) -> Self {
        let statuses = std::iter::repeat_with(|| AtomicU8::new(Status::Pending as u8)).take(pages).collect();
        Self { statuses, cancelled: AtomicBool::new(false), failure: Mutex::new(None) }
    }

    /// Pages of the call.
    #[must_use]
    pub fn pages(&self) -> usize {
        self.statuses.len()
    }

    /// Nobody waits any more: the work stops at the next chunk.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
    }

    /// Whether it was given up.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    /// Tells what became of a page.
    ///
    /// # Panics
    /// There is no such page.
    pub fn finish(&self, page: usize, status: Status) {
        self.statuses[page].store(status as u8, Ordering::SeqCst);
    }

    /// Tells that a page failed, and why; the first reason is kept.
    pub fn fail(&self, page: usize, status: Status, reason: impl FnOnce() -> String) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(reason);
        self.finish(page, status);
    }

    /// What has become of each page so far, as numbers.
    #[must_use]
    pub fn codes(&self) -> Vec<u8> {
        self.statuses.iter().map(|status| status.load(Ordering::SeqCst)).collect()
    }

    /// What has become of one page so far.
    pub(crate) fn status(&self, page: usize) -> Option<Status> {
        Status::of(self.statuses[page].load(Ordering::SeqCst))
    }

    /// Why the first page failed that did.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
