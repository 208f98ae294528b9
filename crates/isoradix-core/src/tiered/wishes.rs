//! What a step wishes for until it is closed: then all wishes of one kind become one operation, and each prefetch one.

use super::jobs::{Fetch, Held};
use crate::cache::Segment;
use crate::node::NodeHandle;
use crate::protocol::{Deadline, Retry};
use std::collections::BTreeSet;

/// What the next close of a step issues.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    /// Loads whose nodes are on the device already, as far as logic goes.
    pub(super) loads: Vec<Held>,
    pub(super) fetches: Vec<Fetch>,
    /// What is to be backed up.
    pub(super) backups: BackupWishes,
    /// What came to host and is to be stored.
    pub(super) stores: Vec<Segment>,
    /// How often storage has failed the last store.
    pub(super) store_retry: Retry,
    /// Before this no store is issued.
    pub(super) store_due: Option<Deadline>,
    /// At so many wishes for stores, those that are void are looked for.
    pub(super) stores_most: usize,
}

/// Nodes to be backed up, each once, in the order of their wishes.
#[derive(Debug, Default)]
pub(super) struct BackupWishes {
    order: Vec<NodeHandle>,
    all: BTreeSet<NodeHandle>,
}

impl BackupWishes {
    pub(super) fn add(&mut self, nodes: impl IntoIterator<Item = NodeHandle>) {
        for node in nodes {
            if self.all.insert(node) {
                self.order.push(node);
            }
        }
    }

    pub(super) fn take(&mut self) -> Vec<NodeHandle> {
        self.all.clear();
        std::mem::take(&mut self.order)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

impl Wishes {
    /// Operations that are issued for certain: these have their places in the window.
    pub(super) fn planned(&self) -> u64 {
        u64::from(!self.loads.is_empty()) + self.fetches.len() as u64
    }
}
