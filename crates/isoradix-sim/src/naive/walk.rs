//! Walking down, splitting, stamping, growing.

use isoradix_core::Namespace;

use crate::trailing::Trailing;

use super::answers::{Found, Inserted, Refused};
use super::model::Model;
use super::node::Node;

impl Model {
    /// The longest cached prefix over both tiers. Splits the node in which it ends and stamps the path.
    pub(crate) fn match_prefix(&mut self, key: &[u32], namespace: &Namespace) -> Found {
        let key = self.whole_pages(key);
        let cached = self.cached(namespace, key);
        self.split_at(namespace, &key[..cached]);
        self.stamp(namespace, &key[..cached]);
        if let Some(trailing) = self.settings.trailing {
            return self.usable(trailing, namespace, &key[..cached]);
        }
        let (hit_tokens, node) = self.on_device(namespace, &key[..cached]);
        if self.host_is_off() {
            return Found { hit_tokens, node, host_tokens: 0, host_node: node };
        }
        let host_node = self.node_at(namespace, &key[..cached]).map_or(0, |node| node.sequence);
        Found { hit_tokens, node, host_tokens: cached as u64 - hit_tokens, host_node }
    }

    /// Caches a key on the device. Nodes on its path that are on host only are revived.
    ///
    /// `resumed` is the length at which the caller's slots and the hits begin: 0, or the depth of a device node on the path.
    ///
    /// # Errors
    /// No device node ends at `resumed`.
    pub(crate) fn insert(
        &mut self,
        key: &[u32],
        namespace: &Namespace,
        priority: i64,
        resumed: usize,
    ) -> Result<Inserted, Refused> {
        let key = self.whole_pages(key);
        let point = key.get(..resumed).and_then(|path| self.node_at(namespace, path));
        if resumed > 0 && point.is_none_or(|node| !node.on_device) {
            return Err(Refused::Resume);
        }
        let (kept, length) = self.end_of_insert(namespace, key, resumed);
        let key = &key[..length];
        let cached = self.cached(namespace, key);
        self.split_at(namespace, &key[..cached]);
        let prefix_len = kept as u64;
        if cached < key.len() {
            self.grow(namespace, key, cached, priority);
        }
        for node in self.nodes.iter_mut().filter(|node| node.leads_to(namespace, key)) {
            if !node.on_device || node.start >= kept {
                node.device_parts.fill(Trailing::COMPUTED);
            }
            node.on_device = true;
            node.priority = node.priority.max(priority);
            node.hits += u64::from(node.path.len() > resumed);
        }
        self.stamp(namespace, key);
        self.wish_through(namespace, key);
        let node = self.node_at(namespace, key).map_or(0, |node| node.sequence);
        let length = key.len() as u64;
        Ok(Inserted { prefix_len, new_tokens: length - prefix_len, node, length })
    }

    /// Stamps a node and all above it.
    ///
    /// # Errors
    /// No such node.
    pub(crate) fn touch(&mut self, node: u64) -> Result<(), Refused> {
        let (namespace, path) = self.place(node)?;
        self.stamp(&namespace, &path);
        Ok(())
    }

    pub(super) fn whole_pages<'a>(&self, key: &'a [u32]) -> &'a [u32] {
        let page = self.settings.page as usize;
        &key[..key.len() / page * page]
    }

    /// Tokens of the longest prefix that is in the tree, on either tier.
    pub(super) fn cached(&self, namespace: &Namespace, key: &[u32]) -> usize {
        let page = self.settings.page as usize;
        let common = |path: &[u32]| {
            path.chunks_exact(page).zip(key.chunks_exact(page)).take_while(|(a, b)| a == b).count() * page
        };
        let inside = self.nodes.iter().filter(|node| node.namespace == *namespace);
        inside.map(|node| common(&node.path)).max().unwrap_or(0)
    }

    /// The deepest device node on a path: its depth and its name.
    pub(super) fn on_device(&self, namespace: &Namespace, path: &[u32]) -> (u64, u64) {
        let deepest = self.path(namespace, path).into_iter().rfind(|node| node.on_device);
        deepest.map_or((0, 0), |node| (node.path.len() as u64, node.sequence))
    }

    /// Cuts the node that `prefix` ends inside of. The new node is the head; both have the same tiers and hits, and the tail
    /// counts as used.
    pub(super) fn split_at(&mut self, namespace: &Namespace, prefix: &[u32]) {
        let cut = prefix.len();
        let Some(inside) = self.node_with_end_of(namespace, prefix).filter(|node| cut < node.path.len()) else {
            return;
        };
        let (whole, now, sequence) = (inside.clone(), self.tick(), self.next_sequence());
        for tail in self.nodes.iter_mut().filter(|node| node.sequence == whole.sequence) {
            (tail.start, tail.access) = (cut, now);
        }
        let parts = |of: &[u8]| of[..cut / self.settings.page as usize].to_vec();
        let (device_parts, host_parts) = (parts(&whole.device_parts), parts(&whole.host_parts));
        self.nodes.push(Node { sequence, path: prefix.to_vec(), device_parts, host_parts, ..whole });
    }

    /// Adds a leaf for what comes after `start`, on no tier yet and without hits.
    pub(super) fn grow(&mut self, namespace: &Namespace, path: &[u32], start: usize, priority: i64) -> &mut Node {
        let leaf = Node {
            sequence: self.next_sequence(),
            namespace: namespace.clone(),
            path: path.to_vec(),
            start,
            access: self.tick(),
            hits: 0,
            priority,
            on_device: false,
            on_host: false,
            stored: false,
            device_parts: vec![0; path.len() / self.settings.page as usize],
            host_parts: vec![0; path.len() / self.settings.page as usize],
        };
        self.nodes.push(leaf);
        self.nodes.last_mut().expect("just pushed")
    }

    /// Deepest first, so that a parent is younger than its child.
    pub(super) fn stamp(&mut self, namespace: &Namespace, path: &[u32]) {
        self.nodes.sort_by_key(|node| std::cmp::Reverse(node.path.len()));
        for node in self.nodes.iter_mut().filter(|node| node.leads_to(namespace, path)) {
            self.now += 1;
            node.access = self.now;
        }
    }
}
