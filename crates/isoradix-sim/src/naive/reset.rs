//! Dropping much at once.

use isoradix_core::Namespace;
use isoradix_core::operation::Kind;

use super::answers::{Refused, Reset};
use super::model::Model;
use super::node::Node;
use super::operation::{Limbo, Operation};

impl Model {
    /// Drops all of a namespace; gives the tokens freed on the device. Its host pages are free as well. Prefetches into it, from the root
    /// since no anchor is left, are forgotten, or deliver nothing if they are open.
    ///
    /// # Errors
    /// Any of it is locked, pinned or host-locked.
    pub(crate) fn remove_namespace(&mut self, namespace: &Namespace) -> Result<u64, Refused> {
        let is_inside = |node: &Node| node.namespace == *namespace;
        if self.tokens(|node| is_inside(node) && (self.is_held(node) || self.host_ref(node) > 0)) > 0 {
            return Err(Refused::Held);
        }
        let freed = self.tokens(|node| is_inside(node) && node.on_device);
        let mut stores = std::mem::take(&mut self.stores);
        stores.retain(|part| !self.find(part.id).is_some_and(|node| is_inside(node) && node.on_host));
        self.stores = stores;
        self.nodes.retain(|node| !is_inside(node));
        self.prefetches.retain(|part| part.span.namespace != *namespace);
        let open = self.operations.iter_mut().filter(|operation| operation.kind == Kind::Prefetch);
        for operation in open.filter(|operation| operation.parts[0].span.namespace == *namespace) {
            operation.orphan = true;
        }
        Ok(freed)
    }

    /// Drops everything, held or not, and ends every receipt; what was not yet issued never will be. What an open operation may still
    /// touch is occupied until all operations that are open now have ended, and these deliver nothing any more.
    pub(crate) fn reset(&mut self) -> Reset {
        let touched = |node: &Node, how: fn(&Operation) -> bool| {
            self.operations.iter().any(|operation| how(operation) && operation.covers(node))
        };
        let limbo = Limbo {
            waits_for: self.operations.iter().map(|operation| operation.ordinal).collect(),
            host_pages: self.pages(self.tokens(|node| node.on_host && touched(node, Operation::reads_host))),
            device_tokens: self.tokens(|node| node.on_device && touched(node, Operation::touches_device)),
        };
        let dropped = self.tokens(|node| node.on_device);
        let free_now = dropped - limbo.device_tokens;
        if !limbo.waits_for.is_empty() {
            self.limbo.push(limbo);
        }
        self.operations.iter_mut().for_each(|operation| operation.orphan = true);
        self.nodes.clear();
        (self.locks, self.pins, self.host_locks) = (vec![], vec![], vec![]);
        (self.wishes, self.loads, self.prefetches, self.stores) = (vec![], vec![], vec![], vec![]);
        (self.store_failures, self.store_due) = (0, None);
        Reset { dropped, free_now }
    }
}
