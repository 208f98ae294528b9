//! Decisions about requests, and chunks of their prompts, on many ranks: without a cache.
//!
//! A request asks twice whether it is ready on every rank: once of prefill's queue, before its prompt is computed, and once of decode's,
//! before its answer is. What runs is the core: a `DecisionQueue` for each group on each rank, and the chunks of `chunking`. Each rank sees the data of a
//! request come, fail or stay away at times of its own. The leader aborts requests in whatever phase, sends some back to the queue, and frames the
//! coefficients that it has fitted; others fit their own, which are used for nothing.
//!
//! Checked, at every step of every rank: it does what the leader did, verdict by verdict and chunk by chunk, with equal digests. At every
//! verdict: it is the first about its question, and what the ranks reported, or the framed clock, is why. At the end: every question has one
//! end and every request too, no question is open, nothing is remembered, no slot is occupied.
//!
//! Files, each importing only from those before it: `phase`, `tally`; `fit`, `fate` and `plan` (what a seed decides, the two before it read it);
//! `message`, `deeds`, `desk` (the scheduler); `history`, `account`; `station`, `leading`, `forward` and `world` (all ranks).

mod account;
mod deeds;
mod desk;
mod fate;
mod fit;
mod forward;
mod history;
mod leading;
mod message;
mod phase;
mod plan;
mod station;
mod tally;
#[cfg(test)]
mod tests;
mod world;

pub use phase::Phase;
pub(crate) use plan::Plan;
pub use tally::Tally;
pub(crate) use world::World;
