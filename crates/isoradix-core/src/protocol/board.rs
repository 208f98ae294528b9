//! Where the threads of one rank meet: per-rank facts and applied steps come in, ballots go out.

use super::ballot::{BallotRing, Kept};
use super::completed::CompletedRing;
use super::digests::DigestRing;
use super::error::ProtocolError;
use super::layout::{self, NO_STAKE, SLOT_WORDS, SlotField, UNKNOWN};
use super::reduced::Reduced;
use super::trailing::{FAILED, Search};
use super::watermarks::Watermarks;
use super::window::Window;
use crate::components::Ends;
use crate::defects::Planted;
use crate::ordinal::Ordinal;
use crate::provenance::PerRank;
use std::collections::BTreeMap;

/// Ballots kept, and reduced vectors: enough for a scheduler that is this many votes behind its own vote thread.
const BALLOTS_KEPT: u32 = 128;

/// Steps whose digest is kept: what an idle loop of some kHz passes in a second.
const DIGESTS_KEPT: u32 = 4096;

const SEARCHED: &str = "ranks search for the end of this prefetch, and its hit is told by its presence";

/// What became of a post.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Posted {
    /// It will be voted.
    Taken,
    /// The operation is over on this rank, or this rank has no stake in the number; nobody will ask.
    Late,
}

/// What one rank knows, in the form in which it votes.
///
/// I/O threads post per-rank facts; the scheduler posts what it issued and applied; the ballot filler is the only reader. What is
/// posted never goes back. The success of an operation must be posted before the watermark that covers it: [`Board::ended`] does.
///
/// The slot of operation `k` is `k % W`. It is free for `k + W` when `k` is retired on every rank, which is when the admission
/// window lets `k + W` in.
#[derive(Clone, Hash)]
pub struct Board {
    rank: u32,
    admission: Window,
    issued: u64,
    /// `SLOT_WORDS` words an operation, in the order of `k % W`.
    slots: Box<[i64]>,
    watermarks: Watermarks,
    /// What this rank votes of prefetches whose end all ranks search for; nothing before its storage has answered.
    searches: BTreeMap<Ordinal, Option<Search>>,
    backable: i64,
    running: bool,
    stopping: bool,
    retired: u64,
    applied_step: Option<u64>,
    pub(super) digests: DigestRing,
    pub(super) ballots: BallotRing,
    completed: CompletedRing,
    planted: Planted,
}

impl Board {
    /// The board of a rank whose window is of `width` operations.
    ///
    /// # Errors
    /// If the width is out of range.
    pub fn new(rank: u32, width: u32) -> Result<Self, ProtocolError> {
        Ok(Self {
            rank,
            admission: Window::new(width)?,
            issued: 0,
            slots: vec![UNKNOWN; SLOT_WORDS * width as usize].into(),
            watermarks: Watermarks::default(),
            searches: BTreeMap::new(),
            backable: UNKNOWN,
            running: true,
            stopping: false,
            retired: 0,
            applied_step: None,
            digests: DigestRing::new(DIGESTS_KEPT),
            ballots: BallotRing::new(layout::ballot_words(width), BALLOTS_KEPT),
            completed: CompletedRing::new(BALLOTS_KEPT),
            planted: Planted::default(),
        })
    }

    /// The rank.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Operations that may be issued now: `issued` lies in it, or issuing is declined, on all ranks alike.
    #[must_use]
    pub fn admission(&self) -> Window {
        self.admission
    }

    /// The digests with which this rank entered its last steps.
    #[must_use]
    pub fn digests(&self) -> &DigestRing {
        &self.digests
    }

    /// An operation begins its life here; from now on facts about it are taken.
    ///
    /// # Errors
    /// If it is not the next ordinal, or not in the admission window.
    pub fn issue(&mut self, k: Ordinal) -> Result<(), ProtocolError> {
        let hint = "ordinals are handed out in logical order, over all kinds";
        ProtocolError::in_range("ordinal", k.0, self.issued, self.issued, hint)?;
        let hint = "operations past the window are declined until older ones retire";
        ProtocolError::in_range("ordinal", k.0, self.admission.base(), self.admission.end() - 1, hint)?;
        self.issued += 1;
        self.slot(k).fill(UNKNOWN);
        Ok(())
    }

