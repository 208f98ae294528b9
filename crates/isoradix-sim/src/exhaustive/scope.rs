//! A scope: how many ranks, operations, pages, votes and frames, and what may go wrong.

/// Steps in which a warm verb's operation is over, if physics is kind.
const WARM_STEPS: usize = 6;

/// What every rank does in its step, in the same place of the same request stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Backs up nodes of so many pages each, parents first.
    Backup(&'static [u32]),
    /// Fetches pages from storage, if at least `least` of them are there.
    Prefetch {
        /// Pages asked for.
        pages: u32,
        /// The fewest that are worth loading.
        least: u32,
    },
    /// Loads pages onto the device: the oldest delivered ones, which it locks, or others.
    LoadBack(u32),
    /// Stores the oldest delivered pages, which it locks. Nothing if there are none.
    Store,
    /// Releases all delivered pages that nothing has locked.
    Evict,
}

/// Which linearisations are explored; the module's page says why the lesser ones leave nothing out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// All of them.
    Every,
    /// Physics happens right before what sees it on the same rank.
    Late,
    /// As `Late`, and the ranks take turns: the leader, until it needs a vote; then each follower, until it has filled its ballot.
    /// For scopes without backpressure.
    Turns,
}

/// A mistake that the bundle makes on purpose, to show that the checker finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Defect {
    /// A cancelled operation returns its pages at once, although the copy is on them.
    CancelFreesPages,
    /// A cancelled operation is posted as finished at once, although the copy is on its pages.
    FinishedWhileCopying,
    /// The window slides by the vote that this rank has completed last, not by the applied frame.
    WindowSlidesByVote,
    /// Success is posted when the copy starts.
    ReadyAtStart,
    /// Progress is posted a page ahead of the copy.
    ProgressAhead,
    /// An eviction does not look at locks.
    EvictsLocked,
    /// An operation is issued only once the one before has ended on this very rank.
    IssueWaitsForOwnCopy,
    /// A rank that has nothing under way does not vote.
    IdleDoesNotVote,
    /// Memory that came back does not raise the capacity.
    CapacityNeverRises,
}

/// A bounded world, all of whose interleavings are explored.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct Scope {
    /// Its name.
    pub name: &'static str,
    /// Ranks, the leader included: 2 or 3.
    pub ranks: u32,
    /// Operations that may be open.
    pub window: u32,
    /// Host pages of each rank, all of which are the capacity.
    pub host_pages: u32,
    /// Verbs of the first steps, each run to its end before the exploration begins: so the tree has pages, and ordinals do not start at 0.
    pub warm: &'static [Verb],
    /// Step, counted from 1 after the warm ones, and what is done in it.
    pub script: &'static [(u64, Verb)],
    /// Frames stamped at most.
    pub frames: u64,
    /// Of these, frames at most that bring no vote and no decision, to steps without verbs.
    pub idle_frames: u32,
    /// Votes at most.
    pub votes: u64,
    /// Decisions of the leader (terminate, time out, abort) at most.
    pub decisions: u32,
    /// What storage may answer, in pages.
    pub finds: &'static [u32],
    /// Whether pages are reserved only after storage has answered, and no more than it has.
    pub find_first: bool,
    /// Reservations that may come back smaller than what is asked for: to these numbers of pages.
    pub reserves: &'static [u32],
    /// Short reservations and failed copies, at most, on each rank.
    pub faults: &'static [u32],
    /// Pages whose memory each rank may lose for a time, at most.
    pub losses: &'static [u32],
    /// Whether a load-back may fail as well, which ends the server.
    pub fatal: bool,
    /// Whether the end of a copy is posted in two steps: how it ended, and that it is off its pages.
    pub two_posts: bool,
    /// Whether only the leader writes to storage; the others have no stake in a store.
    pub sole_writer: bool,
    /// Whether a ballot may be filled between a frame and the verbs of its step.
    pub split_steps: bool,
    /// Frames in flight to a follower, at most.
    pub in_flight: u32,
    /// Which linearisations.
    pub order: Order,
}

impl Scope {
    /// Two ranks, three host pages, one window of two operations, and nothing to do.
    pub const SMALL: Self = Self {
        name: "small",
        ranks: 2,
        window: 2,
        host_pages: 3,
        warm: &[],
        script: &[],
        frames: 5,
        idle_frames: 0,
        votes: 3,
        decisions: 0,
        finds: &[],
        find_first: true,
        reserves: &[],
        faults: &[0, 0, 0],
        losses: &[0, 0, 0],
        fatal: false,
        two_posts: false,
        sole_writer: false,
        split_steps: true,
        in_flight: 64,
        order: Order::Turns,
    };

    /// The verbs of a step.
    pub(super) fn verbs(&self, step: u64) -> impl Iterator<Item = Verb> + '_ {
        let warm = (1..).step_by(WARM_STEPS).zip(self.warm).filter(move |(at, _)| *at == step);
        let then = self.script.iter().filter(move |(at, _)| self.warm_steps() + at == step);
        warm.map(|(_, verb)| *verb).chain(then.map(|(_, verb)| *verb))
    }

    pub(super) fn has_verbs(&self, step: u64) -> bool {
        self.verbs(step).next().is_some()
    }

    /// Whether the verbs of a step may move pages, other than by taking free ones for themselves.
    pub(super) fn moves_pages(&self, step: u64) -> bool {
        self.verbs(step).any(|verb| verb == Verb::Evict)
    }

    /// Steps before the exploration begins.
    pub(super) fn warm_steps(&self) -> u64 {
        (WARM_STEPS * self.warm.len()) as u64
    }

    /// The last step that has verbs.
    pub(super) fn last_step(&self) -> u64 {
        self.warm_steps() + self.script.iter().map(|(step, _)| *step).max().unwrap_or(0)
    }
}
