//! One decision as a record of fixed width.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0..8 | `step` | batch step |
//! | 8..16 | `seq` | logical event number after the decision |
//! | 16..24 | `kind` | low byte: [`RecordKind`]; upper seven bytes: units above the resume point, else 0 |
//! | 24..32 | `node` | sequence number of the node concerned, 0 for none |
//! | 32..40 | `a` | see [`RecordKind`] |
//! | 40..48 | `b` | see [`RecordKind`] |
//! | 48..56 | `content` | hash of what the decision was about, see [`RecordKind`] |
//! | 56..64 | `digest` | the hash chain over all records up to this one |
//!
//! All fields are little-endian. Physical slot numbers, timings and metrics are in no record: they differ between ranks
//! that agree.

use crate::clock::Stamp;
use crate::hash;

/// What a record is about, and what its fields hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum RecordKind {
    /// The cache was made: `a` page size, `b` 1 in bigram mode, `content` hash of the policy's name.
    Start = 0,
    /// `node` deepest match, `a` hit units, `b` key units, `content` namespace.
    Match = 1,
    /// `node` the key's end, `a` units cached before, `b` key units, `content` namespace, priority, new tokens and parent.
    Insert = 2,
    /// `node` locked.
    Lock = 3,
    /// `node` given back.
    Unlock = 4,
    /// `node` pinned.
    Pin = 5,
    /// `node` given back.
    Unpin = 6,
    /// One victim: `node`, `a` its units, `content` its tokens.
    Evict = 7,
    /// End of an eviction: `a` units asked for, `b` units freed.
    Evicted = 8,
    /// `node` touched.
    Touch = 9,
    /// `a` units dropped, `content` namespace.
    RemoveNamespace = 10,
    /// `a` units dropped.
    Reset = 11,
    /// A new step began.
    Step = 12,
    /// One victim that stays on host: `node`, `a` its units, `content` its tokens.
    Demote = 13,
    /// One victim on host alone: `node`, `a` its units, `content` its tokens.
    EvictHost = 14,
    /// `node` locked on host.
    HostLock = 15,
    /// `node` given back.
    HostUnlock = 16,
    /// An operation began: `node` the first subject's, of a prefetch its ticket, `a` its ordinal, `b` pages, `content` kind and
    /// subjects.
    Issue = 17,
    /// An operation was not begun, or not all of it: `a` pages, `content` kind.
    Decline = 18,
    /// An operation keeps what was agreed: `a` its ordinal, `b` pages, `content` tokens.
    Commit = 19,
    /// What an operation brought counts: `a` its ordinal, `b` pages, `content` tokens.
    Deliver = 20,
    /// An operation's first pages are the tree's: `a` its ordinal, `b` pages.
    Settle = 21,
    /// An operation is given up: `a` its ordinal, `b` pages kept.
    Cancel = 22,
    /// A given-up operation's pages are back: `a` its ordinal, `b` the first page.
    Return = 23,
    /// An operation is over: `a` its ordinal.
    Over = 24,
    /// A node came to host: `node`, `a` its units, `content` its tokens.
    Backed = 25,
    /// `node` loaded back with all above it: `a` units brought to the device, `b` units that were there above.
    LoadBack = 26,
    /// A prefetch wished for: `a` units, `b` units above its anchor's end, `content` the tokens of its key.
    Prefetch = 27,
    /// The ledger at the end of a step: `a` pages occupied, `b` capacity, `content` ordinals issued and retired.
    Ledger = 28,
    /// A node is in external storage: `node`, `a` its units.
    Stored = 29,
    /// The host copy of a node that stays on the device: `node`, `a` its units, `content` its tokens.
    GiveUp = 30,
    /// Tiers were switched: `a` the highest one that is on from here, 1 to 3, `b` the one before.
    Tiers = 31,
    /// The breaker in front of external storage: `a` its state from here on, 0 closed, 1 open, 2 trial, `b` the one before.
    Breaker = 32,
    /// External storage: `a` 1 attached, 2 refused, 3 being detached, 4 detached.
    Attachment = 33,
}

