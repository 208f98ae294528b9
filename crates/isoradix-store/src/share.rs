//! Work on a batch that several threads share.

use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// More threads than these wait for memory and disk, and are missed elsewhere.
const THREADS_MAX: usize = 4;

/// As many threads as there are processors, but not more than are of use.
pub(crate) fn threads() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get).min(THREADS_MAX)
}

/// Does the items of a batch, on several threads if it has `least` bytes. The next item goes to whoever is free.
pub(crate) fn share<T: Send>(
    threads: usize,
    bytes: u64,
    least: u64,
    items: impl ExactSizeIterator<Item = T> + Send,
    work: impl Fn(T) + Sync,
) {
    let helpers = if bytes < least { 0 } else { threads.min(items.len()).saturating_sub(1) };
    if helpers == 0 {
        return items.for_each(work);
    }
    let items = Mutex::new(items);
    let work = || {
        loop {
            let item = lock(&items).next();
            let Some(item) = item else { return };
            work(item);
        }
    };
    thread::scope(|scope| {
        for _ in 0..helpers {
            // where no thread can be had, the others do it
            let _ = thread::Builder::new().name("isoradix-store".into()).spawn_scoped(scope, work);
        }
        work();
    });
}

/// Nothing that runs under these locks leaves a half-made state behind if it panics.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
