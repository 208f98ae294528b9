//! Nodes for inspection, and the walk over them.

use std::sync::atomic::{AtomicUsize, Ordering};

use isoradix_core::{ErrorKind, Namespace, NodeHandle};
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use crate::cache::PrefixCache;
use crate::errors;
use crate::namespace::{self, Pair};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<NodeInfo>()
}

/// One node of the tree, as it was when the iteration reached it.
#[pyclass(frozen, eq, module = "isoradix")]
#[derive(PartialEq, Eq)]
pub(crate) struct NodeInfo {
    /// Handle of the node: what `lock`, `touch` and `resume=` take.
    #[pyo3(get)]
    handle: u64,
    /// Handle of its parent; the root is its own parent.
    #[pyo3(get)]
    parent: u64,
    /// Number of the node in order of making; never used again.
    #[pyo3(get)]
    sequence: u64,
    /// Tokens from the root to the end of the node.
    #[pyo3(get)]
    depth: u64,
    /// Tokens of the node itself.
    #[pyo3(get)]
    length: u64,
    /// Number of its children.
    #[pyo3(get)]
    children: u32,
    /// How many inserts passed or made the node.
    #[pyo3(get)]
    hits: u64,
    /// The greatest priority of any insert that passed or made the node.
    #[pyo3(get)]
    priority: i64,
    /// Outstanding locks on the node or below it.
    #[pyo3(get)]
    lock_ref: u32,
    /// Outstanding pins on the node or below it.
    #[pyo3(get)]
    pin_ref: u32,
    /// Clock (step, seq) of its making.
    #[pyo3(get)]
    created: (u64, u64),
    /// Clock (step, seq) of its last access.
    #[pyo3(get)]
    last_access: (u64, u64),
    name: Namespace,
}

#[pymethods]
impl NodeInfo {
    /// Extra key and salt of the node's namespace.
    #[getter]
    fn namespace(&self) -> Pair<'_> {
        namespace::pair(&self.name)
    }

    fn __repr__(&self) -> String {
        let Self { handle, parent, sequence, depth, length, children, hits, priority, lock_ref, pin_ref, .. } = self;
        format!(
            "NodeInfo(handle={handle:#x}, parent={parent:#x}, sequence={sequence}, depth={depth}, length={length}, \
             children={children}, hits={hits}, priority={priority}, lock_ref={lock_ref}, pin_ref={pin_ref}, \
             created={:?}, last_access={:?}, namespace={})",
            self.created,
            self.last_access,
            namespace::show(&self.name)
        )
    }
}

impl From<isoradix_core::NodeInfo<'_>> for NodeInfo {
    fn from(info: isoradix_core::NodeInfo<'_>) -> Self {
        Self {
            handle: info.handle.to_bits(),
            parent: info.parent.to_bits(),
            sequence: info.sequence,
            depth: info.depth,
            length: info.length,
            children: info.children,
            hits: info.hits,
            priority: info.priority,
            lock_ref: info.lock_ref,
            pin_ref: info.pin_ref,
            created: (info.created.step, info.created.seq),
            last_access: (info.last_access.step, info.last_access.seq),
            name: info.namespace.clone(),
        }
    }
}

/// Goes over the nodes that were there when the walk began, parents first, and looks at each when it reaches it.
/// Nodes evicted meanwhile are left out.
#[pyclass(frozen, module = "isoradix")]
pub(crate) struct NodeWalk {
    cache: Py<PrefixCache>,
    handles: Vec<NodeHandle>,
    at: AtomicUsize,
}

impl NodeWalk {
    pub(crate) fn new(cache: Py<PrefixCache>, handles: Vec<NodeHandle>) -> Self {
        Self { cache, handles, at: AtomicUsize::new(0) }
    }
}

#[pymethods]
impl NodeWalk {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<NodeInfo>> {
        let cache = self.cache.get();
        loop {
            let at = self.at.fetch_add(1, Ordering::Relaxed);
            let Some(handle) = self.handles.get(at) else {
                return Ok(None);
            };
            match cache.view(py, |core| core.info(*handle).map(NodeInfo::from))? {
                Ok(info) => return Ok(Some(info)),
                Err(error) if error.kind() == ErrorKind::StaleHandle => {}
                Err(error) => return Err(errors::from_core(py, &error)),
            }
        }
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.cache)
    }

    fn __repr__(&self) -> String {
        let left = self.handles.len().saturating_sub(self.at.load(Ordering::Relaxed));
        format!("<NodeWalk with {left} nodes to go>")
    }
}