impl RecordKind {
    /// All kinds, each at the place of its number.
    const ALL: [Self; 34] = [
        Self::Start,
        Self::Match,
        Self::Insert,
        Self::Lock,
        Self::Unlock,
        Self::Pin,
        Self::Unpin,
        Self::Evict,
        Self::Evicted,
        Self::Touch,
        Self::RemoveNamespace,
        Self::Reset,
        Self::Step,
        Self::Demote,
        Self::EvictHost,
        Self::HostLock,
        Self::HostUnlock,
        Self::Issue,
        Self::Decline,
        Self::Commit,
        Self::Deliver,
        Self::Settle,
        Self::Cancel,
        Self::Return,
        Self::Over,
        Self::Backed,
        Self::LoadBack,
        Self::Prefetch,
        Self::Ledger,
        Self::Stored,
        Self::GiveUp,
        Self::Tiers,
        Self::Breaker,
        Self::Attachment,
    ];

    /// The kind's name in lower case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Match => "match",
            Self::Insert => "insert",
            Self::Lock => "lock",
            Self::Unlock => "unlock",
            Self::Pin => "pin",
            Self::Unpin => "unpin",
            Self::Evict => "evict",
            Self::Evicted => "evicted",
            Self::Touch => "touch",
            Self::RemoveNamespace => "remove_namespace",
            Self::Reset => "reset",
            Self::Step => "step",
            Self::Demote => "demote",
            Self::EvictHost => "evict_host",
            Self::HostLock => "host_lock",
            Self::HostUnlock => "host_unlock",
            Self::Issue => "issue",
            Self::Decline => "decline",
            Self::Commit => "commit",
            Self::Deliver => "deliver",
            Self::Settle => "settle",
            Self::Cancel => "cancel",
            Self::Return => "return",
            Self::Over => "over",
            Self::Backed => "backed",
            Self::LoadBack => "load_back",
            Self::Prefetch => "prefetch",
            Self::Ledger => "ledger",
            Self::Stored => "stored",
            Self::GiveUp => "give_up",
            Self::Tiers => "tiers",
            Self::Breaker => "breaker",
            Self::Attachment => "attachment",
        }
    }
}

/// One decision. The module's page shows the 64 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Batch step.
    pub step: u64,
    /// Logical event number after the decision.
    pub seq: u64,
    /// What was decided.
    pub kind: RecordKind,
    /// Units above the resume point of a match or an insert, else 0.
    pub resumed: u64,
    /// Sequence number of the node concerned, 0 for none.
    pub node: u64,
    /// Depends on `kind`.
    pub a: u64,
    /// Depends on `kind`.
    pub b: u64,
    /// Depends on `kind`.
    pub content: u64,
    /// The hash chain over all records up to this one.
    pub digest: u64,
}

impl Record {
    /// A record that is not chained yet.
    pub(crate) fn new(kind: RecordKind, node: u64, a: u64, b: u64, content: u64) -> Self {
        let Stamp { step, seq } = Stamp::default();
        Self { step, seq, kind, resumed: 0, node, a, b, content, digest: 0 }
    }

    pub(crate) fn resumed_at(self, units: u64) -> Self {
        Self { resumed: units, ..self }
    }

    fn kind_word(&self) -> u64 {
        self.resumed << 8 | u64::from(self.kind as u8)
    }

    /// The record's place in the hash chain behind `previous`.
    #[inline]
    pub(crate) fn chained(self, now: Stamp, previous: u64) -> Self {
        let record = Self { step: now.step, seq: now.seq, ..self };
        let body = hash::mix(record.step, record.seq)
            ^ hash::mix(record.kind_word(), record.node).rotate_left(17)
            ^ hash::mix(record.a, record.b).rotate_left(34)
            ^ hash::mix(record.content, record.node).rotate_left(51);
        Self { digest: hash::mix(previous, body), ..record }
    }

    /// The 64 bytes, little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 64] {
        let words = [self.step, self.seq, self.kind_word(), self.node, self.a, self.b, self.content, self.digest];
        let mut bytes = [0; 64];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// What [`Record::to_bytes`] wrote; nothing if it is of a kind that is not known here.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 64]) -> Option<Self> {
        let mut words = [0; 8];
        for (word, from) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(from.try_into().ok()?);
        }
        let [step, seq, kind, node, a, b, content, digest] = words;
        let known = RecordKind::ALL.get(usize::from(bytes[16]))?;
        Some(Self { step, seq, kind: *known, resumed: kind >> 8, node, a, b, content, digest })
    }
}
