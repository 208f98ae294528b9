//! A frame at the step at which every rank applies it: the one place where votes become Agreed values.

use super::board::Board;
use super::frame::{Control, Frame, Mode};
use super::layout::{self, NO_STAKE, SlotField};
use super::reduced::Reduced;
use super::top_tier::TopTier;
use crate::ordinal::Ordinal;
use crate::provenance::{Agreed, Applied};
use std::fmt;

/// What a vote says about one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told<T> {
    /// Some rank has not issued the operation, or does not know the number yet.
    NotYet,
    /// Every rank that has a stake in the number has at least this much.
    Value(Agreed<T>),
    /// No rank has a stake in it.
    NoStake,
}

impl<T> Told<T> {
    /// The value, if there is one.
    #[must_use]
    pub fn value(self) -> Option<Agreed<T>> {
        match self {
            Self::Value(value) => Some(value),
            Self::NotYet | Self::NoStake => None,
        }
    }
}

/// One operation's numbers in an applied vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AppliedSlot {
    /// Tokens found.
    pub hit: Told<u64>,
    /// Pages that every rank has reserved.
    pub pages: Told<u32>,
    /// What has arrived everywhere.
    pub progress: Told<u64>,
    /// Whether it succeeded everywhere.
    pub ready: Told<bool>,
    words: [Agreed<i64>; layout::SLOT_WORDS],
}

impl AppliedSlot {
    /// The slot's words as voted: -1 not yet, `i64::MAX` no stake. In the order of [`SlotField::ALL`].
    #[must_use]
    pub fn words(self) -> [Agreed<i64>; layout::SLOT_WORDS] {
        self.words
    }
}

/// A leader's decision, applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AppliedControl {
    /// See [`Control::Terminate`].
    Terminate(Agreed<Ordinal>),
    /// See [`Control::TimeOut`].
    TimeOut(Agreed<Ordinal>),
    /// See [`Control::Abort`].
    Abort(Agreed<Ordinal>),
    /// See [`Control::Mode`].
    Mode(Agreed<Mode>),
    /// See [`Control::Stop`].
    Stop,
    /// See [`Control::Tiers`].
    Tiers(Agreed<TopTier>),
    /// See [`Control::Attach`].
    Attach,
    /// See [`Control::Detach`].
    Detach,
}

/// A frame that this rank applies, checked. Its numbers are the same on every rank, at the same step.
pub struct AppliedFrame {
    frame: Frame,
    proof: Applied,
}

impl fmt::Debug for AppliedFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppliedFrame").field("frame", &self.frame).finish_non_exhaustive()
    }
}

impl AppliedFrame {
    /// Only for a frame that has passed every check on this rank. `digest` is that with which this rank enters the step: where
    /// differences are let pass, not always the leader's.
    pub(super) fn new(frame: Frame, digest: u64, board: &mut Board) -> Self {
        let retired = frame.vote.as_ref().map(Reduced::retired);
        board.enter(frame.step, digest, retired, frame.stops());
        Self { frame, proof: Applied::after_all_checks() }
    }

    /// The batch step.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.frame.step
    }

    /// The leader's clock, in milliseconds. It never goes back.
    #[must_use]
    pub fn now_ms(&self) -> Agreed<u64> {
        Agreed::mint(&self.proof, self.frame.now_ms)
    }

    /// The vote to apply first, if the frame brings a new one.
    #[must_use]
    pub fn vote(&self) -> Option<AppliedVote<'_>> {
        let reduced = self.frame.vote.as_ref()?;
        Some(AppliedVote { words: reduced.words(), reduced, proof: &self.proof })
    }

    /// The leader's decisions, to apply after the vote, in this order.
    pub fn controls(&self) -> impl Iterator<Item = AppliedControl> + '_ {
        self.frame.controls.iter().map(|control| match *control {
            Control::Terminate(k) => AppliedControl::Terminate(Agreed::mint(&self.proof, k)),
            Control::TimeOut(k) => AppliedControl::TimeOut(Agreed::mint(&self.proof, k)),
            Control::Abort(k) => AppliedControl::Abort(Agreed::mint(&self.proof, k)),
            Control::Mode(mode) => AppliedControl::Mode(Agreed::mint(&self.proof, mode)),
            Control::Stop => AppliedControl::Stop,
            Control::Tiers(top) => AppliedControl::Tiers(Agreed::mint(&self.proof, top)),
            Control::Attach => AppliedControl::Attach,
            Control::Detach => AppliedControl::Detach,
        })
    }

    /// Whether this is the last frame.
    #[must_use]
    pub fn stops(&self) -> bool {
        self.frame.stops()
    }

    /// A number that the operation table computed from this very frame, such as the pages of a share: agreed as well, since the table
    /// reads agreed and logical values alone, and every rank computes the same at the same step.
    ///
    /// Only for what carries out the [`Action`](crate::operation::Action)s of this frame, in the step that applies it, and only for
    /// numbers that stand in them. The compiler cannot see to that: a per-rank number given here would be an agreed one.
    pub(crate) fn decided<T>(&self, value: T) -> Agreed<T> {
        Agreed::mint(&self.proof, value)
    }
}

