//! The model against the real cache.

use std::collections::BTreeMap;
use std::fmt::Debug;

use isoradix_core::operation::Kind;
use isoradix_core::{Error, NodeHandle, Ordinal, TieredCache};

use super::answers::Sizes;
use super::model::Model;
use super::state::{NodeState, State};

impl Model {
    /// The first thing in which the real cache is not what the model says, in words; `None` if they agree.
    ///
    /// # Errors
    /// If the real cache refuses to show one of its nodes.
    pub(crate) fn difference(&self, cache: &TieredCache) -> Result<Option<String>, Error> {
        let (model, real) = (self.state(), self.state_of(cache)?);
        let nodes = model.nodes.iter().zip(&real.nodes).find_map(|(model, real)| differs("node", model, real));
        let count = differs("number of nodes", &model.nodes.len(), &real.nodes.len());
        let occupied = differs("occupied host pages", &model.occupied, &real.occupied);
        let capacity = differs("capacity of host", &model.capacity, &real.capacity);
        let sizes = differs("sizes", &self.sizes(), &sizes_of(cache));
        Ok(nodes.or(count).or(occupied).or(capacity).or(sizes))
    }

    /// The ordinal of a prefetch, once it is issued and until it ends or is given up.
    #[must_use]
    pub(crate) fn prefetch_ordinal(&self, ticket: u64) -> Option<Ordinal> {
        let mut counting = self.operations.iter().filter(|operation| !operation.draining || operation.again);
        counting
            .find(|operation| operation.kind == Kind::Prefetch && operation.parts[0].id == ticket)
            .map(|operation| operation.ordinal)
    }

    /// The real cache's dump. What it does not tell of a node, the model's own word stands for: whether it is stored or pending.
    fn state_of(&self, cache: &TieredCache) -> Result<State, Error> {
        let tree = cache.cache();
        let handles = tree.walk(NodeHandle::ROOT)?;
        let mut accesses =
            handles.iter().map(|node| Ok(tree.info(*node)?.last_access)).collect::<Result<Vec<_>, Error>>()?;
        accesses.sort_unstable();
        let (mut nodes, mut paths) = (vec![], BTreeMap::from([(NodeHandle::ROOT, vec![])]));
        for node in handles {
            let info = tree.info(node)?;
            let (device_parts, host_parts) = cache.parts(node)?;
            let mut path: Vec<i64> = paths.get(&info.parent).cloned().unwrap_or_default();
            tree.node_tokens(node, &mut path)?;
            paths.insert(node, path.clone());
            let model = self.find(info.sequence);
            nodes.push(NodeState {
                namespace: info.namespace.clone(),
                path: path.into_iter().map(|token| u32::try_from(token).unwrap_or(u32::MAX)).collect(),
                length: info.length,
                sequence: info.sequence,
                on_device: cache.is_on_device(node)?,
                on_host: cache.is_on_host(node)?,
                stored: model.is_some_and(|node| node.stored),
                pending: model.is_some_and(|node| self.is_pending(node)),
                lock_ref: info.lock_ref as usize,
                pin_ref: info.pin_ref as usize,
                host_ref: info.host_ref as usize,
                hits: info.hits,
                priority: info.priority,
                device_parts,
                host_parts,
                age: accesses.partition_point(|access| *access < info.last_access),
            });
        }
        nodes.sort_unstable();
        let ledger = cache.host().ledger();
        Ok(State { nodes, occupied: ledger.occupied(), capacity: ledger.capacity() })
    }
}

fn sizes_of(cache: &TieredCache) -> Sizes {
    let sizes = cache.sizes();
    Sizes {
        device_total: sizes.device.total,
        device_protected: sizes.device.protected,
        device_pinned: sizes.device.pinned,
        host_total: sizes.host_total,
        host_only: sizes.host_only,
        clean: sizes.clean,
    }
}

fn differs<T: Debug + PartialEq>(what: &str, model: &T, real: &T) -> Option<String> {
    (model != real).then(|| format!("{what}: the model says {model:?}, the cache has {real:?}"))
}
