//! What is there of a page beside its keys and values, by tier: a bit a component, see [`Components`](crate::Components).
//!
//! A byte for each granule and tier, where there are components, and nothing where there are none. As runs are ranges of granules,
//! a split moves nothing: each half keeps the parts of its pages, and a state belongs to the page before it.

use super::Tree;
use crate::node::{Node, NodeId};

/// Parts of all pages, by granule.
#[derive(Debug)]
pub(super) struct Parts {
    /// Of a page that was computed.
    computed: u8,
    device: Vec<u8>,
    host: Vec<u8>,
}

impl Parts {
    pub(super) fn memory_bytes(&self) -> usize {
        self.device.capacity() + self.host.capacity()
    }
}

fn granules(Node { run, pages, .. }: &Node) -> std::ops::Range<usize> {
    *run as usize..*run as usize + *pages as usize
}

impl Tree {
    /// From here on the parts of pages are followed; each page that is computed has these.
    pub(crate) fn follow_parts(&mut self, computed: u8) {
        self.parts = Some(Parts { computed, device: Vec::new(), host: Vec::new() });
    }

    /// A node was attached: what is on the device was computed.
    pub(super) fn begin_parts(&mut self, id: NodeId) {
        let Some(parts) = &mut self.parts else { return };
        let (range, on_device) = (granules(&self.nodes[id]), self.nodes[id].residency.on_device());
        if range.end > parts.device.len() {
            parts.device.resize(range.end, 0);
            parts.host.resize(range.end, 0);
        }
        parts.device[range.clone()].fill(if on_device { parts.computed } else { 0 });
        parts.host[range].fill(0);
    }

    /// A node was computed anew, in slots of its own.
    pub(super) fn compute_parts(&mut self, id: NodeId) {
        if let Some(parts) = &mut self.parts {
            parts.device[granules(&self.nodes[id])].fill(parts.computed);
        }
    }

    /// A node is on the device as it is on host.
    pub(crate) fn load_parts(&mut self, id: NodeId) {
        if let Some(Parts { device, host, .. }) = &mut self.parts {
            let range = granules(&self.nodes[id]);
            device[range.clone()].copy_from_slice(&host[range]);
        }
    }

    /// A node left the device.
    pub(super) fn drop_device_parts(&mut self, id: NodeId) {
        if let Some(parts) = &mut self.parts {
            parts.device[granules(&self.nodes[id])].fill(0);
        }
    }

    /// A node left host, or these are the parts with which it came there: none, or one a page.
    pub(crate) fn set_host_parts(&mut self, id: NodeId, of_pages: &[u8]) {
        if let Some(parts) = &mut self.parts {
            let host = &mut parts.host[granules(&self.nodes[id])];
            if of_pages.is_empty() {
                host.fill(0);
            } else {
                host.copy_from_slice(of_pages);
            }
        }
    }

    /// The last page of a node on the device has these too; what it has then.
    pub(crate) fn add_device_parts(&mut self, id: NodeId, more: u8) -> u8 {
        let last = granules(&self.nodes[id]).end - 1;
        self.parts.as_mut().map_or(0, |parts| {
            parts.device[last] |= more;
            parts.device[last]
        })
    }

    /// Parts of a node's pages on the device; none where they are not followed.
    pub(crate) fn device_parts(&self, id: NodeId) -> &[u8] {
        self.parts.as_ref().map_or(&[], |parts| &parts.device[granules(&self.nodes[id])])
    }

    /// Parts of a node's pages on host; none where they are not followed.
    pub(crate) fn host_parts(&self, id: NodeId) -> &[u8] {
        self.parts.as_ref().map_or(&[], |parts| &parts.host[granules(&self.nodes[id])])
    }

    /// Parts of a node's pages as a match finds them: on the device if it is there, else on host.
    pub(crate) fn usable_parts(&self, id: NodeId) -> &[u8] {
        if self.nodes[id].residency.on_device() { self.device_parts(id) } else { self.host_parts(id) }
    }
}
