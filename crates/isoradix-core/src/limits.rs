//! Limits that callers meet, in one place.

/// Largest page, in tokens.
pub const PAGE_SIZE_MAX: u32 = 1024;

/// Token ids are below this.
pub const TOKEN_LIMIT: u64 = 1 << 32;

/// Slot ids are below this: they fit 31 bits, and the run store marks with the bit that is left.
pub const SLOT_LIMIT: u64 = 1 << 31;

/// Decisions that a journal keeps unless told otherwise.
pub const JOURNAL_RECORDS_DEFAULT: u32 = 4096;

/// Block hashes and tokens in KV events that wait to be taken; see [`KvEvent`](crate::KvEvent) for what comes beyond.
pub const EVENT_ENTRIES_MAX: usize = 1 << 22;
