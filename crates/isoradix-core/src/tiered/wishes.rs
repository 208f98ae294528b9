//! What a step wishes for until it is closed: then all wishes of one kind become one operation, and each prefetch one.

use super::jobs::Fetch;
use crate::cache::Segment;
use crate::holds::LockReceipt;
use crate::node::NodeHandle;

/// What the next close of a step issues.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    /// Loads whose nodes are on the device already, as far as logic goes.
    pub(super) loads: Vec<(Segment, LockReceipt)>,
    pub(super) fetches: Vec<Fetch>,
    /// Ends of paths on which something is to be backed up, in the order of their wishes.
    pub(super) backups: Vec<NodeHandle>,
    /// What came to host and is to be stored.
    pub(super) stores: Vec<Segment>,
}

impl Wishes {
    /// Operations that are issued for certain: these have their places in the window.
    pub(super) fn planned(&self) -> u64 {
        u64::from(!self.loads.is_empty()) + self.fetches.len() as u64
    }
}
