//! The core of a cache as its Python objects share it: the cache itself, and the walks over it.

use std::sync::Arc;

use isoradix_core::{Error, ErrorKind};
use pyo3::prelude::*;

use crate::guard::Guarded;
use crate::handles::Mark;
use crate::policy::KeyFunction;

pub(crate) type Core = isoradix_core::PrefixCache;

/// A guarded core, the key function that it may call, and the mark of its handles.
pub(crate) struct Shared {
    inner: Guarded<Core>,
    pub(crate) key_function: Option<Arc<KeyFunction>>,
    pub(crate) mark: Mark,
}

impl Shared {
    pub(crate) fn new(core: Core, key_function: Option<Arc<KeyFunction>>) -> Self {
        Self { inner: Guarded::new("PrefixCache", core), key_function, mark: Mark::next() }
    }

    /// Whether the key function is running on this thread, so that this call comes from there.
    fn reentered(&self) -> bool {
        self.key_function.as_ref().is_some_and(|function| function.runs_on_this_thread())
    }

    /// Makes a change, or is refused.
    #[inline]
    pub(crate) fn run<R>(&self, py: Python<'_>, work: impl FnOnce(&mut Core) -> Result<R, Error>) -> PyResult<R> {
        let done = self.inner.enter(py, || self.reentered(), work)?;
        if let Some(function) = &self.key_function {
            function.pass_interrupt_on();
        }
        done.map_err(|error| self.raise(py, &error))
    }

    /// As [`Self::run`]; a call that is long by its `size` gives up the GIL, unless the cache has a key function: that
    /// may be called for each of many nodes, and would take the GIL back each time.
    #[inline]
    pub(crate) fn run_sized<R: Send>(
        &self,
        py: Python<'_>,
        size: impl FnOnce(&Core) -> u64,
        work: impl FnOnce(&mut Core) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        if self.key_function.is_some() {
            return self.run(py, work);
        }
        self.inner.enter_sized(py, || false, size, work)?.map_err(|error| self.raise(py, &error))
    }

    /// Enters the core, for work that says itself what its errors are.
    pub(crate) fn enter<R>(&self, py: Python<'_>, work: impl FnOnce(&mut Core) -> R) -> PyResult<R> {
        self.inner.enter(py, || self.reentered(), work)
    }

    /// Looks at the cache.
    #[inline]
    pub(crate) fn view<R>(&self, py: Python<'_>, look: impl FnOnce(&Core) -> R) -> PyResult<R> {
        self.inner.enter(py, || self.reentered(), |core| look(core))
    }

    /// The exception for a refusal of the core.
    #[cold]
    pub(crate) fn raise(&self, py: Python<'_>, error: &Error) -> PyErr {
        let raised = self.mark.error(py, error);
        if let (ErrorKind::Policy, Some(function)) = (error.kind(), &self.key_function) {
            raised.set_cause(py, function.take_raised(py));
        }
        raised
    }
}
