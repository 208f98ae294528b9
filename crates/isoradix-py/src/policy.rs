//! A Python callable as an eviction policy.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use isoradix_core::{Eviction, Policy, PolicyFailure, PolicyKey};
use pyo3::exceptions::{PyBaseException, PyKeyboardInterrupt};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};
use pyo3::{PyTraverseError, PyVisit};

use crate::errors::{self, describe};
use crate::facts::NodeFacts;
use crate::scalars;

/// A user's key function. The cache object and the core's policy share one, so that the garbage collector sees a
/// single reference, and can break the ring of a function that closes over its own cache.
pub(crate) struct KeyFunction {
    name: String,
    callable: Mutex<Option<Py<PyAny>>>,
    /// The thread that the function runs on, or 0.
    thread: AtomicUsize,
    /// Whether Ctrl-C arrived while the function ran.
    interrupted: AtomicBool,
    /// What the function raised last: the cause of the `PolicyError` that follows.
    raised: Mutex<Option<Py<PyBaseException>>>,
}

/// Reads a `policy` argument: the text of a built-in policy, or a callable.
pub(crate) fn read(given: Option<&Bound<'_, PyAny>>) -> PyResult<(Eviction, Option<Arc<KeyFunction>>)> {
    let Some(given) = given else { return Ok((Eviction::Lru, None)) };
    if let Ok(text) = given.cast::<PyString>() {
        let eviction =
            Eviction::parse(&text.to_string_lossy()).map_err(|error| errors::from_core(given.py(), &error))?;
        return Ok((eviction, None));
    }
    if !given.is_callable() {
        return Err(errors::input_type(
            given.py(),
            format!(
                "policy is {}, expected a str or a callable\n\
                 hint: pass a name such as \"lru\" or \"slru:2\", or a function from NodeFacts to an int or a pair of ints",
                describe(given)
            ),
        ));
    }
    let function = Arc::new(KeyFunction::new(given));
    Ok((Eviction::Keyed(Box::new(Callback(Arc::clone(&function)))), Some(function)))
}

impl KeyFunction {
    fn new(callable: &Bound<'_, PyAny>) -> Self {
        let name = callable
            .getattr("__qualname__")
            .or_else(|_| callable.get_type().qualname().map(Bound::into_any))
            .map_or_else(|_| "?".to_owned(), |name| name.to_string());
        Self {
            name: format!("python:{name}"),
            callable: Mutex::new(Some(callable.clone().unbind())),
            thread: AtomicUsize::new(0),
            interrupted: AtomicBool::new(false),
            raised: Mutex::new(None),
        }
    }

    /// Whether the function is running now, below this very call.
    pub(crate) fn runs_on_this_thread(&self) -> bool {
        self.thread.load(Ordering::Relaxed) == this_thread()
    }

    /// What the function raised last, once.
    pub(crate) fn take_raised(&self, py: Python<'_>) -> Option<PyErr> {
        take(&self.raised).map(|raised| PyErr::from_value(raised.into_bound(py).into_any()))
    }

    /// Lets a Ctrl-C that the function swallowed arrive after all. Called when the core is done, so that it never stops
    /// half-way.
    pub(crate) fn pass_interrupt_on(&self) {
        if self.interrupted.swap(false, Ordering::Relaxed) {
            // SAFETY: sets a flag of the interpreter, which any thread may do.
            unsafe { ffi::PyErr_SetInterrupt() };
        }
    }

    /// Shows what it refers to to the garbage collector. What cannot be seen just now stays alive.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Ok(callable) = self.callable.try_lock() {
            visit.call(&*callable)?;
        }
        if let Ok(raised) = self.raised.try_lock() {
            visit.call(&*raised)?;
        }
        Ok(())
    }

    /// Lets go of what it refers to: its ring is garbage.
    pub(crate) fn clear(&self) {
        drop(take(&self.callable));
        drop(take(&self.raised));
    }

    /// Asks the function for a key. Everything that may run Python code is in here, down to the drop of the answer.
    fn ask(&self, py: Python<'_>, facts: NodeFacts) -> Result<PolicyKey, PolicyFailure> {
        let key = self.call(py, facts).map_err(|error| self.failed(py, error))?;
        read_key(&key).ok_or_else(|| {
            drop(take(&self.raised)); // of an earlier failure, which is not the cause of this one
            PolicyFailure(format!("it returned {}", describe(&key)))
        })
    }

    fn call<'py>(&self, py: Python<'py>, facts: NodeFacts) -> PyResult<Bound<'py, PyAny>> {
        let callable = lock(&self.callable).as_ref().map(|callable| callable.clone_ref(py));
        let callable = callable.ok_or_else(|| errors::input_type(py, "the key function is gone"))?;
        callable.bind(py).call1((facts,))
    }

    /// Notes what the function raised, and says it in a line.
    fn failed(&self, py: Python<'_>, error: PyErr) -> PolicyFailure {
        if error.is_instance_of::<PyKeyboardInterrupt>(py) {
            self.interrupted.store(true, Ordering::Relaxed);
        }
        let reason = error.to_string();
        let earlier = lock(&self.raised).replace(error.into_value(py));
        drop(earlier);
        PolicyFailure(reason)
    }
}

/// The core's end of a [`KeyFunction`].
struct Callback(Arc<KeyFunction>);

impl Policy for Callback {
    fn name(&self) -> String {
        self.0.name.clone()
    }

    fn key(&mut self, facts: &isoradix_core::NodeFacts<'_>) -> Result<PolicyKey, PolicyFailure> {
        Python::attach(|py| {
            self.0.thread.store(this_thread(), Ordering::Relaxed);
            let key = self.0.ask(py, facts.into());
            self.0.thread.store(0, Ordering::Relaxed);
            key
        })
    }
}

/// Locks what is only ever locked for a moment, with no Python code run meanwhile.
fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a reference out; the caller drops it when the lock is free again, for a drop may run Python code.
fn take<T>(shared: &Mutex<Option<T>>) -> Option<T> {
    lock(shared).take()
}

/// An int or a pair of ints, of 64 bits.
fn read_key(key: &Bound<'_, PyAny>) -> Option<PolicyKey> {
    if let Ok(pair) = key.cast::<PyTuple>() {
        let (first, second) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>().ok()?;
        return Some(PolicyKey::from_signed(whole(&first)?, whole(&second)?));
    }
    Some(PolicyKey::from_signed(whole(key)?, 0))
}

fn whole(part: &Bound<'_, PyAny>) -> Option<i64> {
    scalars::small(part).or_else(|| part.extract::<i64>().ok())
}

/// A number that tells threads apart while they live; never 0.
#[inline]
pub(crate) fn this_thread() -> usize {
    thread_local! {
        static MARK: u8 = const { 0 };
    }
    MARK.with(|mark| std::ptr::from_ref(mark).addr())
}
