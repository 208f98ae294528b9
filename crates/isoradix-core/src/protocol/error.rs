//! What the protocol refuses: ranks that part, bytes that are no frame, calls out of order.

use super::batch::BatchDifference;
use super::digests::StepDigest;
use super::run_ahead::Backpressure;
use crate::ordinal::Ordinal;
use std::fmt;

/// Two ranks do not hold the same state, or would decide from different numbers. Fatal: nothing was applied, no queue touched.
///
/// Names of fields are those of the ballot's layout and of the frame.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Divergence {
    /// Ranks voted different values where all must agree beforehand: vote, epoch, base or compared step.
    Unequal {
        /// The rank that noticed; all do.
        rank: u32,
        /// The vote that this rank was in.
        vote: u64,
        /// What differs.
        field: &'static str,
        /// The smallest value voted.
        min: i64,
        /// The largest value voted.
        max: i64,
        /// What this rank voted.
        own: i64,
    },
    /// Ranks entered the compared step with different digests.
    Digest {
        /// The rank that noticed; all do.
        rank: u32,
        /// The vote.
        vote: u64,
        /// The compared step: the decisions that differ were taken before it.
        step: u64,
        /// The digest with which this rank entered it, if it still has it.
        own: Option<u64>,
    },
    /// Gathered digest rings: who parts from whom, and where first.
    Ranks {
        /// The step whose decisions differ.
        step: u64,
        /// The last step after which all ranks were equal, if it is still known.
        last_common: Option<u64>,
        /// Digests after the step, with their ranks; the largest group comes first.
        groups: Vec<(u64, Vec<u32>)>,
    },
    /// A rank's digest differs from the leader's.
    Leader {
        /// The follower that noticed.
        rank: u32,
        /// The frame's step: the decisions that differ were taken before it.
        step: u64,
        /// The leader's digest.
        leader: u64,
        /// The follower's digest.
        own: u64,
    },
    /// Form B: an agreed number is above what this rank itself voted.
    AboveBallot {
        /// The rank that lacks it.
        rank: u32,
        /// The frame's step, unless the vote itself shows it.
        step: Option<u64>,
        /// The vote.
        vote: u64,
        /// The operation, if the number is one of an operation.
        operation: Option<Ordinal>,
        /// Which number.
        field: &'static str,
        /// The agreed number.
        agreed: i64,
        /// The rank's own.
        own: i64,
    },
    /// A frame says of a vote what this rank itself did not reduce in it.
    Reduction {
        /// The follower that noticed.
        rank: u32,
        /// The frame's step.
        step: u64,
        /// The vote.
        vote: u64,
        /// The operation, if the number is one of an operation.
        operation: Option<Ordinal>,
        /// Which number.
        field: &'static str,
        /// What the frame says.
        framed: i64,
        /// What this rank's own vote thread reduced.
        own: i64,
    },
    /// A number that only grows went back.
    Backwards {
        /// The rank that noticed.
        rank: u32,
        /// The vote.
        vote: u64,
        /// The operation, if the number is one of an operation.
        operation: Option<Ordinal>,
        /// Which number.
        field: &'static str,
        /// What it was.
        before: i64,
        /// What it is.
        now: i64,
        /// Whether this rank's own ballot went back; else the reduced vector did.
        own: bool,
    },
    /// A frame is not the next one for this rank.
    Frame {
        /// The follower that noticed.
        rank: u32,
        /// The step that it expected.
        step: u64,
        /// What differs.
        field: &'static str,
        /// What the frame says.
        got: u64,
        /// What was expected.
        expected: u64,
    },
    /// A frame carries a vote in which this rank has taken no part.
    NeverVoted {
        /// The follower that noticed.
        rank: u32,
        /// The frame's step.
        step: u64,
        /// The framed vote.
        vote: u64,
        /// Votes that this rank has filled.
        filled: u64,
    },
    /// A frame follows the stop frame.
    AfterStop {
        /// The follower that noticed.
        rank: u32,
        /// The frame's step.
        step: u64,
        /// The step of the stop frame.
        stopped: u64,
    },
    /// Form A: two ranks have made different batches, as the header beside the activations shows.
    Batch {
        /// The rank that noticed.
        rank: u32,
        /// Its step.
        step: u64,
        /// Its number of the batch.
        batch: u64,
        /// The rank that sent the other one.
        from: u32,
        /// In what they differ first.
        what: BatchDifference,
    },
    /// A vector has a wrong length: ranks run with different windows.
    Shape {
        /// The rank that noticed.
        rank: u32,
        /// Words it got.
        got: u64,
        /// Words it expected.
        expected: u64,
    },
}

