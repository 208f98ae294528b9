//! What is beside the keys and values of pages, and how far a match goes because of it.

use crate::trailing::Trailing;
use isoradix_core::Namespace;

use super::answers::{Found, Refused};
use super::model::Model;
use super::node::{Node, Span};

impl Model {
    /// Of what is cached, the deepest ends that are usable: on the device, and over both tiers.
    pub(super) fn usable(&mut self, trailing: Trailing, namespace: &Namespace, path: &[u32]) -> Found {
        let page = self.settings.page as usize;
        let parts = self.path_parts(namespace, path, |node| node.on_device);
        let on_device = usize::try_from(self.on_device(namespace, path).0).expect("tokens in memory");
        let device_end = trailing.deepest(page, &parts, on_device);
        let end = if self.host_is_off() { 0 } else { trailing.deepest(page, &parts, path.len()) };
        let node = self.clamp(namespace, &path[..device_end]);
        let hit_tokens = device_end as u64;
        if end <= device_end {
            return Found { hit_tokens, node, host_tokens: 0, host_node: node };
        }
        let host_node = self.clamp(namespace, &path[..end]);
        Found { hit_tokens, node, host_tokens: (end - device_end) as u64, host_node }
    }

    /// The node that ends there; a longer one is split, and then the path is stamped.
    fn clamp(&mut self, namespace: &Namespace, path: &[u32]) -> u64 {
        if path.is_empty() {
            return 0;
        }
        if self.node_at(namespace, path).is_none() {
            self.split_at(namespace, path);
            self.stamp(namespace, path);
        }
        self.node_at(namespace, path).map_or(0, |node| node.sequence)
    }

    /// What is beside each page of a path: on the device where that is wanted, else on host.
    fn path_parts(&self, namespace: &Namespace, path: &[u32], on_device: impl Fn(&Node) -> bool) -> Vec<u8> {
        let page = self.settings.page as usize;
        let mut parts = Vec::new();
        for node in self.path(namespace, path) {
            let of = if on_device(node) { &node.device_parts } else { &node.host_parts };
            parts.extend_from_slice(&of[node.start / page..]);
        }
        parts
    }

    /// What is beside each page of a span's path on the device.
    pub(super) fn beside(&self, span: &Span) -> Vec<u8> {
        self.path_parts(&span.namespace, &span.path, |_| true)
    }

    /// The node's own pages, if it is there and parts are followed.
    pub(super) fn own_parts(&self, node: &Node, is_there: bool, parts: &[u8]) -> Vec<u8> {
        let page = self.settings.page as usize;
        if self.settings.trailing.is_none() {
            return vec![];
        }
        if is_there { parts[node.start / page..].to_vec() } else { vec![0; parts.len() - node.start / page] }
    }

    /// How much of a key the tree keeps its own slots for, and how far an insert goes.
    ///
    /// From the first node on that lacks what computing gives, and that nothing holds, the caller's slots are taken. If the whole key is
    /// not usable then, because of what is held, the insert ends where it is; states do not count.
    pub(super) fn end_of_insert(&self, namespace: &Namespace, key: &[u32], resumed: usize) -> (usize, usize) {
        let (page, mut after) = (self.settings.page as usize, self.clone());
        let cached = self.cached(namespace, key);
        after.split_at(namespace, &key[..cached]);
        let on_device = usize::try_from(after.on_device(namespace, key).0).expect("tokens in memory");
        let Some(trailing) = self.settings.trailing else { return (on_device, key.len()) };
        let computed = |part: &u8| part & Trailing::COMPUTED == Trailing::COMPUTED;
        let may_change = |node: &&Node| node.on_device && node.start >= resumed && !after.is_held(node);
        let lacks = |node: &Node| !node.device_parts[node.start / page..].iter().all(computed);
        let first = after.path(namespace, key).into_iter().filter(may_change).find(|node| lacks(node));
        let kept = first.map_or(on_device, |node| node.start);
        let mut parts = after.path_parts(namespace, &key[..on_device], |_| true);
        parts.truncate(kept / page);
        parts.resize(key.len() / page, Trailing::COMPUTED);
        let usable = Trailing { state: false, ..trailing }.deepest(page, &parts, key.len());
        if usable == key.len() { (kept, usable) } else { (usable.max(resumed), usable.max(resumed)) }
    }

    /// Whether a prefix that is all in the tree is usable, taken where it is: on the device, else on host.
    pub(super) fn is_usable(&self, namespace: &Namespace, path: &[u32]) -> bool {
        let parts = self.path_parts(namespace, path, |node| node.on_device);
        self.settings
            .trailing
            .is_none_or(|trailing| trailing.is_usable(self.settings.page as usize, &parts, path.len()))
    }

    /// Whether something of a key could come to host with a model that has more than keys and values: what is in the tree stays as it is.
    pub(super) fn may_come(&self, namespace: &Namespace, key: &[u32]) -> bool {
        let cached = self.cached(namespace, key);
        let end = self.node_with_end_of(namespace, &key[..cached]);
        self.settings.trailing.is_none() || (cached < key.len() && end.is_none_or(|node| node.on_host))
    }

    /// The states at a node's end are kept on the device.
    ///
    /// # Errors
    /// No such node.
    pub(crate) fn keep_states(&mut self, sequence: u64) -> Result<(), Refused> {
        let node = self.nodes.iter_mut().find(|node| node.sequence == sequence).ok_or(Refused::Node)?;
        if let Some(last) = node.device_parts.last_mut() {
            *last |= crate::trailing::STATE;
        }
        Ok(())
    }
}
