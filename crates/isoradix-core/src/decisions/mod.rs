//! Is it ready everywhere? Questions about requests whose answer each rank finds out by itself, at a time of its own.
//!
//! With prefill and decode on different machines, a request may run once its KV has arrived on *every* rank. Ranks poll their own
//! transfers, and a rank that acts on what it sees alone runs another batch than the others. So each pair of a request and its epoch
//! gets one token, and one verdict about it, for all ranks and at one step:
//!
//! ```text
//! ask --> token --> report (this rank, at any time) --> fill --> MIN over ranks --> complete
//!                                                                                       |
//!            verdicts <-- apply (all ranks, one step) <-- Ruling <-- rule (the leader) <-'
//! ```
//!
//! | | |
//! |---|---|
//! | `ask`, `retract`, `forget`, `apply` | logical: all ranks call them in the same order |
//! | `report`, `fill`, `complete` | this rank's own: nothing that they say decides before a ruling carries it |
//! | `rule` | the leader's, from its newest vote, its clock and the aborts that reached it |
//!
//! A verdict is final, and is given without another look at what this rank knows meanwhile. What a rank reports first as ready or as
//! failed stays its report of that epoch; a failure that comes later is its report of the request's next one. Deadlines are functions of
//! the clock in rulings. Where a token is over its deadline and some rank has not reported at all, the verdict says that, and
//! not that the request was slow.
//!
//! A request is remembered from its first question until it is forgotten: so long its epochs only grow, and a late failure is kept for
//! its next one. Whoever asks forgets, once the request is over; at [`DECISION_REQUESTS_MAX`] no other is taken in.
//!
//! The vector is one of its own: a ballot's slots hold numbers of operations of a cache, and this is of use to schedulers that have
//! none. Files, each importing only from those before it: `error`, `report`, `token`, `vote`, `ruling`, `queue`, `bytes`; and `planted`,
//! the mistakes that tests ask for.

mod bytes;
mod error;
#[cfg(feature = "planted-defects")]
mod planted;
mod queue;
mod report;
mod ruling;
#[cfg(test)]
mod tests;
mod token;
mod vote;

pub use bytes::{RULING_ABORTS_MAX, RULING_HEADER_BYTES};
pub use error::DecisionError;
pub use queue::{DECISION_REQUESTS_MAX, DECISION_WINDOW_MAX, DecisionQueue};
pub use report::{DECISION_RANKS_MAX, Report};
pub use ruling::Ruling;
pub use token::{Decided, Verdict};
pub use vote::{DECISION_HEADER_WORDS, DecisionVote};
