//! Every interleaving of a small world, on the machines of the core as they are.
//!
//! Two or three ranks, one to five operations, a few pages. Each rank has its own
//! [`Board`](isoradix_core::protocol::Board), [`VoteMachine`](isoradix_core::protocol::VoteMachine),
//! [`Leader`](isoradix_core::protocol::Leader) or [`Follower`](isoradix_core::protocol::Follower),
//! [`OperationTable`](isoradix_core::operation::OperationTable) and two pools
//! ([`HostPool`](isoradix_core::host::HostPool)), and carries out the table's actions on them as their pages say. There is no tree:
//! delivered pages lie in a list, from which an eviction takes those that nothing reads. A [`Scope`] bounds the world; within it, all
//! that may happen next is tried, depth first.
//!
//! # What may happen
//!
//! An [`Event`] is one indivisible step of one rank: a ballot is filled, a reduced vector taken, a frame stamped (with or without a
//! decision upon an open operation) or taken off the wire, a step's verbs done; and physics: what storage finds, a reservation with or
//! without all it wants, a copy that starts, goes on, ends well or badly, or is at last off its pages after it was stopped; memory that
//! a rank loses and gets back.
//!
//! # What is checked
//!
//! After each event: no machine refuses anything; the invariants of pools and table; no page has two owners; a page that a copy may
//! touch is its operation's own, and one that it reads is the tree's; asking never fills a pool beyond its capacity; no event takes back
//! a word that a ballot has said. When a frame is applied: nothing is delivered that some rank had not copied when it voted. Each step
//! leads to the same actions and the same logical state (table, ledgers, delivered pages, locks) on every rank, and to the same end if it
//! ends the server.
//!
//! Where nothing is due any more within the bounds, physics turns kind and all ranks go on in turn, with no more choices: every operation must end on all
//! ranks, the window must slide over all of them, no page may be left over, and the capacity must be what it was.
//!
//! # Which states are one
//!
//! States are known by a fingerprint of 128 bits. It leaves out what no future depends on, *as long as no machine refuses*:
//!
//! - *What machines keep in order to refuse*: old ballots, completed vectors, the digests of past steps. A machine compares them with
//!   what comes next, for three things. That no number goes back: it cannot, since each event is checked to take back no word of
//!   the next ballot, so all ballots of a rank grow from one to the next, and with them their MIN. That no framed number is above
//!   the rank's own ballot: the vote machine has made that very comparison when it completed the vote. That digests are equal: the states
//!   that they stand for are compared directly, rank by rank and step by step.
//! - *Numbers of host pages*. A free page is as good as another, so states that differ by a renaming of pages have the same future. What
//!   counts is whose each page is, its place there, and which copies touch it.
//! - *The leader's account of frames in flight*, which follows from the steps that each rank has done.
//!
//! Results of events on one rank are remembered by a fingerprint that leaves out nothing, so that each machine gets its own past back.
//!
//! # Which orders are one
//!
//! Events of different ranks are independent unless one is the cause of the other, and there are two kinds of causes: a vote can be
//! completed once all ranks have filled their ballots, and a follower can take a frame once it is stamped. Exchanging two
//! neighbouring independent events leads to the same state, and every check concerns one rank, or what a rank was told: a ballot carries along
//! what its rank had copied, and a step what came of it elsewhere. So it is enough to explore one order of each set that is
//! closed under such exchanges. [`Order`] says which:
//!
//! - [`Order::Every`]: all of them, without any of this.
//! - [`Order::Late`]: physics is seen by its own rank alone, and there only by a ballot, or by a frame or an eviction that moves pages or
//!   copies. So it happens right before one that sees it, with nothing of other ranks in between; an order in which nothing sees
//!   it is cut. A copy that has merely started is in no ballot: it waits for a frame. Followers complete a vote when it is reduced: that
//!   alone changes what they fill next, and they may fill it as late as they like.
//! - [`Order::Turns`]: besides, a rank is heard of only by what it fills and stamps. All that a follower does is put off until the leader
//!   needs its ballot; the leader first does everything that it does before it completes the vote. A step that is closed waits for
//!   something that sees it. At the end the followers catch up. Backpressure is another cause, of frames by their delivery, so
//!   scopes with a bound on frames in flight take `Late`.
//!
//! That nothing is missed is tested, too: on tiny scopes all three orders meet the same states of the leader, and the same states of
//! every rank at each frame that moves pages.
//!
//! Files, each importing only from those before it: `fingerprint`, `event`, `scope`; `copy`, `message`, `rank`, `check`, `identity` (a
//! rank in numbers), `probe` (its next ballot); `apply`, `close`, `work` (what it does); `step`, `recall` (one event on one rank); `world`, `offer` (all ranks, and what may
//! happen); `finish`, `search`, `scopes`.

mod apply;
mod check;
mod close;
mod copy;
mod event;
mod fingerprint;
mod finish;
mod identity;
mod message;
mod offer;
mod probe;
mod rank;
mod recall;
mod scope;
mod scopes;
mod search;
mod step;
mod work;
mod world;

pub use event::{Event, Work};
pub use scope::{Defect, Order, Scope, Verb};
pub use scopes::scopes;

use std::fmt;

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Different states until now.
    pub states: u64,
    /// Events taken until now.
    pub transitions: u64,
}

/// What a run found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Different states.
    pub states: u64,
    /// Events taken.
    pub transitions: u64,
    /// Events of the longest path.
    pub depth: u64,
    /// States in which nothing was due any more within the bounds; each was run to its end.
    pub leaves: u64,
    /// Different logical states of the leader, by step, and different states of any rank, physics included, to which a frame that
    /// moved pages led.
    pub histories: u64,
    /// All of them as one number: equal for two orders of exploration that miss nothing.
    pub histories_sum: u128,
    /// The first thing that did not hold; then the other figures are those until there.
    pub violation: Option<Violation>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { states, transitions, depth, leaves, .. } = self;
        write!(f, "{states:>9} states {transitions:>9} transitions {depth:>3} deep {leaves:>6} leaves")
    }
}

/// What did not hold, and the way there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The scope.
    pub scope: &'static str,
    /// The rank on which it was seen.
    pub rank: u32,
    /// What.
    pub what: String,
    /// All events from the start on.
    pub path: Vec<Event>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "scope {}, after {} events:", self.scope, self.path.len())?;
        for (number, event) in (1..).zip(&self.path) {
            writeln!(f, "  {number:>3}  {event}")?;
        }
        write!(f, "violation on rank {}: {}", self.rank, self.what)
    }
}

/// Explores a scope. `progress` is called now and then.
pub fn run(scope: &Scope, mut progress: impl FnMut(Progress)) -> Outcome {
    search::Search::new(scope, &mut progress).run(None)
}

/// Explores a scope on ranks that make a mistake on purpose: for tests of the checker.
#[must_use]
pub fn run_with(scope: &Scope, defect: Defect) -> Outcome {
    search::Search::new(scope, &mut |_| {}).run(Some(defect))
}