    /// Posts the tokens found for an operation. The first post stands.
    ///
    /// # Errors
    /// If the operation is not issued here, or all ranks search for its end: a hit is none of its words.
    pub fn post_hit(&mut self, k: Ordinal, tokens: PerRank<u64>) -> Result<Posted, ProtocolError> {
        if self.searches.contains_key(&k) {
            return Err(ProtocolError::OutOfOrder { call: "post_hit", why: SEARCHED });
        }
        self.post(k, SlotField::Hit, layout::counter(tokens.into_ballot()))
    }

    /// All ranks are to search for the end of this operation: who fails before its part has begun says so in its `hit`.
    pub(crate) fn expect_search(&mut self, k: Ordinal) {
        self.searches.insert(k, None);
    }

    /// Begins this rank's part in the search for the deepest end, of so many pages at most, that is usable on every rank: its `hit` goes
    /// down with the votes from now on. The first post stands; late is one that nobody expects.
    ///
    /// # Errors
    /// If the operation is not issued here.
    pub(crate) fn search(&mut self, k: Ordinal, ends: Ends, pages: u32) -> Result<Posted, ProtocolError> {
        if !matches!(self.searches.get(&k), Some(None)) {
            return Ok(Posted::Late);
        }
        let search = Search::new(ends, pages);
        let posted = self.post(k, SlotField::Hit, search.word())?;
        if posted == Posted::Taken {
            self.searches.insert(k, Some(search));
        }
        Ok(posted)
    }

    /// Posts the pages reserved for an operation. The first post stands.
    ///
    /// # Errors
    /// If the operation is not issued here.
    pub fn post_pages(&mut self, k: Ordinal, pages: PerRank<u32>) -> Result<Posted, ProtocolError> {
        self.post(k, SlotField::Pages, pages.into_ballot().into())
    }

    /// Posts how much of an operation has arrived. The largest post stands.
    ///
    /// # Errors
    /// If the operation is not issued here.
    pub fn post_progress(&mut self, k: Ordinal, amount: PerRank<u64>) -> Result<Posted, ProtocolError> {
        self.post(k, SlotField::Progress, layout::counter(amount.into_ballot()))
    }

    /// Posts how an operation ended here. The first post stands: a failure that follows readiness is an input of a later operation.
    ///
    /// # Errors
    /// If the operation is not issued here.
    pub fn post_ready(&mut self, k: Ordinal, succeeded: PerRank<bool>) -> Result<Posted, ProtocolError> {
        let succeeded = succeeded.into_ballot();
        if !succeeded && matches!(self.searches.get(&k), Some(None)) {
            self.post(k, SlotField::Hit, FAILED)?;
        }
        self.post(k, SlotField::Ready, succeeded.into())
    }

    /// This rank has no stake in one number of an operation: it is no writer, or has no such pool.
    ///
    /// # Errors
    /// If the operation is not issued here, or this is its hit and this rank's part in the search for its end has begun.
    pub fn abstain(&mut self, k: Ordinal, field: SlotField) -> Result<Posted, ProtocolError> {
        if field == SlotField::Hit && matches!(self.searches.get(&k), Some(Some(_))) {
            return Err(ProtocolError::OutOfOrder { call: "abstain", why: SEARCHED });
        }
        self.post(k, field, NO_STAKE)
    }

    /// An operation is terminal here. Ranks that are not there yet need nothing from this one: they have the frames.
    ///
    /// # Errors
    /// If the operation is not issued here.
    pub fn terminal(&mut self, k: Ordinal) -> Result<(), ProtocolError> {
        if self.holds(k)? {
            self.slot(k).fill(NO_STAKE);
            self.searches.remove(&k);
        }
        Ok(())
    }

    /// An operation joins a FIFO of this rank, right after it is issued and whether or not this rank will copy anything for it. Its
    /// FIFO's watermark stays at it until [`finish`](Self::finish); until then none of the FIFOs passes an operation that is in none.
    ///
    /// # Errors
    /// If there is no such FIFO, the operation is not issued here, or it is not the next one to be enqueued.
    pub fn enqueue(&mut self, fifo: usize, k: Ordinal) -> Result<(), ProtocolError> {
        self.watermarks.enqueue(fifo, k, self.issued)
    }

    /// This rank's copy of an operation touches no page any more, or never will. In any order inside a FIFO: its watermark becomes the
    /// smallest ordinal that is enqueued and not finished, or the number of operations issued if there is none.
    ///
    /// Whatever this rank has to say about the operation's end is posted before.
    ///
    /// # Errors
    /// If the operation was never enqueued here, or has finished already.
    pub fn finish(&mut self, k: Ordinal) -> Result<(), ProtocolError> {
        self.watermarks.finish(k)
    }

