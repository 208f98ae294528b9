//! What the operation table is told: Agreed values only, so nothing but an applied frame can move an operation.

use super::kind::Kind;
use crate::ordinal::Ordinal;
use crate::provenance::Agreed;

/// One thing that all ranks know from the same step on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgreedEvent {
    /// The smallest hit length found, in tokens.
    Hit {
        /// Which.
        operation: Ordinal,
        /// Tokens.
        tokens: Agreed<u64>,
    },
    /// The smallest number of pages reserved.
    Granted {
        /// Which.
        operation: Ordinal,
        /// Pages.
        pages: Agreed<u32>,
    },
    /// The smallest progress, in tokens.
    Progress {
        /// Which.
        operation: Ordinal,
        /// Tokens, in all.
        tokens: Agreed<u64>,
    },
    /// The copy has ended on every rank.
    Ready {
        /// Which.
        operation: Ordinal,
        /// Whether it ended well on all of them: one vote of 0 is enough for a no.
        succeeded: Agreed<bool>,
    },
    /// Every rank has finished all operations of a FIFO below a watermark, well or badly.
    Finished {
        /// The kind whose FIFO it is.
        fifo: Kind,
        /// The first ordinal that may be unfinished.
        watermark: Agreed<u64>,
    },
    /// The leader wants no more of a prefetch, and keeps what has arrived.
    Terminate {
        /// Which.
        operation: Agreed<Ordinal>,
    },
    /// The leader's deadline for it is over: a prefetch keeps what has arrived, anything else is aborted.
    TimeOut {
        /// Which.
        operation: Agreed<Ordinal>,
    },
    /// The leader wants nothing of it.
    Abort {
        /// Which.
        operation: Agreed<Ordinal>,
    },
}
