//! The iteration over nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use isoradix_core::{ErrorKind, NodeHandle};
use pyo3::prelude::*;

use crate::node::NodeInfo;
use crate::shared::{Shared, Tree};

/// A cache of any kind, looked at node by node.
trait Nodes: Send + Sync {
    /// The node, unless it is gone.
    fn info(&self, py: Python<'_>, node: NodeHandle) -> PyResult<Option<NodeInfo>>;
}

impl<C: Tree> Nodes for Shared<C> {
    fn info(&self, py: Python<'_>, node: NodeHandle) -> PyResult<Option<NodeInfo>> {
        match self.view(py, |core| core.tree().info(node).map(|info| NodeInfo::new(info, self.mark)))? {
            Ok(info) => Ok(Some(info)),
            Err(error) if error.kind() == ErrorKind::StaleHandle => Ok(None),
            Err(error) => Err(self.raise(py, &error)),
        }
    }
}

/// Goes over the nodes that were there when the walk began, parents first, and looks at each when it reaches it.
/// Nodes evicted meanwhile are left out.
// It shares the core and not the Python object of the cache, so the garbage collector need not look inside: of what
// the core refers to, only the key function is Python's, and the cache itself shows and drops that one.
#[pyclass(frozen, module = "isoradix")]
pub(crate) struct NodeWalk {
    cache: Arc<dyn Nodes>,
    handles: Vec<NodeHandle>,
    at: AtomicUsize,
}

impl NodeWalk {
    pub(crate) fn new<C: Tree + 'static>(cache: Arc<Shared<C>>, handles: Vec<NodeHandle>) -> Self {
        Self { cache, handles, at: AtomicUsize::new(0) }
    }
}

#[pymethods]
impl NodeWalk {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<NodeInfo>> {
        loop {
            let at = self.at.fetch_add(1, Ordering::Relaxed);
            let Some(handle) = self.handles.get(at) else {
                return Ok(None);
            };
            if let Some(info) = self.cache.info(py, *handle)? {
                return Ok(Some(info));
            }
        }
    }

    fn __repr__(&self) -> String {
        let left = self.handles.len().saturating_sub(self.at.load(Ordering::Relaxed));
        format!("<NodeWalk with {left} nodes to go>")
    }
}