const DIFF: &str = "hint: isoradix diff DIR";

/// What -1 and `i64::MAX` say in a ballot.
struct Word(i64);

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            super::layout::UNKNOWN => f.write_str("-1 (not issued or not known here)"),
            super::layout::NO_STAKE => f.write_str("no stake"),
            value => write!(f, "{value}"),
        }
    }
}

/// `progress of operation 5`, or just the field.
struct Subject(&'static str, Option<Ordinal>);

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(k) => write!(f, "{} of operation {k}", self.0),
            None => f.write_str(self.0),
        }
    }
}

/// `rank 2`, `ranks 0,1,3`.
pub(super) struct Ranks<'a>(pub(super) &'a [u32]);

impl fmt::Display for Ranks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.len() == 1 { "rank " } else { "ranks " })?;
        for (at, rank) in self.0.iter().enumerate() {
            write!(f, "{}{rank}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unequal { rank, vote, field, min, max, own } => write!(
                f,
                "divergence at vote {vote}: ranks voted {field} {min} to {max}, rank {rank} voted {own}\n\
                 hint: a rank skipped or repeated a vote, or is of another epoch; {field} is {own} on this rank"
            ),
            Self::Digest { rank, vote, step, own } => {
                write!(f, "divergence before step {step}: vote {vote} shows unequal digests; rank {rank} ")?;
                match own {
                    Some(own) => write!(f, "has {own:#018x}")?,
                    None => write!(f, "no longer has its own")?,
                }
                write!(f, "\nhint: gather the digest rings of all ranks; they name the rank and the step")
            }
            Self::Ranks { step, last_common, groups } => ranks(f, *step, *last_common, groups),
            Self::Leader { rank, step, leader, own } => {
                write!(f, "divergence before step {step}: rank {rank} has digest {own:#018x}, ")?;
                write!(f, "the leader {leader:#018x}; the last frame that rank {rank} applied is of step ")?;
                write!(f, "{}\n{DIFF}", step.saturating_sub(1))
            }
            Self::AboveBallot { rank, step, vote, operation, field, agreed, own } => {
                f.write_str("divergence ")?;
                if let Some(step) = step {
                    write!(f, "at step {step} ")?;
                }
                let subject = Subject(field, *operation);
                write!(
                    f,
                    "(form B): vote {vote} says {subject} is {}, but rank {rank} voted {}",
                    Word(*agreed),
                    Word(*own)
                )?;
                write!(f, "; nothing was taken\n{DIFF}")
            }
            Self::Reduction { rank, step, vote, operation, field, framed, own } => {
                let (subject, framed, own) = (Subject(field, *operation), Word(*framed), Word(*own));
                write!(f, "divergence at step {step}: the frame says of vote {vote} that {subject} is {framed}, ")?;
                write!(f, "rank {rank} has reduced {own}; nothing was taken")?;
                f.write_str(
                    "\nhint: the reduction gave unequal results, or the frame is of another group or was altered",
                )
            }
            Self::Backwards { rank, vote, operation, field, before, now, own } => {
                let subject = Subject(field, *operation);
                write!(f, "divergence at vote {vote}: {subject} went back from {} to {} ", Word(*before), Word(*now))?;
                match own {
                    true => write!(f, "on rank {rank}")?,
                    false => write!(f, "in the reduced vector, as rank {rank} sees it")?,
                }
                write!(f, "\nhint: nothing that is voted is ever reset, not even by a flush")
            }
            Self::Frame { rank, step, field, got, expected } => write!(
                f,
                "divergence at step {step}: rank {rank} got a frame of {field} {got}, expected {expected}\n\
                 hint: each rank applies one frame a step, idle or busy, in the order in which the leader stamped them"
            ),
            Self::NeverVoted { rank, step, vote, filled } => write!(
                f,
                "divergence at step {step}: the frame carries vote {vote}, but rank {rank} has filled {filled} ballots\n\
                 hint: the leader votes in another group, or a vote was answered without this rank"
            ),
            Self::AfterStop { rank, step, stopped } => write!(
                f,
                "divergence at step {step}: rank {rank} got a frame after the stop frame of step {stopped}\n\
                 hint: a leader stamps nothing after a stop; another epoch needs new machines"
            ),
            Self::Batch { rank, step, batch, from, what } => {
                write!(f, "divergence at step {step} (form A): in batch {batch}, ")?;
                what.write(f, *rank, *from)?;
                f.write_str(
                    "\nhint: compare the inputs of both schedulers before that step; a digest that differs names the decision",
                )
            }
            Self::Shape { rank, got, expected } => write!(
                f,
                "divergence: rank {rank} got a vector of {got} words, expected {expected}\n\
                 hint: all ranks start with the same window; the start-up agreement compares it"
            ),
        }
    }
}

