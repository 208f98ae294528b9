//! What a rank's own engines do next. Nothing in here decides: slots and pages are this rank's, and differ from those of others.

use crate::namespace::Namespace;
use crate::operation::Kind;
use crate::ordinal::Ordinal;

/// A copy, as this rank carries it out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// The operation that it belongs to.
    pub operation: Ordinal,
    /// From where to where.
    pub kind: Kind,
    /// Device slots, one a token; none if the device takes no part.
    pub slots: Vec<i64>,
    /// Host pages, one a page, in the order of the tokens.
    pub pages: Vec<u32>,
    /// What storage is asked for or given, part by part; none if it takes no part.
    pub stored: Vec<StoredRun>,
    /// What is copied beside the keys and values of each page: a bit a component, see [`Components`](crate::Components). Empty where
    /// there are none. Of what this rank's stage has no layers of, it copies nothing.
    pub parts: Vec<u8>,
}

/// A run of pages as external storage knows it: by the tokens up to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRun {
    /// Where it lives.
    pub namespace: Namespace,
    /// All tokens up to its end, from the start of the key.
    pub key: Vec<u32>,
    /// Units of the key before the run.
    pub from: u64,
}

/// Something for this rank's engines. Take all of them once a step, after it is closed, on every rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Ask external storage how much of a run it has, as a leading part; the answer goes to
    /// [`Rank::found`](crate::Rank::found). Always answer, with 0 if the question fails: the other ranks wait for this one's number.
    Query {
        /// The prefetch.
        operation: Ordinal,
        /// What is asked for.
        run: StoredRun,
    },
    /// Begin a copy; report it to the [`Board`](crate::protocol::Board).
    Start(Transfer),
    /// Stop a copy, if it was begun; then, or once it is off its pages, tell the board that it has finished.
    Cancel {
        /// The operation.
        operation: Ordinal,
    },
    /// Open external storage, and say whether that went well: [`Board::ended`](crate::protocol::Board::ended). It is not used before
    /// [`Effect::Attached`].
    Open {
        /// The operation.
        operation: Ordinal,
    },
    /// Every rank has opened storage: from here on it is used.
    Attached,
    /// Some rank could not open storage, or it is not wanted any more: it is closed again where it was opened.
    Refused,
    /// Nothing of storage is under way any more: it may be closed.
    Detached,
    /// Device slots that copies kept back when the cache was reset: they are free for the device's pool at this step.
    FreeSlots(Vec<i64>),
}
