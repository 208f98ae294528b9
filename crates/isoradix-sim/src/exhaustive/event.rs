//! One thing that may happen next.

use isoradix_core::Ordinal;
use isoradix_core::operation::Event as Decision;
use std::fmt;

/// One indivisible step of one rank. Paths are lists of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// The vote thread fills its next ballot. The last one of all ranks makes the reduction.
    Fill {
        /// Which rank.
        rank: u32,
    },
    /// The vote thread takes the reduced vector.
    Complete {
        /// Which rank.
        rank: u32,
    },
    /// The leader stamps the next frame, sends it and applies it.
    Lead {
        /// Its decision, if it takes one.
        decision: Option<(Decision, Ordinal)>,
    },
    /// A follower takes the next frame off the wire, checks and applies it.
    Follow {
        /// Which rank.
        rank: u32,
    },
    /// The step's verbs, which issue operations; then the step is finished.
    Close {
        /// Which rank.
        rank: u32,
    },
    /// A rank loses the memory behind a free host page, or has it again.
    Memory {
        /// Which rank.
        rank: u32,
        /// Whether it loses.
        lose: bool,
    },
    /// Physics on one rank.
    Work {
        /// Which rank.
        rank: u32,
        /// For which operation.
        operation: Ordinal,
        /// What.
        work: Work,
    },
}

/// What the engines of one rank do for one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Work {
    /// Storage has answered that it holds so many pages.
    Find {
        /// Pages.
        pages: u32,
    },
    /// Takes pages, as many as are there.
    Reserve,
    /// Takes fewer pages than are asked for.
    ReserveLess {
        /// At most so many.
        most: u32,
    },
    /// The copy begins to touch its pages, and nothing of it is to be seen yet.
    Start,
    /// One more page has arrived.
    Advance,
    /// The copy has ended well.
    Succeed,
    /// The copy has ended badly.
    Fail,
    /// A copy that was stopped, or has failed, touches its pages no more.
    Leave,
}

impl Event {
    /// The rank on which it happens.
    #[must_use]
    pub fn rank(self) -> usize {
        match self {
            Self::Lead { .. } => 0,
            Self::Fill { rank }
            | Self::Complete { rank }
            | Self::Follow { rank }
            | Self::Close { rank }
            | Self::Memory { rank, .. }
            | Self::Work { rank, .. } => rank as usize,
        }
    }
}

impl Event {
    /// Whether it is nothing that a scheduler or a vote thread does.
    pub(super) fn is_physics(self) -> bool {
        matches!(self, Self::Work { .. } | Self::Memory { .. })
    }

    /// Whether it comes sooner or later, whatever physics does and the leader decides.
    pub(super) fn is_due(self) -> bool {
        !self.is_physics() && !matches!(self, Self::Lead { decision: Some(_) })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}: ", self.rank())?;
        match *self {
            Self::Fill { .. } => f.write_str("fills a ballot"),
            Self::Complete { .. } => f.write_str("completes the vote"),
            Self::Lead { decision: None } => f.write_str("leads a frame"),
            Self::Lead { decision: Some((decision, k)) } => write!(f, "leads a frame: {} {k}", decision.as_str()),
            Self::Follow { .. } => f.write_str("follows a frame"),
            Self::Close { .. } => f.write_str("closes the step"),
            Self::Memory { lose: true, .. } => f.write_str("loses the memory of a page"),
            Self::Memory { lose: false, .. } => f.write_str("has its memory again"),
            Self::Work { operation, work, .. } => write!(f, "operation {operation} {work}"),
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Find { pages } => write!(f, "finds {pages} pages"),
            Self::Reserve => f.write_str("reserves"),
            Self::ReserveLess { most } => write!(f, "reserves at most {most} pages"),
            Self::Start => f.write_str("starts its copy"),
            Self::Advance => f.write_str("copies a page"),
            Self::Succeed => f.write_str("ends well"),
            Self::Fail => f.write_str("fails"),
            Self::Leave => f.write_str("is off its pages"),
        }
    }
}
