//! Pages by tier and by what is held, added up over all nodes.

use crate::node::Node;
use crate::residency::Residency;

/// Sums of pages over the nodes of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PageCounts {
    /// On the device.
    pub(crate) device: u64,
    /// Of these, locked or pinned.
    pub(crate) held: u64,
    /// Of these, pinned.
    pub(crate) pinned: u64,
    /// Of those on the device, also on host and neither locked nor pinned: an eviction of these loses nothing.
    pub(crate) clean: u64,
    /// On host.
    pub(crate) host: u64,
    /// On host alone.
    pub(crate) host_only: u64,
}

impl PageCounts {
    /// What one node counts.
    #[inline]
    pub(crate) fn of(node: &Node) -> Self {
        let pages = u64::from(node.pages);
        let when = |holds: bool| if holds { pages } else { 0 };
        let (device, host) = (node.residency.on_device(), node.residency.on_host());
        Self {
            device: when(device),
            held: when(device && node.is_held()),
            pinned: when(device && node.pin_ref > 0),
            clean: when(device && host && !node.is_held()),
            host: when(host),
            host_only: when(host && !device),
        }
    }

    /// Counts a node that comes in, and is not held.
    #[inline]
    pub(crate) fn add_new(&mut self, node: &Node) {
        if node.residency == Residency::DEVICE {
            self.device += u64::from(node.pages);
        } else {
            self.add(Self::of(node));
        }
    }

    /// Counts a node no more that goes, and is not held.
    #[inline]
    pub(crate) fn subtract_old(&mut self, node: &Node) {
        if node.residency == Residency::DEVICE {
            self.device -= u64::from(node.pages);
        } else {
            self.subtract(Self::of(node));
        }
    }

    /// A node is locked or pinned that was neither.
    #[inline]
    pub(crate) fn held(&mut self, node: &Node) {
        if node.residency.on_device() {
            self.held += u64::from(node.pages);
            self.clean -= if node.residency.on_host() { u64::from(node.pages) } else { 0 };
        }
    }

    /// A node is neither locked nor pinned any more.
    #[inline]
    pub(crate) fn unheld(&mut self, node: &Node) {
        if node.residency.on_device() {
            self.held -= u64::from(node.pages);
            self.clean += if node.residency.on_host() { u64::from(node.pages) } else { 0 };
        }
    }

    /// A node is pinned that was not.
    #[inline]
    pub(crate) fn pinned(&mut self, node: &Node) {
        self.pinned += if node.residency.on_device() { u64::from(node.pages) } else { 0 };
    }

    /// A node is not pinned any more.
    #[inline]
    pub(crate) fn unpinned(&mut self, node: &Node) {
        self.pinned -= if node.residency.on_device() { u64::from(node.pages) } else { 0 };
    }

    #[inline]
    pub(crate) fn add(&mut self, other: Self) {
        self.device += other.device;
        self.held += other.held;
        self.pinned += other.pinned;
        self.clean += other.clean;
        self.host += other.host;
        self.host_only += other.host_only;
    }

    #[inline]
    pub(crate) fn subtract(&mut self, other: Self) {
        self.device -= other.device;
        self.held -= other.held;
        self.pinned -= other.pinned;
        self.clean -= other.clean;
        self.host -= other.host;
        self.host_only -= other.host_only;
    }
}