    /// This rank's copy of an operation is over, well or badly: [`post_ready`](Self::post_ready), then [`finish`](Self::finish).
    ///
    /// # Errors
    /// As for `finish`; then nothing is posted.
    pub fn ended(&mut self, k: Ordinal, succeeded: PerRank<bool>) -> Result<(), ProtocolError> {
        self.watermarks.check_open(k)?;
        self.post_ready(k, succeeded)?;
        self.finish(k)
    }

    /// This rank has no such FIFO. Operations are enqueued in it all the same, here as everywhere.
    ///
    /// # Errors
    /// If nobody has.
    pub fn abstain_finished(&mut self, fifo: usize) -> Result<(), ProtocolError> {
        self.watermarks.abstain(fifo)
    }

    /// Posts the host pages that this rank could back in all. The last post stands.
    pub fn post_backable(&mut self, pages: PerRank<u32>) {
        self.backable = pages.into_ballot().into();
    }

    /// This rank has no host pool.
    pub fn abstain_backable(&mut self) {
        self.backable = NO_STAKE;
    }

    /// This rank pauses, for example to capture graphs, or goes on.
    pub fn pause(&mut self, paused: bool) {
        self.running = !paused;
    }

    /// Everything that the step's frame asks for is done here. `retired` counts the leading operations that are terminal.
    ///
    /// # Errors
    /// If the step was never entered or `retired` goes back or beyond what was issued.
    pub fn finish_step(&mut self, step: u64, retired: u64) -> Result<(), ProtocolError> {
        if self.digests.get(step).is_none() || self.applied_step.is_some_and(|applied| step <= applied) {
            return Err(ProtocolError::OutOfOrder {
                call: "finish_step",
                why: "the step's frame was not just applied",
            });
        }
        let hint = "retired counts leading terminal operations, and is never reset";
        ProtocolError::in_range("retired", retired, self.retired, self.issued, hint)?;
        (self.applied_step, self.retired) = (Some(step), retired);
        Ok(())
    }

    /// A frame was applied: this rank entered its step with that digest.
    pub(super) fn enter(&mut self, step: u64, digest: u64, framed_retired: Option<u64>, stop: bool) {
        self.digests.record(step, digest);
        self.stopping |= stop;
        if let Some(base) = framed_retired {
            // Checked against this rank's own ballot, so it is not above what this rank retired, and it never goes back.
            let slid = self.admission.slide(base);
            debug_assert_eq!(slid, Ok(()));
        }
    }

    /// Writes a ballot with these bases, and keeps it.
    pub(super) fn fill(&mut self, heading: &Heading, out: &mut [i64]) {
        self.header(heading, out);
        self.fill_slots(heading.base, &mut out[layout::BALLOT_HEADER_WORDS..]);
    }

    /// Whether a vector after which nothing was under way would now be another, apart from its counts of votes and steps.
    pub(super) fn has_news(&self, last: &[i64]) -> bool {
        let now = [layout::counter(self.issued), self.backable, self.running.into(), self.stopping.into()];
        now != [layout::RETIRED, layout::BACKABLE, layout::RUNNING, layout::STOPPING].map(|at| last[at])
    }

