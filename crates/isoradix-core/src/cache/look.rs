//! Looking at a cache without changing it.

use super::{NodeInfo, PrefixCache, Sizes, in_memory};
use crate::accounting;
use crate::error::Error;
use crate::events::KvEvent;
use crate::evidence::Record;
use crate::namespace::Namespace;
use crate::node::{NodeHandle, NodeId, ROOT};
use crate::pool::SlotPool;
use crate::tree::Holdings;

impl PrefixCache {
    /// Sizes in units.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        let counts = self.tree.counts();
        let total = self.to_units(counts.device);
        let protected = self.to_units(counts.held);
        let pinned = self.to_units(counts.pinned);
        Sizes { total, protected, pinned, evictable: total - protected }
    }

    /// Nodes that hold tokens.
    #[must_use]
    pub fn num_nodes(&self) -> u64 {
        self.tree.visible()
    }

    /// Namespaces that have something cached, in their own order.
    #[must_use]
    pub fn namespaces(&self) -> Vec<Namespace> {
        self.tree.namespaces.in_use().map(|entry| entry.name.clone()).collect()
    }

    /// Cached units of a namespace; 0 for one that is unknown.
    #[must_use]
    pub fn namespace_size(&self, namespace: &Namespace) -> u64 {
        self.tree.namespaces.find(namespace).map_or(0, |id| self.to_units(self.tree.namespaces[id].pages))
    }

    /// The nodes from `from` down, depth-first, parents first, children in order of arrival.
    ///
    /// # Errors
    /// A stale handle.
    pub fn walk(&self, from: NodeHandle) -> Result<Vec<NodeHandle>, Error> {
        let id = self.tree.nodes.resolve(from)?;
        Ok(self.tree.walk(id).map(|id| self.tree.nodes.handle(id)).collect())
    }

    /// What is known of a node.
    ///
    /// # Errors
    /// A stale handle.
    pub fn info(&self, node: NodeHandle) -> Result<NodeInfo<'_>, Error> {
        let id = self.tree.nodes.resolve(node)?;
        let node = &self.tree.nodes[id];
        Ok(NodeInfo {
            handle: self.tree.nodes.handle(id),
            parent: if id == ROOT { NodeHandle::ROOT } else { self.tree.nodes.handle(node.parent) },
            sequence: node.sequence,
            depth: self.to_units(node.depth),
            length: self.to_units(node.pages),
            children: node.children,
            hits: node.hits.into(),
            priority: if id == ROOT { 0 } else { node.priority },
            lock_ref: node.lock_ref,
            pin_ref: node.pin_ref,
            host_ref: node.host_ref,
            on_device: node.residency.on_device(),
            on_host: node.residency.on_host(),
            created: node.created,
            last_access: node.access,
            namespace: &self.tree.namespaces[node.namespace].name,
        })
    }

    /// Appends the raw tokens of one node; in bigram mode one more than it has units.
    ///
    /// # Errors
    /// A stale handle.
    pub fn node_tokens(&self, node: NodeHandle, out: &mut Vec<i64>) -> Result<(), Error> {
        let id = self.tree.nodes.resolve(node)?;
        if id != ROOT {
            let before = self.tree.token_before(id);
            out.extend(before.iter().chain(self.tree.tokens(id)).map(|token| i64::from(*token)));
        }
        Ok(())
    }

    /// Appends the slots of one node; none if it is on host alone.
    ///
    /// # Errors
    /// A stale handle.
    pub fn node_slots(&self, node: NodeHandle, out: &mut Vec<i64>) -> Result<(), Error> {
        let id = self.tree.nodes.resolve(node)?;
        if self.tree.nodes[id].residency.on_device() {
            self.tree.append_slots(id, out);
        }
        Ok(())
    }

    /// Appends the slots of the whole path that ends at a node, from the start of the key, as far as it is on the device.
    ///
    /// # Errors
    /// A stale handle.
    pub fn path_slots(&self, node: NodeHandle, out: &mut Vec<i64>) -> Result<(), Error> {
        let id = self.tree.nodes.resolve(node)?;
        Error::make_room(out, in_memory(self.to_units(self.tree.nodes[id].depth)), "slots")?;
        let path: Vec<NodeId> = self.tree.path_up(self.tree.deepest_on_device(id)).collect();
        for id in path.into_iter().rev() {
            self.tree.append_slots(id, out);
        }
        Ok(())
    }

    /// Orders waiting requests, given by the nodes that they matched, so that common prefixes are neighbours and the
    /// heaviest subtrees come first; the result is a permutation of their indices. Ties go by node sequence number.
    ///
    /// # Errors
    /// A stale handle.
    pub fn dfs_weight_order(&self, nodes: &[NodeHandle]) -> Result<Vec<u32>, Error> {
        let ids: Result<Vec<NodeId>, Error> = nodes.iter().map(|node| self.tree.nodes.resolve(*node)).collect();
        Ok(self.tree.dfs_weight_order(&ids?))
    }

    /// Bytes that the cache's arrays have reserved; untouched reserves count, although they may take no memory yet.
    ///
    /// Namespaces and KV events are counted by their contents, which is close.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        let events = self.events.as_ref().map_or(0, |events| events.memory_bytes(&self.tree));
        let evidence = self.journal.memory_bytes() + events;
        (self.tree.memory_bytes() + self.order.memory_bytes() + self.holds.memory_bytes() + evidence) as u64
    }

    /// Tokens of a page.
    #[must_use]
    pub fn page_size(&self) -> u32 {
        self.tree.page_size()
    }

    /// The eviction policy's name, with its arguments.
    #[must_use]
    pub fn policy_name(&self) -> String {
        self.order.name()
    }

    /// Whether a unit is a pair of neighbouring tokens.
    #[must_use]
    pub fn is_bigram(&self) -> bool {
        self.tree.bigram
    }

    /// The hash chain over all decisions so far. See [`Record`] for what is in it, and what is not.
    #[must_use]
    pub fn decision_digest(&self) -> u64 {
        self.journal.digest()
    }

    /// A hash of the tree: every node's place, parent and tokens.
    ///
    /// Left out: slot numbers, which may differ between ranks that agree, and stamps, hits, priorities and holds, which
    /// the decision digest covers.
    #[must_use]
    pub fn tree_digest(&self) -> u64 {
        self.tree.digest()
    }

    /// The last decisions, oldest first.
    #[must_use]
    pub fn journal(&self) -> Vec<Record> {
        self.journal.records()
    }

    /// Takes the decisions since the last call, oldest first, however many there are; none in the first call, from which on
    /// they are kept for the next one, beside those of [`PrefixCache::journal`].
    pub fn take_records(&mut self) -> Vec<Record> {
        self.journal.take()
    }

    /// Takes the KV events since the last call, oldest first; none unless the cache was made with them.
    ///
    /// More than [`EVENT_ENTRIES_MAX`](crate::EVENT_ENTRIES_MAX) are not kept: then `Cleared` is given, and all that is
    /// cached now is announced anew, parents first.
    pub fn take_events(&mut self) -> Vec<KvEvent> {
        self.events.as_mut().map(|events| events.take(&self.tree)).unwrap_or_default()
    }

    /// Checks every invariant from scratch.
    ///
    /// # Errors
    /// The first broken one, with the nodes concerned.
    pub fn check(&self) -> Result<(), Error> {
        self.tree.check(&Holdings::new(self.holds.outstanding()))?;
        self.order.check(&self.tree)?;
        self.events.as_ref().map_or(Ok(()), |events| events.check(&self.tree))
    }

    /// Checks every invariant, and that each of the pool's slots has exactly one owner.
    ///
    /// `uncached` are slots that running requests own beside the tree.
    ///
    /// # Errors
    /// The first broken invariant; for slots with several owners, or none, the signed difference and the nodes.
    pub fn check_against(&self, pool: &SlotPool, uncached: u64) -> Result<(), Error> {
        self.check()?;
        accounting::check(&self.tree, pool, uncached)
    }
}
