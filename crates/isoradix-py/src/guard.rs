//! The one way into a core object: its lock, the fork check, and the wall that stops panics.
//!
//! A thread that finds the lock taken waits for it *without* holding the GIL, so the owner can always get on. The owner
//! holds the GIL all through a short call and gives it up in a long one; which it is, is known from sizes beforehand. While the core runs no Python object is made
//! and no Python code is called, except by a user's key function; a call from there back into its own cache would
//! wait for itself, and is refused.
//!
//! Locks are taken in one order: a cache's before its rank's board's or a slot pool's, a wait's before a vote machine's, and that before
//! the board's.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, TryLockError};

use pyo3::prelude::*;
use pyo3::sync::MutexExt;

use crate::errors::{self, Class};
use crate::fork;

/// The size from which a call gives up the GIL: so many tokens, or other units of about a nanosecond's work. Below it,
/// getting the GIL back from a busy thread can cost more than the call itself.
pub(crate) const LONG: u64 = 64 * 1024;

/// A node that is visited counts as so many tokens.
pub(crate) const PER_NODE: u64 = 64;

/// A core object that any thread of the process that made it may use.
pub(crate) struct Guarded<T> {
    value: ManuallyDrop<Mutex<T>>,
    born: u64,
    /// Its name in messages.
    what: &'static str,
}

impl<T: Send> Guarded<T> {
    pub(crate) fn new(what: &'static str, value: T) -> Self {
        Self { value: ManuallyDrop::new(Mutex::new(value)), born: fork::generation(), what }
    }

    /// Runs `work` on the object. `reentered` tells whether this very call comes from inside the object.
    #[inline]
    pub(crate) fn enter<R>(
        &self,
        py: Python<'_>,
        reentered: impl Fn() -> bool,
        work: impl FnOnce(&mut T) -> R,
    ) -> PyResult<R> {
        let mut value = self.lock(py, reentered)?;
        // The guard moves in, so that a panic poisons the lock: a half-done state is never seen again.
        catch_unwind(AssertUnwindSafe(move || work(&mut value))).map_err(|panic| self.broken(py, said(&*panic)))
    }

    /// As [`Self::enter`]; gives up the GIL while `work` runs if it is long, by its `size` on the object.
    #[inline]
    pub(crate) fn enter_sized<R: Send>(
        &self,
        py: Python<'_>,
        reentered: impl Fn() -> bool,
        size: impl FnOnce(&T) -> u64,
        work: impl FnOnce(&mut T) -> R + Send,
    ) -> PyResult<R> {
        self.enter(py, reentered, |value| if size(value) < LONG { work(value) } else { py.detach(|| work(value)) })
    }

    /// As [`Self::enter_sized`], with an `other` object, whose lock is taken inside this one's. A panic breaks both.
    #[inline]
    pub(crate) fn enter_with<U: Send, R: Send>(
        &self,
        py: Python<'_>,
        reentered: impl Fn() -> bool,
        (other, other_reentered): (&Guarded<U>, impl Fn() -> bool),
        size: impl FnOnce(&T) -> u64,
        work: impl FnOnce(&mut T, &mut U) -> R + Send,
    ) -> PyResult<R> {
        let mut value = self.lock(py, reentered)?;
        let mut second = other.lock(py, other_reentered)?;
        let both = move || {
            let (value, second) = (&mut *value, &mut *second);
            if size(value) < LONG { work(value, second) } else { py.detach(|| work(value, second)) }
        };
        catch_unwind(AssertUnwindSafe(both)).map_err(|panic| self.broken(py, said(&*panic)))
    }

    #[inline]
    fn lock(&self, py: Python<'_>, reentered: impl Fn() -> bool) -> PyResult<MutexGuard<'_, T>> {
        if fork::generation() != self.born {
            return Err(self.forked(py));
        }
        match self.value.try_lock() {
            Ok(value) => Ok(value),
            Err(TryLockError::Poisoned(_)) => Err(self.broken(py, "an earlier call failed inside")),
            Err(TryLockError::WouldBlock) => self.wait(py, reentered),
        }
    }

    #[cold]
    fn wait(&self, py: Python<'_>, reentered: impl Fn() -> bool) -> PyResult<MutexGuard<'_, T>> {
        if reentered() {
            return Err(self.reentered(py));
        }
        self.value.lock_py_attached(py).map_err(|_| self.broken(py, "another thread's call failed inside"))
    }

    #[cold]
    fn forked(&self, py: Python<'_>) -> PyErr {
        let what = self.what;
        errors::new(
            py,
            Class::ConcurrentUse,
            format!(
                "this {what} was made before a fork and cannot be used in the child process\n\
                 hint: make the {what} in the process that uses it, or start workers with the spawn method"
            ),
        )
    }

    #[cold]
    fn reentered(&self, py: Python<'_>) -> PyErr {
        let what = self.what;
        errors::new(
            py,
            Class::ConcurrentUse,
            format!(
                "this {what} was entered again from its own key function\n\
                 hint: a key function computes its key from the facts it is given and calls nothing on the {what}"
            ),
        )
    }

    #[cold]
    fn broken(&self, py: Python<'_>, reason: &str) -> PyErr {
        let what = self.what;
        errors::new(
            py,
            Class::Invariant,
            format!(
                "this {what} is broken and cannot be used any more: {reason}\n\
                 hint: this is a defect of isoradix; report it with the panic message on stderr, and make a new {what}"
            ),
        )
    }
}

/// The message of a panic.
fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown panic")
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        // In a forked child another thread of the parent may have been half-way through a change when the memory was
        // copied: it is left alone. Else the value is dropped here, once.
        if fork::generation() == self.born {
            // SAFETY: `drop` runs once, and nothing uses the value after it.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}
