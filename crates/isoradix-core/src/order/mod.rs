//! Which node is evicted next.
//!
//! Orders are total: (policy key, node sequence number). No address, hash order or wall clock takes part. LRU has a list
//! of its own that costs the same at any size; every other policy ranks the evictable leaves in a heap, O(log n) a change. So does
//! LRU where clean leaves go first, and on host.

mod builtin;
mod copies;
#[cfg(test)]
mod costs;
mod key_heap;
mod keyed;
mod lru;
mod policy;
mod recency_list;

use std::fmt;

pub use builtin::Builtin;
pub(crate) use copies::Copies;
pub use policy::{NodeFacts, Policy, PolicyFailure, PolicyKey};

use crate::error::Error;
use crate::node::{Node, NodeId, ROOT};
use crate::tree::Tree;
use builtin::LeastRecent;
use keyed::KeyedOrder;
use lru::LruOrder;

/// How victims are chosen.
pub enum Eviction {
    /// Least recently used, by the list that costs the same at any size of the tree.
    Lru,
    /// The evictable leaf with the smallest key goes first.
    Keyed(Box<dyn Policy>),
}

impl Eviction {
    /// The built-in policy of that name, for example `lru`, `slru:3` or `tlru:4096,512`.
    ///
    /// # Errors
    /// An unknown name, or arguments that do not fit it.
    pub fn parse(spec: &str) -> Result<Self, Error> {
        if spec == "lru" {
            return Ok(Self::Lru);
        }
        Ok(Self::Keyed(Box::new(Builtin::parse(spec)?)))
    }

    /// The policy's name with its arguments.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Lru => "lru".to_owned(),
            Self::Keyed(policy) => policy.name(),
        }
    }
}

impl fmt::Debug for Eviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Eviction").field(&self.name()).finish()
    }
}

/// The order in which nodes leave.
pub(crate) enum Order {
    Lru(LruOrder),
    Keyed(Box<KeyedOrder>),
}

impl Order {
    pub(crate) fn new(eviction: Eviction) -> Self {
        match eviction {
            Eviction::Lru => Self::Lru(LruOrder::new()),
            Eviction::Keyed(policy) => Self::Keyed(Box::new(KeyedOrder::new(policy))),
        }
    }

