//! The iteration over nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use isoradix_core::{ErrorKind, NodeHandle};
use pyo3::prelude::*;

use crate::node::NodeInfo;
use crate::shared::Shared;

/// Goes over the nodes that were there when the walk began, parents first, and looks at each when it reaches it.
/// Nodes evicted meanwhile are left out.
// It shares the core and not the Python object of the cache, so the garbage collector need not look inside: of what
// the core refers to, only the key function is Python's, and the cache itself shows and drops that one.
#[pyclass(frozen, module = "isoradix")]
pub(crate) struct NodeWalk {
    shared: Arc<Shared>,
    handles: Vec<NodeHandle>,
    at: AtomicUsize,
}

impl NodeWalk {
    pub(crate) fn new(shared: Arc<Shared>, handles: Vec<NodeHandle>) -> Self {
        Self { shared, handles, at: AtomicUsize::new(0) }
    }
}

#[pymethods]
impl NodeWalk {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<NodeInfo>> {
        let shared = &self.shared;
        loop {
            let at = self.at.fetch_add(1, Ordering::Relaxed);
            let Some(handle) = self.handles.get(at) else {
                return Ok(None);
            };
            match shared.view(py, |core| core.info(*handle).map(|info| NodeInfo::new(info, shared.mark)))? {
                Ok(info) => return Ok(Some(info)),
                Err(error) if error.kind() == ErrorKind::StaleHandle => {}
                Err(error) => return Err(shared.raise(py, &error)),
            }
        }
    }

    fn __repr__(&self) -> String {
        let left = self.handles.len().saturating_sub(self.at.load(Ordering::Relaxed));
        format!("<NodeWalk with {left} nodes to go>")
    }
}
