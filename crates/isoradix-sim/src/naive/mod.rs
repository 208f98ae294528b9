//! A slow, obviously right model of the two-tier cache: every logical answer, every victim, every operation.
//!
//! There is no tree in here. A node is an entry of one flat list and holds its whole path, from the start of the key to its own end.
//! Parents, children, victims, holds, pending nodes and the occupancy of the host pool are found by looking at everything, each
//! time. Nothing is kept twice, so nothing can drift. The order is least recently used.
//!
//! It knows neither slots nor page numbers, and does not model the life of an operation: it says what is issued, and is told the
//! [`Action`](isoradix_core::operation::Action)s that the real table answers with.
//!
//! A step of a driver, with the model beside the real cache:
//!
//! 1. a frame is applied: [`Model::apply`] for each action, [`Model::lower`] and [`Model::raise`] with the pages that it says all ranks
//!    can back, [`Model::slide`];
//! 2. verbs;
//! 3. [`Model::close_step`], after which [`Model::issued`] is what the real table must have admitted in this step.
//!
//! Nodes are named by their sequence numbers; 0 is the root. Lengths are in tokens where a name does not say pages.
//!
//! Files: `answers` (what goes in and comes out), `node`, `operation`, `model` (the state and what is read off it), `walk` (match,
//! insert, split), `parts` (what is beside pages), `hold`, `evict`, `load`, `prefetch`, `write` (what is to be backed up), `issue` (the end of a step), `apply`
//! (what operations do), `breaker` (storage that fails), `reset`; `state` (the dump). For tests, `compare` and `journal` (the
//! real cache's side of it).

mod answers;
mod apply;
mod breaker;
#[cfg(test)]
mod compare;
mod evict;
mod hold;
mod issue;
#[cfg(test)]
mod journal;
mod load;
mod model;
mod node;
mod operation;
mod parts;
mod prefetch;
mod reset;
mod state;
#[cfg(test)]
mod tests;
mod walk;
mod write;

pub(crate) use answers::{Refused, Settings};
pub(crate) use breaker::Outcome;
pub(crate) use model::Model;
pub(crate) use state::{NodeState, State};
