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
//! A grant that is smaller than this rank's reservation leaves pages over. In the ledger they are free at once, on all ranks alike.
//! On this rank they stay with the operation as its *surplus*, since its copy may have run ahead into them:
//!
//! ```text
//!    reserved ---- commit(g) ----> the first g: committed, counted
//!                        `-------> the others: surplus, not counted ---- settle, abort ----> free
//! ```
//!
//! | a page is | owned by | counted | returned by |
//! |---|---|---|---|
//! | free | the pool | no | |
//! | aside | nobody: this rank lacks the memory behind it | no | `restore` |
//! | reserved or committed | the operation | yes | `abort`, at once; of what is not kept, `settle` |
//! | surplus | the copy of this rank that may still touch it | no | `settle` or `abort`, with which the operation ends |
//! | draining | the copy that may still touch it | yes | `abort`, after the agreed watermark has passed the operation |
//! | settled | the tree | yes | `release` |
//!
//! A draining operation's surplus drains with it: no `abort` comes before the watermark.
//!
//! A rank without a host pool has the same ledger over page numbers with no memory behind them: it is never short, and no copy
//! touches a page, so surplus is free at once.
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
pub use pool::{Backing, HostPool};
