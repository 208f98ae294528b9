//! What a step of an operation asks of its caller, as data.

use super::kind::Share;
use crate::ordinal::Ordinal;

/// One thing to do now, in the order given, on every rank alike.
///
/// Pages of an operation are counted from 0 in the order in which they were asked for. Beside each action stands the verb of
/// [`HostPool`](crate::host::HostPool) that carries it out; an operation that takes no pages needs none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Keep exactly the first pages of the reservation, for the first subjects, and return the rest: `commit`.
    ///
    /// Logically the rest is free at once. Physically it stays the operation's until `settle`, or `abort` after `finished`:
    /// this rank's own copy may have run ahead into it. The pool sees to both.
    Commit {
        /// Which.
        operation: Ordinal,
        /// What is kept; its tokens are what can be delivered at most.
        share: Share,
    },
    /// The first tokens, of the first subjects, count from now on: they are inserted, or marked as being where they were copied
    /// to. What becomes of the pages, the next action says.
    Deliver {
        /// Which.
        operation: Ordinal,
        /// What is delivered.
        share: Share,
    },
    /// The first `keep` pages belong to the tree, and the others go back. No copy touches any: `settle`.
    Settle {
        /// Which.
        operation: Ordinal,
        /// Pages of what was delivered.
        keep: u32,
    },
    /// Stop the copy. The first `keep` pages belong to the tree; the others stay occupied, and whatever the copy reads stays
    /// locked: `drain`, or `drain_rest` where something is kept.
    ///
    /// The rank posts the operation as finished once its copy touches no page any more, or will never begin.
    Cancel {
        /// Which.
        operation: Ordinal,
        /// Pages of what was delivered.
        keep: u32,
    },
    /// All pages from number `from` on go back. No copy touches them, on any rank: `finished`, then `abort`.
    Return {
        /// Which.
        operation: Ordinal,
        /// The first page that goes back.
        from: u32,
    },
    /// The operation is over: whatever was locked for it, on all of its subjects, is unlocked.
    Unlock {
        /// Which.
        operation: Ordinal,
    },
}

impl Action {
    /// The operation that it belongs to.
    #[must_use]
    pub fn operation(&self) -> Ordinal {
        match *self {
            Self::Commit { operation, .. }
            | Self::Deliver { operation, .. }
            | Self::Settle { operation, .. }
            | Self::Cancel { operation, .. }
            | Self::Return { operation, .. }
            | Self::Unlock { operation } => operation,
        }
    }
}