    /// This rank's ballot of that vote.
    pub(super) fn ballot(&self, vote: u64) -> Kept<'_> {
        self.ballots.get(vote)
    }

    /// The vote that this rank's vote thread completed last: for mistakes that are planted.
    #[cfg(feature = "planted-defects")]
    pub(crate) fn newest(&self) -> Option<Reduced> {
        self.completed.newest().cloned()
    }

    /// Sets back what is voted: a mistake that is planted.
    #[cfg(feature = "planted-defects")]
    pub(crate) fn forget_counters(&mut self) {
        self.watermarks = Watermarks::default();
        self.retired = 0;
    }

    /// This rank's vote thread has completed the next vote.
    pub(super) fn complete(&mut self, reduced: Reduced) {
        if !self.searches.is_empty() {
            self.go_on(&reduced);
        }
        self.completed.push(reduced);
    }

    /// What the searches vote next follows from this vector alone, so it is of one round on every rank.
    fn go_on(&mut self, reduced: &Reduced) {
        let slots = &reduced.words()[layout::BALLOT_HEADER_WORDS..];
        let width = u64::from(self.admission.width());
        for (k, search) in &mut self.searches {
            let Some(search) = search else { continue };
            let Some(place) = k.0.checked_sub(reduced.base()).filter(|place| *place < width) else { continue };
            search.complete(slots[words(place) + SlotField::Hit as usize], self.planted);
            self.slots[words(k.0 % width) + SlotField::Hit as usize] = search.word();
        }
    }

    /// Plants a mistake in this rank's searches.
    #[cfg(feature = "planted-defects")]
    pub fn plant(&mut self, defect: crate::defects::Defect) {
        self.planted.defect = Some(defect);
    }

    /// What this rank itself reduced in that vote, if its vote thread has come so far. For a follower's check, and no decision.
    pub(super) fn completed(&self, vote: u64) -> Option<&Reduced> {
        self.completed.get(vote)
    }

    fn header(&self, heading: &Heading, out: &mut [i64]) {
        layout::set_pair(out, layout::VOTE, heading.vote.cast_signed());
        layout::set_pair(out, layout::EPOCH, heading.epoch.cast_signed());
        layout::set_pair(out, layout::BASE, heading.base.cast_signed());
        layout::set_pair(out, layout::DIGEST_STEP, heading.digest_step.map_or(UNKNOWN, layout::counter));
        match heading.digest_step.and_then(|step| self.digests.get(step)) {
            Some(digest) => layout::set_pair(out, layout::DIGEST, digest.cast_signed()),
            None => out[layout::DIGEST..layout::DIGEST + 2].fill(NO_STAKE),
        }
        out[layout::ISSUED] = layout::counter(self.issued);
        out[layout::RETIRED] = layout::counter(self.retired);
        out[layout::APPLIED_STEP] = self.applied_step.map_or(UNKNOWN, layout::counter);
        out[layout::BACKABLE] = self.backable;
        out[layout::RUNNING] = self.running.into();
        out[layout::STOPPING] = self.stopping.into();
        out[layout::FINISHED..layout::FINISHED + layout::FIFOS].copy_from_slice(&self.watermarks.words());
    }

    /// Slots of `base ..`: this rank's, up to what it issued, and -1 above.
    fn fill_slots(&self, base: u64, out: &mut [i64]) {
        let width = u64::from(self.admission.width());
        let known = self.issued.saturating_sub(base).min(width);
        let (known, rest) = out.split_at_mut(words(known));
        let turn = words(base % width);
        let (front, back) = known.split_at_mut(known.len().min(self.slots.len() - turn));
        front.copy_from_slice(&self.slots[turn..turn + front.len()]);
        back.copy_from_slice(&self.slots[..back.len()]);
        rest.fill(UNKNOWN);
    }

    fn post(&mut self, k: Ordinal, field: SlotField, value: i64) -> Result<Posted, ProtocolError> {
        if !self.holds(k)? {
            return Ok(Posted::Late);
        }
        let word = &mut self.slot(k)[field as usize];
        match *word {
            NO_STAKE => return Ok(Posted::Late),
            UNKNOWN => *word = value,
            _ if field == SlotField::Progress || value == NO_STAKE => *word = value.max(*word),
            _ => {}
        }
        Ok(Posted::Taken)
    }

    /// Whether the operation's slot is still its own.
    fn holds(&self, k: Ordinal) -> Result<bool, ProtocolError> {
        if k.0 >= self.issued {
            return Err(ProtocolError::NotIssued { operation: k, issued: self.issued });
        }
        Ok(self.issued - k.0 <= self.admission.width().into())
    }

    fn slot(&mut self, k: Ordinal) -> &mut [i64] {
        let at = words(k.0 % u64::from(self.admission.width()));
        &mut self.slots[at..at + SLOT_WORDS]
    }
}

/// Words of so many slots, which are at most a window.
fn words(slots: u64) -> usize {
    usize::try_from(slots).unwrap_or(usize::MAX).saturating_mul(SLOT_WORDS)
}

