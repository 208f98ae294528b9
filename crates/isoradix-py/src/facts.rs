//! The facts of a node that a user's key function may read.

use isoradix_core::Namespace;
use pyo3::prelude::*;

use crate::namespace::{self, Pair};

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<NodeFacts>()
}

/// The Logical facts of one node that an eviction policy may read.
///
/// All of them follow from the calls made on the cache alone, so every rank sees the same. There is no wall clock here,
/// and a key function that reads one makes the ranks part.
#[pyclass(frozen, eq, module = "isoradix")]
#[derive(PartialEq, Eq)]
pub(crate) struct NodeFacts {
    /// Step of the clock in which the node was last matched, inserted or touched.
    #[pyo3(get)]
    step: u64,
    /// Running number of that access; it alone orders accesses.
    #[pyo3(get)]
    seq: u64,
    /// Step of the clock in which the node was made.
    #[pyo3(get)]
    created_step: u64,
    /// Running number of the event that made the node.
    #[pyo3(get)]
    created_seq: u64,
    /// How many inserts passed or made the node.
    #[pyo3(get)]
    hits: u64,
    /// The greatest priority of any insert that passed or made the node.
    #[pyo3(get)]
    priority: i64,
    /// Tokens of the node itself.
    #[pyo3(get)]
    length: u64,
    /// Tokens from the root to the end of the node.
    #[pyo3(get)]
    depth: u64,
    /// The greatest depth of anything ever inserted below the node, in tokens.
    #[pyo3(get)]
    reach: u64,
    name: Namespace,
}

#[pymethods]
impl NodeFacts {
    /// Extra key and salt of the node's namespace.
    #[getter]
    fn namespace(&self) -> Pair<'_> {
        namespace::pair(&self.name)
    }

    fn __repr__(&self) -> String {
        let Self { step, seq, created_step, created_seq, hits, priority, length, depth, reach, .. } = self;
        format!(
            "NodeFacts(step={step}, seq={seq}, created_step={created_step}, created_seq={created_seq}, hits={hits}, \
             priority={priority}, length={length}, depth={depth}, reach={reach}, namespace={})",
            namespace::show(&self.name)
        )
    }
}

impl From<&isoradix_core::NodeFacts<'_>> for NodeFacts {
    fn from(facts: &isoradix_core::NodeFacts<'_>) -> Self {
        Self {
            step: facts.last_access.step,
            seq: facts.last_access.seq,
            created_step: facts.created.step,
            created_seq: facts.created.seq,
            hits: facts.hits,
            priority: facts.priority,
            length: facts.length,
            depth: facts.depth,
            reach: facts.reach,
            name: facts.namespace.clone(),
        }
    }
}