    /// An order in which what is on host too goes before all else on the device.
    pub(crate) fn clean_first(eviction: Eviction) -> Self {
        let policy = match eviction {
            Eviction::Lru => Box::new(LeastRecent),
            Eviction::Keyed(policy) => policy,
        };
        Self::Keyed(Box::new(KeyedOrder::clean_first(policy)))
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::Lru(_) => Eviction::Lru.name(),
            Self::Keyed(order) => order.policy_name(),
        }
    }

    /// A node got a new stamp. Called for each node of a path, deepest first.
    #[inline]
    pub(crate) fn stamped(&mut self, node: &mut Node, id: NodeId) {
        if let Self::Lru(order) = self {
            order.stamped(node, id);
        }
    }

    /// A node is held no more.
    #[inline]
    pub(crate) fn unheld(&mut self, node: &mut Node, id: NodeId) {
        if let Self::Lru(order) = self {
            order.unheld(node, id);
        }
    }

    /// Facts of a node changed that may rank it: stamp, hits, priority, length, holds or children.
    #[inline]
    pub(crate) fn changed(&mut self, tree: &Tree, id: NodeId) {
        match self {
            Self::Lru(order) => order.changed(tree, id),
            Self::Keyed(order) => order.changed(tree, id),
        }
    }

    /// Plants a mistake in the order.
    #[cfg(feature = "planted-defects")]
    pub(crate) fn plant(&mut self, planted: crate::defects::Planted) {
        match self {
            Self::Lru(order) => order.planted = planted,
            Self::Keyed(order) => order.planted = planted,
        }
    }

    /// Whether leaves on the device are ranked by their facts, so that it has to be told when these change.
    #[inline]
    pub(crate) fn ranks_device_leaves(&self) -> bool {
        matches!(self, Self::Keyed(_))
    }

    /// Whether nodes that are on both tiers are ranked, so that their host copies can be given up.
    #[inline]
    pub(crate) fn ranks_copies(&self) -> bool {
        matches!(self, Self::Keyed(order) if order.ranks_copies())
    }

    /// The node whose host copy is given up next, if any may be: of those that eviction could not take from the device now
    /// ([`Copies::Spare`]), or of those that it could ([`Copies::Safe`]).
    pub(crate) fn next_copy(&self, of: Copies) -> Option<NodeId> {
        if let Self::Keyed(order) = self { order.next_copy(of) } else { None }
    }

    /// A node leaves the tree by another way than eviction.
    pub(crate) fn forget(&mut self, id: NodeId) {
        match self {
            Self::Lru(order) => order.forget(id),
            Self::Keyed(order) => order.forget(id),
        }
    }

    /// Makes sure that every evictable leaf is ranked; a policy that fails is an error, and nothing changes.
    pub(crate) fn settle(&mut self, tree: &Tree) -> Result<(), Error> {
        match self {
            Self::Lru(_) => Ok(()),
            Self::Keyed(order) => order.settle(tree),
        }
    }

    /// Shows the leaves that are on the device alone in the order in which they would go, as long as `more` says so. Only an order
    /// that takes the clean ones first knows them.
    pub(crate) fn look_at_dirty(&mut self, tree: &Tree, more: impl FnMut(NodeId) -> bool) {
        if let Self::Keyed(order) = self {
            order.look_at_dirty(tree, more);
        }
    }

    /// Asks again for the leaves on host alone that are unranked; those for which the policy fails stay so.
    pub(crate) fn settle_host(&mut self, tree: &Tree) {
        if let Self::Keyed(order) = self {
            order.settle_host(tree);
        }
    }

    /// Takes the next victim among the nodes on host alone out of the order.
    pub(crate) fn pop_host(&mut self) -> Option<NodeId> {
        match self {
            Self::Lru(order) => order.pop_host(),
            Self::Keyed(order) => order.pop_host(),
        }
    }

    /// Takes the next victim on the device out of the order.
    #[inline]
    pub(crate) fn pop(&mut self, tree: &mut Tree) -> Option<NodeId> {
        match self {
            Self::Lru(order) => order.pop(tree),
            Self::Keyed(order) => order.pop(),
        }
    }

    /// Nodes that are likely to be the next victims, in order; only a hint, and none for keyed orders.
    #[inline]
    pub(crate) fn upcoming(&self) -> impl Iterator<Item = NodeId> + '_ {
        let lru = if let Self::Lru(order) = self { Some(order.upcoming()) } else { None };
        lru.into_iter().flatten()
    }

    pub(crate) fn clear(&mut self) {
        match self {
            Self::Lru(order) => order.clear(),
            Self::Keyed(order) => order.clear(),
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Self::Lru(order) => order.memory_bytes(),
            Self::Keyed(order) => order.memory_bytes(),
        }
    }

    /// Checks the order, and the stamps that it goes by, against the tree.
    pub(crate) fn check(&self, tree: &Tree) -> Result<(), Error> {
        check_stamps(tree)?;
        match self {
            Self::Lru(order) => order.check(tree),
            Self::Keyed(order) => order.check(tree),
        }
    }
}

/// A parent is younger than its children: LRU rests on it.
fn check_stamps(tree: &Tree) -> Result<(), Error> {
    for id in tree.walk(ROOT) {
        let node = &tree.nodes[id];
        let parent = &tree.nodes[node.parent];
        if !parent.is_root() && parent.access <= node.access {
            let what = "the parent is not younger than its child";
            return Err(Error::invariant(what, vec![parent.sequence, node.sequence]));
        }
    }
    Ok(())
}
