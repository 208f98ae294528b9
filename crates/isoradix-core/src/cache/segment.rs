//! A part of a path that keeps its name while its nodes are split.

use crate::node::NodeHandle;
use std::collections::BTreeSet;

/// The last `pages` pages of the path at whose end stands `end`. A node that is split keeps its handle and its end, so this
/// names the same tokens whatever becomes of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) end: NodeHandle,
    pub(crate) pages: u32,
}

/// What is chosen for one operation, in order, each segment once.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    pub(crate) segments: Vec<Segment>,
    ends: BTreeSet<NodeHandle>,
    /// Nodes that have to wait for something above them.
    waiting: BTreeSet<NodeHandle>,
}

impl Chosen {
    pub(crate) fn add(&mut self, segment: Segment) {
        if self.ends.insert(segment.end) {
            self.segments.push(segment);
        }
    }

    pub(crate) fn wait(&mut self, end: NodeHandle) {
        self.waiting.insert(end);
    }

    pub(crate) fn waits(&self, end: NodeHandle) -> bool {
        self.waiting.contains(&end)
    }

    pub(crate) fn has(&self, end: NodeHandle) -> bool {
        self.ends.contains(&end)
    }
}

/// What copies may touch, by tier.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    pub(crate) device: Vec<Segment>,
    pub(crate) host: Vec<Segment>,
}

/// Room in both tiers that was taken.
#[derive(Debug, Default)]
pub(crate) struct Space {
    /// Device slots.
    pub(crate) slots: Vec<i64>,
    /// Host pages.
    pub(crate) pages: Vec<u32>,
}
