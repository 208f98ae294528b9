//! How far a copy is, for threads that wait for parts of it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;

use crate::scalars;

/// How long a wait lasts before signals are looked at.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<CopyProgress>()
}

/// How far a `copy_rows` is, in pairs of buffers: any thread may wait for some of them, or stop the copy before the next one.
///
/// One object is for one copy.
#[pyclass(frozen, module = "isoradix")]
#[derive(Default)]
pub(crate) struct CopyProgress {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    pairs: usize,
    stopped: bool,
}

#[pymethods]
impl CopyProgress {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Waits, without the GIL, until so many pairs of buffers are copied.
    ///
    /// Args:
    ///     pairs: how many, from the beginning of the lists.
    ///
    /// Returns:
    ///     Whether they are; False if the copy was stopped before.
    ///
    /// Raises:
    ///     InvalidInputError: `pairs` is negative.
    ///     KeyboardInterrupt: or what else a signal's handler raises.
    fn wait(&self, py: Python<'_>, pairs: &Bound<'_, PyAny>) -> PyResult<bool> {
        let pairs = usize::try_from(scalars::PAIRS.read(pairs)?).unwrap_or(usize::MAX);
        loop {
            let (copied, stopped) = py.detach(|| {
                let waits = |state: &mut State| state.pairs < pairs && !state.stopped;
                let waited = self.changed.wait_timeout_while(self.state(), LOOK, waits);
                let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
                (state.pairs, state.stopped)
            });
            if copied >= pairs || stopped {
                return Ok(copied >= pairs);
            }
            py.check_signals()?;
        }
    }

    /// Ends the copy before its next pair of buffers, and all waits for more. A no-op the second time.
    fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
    }

    /// Pairs of buffers that are copied.
    #[getter]
    fn pairs(&self) -> usize {
        self.state().pairs
    }
}

impl CopyProgress {
    /// One more pair is copied; whether the copy goes on.
    pub(crate) fn advance(&self) -> bool {
        let mut state = self.state();
        state.pairs += 1;
        let goes_on = !state.stopped;
        drop(state);
        self.changed.notify_all();
        goes_on
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state().stopped
    }

    /// Nothing that runs under the lock can panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
