//! What a cache is made with.

use crate::limits::JOURNAL_RECORDS_DEFAULT;
use crate::order::Eviction;

/// What a cache is made with. Agreed by all ranks at start.
#[derive(Debug)]
pub struct Config {
    /// Tokens of a page, 1 to [`PAGE_SIZE_MAX`](crate::PAGE_SIZE_MAX).
    pub page_size: u32,
    /// How victims are chosen.
    pub eviction: Eviction,
    /// Whether a unit is a pair of neighbouring tokens (EAGLE) instead of one token.
    pub bigram: bool,
    /// Decisions that the journal keeps.
    pub journal_records: u32,
    /// Whether KV events are collected.
    pub kv_events: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            page_size: 1,
            eviction: Eviction::Lru,
            bigram: false,
            journal_records: JOURNAL_RECORDS_DEFAULT,
            kv_events: false,
        }
    }
}
