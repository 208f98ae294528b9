//! Knowing that this process is a forked child.
//!
//! After a fork two processes would go on with one history: their trees part, while both believe that they own the
//! same device slots. So an object remembers the generation it was made in, and is refused in any other.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyDict;

static GENERATION: AtomicU64 = AtomicU64::new(0);

/// How many forks lie between this process and the one that imported the module.
#[inline]
pub(crate) fn generation() -> u64 {
    GENERATION.load(Ordering::Relaxed)
}

/// Runs in the child right after `os.fork`.
#[pyfunction]
fn after_in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// Asks Python to tell us of forks. Platforms without `fork` have nothing to tell.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let Some(register) = py.import("os")?.getattr_opt("register_at_fork")? else {
        return Ok(());
    };
    let hooks = PyDict::new(py);
    hooks.set_item("after_in_child", wrap_pyfunction!(after_in_child, py)?)?;
    register.call((), Some(&hooks))?;
    Ok(())
}