fn ranks(f: &mut fmt::Formatter<'_>, step: u64, last_common: Option<u64>, groups: &[(u64, Vec<u32>)]) -> fmt::Result {
    write!(f, "divergence at step {step}: ")?;
    // The smaller groups are the likelier culprits, so they stand first.
    for (at, (digest, ranks)) in groups.iter().rev().enumerate() {
        let verb = if ranks.len() == 1 { "has" } else { "have" };
        write!(f, "{}{} {verb} digest {digest:#018x}", if at == 0 { "" } else { ", " }, Ranks(ranks))?;
    }
    match last_common {
        Some(step) => write!(f, "; last common step {step}")?,
        None => write!(f, "; no common step is left in the rings")?,
    }
    write!(f, "\n{DIFF}")
}

impl std::error::Error for Divergence {}

/// Why bytes are no frame.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// They are too short or too long.
    Length {
        /// Bytes there are.
        got: u64,
        /// Bytes that the header asks for.
        expected: u64,
    },
    /// A field has a value that no frame of this version has.
    Field {
        /// Its name.
        field: &'static str,
        /// Its value.
        value: u64,
        /// What is accepted.
        expected: u64,
        /// The byte at which it begins.
        at: u64,
    },
    /// The checksum does not fit the content.
    Checksum {
        /// The checksum in the bytes.
        got: u64,
        /// The checksum of the bytes.
        expected: u64,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { got, expected } => write!(
                f,
                "a frame of {expected} bytes comes in {got} bytes\nhint: hand over one whole message, without padding"
            ),
            Self::Field { field, value, expected, at } => write!(
                f,
                "byte {at} of a frame: {field} is {value:#x}, expected {expected:#x} at most or exactly\n\
                 hint: all ranks run one version of isoradix; the start-up agreement compares it"
            ),
            Self::Checksum { got, expected } => write!(
                f,
                "a frame with checksum {got:#018x} has content of checksum {expected:#018x}\n\
                 hint: the transport damaged it, or two messages were paired on one tag"
            ),
        }
    }
}

impl std::error::Error for FrameError {}

