//! The core of a cache as its Python objects share it: the cache itself, the walks over it, its rank.

use std::sync::Arc;

use isoradix_core::{Error, ErrorKind, PrefixCache};
use pyo3::prelude::*;

use crate::guard::Guarded;
use crate::handles::Mark;
use crate::policy::KeyFunction;

/// A core with a tree in it.
pub(crate) trait Tree: Send {
    /// The name of its Python class.
    const NAME: &'static str;

    /// The tree with its nodes and its evidence.
    fn tree(&self) -> &PrefixCache;
}

impl Tree for PrefixCache {
    const NAME: &'static str = "PrefixCache";

    fn tree(&self) -> &PrefixCache {
        self
    }
}

/// A guarded core, the key function that it may call, and the mark of its handles.
pub(crate) struct Shared<C> {
    inner: Guarded<C>,
    pub(crate) key_function: Option<Arc<KeyFunction>>,
    pub(crate) mark: Mark,
}

impl<C: Tree> Shared<C> {
    pub(crate) fn new(core: C, key_function: Option<Arc<KeyFunction>>) -> Self {
        Self { inner: Guarded::new(C::NAME, core), key_function, mark: Mark::next() }
    }

    /// Whether the key function is running on this thread, so that this call comes from there.
    fn reentered(&self) -> bool {
        self.key_function.as_ref().is_some_and(|function| function.runs_on_this_thread())
    }

    /// Makes a change, or is refused.
    #[inline]
    pub(crate) fn run<R>(&self, py: Python<'_>, work: impl FnOnce(&mut C) -> Result<R, Error>) -> PyResult<R> {
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
        size: impl FnOnce(&C) -> u64,
        work: impl FnOnce(&mut C) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        if self.key_function.is_some() {
            return self.run(py, work);
        }
        self.inner.enter_sized(py, || false, size, work)?.map_err(|error| self.raise(py, &error))
    }

    /// Enters the core, for work that says itself what its errors are.
    pub(crate) fn enter<R>(&self, py: Python<'_>, work: impl FnOnce(&mut C) -> R) -> PyResult<R> {
        self.inner.enter(py, || self.reentered(), work)
    }

    /// As [`Self::run_sized`], together with an `other` object, for work that says itself what its errors are.
    pub(crate) fn enter_with<U: Send, R: Send>(
        &self,
        py: Python<'_>,
        other: (&Guarded<U>, impl Fn() -> bool),
        size: impl FnOnce(&C) -> u64,
        work: impl FnOnce(&mut C, &mut U) -> R + Send,
    ) -> PyResult<R> {
        let size = |core: &C| if self.key_function.is_some() { 0 } else { size(core) };
        let done = self.inner.enter_with(py, || self.reentered(), other, size, work)?;
        if let Some(function) = &self.key_function {
            function.pass_interrupt_on();
        }
        Ok(done)
    }

    /// Looks at the cache.
    #[inline]
    pub(crate) fn view<R>(&self, py: Python<'_>, look: impl FnOnce(&C) -> R) -> PyResult<R> {
        self.inner.enter(py, || self.reentered(), |core| look(core))
    }

    /// The exception for a refusal of the core.
    #[cold]
    pub(crate) fn raise(&self, py: Python<'_>, error: &Error) -> PyErr {
        let raised = self.mark.error(py, C::NAME, error);
        if let (ErrorKind::Policy, Some(function)) = (error.kind(), &self.key_function) {
            raised.set_cause(py, function.take_raised(py));
        }
        raised
    }
}
