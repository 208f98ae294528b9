//! What every cache shows of its tree, whatever its tiers.

use std::sync::Arc;

use isoradix_core::{NodeHandle, PrefixCache};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrays;
use crate::errors;
use crate::guard::PER_NODE;
use crate::journal::{self, Record};
use crate::namespace;
use crate::node::NodeInfo;
use crate::shared::{Shared, Tree};
use crate::walk::NodeWalk;

type Given<'a, 'py> = &'a Bound<'py, PyAny>;
type Array<'py> = Bound<'py, PyArray1<i64>>;

// How long a call will take, see `guard::LONG`.

pub(crate) fn depth(tree: &PrefixCache, node: NodeHandle) -> u64 {
    tree.info(node).map_or(0, |info| info.depth)
}

fn own_length(tree: &PrefixCache, node: NodeHandle) -> u64 {
    tree.info(node).map_or(0, |info| info.length)
}

fn walk_of_all(tree: &PrefixCache) -> u64 {
    tree.num_nodes() * PER_NODE
}

pub(crate) fn slots<'py, C: Tree>(shared: &Shared<C>, py: Python<'py>, node: Given<'_, 'py>) -> PyResult<Array<'py>> {
    let node = shared.mark.read_node(node)?;
    let mut slots = Vec::new();
    let size = |core: &C| depth(core.tree(), node);
    shared.run_sized(py, size, |core| core.tree().path_slots(node, &mut slots))?;
    Ok(arrays::owned(py, slots))
}

pub(crate) fn clock<C: Tree>(shared: &Shared<C>, py: Python<'_>) -> PyResult<(u64, u64)> {
    shared.view(py, |core| {
        let now = core.tree().clock();
        (now.step, now.seq)
    })
}

pub(crate) fn namespaces<C: Tree>(
    shared: &Shared<C>,
    py: Python<'_>,
) -> PyResult<Vec<(Option<String>, Option<String>)>> {
    let names = shared.view(py, |core| core.tree().namespaces())?;
    let owned = |part: Option<&str>| part.map(str::to_owned);
    Ok(names.iter().map(|name| (owned(name.extra_key()), owned(name.salt()))).collect())
}

pub(crate) fn namespace_size<C: Tree>(
    shared: &Shared<C>,
    py: Python<'_>,
    namespace: Option<Given<'_, '_>>,
) -> PyResult<u64> {
    let namespace = namespace::read(namespace)?;
    shared.view(py, |core| core.tree().namespace_size(&namespace))
}

pub(crate) fn walk<C: Tree + 'static>(
    shared: &Arc<Shared<C>>,
    py: Python<'_>,
    node: Option<Given<'_, '_>>,
) -> PyResult<NodeWalk> {
    let node = node.map_or(Ok(NodeHandle::ROOT), |node| shared.mark.read_node(node))?;
    let handles = shared.run_sized(py, |core| walk_of_all(core.tree()), |core| core.tree().walk(node))?;
    Ok(NodeWalk::new(Arc::clone(shared), handles))
}

pub(crate) fn node<C: Tree>(shared: &Shared<C>, py: Python<'_>, node: Given<'_, '_>) -> PyResult<NodeInfo> {
    let node = shared.mark.read_node(node)?;
    shared.run(py, |core| core.tree().info(node).map(|info| NodeInfo::new(info, shared.mark)))
}

pub(crate) fn node_tokens<'py, C: Tree>(
    shared: &Shared<C>,
    py: Python<'py>,
    node: Given<'_, 'py>,
) -> PyResult<Array<'py>> {
    let node = shared.mark.read_node(node)?;
    let mut tokens = Vec::new();
    let size = |core: &C| own_length(core.tree(), node);
    shared.run_sized(py, size, |core| core.tree().node_tokens(node, &mut tokens))?;
    Ok(arrays::owned(py, tokens))
}

pub(crate) fn node_slots<'py, C: Tree>(
    shared: &Shared<C>,
    py: Python<'py>,
    node: Given<'_, 'py>,
) -> PyResult<Array<'py>> {
    let node = shared.mark.read_node(node)?;
    let mut slots = Vec::new();
    let size = |core: &C| own_length(core.tree(), node);
    shared.run_sized(py, size, |core| core.tree().node_slots(node, &mut slots))?;
    Ok(arrays::owned(py, slots))
}

pub(crate) fn dfs_weight_order<C: Tree>(
    shared: &Shared<C>,
    py: Python<'_>,
    nodes: Given<'_, '_>,
) -> PyResult<Vec<u32>> {
    let nodes = nodes
        .try_iter()
        .map_err(|cause| {
            if errors::is_not_of_input(py, &cause) {
                return cause;
            }
            let message = format!(
                "nodes is {}, expected a sequence of node handles\nhint: pass [result.node for result in results]",
                errors::describe(nodes)
            );
            let error = errors::input_type(py, message);
            error.set_cause(py, Some(cause));
            error
        })?
        .map(|node| shared.mark.read_node(&node?))
        .collect::<PyResult<Vec<_>>>()?;
    shared.run_sized(py, |_| nodes.len() as u64 * PER_NODE, |core| core.tree().dfs_weight_order(&nodes))
}

pub(crate) fn journal<C: Tree>(shared: &Shared<C>, py: Python<'_>) -> PyResult<Vec<Record>> {
    let records = shared.view(py, |core| core.tree().journal())?;
    Ok(records.iter().map(Record::from).collect())
}

pub(crate) fn journal_bytes<'py, C: Tree>(shared: &Shared<C>, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
    let records = shared.view(py, |core| core.tree().journal())?;
    Ok(PyBytes::new(py, &journal::to_bytes(&records)))
}