/// A vote in an applied frame.
#[derive(Clone, Copy)]
pub struct AppliedVote<'a> {
    words: &'a [i64],
    reduced: &'a Reduced,
    proof: &'a Applied,
}

impl<'a> AppliedVote<'a> {
    /// Ordinal of the vote.
    #[must_use]
    pub fn ordinal(&self) -> Agreed<u64> {
        Agreed::mint(self.proof, self.reduced.vote())
    }

    /// Leading operations that are terminal everywhere: the base under which an operation may be issued from now on.
    #[must_use]
    pub fn retired(&self) -> Agreed<u64> {
        Agreed::mint(self.proof, self.reduced.retired())
    }

    /// Operations issued everywhere.
    #[must_use]
    pub fn issued(&self) -> Agreed<u64> {
        Agreed::mint(self.proof, self.reduced.issued())
    }

    /// The last step applied everywhere; not yet before the first.
    #[must_use]
    pub fn applied_step(&self) -> Told<u64> {
        self.told(layout::APPLIED_STEP)
    }

    /// Host pages that every rank could back in all.
    #[must_use]
    pub fn backable(&self) -> Told<u32> {
        self.told_u32(layout::BACKABLE)
    }

    /// Whether some rank is paused.
    #[must_use]
    pub fn paused(&self) -> Agreed<bool> {
        Agreed::mint(self.proof, !self.reduced.running())
    }

    /// Every operation of the FIFO below this ordinal has finished everywhere. Not yet if there is no such FIFO.
    #[must_use]
    pub fn finished(&self, fifo: usize) -> Told<u64> {
        if fifo < layout::FIFOS { self.told(layout::FINISHED + fifo) } else { Told::NotYet }
    }

    /// The numbers of an operation, if it is issued everywhere and in the vote's window.
    #[must_use]
    pub fn slot(&self, k: Ordinal) -> Option<AppliedSlot> {
        let index = usize::try_from(k.0.checked_sub(self.reduced.base())?).ok()?;
        (index < self.live()).then(|| self.slot_at(index))
    }

    /// The numbers of all operations that are issued everywhere and in the vote's window, oldest first.
    pub fn slots(self) -> impl Iterator<Item = (Ordinal, AppliedSlot)> + 'a {
        let base = self.reduced.base();
        (0..self.live()).map(move |index| (Ordinal(base + index as u64), self.slot_at(index)))
    }

    /// Operations in the vote's window that are issued everywhere.
    fn live(&self) -> usize {
        let width = (self.words.len() - layout::BALLOT_HEADER_WORDS) / layout::SLOT_WORDS;
        let issued = self.reduced.issued().saturating_sub(self.reduced.base());
        usize::try_from(issued).unwrap_or(usize::MAX).min(width)
    }

    fn slot_at(&self, index: usize) -> AppliedSlot {
        let at = layout::BALLOT_HEADER_WORDS + index * layout::SLOT_WORDS;
        AppliedSlot {
            hit: self.told(at + SlotField::Hit as usize),
            pages: self.told_u32(at + SlotField::Pages as usize),
            progress: self.told(at + SlotField::Progress as usize),
            ready: self.told_as(at + SlotField::Ready as usize, |value| value != 0),
            words: SlotField::ALL.map(|field| Agreed::mint(self.proof, self.words[at + field as usize])),
        }
    }

    fn told(&self, at: usize) -> Told<u64> {
        self.told_as(at, |value| value)
    }

    fn told_u32(&self, at: usize) -> Told<u32> {
        self.told_as(at, |value| u32::try_from(value).unwrap_or(u32::MAX))
    }

    fn told_as<T>(&self, at: usize, value: fn(u64) -> T) -> Told<T> {
        match self.words[at] {
            NO_STAKE => Told::NoStake,
            word => u64::try_from(word).map_or(Told::NotYet, |word| Told::Value(Agreed::mint(self.proof, value(word)))),
        }
    }
}
