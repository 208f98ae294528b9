//! Host pages on one rank, allocated in two phases.
//!
//! Whether a rank finds the pages that it asks for is physics. So it first *reserves* what it can get and votes the number;
//! the MIN over all ranks comes back in a frame, and every rank *commits* exactly that many. A decision never reads the list
//! of free pages. It reads the occupancy in the [`Ledger`], which counts what was asked from issue on and what was agreed
//! from commit on, and which is equal on all ranks after every step.
//!
//! ```text
//!                    reserve (physical)
//!                      .--.
//!            ask       v  |      commit(g)              settle                release
//!    free ---------> asked ----------------> committed ---------> settled ---------> free
//!                      |                      |   |                  ^
//!                abort |                abort |   | drain            | abort, the kept ones
//!                      v                      v   v                  |
//!                     free                  free  draining ----> finished ----> free
//!                                                      finished(k)       abort, the others
//! ```
//!
//! | a page is | owned by | returned by |
//! |---|---|---|
//! | free | the pool | |
//! | aside | nobody: this rank lacks the memory behind it | `restore` |
//! | reserved or committed | the operation | `abort`, at once |
//! | draining | the copy that may still touch it | `abort`, after the agreed watermark has passed the operation |
//! | settled | the tree | `release` |
//!
//! Costs: O(1) a page, and O(log operations) a call, where an operation counts while it holds pages.

mod budget;
mod error;
mod ledger;
mod pages;
mod pool;
#[cfg(test)]
mod tests;

pub use budget::capacity_tokens;
pub use error::{Declined, HostError, OpenOperation};
pub use ledger::{Ledger, Stage};
pub use pool::{Backing, Committed, HostPool};
