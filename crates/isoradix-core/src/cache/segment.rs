//! A part of a path that keeps its name while its nodes are split.

use crate::node::NodeHandle;

/// The last `pages` pages of the path at whose end stands `end`. A node that is split keeps its handle and its end, so this
/// names the same tokens whatever becomes of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) end: NodeHandle,
    pub(crate) pages: u32,
}

/// What copies may touch, by tier.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    pub(crate) device: Vec<Segment>,
    pub(crate) host: Vec<Segment>,
}