/// What a vote asks about: equal on all ranks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heading {
    pub(super) vote: u64,
    pub(super) epoch: u64,
    pub(super) base: u64,
    pub(super) digest_step: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn k(ordinal: u64) -> Ordinal {
        Ordinal(ordinal)
    }

    fn filled(board: &mut Board, base: u64) -> Vec<i64> {
        let mut out = vec![7; layout::ballot_words(board.admission().width())];
        board.fill(&Heading { vote: 3, epoch: 1, base, digest_step: None }, &mut out);
        out
    }

    fn slot(ballot: &[i64], at: usize) -> [i64; SLOT_WORDS] {
        let at = layout::BALLOT_HEADER_WORDS + at * SLOT_WORDS;
        ballot[at..at + SLOT_WORDS].try_into().unwrap()
    }

    /// A board of 4 slots on which operations 0..issued were issued and all but the last 4 retired.
    fn board(issued: u64) -> Board {
        let mut board = Board::new(0, 4).unwrap();
        for ordinal in 0..issued {
            if ordinal >= 4 {
                board.enter(ordinal, 0, Some(ordinal - 3), false);
            }
            board.issue(k(ordinal)).unwrap();
        }
        board
    }

    #[test]
    fn a_new_board_votes_that_it_knows_nothing() {
        let ballot = filled(&mut Board::new(0, 2).unwrap(), 0);
        let expected = [3, !3, 1, !1, 0, !0, -1, 0, NO_STAKE, NO_STAKE, 0, 0, -1, -1, 1, 0, 0, 0, 0, 0];
        assert_eq!(ballot[..20], expected);
        assert_eq!(ballot[20..], [-1; 8]);
    }

    #[test]
    fn slots_follow_the_base_through_the_ring() {
        let mut board = board(6);
        for ordinal in 2..6 {
            board.post_hit(k(ordinal), PerRank::observe(ordinal * 10)).unwrap();
        }
        let hits = |ballot: &[i64]| [0, 1, 2, 3].map(|at| slot(ballot, at)[0]);
        assert_eq!(hits(&filled(&mut board, 2)), [20, 30, 40, 50]);
        assert_eq!(hits(&filled(&mut board, 3)), [30, 40, 50, -1]);
        assert_eq!(hits(&filled(&mut board, 5)), [50, -1, -1, -1]);
        assert_eq!(hits(&filled(&mut board, 6)), [-1; 4]);
        assert_eq!(hits(&filled(&mut board, 90)), [-1; 4]);
    }

    #[test]
    fn what_is_posted_never_goes_back() {
        let mut board = board(1);
        let mut posted = |field: SlotField, values: [u64; 3]| {
            for value in values {
                let taken = match field {
                    SlotField::Hit => board.post_hit(k(0), PerRank::observe(value)),
                    SlotField::Pages => board.post_pages(k(0), PerRank::observe(value.try_into().unwrap())),
                    SlotField::Progress => board.post_progress(k(0), PerRank::observe(value)),
                    SlotField::Ready => board.post_ready(k(0), PerRank::observe(value == 1)),
                };
                assert_eq!(taken, Ok(Posted::Taken));
            }
            slot(&filled(&mut board, 0), 0)[field as usize]
        };
        assert_eq!(posted(SlotField::Hit, [5, 9, 1]), 5);
        assert_eq!(posted(SlotField::Pages, [3, 1, 4]), 3);
        assert_eq!(posted(SlotField::Progress, [5, 9, 1]), 9);
        assert_eq!(posted(SlotField::Ready, [1, 0, 0]), 1, "a failure after readiness is not taken back");
        assert_eq!(posted(SlotField::Ready, [0, 1, 1]), 1);
    }

    #[test]
    fn a_failure_stands() {
        let mut board = board(1);
        board.post_ready(k(0), PerRank::observe(false)).unwrap();
        board.post_ready(k(0), PerRank::observe(true)).unwrap();
        assert_eq!(slot(&filled(&mut board, 0), 0)[SlotField::Ready as usize], 0);
    }

    #[test]
    fn watermarks_are_voted_as_of_the_fill() {
        let mut board = board(3);
        let finished =
            |board: &mut Board| filled(board, 0)[layout::FINISHED..layout::FINISHED + layout::FIFOS].to_vec();
        assert_eq!(finished(&mut board), [0; 4], "nothing is in a FIFO yet");
        for (ordinal, fifo) in [(0, 2), (1, 0), (2, 2)] {
            board.enqueue(fifo, k(ordinal)).unwrap();
        }
        assert_eq!(finished(&mut board), [1, 3, 0, 3]);
        board.finish(k(2)).unwrap();
        assert_eq!(finished(&mut board), [1, 3, 0, 3]);
        board.finish(k(0)).unwrap();
        assert_eq!(finished(&mut board), [1, 3, 3, 3]);
        board.issue(k(3)).unwrap();
        assert_eq!(finished(&mut board), [1, 3, 3, 3], "3 is issued, and its FIFO not known");
        board.enqueue(0, k(3)).unwrap();
        assert_eq!(finished(&mut board), [1, 4, 4, 4]);
        board.abstain_finished(0).unwrap();
        assert_eq!(finished(&mut board), [NO_STAKE, 4, 4, 4]);
        assert_eq!(board.enqueue(0, k(4)).unwrap_err(), ProtocolError::NotIssued { operation: k(4), issued: 4 });
    }

    #[test]
    fn an_operation_that_ended_is_ready_and_finished_in_one_ballot() {
        let mut board = board(2);
        board.enqueue(1, k(0)).unwrap();
        let refused = board.ended(k(1), PerRank::observe(true)).unwrap_err();
        assert_eq!(refused, ProtocolError::NotOpen { operation: k(1), enqueued: 1 });
        let ready = |board: &mut Board, at| slot(&filled(board, 0), at)[SlotField::Ready as usize];
        assert_eq!(ready(&mut board, 1), -1, "a refused call posts nothing");
        board.ended(k(0), PerRank::observe(false)).unwrap();
        assert_eq!((ready(&mut board, 0), filled(&mut board, 0)[layout::FINISHED + 1]), (0, 1));
        assert!(board.ended(k(0), PerRank::observe(true)).is_err());
        assert_eq!(ready(&mut board, 0), 0);
        board.enqueue(1, k(1)).unwrap();
        board.terminal(k(1)).unwrap();
        board.ended(k(1), PerRank::observe(true)).unwrap();
        assert_eq!(filled(&mut board, 0)[layout::FINISHED + 1], 2, "over everywhere before it was off the pages here");
    }

    #[test]
    fn no_stake_and_terminal_lose_every_min() {
        let mut board = board(2);
        board.abstain(k(0), SlotField::Pages).unwrap();
        assert_eq!(slot(&filled(&mut board, 0), 0), [-1, NO_STAKE, -1, -1]);
        assert_eq!(board.post_pages(k(0), PerRank::observe(3)), Ok(Posted::Late));
        board.terminal(k(1)).unwrap();
        assert_eq!(slot(&filled(&mut board, 0), 1), [NO_STAKE; 4]);
        assert_eq!(board.post_progress(k(1), PerRank::observe(3)), Ok(Posted::Late));
    }

    #[test]
    fn posts_before_issue_are_refused_and_posts_after_the_window_are_late() {
        let mut board = board(6);
        let error = board.post_hit(k(6), PerRank::observe(1)).unwrap_err();
        assert_eq!(error, ProtocolError::NotIssued { operation: k(6), issued: 6 });
        assert_eq!(board.post_hit(k(1), PerRank::observe(1)), Ok(Posted::Late));
        board.terminal(k(1)).unwrap();
        assert_eq!(slot(&filled(&mut board, 2), 3), [-1; 4], "operation 5 lives where 1 was");
    }

    #[test]
    fn ordinals_come_in_order_and_inside_the_window() {
        let mut board = board(3);
        assert!(board.issue(k(4)).is_err());
        board.issue(k(3)).unwrap();
        let error = board.issue(k(4)).unwrap_err().to_string();
        assert_eq!(
            error,
            "ordinal 4 is out of range: 0 to 3\nhint: operations past the window are declined until older ones retire"
        );
        board.enter(9, 0, Some(1), false);
        board.issue(k(4)).unwrap();
    }

    #[test]
    fn a_step_is_finished_once_and_retired_is_bounded() {
        let mut board = board(2);
        assert!(board.finish_step(1, 0).is_err(), "never entered");
        board.enter(1, 77, None, false);
        assert!(board.finish_step(1, 3).is_err(), "more than issued");
        board.finish_step(1, 1).unwrap();
        assert!(board.finish_step(1, 1).is_err(), "twice");
        board.enter(2, 78, None, true);
        assert!(board.finish_step(2, 0).is_err(), "back");
        let ballot = filled(&mut board, 0);
        assert_eq!((ballot[layout::RETIRED], ballot[layout::APPLIED_STEP], ballot[layout::STOPPING]), (1, 1, 1));
    }
}
