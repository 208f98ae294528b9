//! Where a request is in its life.

/// In the order in which a request goes through them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// In the queue, without a slot.
    Waiting = 0,
    /// Prefill's question is open.
    AsksPrefill,
    /// Its prompt is computed, chunk by chunk.
    Prefilling,
    /// Its prompt is computed, and decode's question waits for room.
    Prefilled,
    /// Decode's question is open.
    AsksDecode,
    /// Its answer is computed.
    Decoding,
}

impl Phase {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Waiting, Self::AsksPrefill, Self::Prefilling, Self::Prefilled, Self::AsksDecode, Self::Decoding];
}

/// The group that asks: each has a queue of its own, over the same ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Group {
    /// May its prompt be computed?
    Prefill = 0,
    /// May its answer be?
    Decode,
}

impl Group {
    pub(super) const ALL: [Self; 2] = [Self::Prefill, Self::Decode];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
        }
    }

    /// The phase of a request about which it has an open question.
    pub(super) fn asks(self) -> Phase {
        match self {
            Self::Prefill => Phase::AsksPrefill,
            Self::Decode => Phase::AsksDecode,
        }
    }
}