/// Why a call to one of the protocol's machines was refused. The machine is as it was before the call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A number is outside its range.
    OutOfRange {
        /// Its name.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The smallest accepted value.
        min: u64,
        /// The largest accepted value.
        max: u64,
        /// What to do about it.
        hint: &'static str,
    },
    /// Calls come in an order that the protocol does not have.
    OutOfOrder {
        /// What was called.
        call: &'static str,
        /// Why it does not fit.
        why: &'static str,
    },
    /// An operation that was never issued here was spoken of.
    NotIssued {
        /// The operation.
        operation: Ordinal,
        /// Operations issued so far.
        issued: u64,
    },
    /// An operation is to finish that is in no FIFO of this rank: it never was, or has finished already.
    NotOpen {
        /// The operation.
        operation: Ordinal,
        /// Operations enqueued so far.
        enqueued: u64,
    },
    /// A buffer has a wrong length.
    Length {
        /// The buffer's name.
        what: &'static str,
        /// Its length.
        got: u64,
        /// The expected length.
        expected: u64,
    },
    /// Frames in flight have reached their bound; the same call may be made again when one has been delivered.
    Backpressure(Backpressure),
    /// Ranks have parted.
    Divergence(Divergence),
}

impl ProtocolError {
    pub(crate) fn in_range(what: &'static str, value: u64, min: u64, max: u64, hint: &'static str) -> Result<(), Self> {
        if (min..=max).contains(&value) { Ok(()) } else { Err(Self::OutOfRange { what, value, min, max, hint }) }
    }

    pub(super) fn same_length(what: &'static str, got: usize, expected: usize) -> Result<(), Self> {
        let (got, expected) = (got as u64, expected as u64);
        if got == expected { Ok(()) } else { Err(Self::Length { what, got, expected }) }
    }
}

impl From<Divergence> for ProtocolError {
    fn from(divergence: Divergence) -> Self {
        Self::Divergence(divergence)
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { what, value, min, max, hint } => {
                write!(f, "{what} {value} is out of range: {min} to {max}\nhint: {hint}")
            }
            Self::OutOfOrder { call, why } => {
                write!(f, "{call} out of order: {why}\nhint: fill and complete, stamp and apply take turns")
            }
            Self::NotIssued { operation, issued } => write!(
                f,
                "operation {} is not issued on this rank: {issued} are\n\
                 hint: issue it on the board before its I/O begins",
                operation.0
            ),
            Self::NotOpen { operation, enqueued } if operation.0 < *enqueued => write!(
                f,
                "operation {operation} has finished on this rank already\n\
                 hint: an operation finishes once, when its copy is off the pages"
            ),
            Self::NotOpen { operation, enqueued } => write!(
                f,
                "operation {operation} is in no FIFO of this rank: {enqueued} operations have been enqueued\n\
                 hint: enqueue each operation when it is issued"
            ),
            Self::Length { what, got, expected } => write!(
                f,
                "{what} has length {got}, expected {expected}\nhint: ballot_words(window) gives the length of a vector"
            ),
            Self::Backpressure(pressure) => write!(f, "{pressure}"),
            Self::Divergence(divergence) => write!(f, "{divergence}"),
        }
    }
}

impl std::error::Error for ProtocolError {}

/// Two rings of digests that part: see [`super::digests::blame`].
pub(super) fn parting(step: u64, last_common: Option<u64>, at: impl Iterator<Item = (u32, StepDigest)>) -> Divergence {
    let mut groups: Vec<(u64, Vec<u32>)> = Vec::new();
    for (rank, StepDigest { digest, .. }) in at {
        match groups.iter_mut().find(|(other, _)| *other == digest) {
            Some((_, ranks)) => ranks.push(rank),
            None => groups.push((digest, vec![rank])),
        }
    }
    // Largest first; ties by the lowest rank, which is pushed first, as sorting is stable.
    groups.sort_by_key(|(_, ranks)| std::cmp::Reverse(ranks.len()));
    Divergence::Ranks { step, last_common, groups }
}
