//! Prefetch: from external storage to host.

use isoradix_core::Namespace;

use super::answers::Refused;
use super::model::Model;
use super::node::Span;
use super::operation::Part;

impl Model {
    /// Asks for what comes after the anchor in the key; gives a ticket, or nothing if it is declined: too little, an anchor that is not on host,
    /// a full window, or storage that is off. The anchor is host-locked from now on.
    ///
    /// # Errors
    /// The anchor is no node, or no prefix of the key.
    pub(crate) fn prefetch(&mut self, key: &[u32], namespace: &Namespace, anchor: u64) -> Result<Option<u64>, Refused> {
        let key = self.whole_pages(key);
        let (inside, above) = self.place(anchor)?;
        if !key.starts_with(&above) || (anchor != 0 && inside != *namespace) {
            return Err(Refused::Anchor);
        }
        let tokens = key.len() - above.len();
        let too_little = tokens == 0 || (tokens as u64) < self.settings.prefetch_min;
        if self.storage_is_off()
            || !self.asks()
            || !self.lets()
            || too_little
            || self.on_host_or_root(anchor).is_err()
            || !self.has_room()
            || !self.may_come(namespace, key)
        {
            return Ok(None);
        }
        let ticket = self.ticket;
        self.ticket += 1;
        let span = Span { namespace: namespace.clone(), path: key.to_vec(), tokens };
        self.prefetches.push(Part::of(ticket, span));
        Ok(Some(ticket))
    }

    /// The first `tokens` of a prefetch have arrived: what of them is not in the tree meanwhile becomes a host-only leaf, and its path
    /// is stamped. What is in the tree stays as it is. Nothing happens if that is all, or if the leaf would hang below a node that
    /// is not on host. It counts as stored if that node does.
    pub(super) fn graft(&mut self, part: &Part, tokens: usize) {
        let namespace = &part.span.namespace;
        let path = &part.span.path[..part.span.above().len() + tokens];
        let cached = self.cached(namespace, path);
        let above = self.node_with_end_of(namespace, &path[..cached]);
        if cached == path.len() || above.is_some_and(|node| !node.on_host) {
            return;
        }
        let stored = above.is_none_or(|node| node.stored);
        self.split_at(namespace, &path[..cached]);
        let page = self.settings.page as usize;
        let brought = self.settings.trailing.map(|trailing| trailing.brought(page, tokens / page)).unwrap_or_default();
        let leaf = self.grow(namespace, path, cached, i64::MIN);
        (leaf.on_host, leaf.stored) = (true, stored);
        if let Some(above) = leaf.host_parts.len().checked_sub(brought.len()) {
            leaf.host_parts[above..].copy_from_slice(&brought);
        }
        self.stamp(namespace, path);
    }
}
