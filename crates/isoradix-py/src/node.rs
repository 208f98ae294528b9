//! Nodes for inspection.

use isoradix_core::Namespace;
use pyo3::prelude::*;

use crate::handles::{Handle, Mark};
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
    handle: Handle,
    /// Handle of its parent; the root is its own parent.
    #[pyo3(get)]
    parent: Handle,
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
    /// Outstanding host locks on the node or below it.
    #[pyo3(get)]
    host_ref: u32,
    /// Whether the device has it.
    #[pyo3(get)]
    on_device: bool,
    /// Whether host memory has it; never in a cache of one tier.
    #[pyo3(get)]
    on_host: bool,
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
        let Self { sequence, depth, length, children, hits, priority, lock_ref, pin_ref, host_ref, .. } = self;
        let [on_device, on_host] = [self.on_device, self.on_host].map(|flag| if flag { "True" } else { "False" });
        let (handle, parent) = (self.handle.to_bits(), self.parent.to_bits());
        format!(
            "NodeInfo(handle={handle:#x}, parent={parent:#x}, sequence={sequence}, depth={depth}, length={length}, \
             children={children}, hits={hits}, priority={priority}, lock_ref={lock_ref}, pin_ref={pin_ref}, \
             host_ref={host_ref}, on_device={on_device}, on_host={on_host}, created={:?}, last_access={:?}, namespace={})",
            self.created,
            self.last_access,
            namespace::show(&self.name)
        )
    }
}

impl NodeInfo {
    pub(crate) fn new(info: isoradix_core::NodeInfo<'_>, mark: Mark) -> Self {
        Self {
            handle: mark.handle(info.handle),
            parent: mark.handle(info.parent),
            sequence: info.sequence,
            depth: info.depth,
            length: info.length,
            children: info.children,
            hits: info.hits,
            priority: info.priority,
            lock_ref: info.lock_ref,
            pin_ref: info.pin_ref,
            host_ref: info.host_ref,
            on_device: info.on_device,
            on_host: info.on_host,
            created: (info.created.step, info.created.seq),
            last_access: (info.last_access.step, info.last_access.seq),
            name: info.namespace.clone(),
        }
    }
}
