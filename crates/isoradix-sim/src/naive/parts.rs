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
